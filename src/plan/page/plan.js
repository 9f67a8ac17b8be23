'use strict';
// Draws the timeline of all pipeline stages from the JSON in the page. Nothing is fetched.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const kFields = 5;  // of a computation: kind, chunk, micro-batch, begin and length in microseconds
  const kRow = 24, kBar = 20, kLeft = 62, kRight = 8, kBottom = 24;
  const figure = document.getElementById('timeline');
  const canvas = figure.querySelector('canvas'), tip = figure.querySelector('.tip');
  const colours = { forward: '--run0', backward: '--run2', backward_input: '--run2', backward_weight: '--run4' };
  const total = data.total_us;
  let view = [0, total], drag = null;

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // A colour may depend on the scheme, which only the style of an element resolves.
  const probe = document.createElement('span');
  figure.append(probe);
  const resolved = name => { probe.style.color = colour(name); return getComputedStyle(probe).color; };

  function seconds(us) {
    const [factor, unit] = us >= 1e6 ? [1e-6, 's'] : us >= 1e3 ? [1e-3, 'ms'] : [1, 'µs'];
    return `${(us * factor).toLocaleString('en', { maximumSignificantDigits: 4 })} ${unit}`;
  }
  const width = () => Math.max(60, canvas.clientWidth - kLeft - kRight);
  const xOf = us => kLeft + (us - view[0]) / (view[1] - view[0]) * width();
  const timeAt = x => view[0] + (x - kLeft) / width() * (view[1] - view[0]);
  const clamped = us => Math.min(total, Math.max(0, us));

  // Calls `each` with the fields of every computation of a stage that is in view, and of what follows the pipeline.
  function forVisible(stage, each) {
    const list = data.stages[stage];
    for (let i = 0; i < list.length; i += kFields) {
      const [kind, chunk, micro, begin, length] = list.slice(i, i + kFields);
      if (begin + length < view[0] || begin > view[1]) continue;
      each({ kind: data.kinds[kind], chunk, micro, begin, length, paint: colours[data.kinds[kind]] });
    }
    for (const part of data.after) if (part.begin + part.length >= view[0] && part.begin <= view[1]) each({ kind: part.label, ...part });
  }

  function draw() {
    const height = data.stages.length * kRow + kBottom, ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext('2d'), paints = {};
    for (const name of ['--run0', '--run1', '--run2', '--run3', '--run4', '--run5', '--run6', '--run7', '--soft', '--shade', '--line', '--paper'])
      paints[name] = resolved(name);
    pen.scale(ratio, ratio);
    pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    data.stages.forEach((_, stage) => {
      const y = stage * kRow;
      pen.fillStyle = paints['--shade'];
      pen.fillRect(kLeft, y, width(), kBar);
      pen.save();
      pen.beginPath();
      pen.rect(kLeft, y, width(), kBar);
      pen.clip();
      pen.textAlign = 'center';
      forVisible(stage, action => {
        const x = xOf(action.begin), wide = xOf(action.begin + action.length) - x;
        pen.globalAlpha = 1 - 0.6 * (action.chunk ?? 0) / data.chunks;
        pen.fillStyle = paints[action.paint];
        pen.fillRect(x, y, Math.max(wide - (wide > 3 ? 1 : 0), 0.3), kBar);
        pen.globalAlpha = 1;
        const label = action.micro === undefined ? '' : `${action.micro}`;
        if (label && wide > 8 + 7 * label.length) {
          pen.fillStyle = paints['--paper'];
          pen.fillText(label, x + wide / 2, y + 14);
        }
      });
      pen.restore();
      pen.fillStyle = paints['--soft'];
      pen.textAlign = 'right';
      pen.fillText(`stage ${stage}`, kLeft - 8, y + 14);
    });
    axis(pen, paints, data.stages.length * kRow);
    if (drag) {
      pen.fillStyle = paints['--run0'];
      pen.globalAlpha = 0.2;
      pen.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), data.stages.length * kRow);
    }
    canvas.dataset.drawn = `${Math.round(view[0])} ${Math.round(view[1])}`;
  }

  function axis(pen, paints, y) {
    const raw = (view[1] - view[0]) / Math.max(2, width() / 110), power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find(multiple => multiple * power >= raw * 0.999);
    pen.strokeStyle = paints['--line'];
    pen.fillStyle = paints['--soft'];
    pen.textAlign = 'center';
    for (let i = Math.ceil(view[0] / step); i * step <= view[1]; ++i) {
      const x = xOf(i * step);
      pen.beginPath();
      pen.moveTo(x, y - 4);
      pen.lineTo(x, y + 2);
      pen.stroke();
      pen.fillText(i === 0 ? '0' : seconds(i * step), Math.min(x, kLeft + width() - 18), y + 16);
    }
  }

  function show(from, to) {
    [from, to] = [clamped(Math.min(from, to)), clamped(Math.max(from, to))];
    if (to - from < total * 1e-6) return;
    view = [from, to];
    draw();
  }

  const place = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  function point(event) {
    const [x, y] = place(event), stage = Math.floor(y / kRow), at = timeAt(x);
    tip.hidden = true;
    if (x < kLeft || stage < 0 || stage >= data.stages.length) return;
    forVisible(stage, action => {
      if (at < action.begin || at > action.begin + action.length) return;
      const chunk = data.chunks > 1 && action.micro !== undefined ? `, chunk ${action.chunk}` : '';
      tip.textContent = `stage ${stage}${chunk}: ${action.kind.replace('_', ' ')}${action.micro === undefined ? '' : ` of micro-batch ${action.micro}`}, ` +
        `${seconds(action.length)} from ${seconds(action.begin)} on`;
      tip.hidden = false;
      tip.style.left = `${Math.max(0, Math.min(x + 12, canvas.clientWidth - 240))}px`;
      tip.style.top = `${canvas.offsetTop + (stage + 1) * kRow}px`;
    });
  }
  canvas.addEventListener('pointerdown', event => {
    const [x] = place(event);
    drag = { from: x, to: x };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (!drag) return point(event);
    [drag.to] = place(event);
    draw();
  });
  canvas.addEventListener('pointerup', () => {
    const done = drag;
    drag = null;
    if (done && Math.abs(done.to - done.from) > 4) show(timeAt(done.from), timeAt(done.to)); else draw();
  });
  canvas.addEventListener('pointercancel', () => { drag = null; draw(); });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  canvas.addEventListener('dblclick', () => show(0, total));
  for (const button of figure.querySelectorAll('button'))
    button.addEventListener('click', () => {
      const [from, to] = button.dataset.part.split(' ').map(Number);
      show(from * total, to * total);
    });
  window.addEventListener('resize', draw);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
})();
