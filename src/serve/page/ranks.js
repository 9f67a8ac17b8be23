// The step time of every rank as a heat map: a row per rank, a column per range of steps.
const Ranks = (() => {
  const { element, withUnit } = Charts;
  const kLeft = 62, kTop = 4, kBottom = 22;
  let shown = null;

  // From the usual time to half as much again, or to the longest if that is less.
  function scaleOf(times) {
    const values = Float64Array.from(times.seconds.flat().filter(value => value !== null)).sort();
    const at = share => values[Math.round(share * (values.length - 1))];
    const low = at(0.5), high = Math.max(low * 1.1, Math.min(low * 1.5, at(1)));
    return { low, high, least: values[0], most: at(1) };
  }

  function colours() {
    const probe = document.body.appendChild(document.createElement('i'));
    const channels = name => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number); };
    const all = { usual: channels('--heat0'), slow: channels('--heat1'), soft: `rgb(${channels('--soft').join(' ')})`, shade: `rgb(${channels('--shade').join(' ')})` };
    probe.remove();
    return all;
  }

  function paint() {
    if (!shown) return;
    const { canvas, times, scale } = shown, { usual, slow, soft, shade } = colours();
    const rows = times.ranks.length, columns = times.steps.length, ratio = devicePixelRatio || 1;
    const high = Math.max(3, Math.min(26, Math.floor(420 / rows))), height = kTop + rows * high + kBottom;
    canvas.style.height = `${height}px`;
    const width = canvas.clientWidth;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const wide = (width - kLeft) / columns, pen = canvas.getContext('2d');
    pen.scale(ratio, ratio);
    pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    times.seconds.forEach((row, rank) => row.forEach((value, column) => {
      const share = value === null ? 0 : Math.min(1, Math.max(0, (value - scale.low) / (scale.high - scale.low)));
      pen.fillStyle = value === null ? shade : `rgb(${usual.map((part, i) => Math.round(part + (slow[i] - part) * share)).join(' ')})`;
      pen.fillRect(kLeft + column * wide, kTop + rank * high, Math.max(wide - (wide > 6 ? 1 : 0), 0.6), high - (high > 5 ? 1 : 0));
    }));
    pen.fillStyle = soft;
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    const every = Math.ceil(16 / high);
    times.ranks.forEach((rank, i) => { if (i % every === 0) pen.fillText(`rank ${rank}`, kLeft - 8, kTop + (i + .5) * high); });
    const labels = Math.max(1, Math.min(columns, Math.floor((width - kLeft) / 90)));
    pen.textAlign = 'left';
    for (let i = 0; i < labels; ++i) {
      const column = Math.floor(i * columns / labels);
      pen.fillText(`${i ? '' : 'step '}${times.steps[column].toLocaleString('en')}`, kLeft + column * wide, height - kBottom / 2 + 2);
    }
    canvas.dataset.drawn = `${rows} ranks, ${columns} columns`;
    shown.cell = { wide, high };
  }

  function point(event) {
    const { canvas, times, cell, tip, figure } = shown, box = canvas.getBoundingClientRect();
    const rank = Math.floor((event.clientY - box.top - kTop) / cell.high), column = Math.floor((event.clientX - box.left - kLeft) / cell.wide);
    const value = times.seconds[rank]?.[column];
    tip.hidden = value === undefined || value === null;
    if (tip.hidden) return;
    const first = times.steps[column], next = times.steps[column + 1] ?? first + 1;
    tip.textContent = `rank ${times.ranks[rank]}, ${next > first + 1 ? `steps ${first.toLocaleString('en')} to ${(next - 1).toLocaleString('en')}: at most` : `step ${first.toLocaleString('en')}:`} ${withUnit(value, 's')}`;
    const frame = figure.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX - frame.left + 14, frame.width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${event.clientY - frame.top + 16}px`;
  }

  async function draw(figure, id, steps) {
    const times = await Data.get('api/ranks', { run: id, ...(steps ? { from: Math.floor(steps[0]), to: Math.ceil(steps[1]) } : {}) });
    figure.hidden = !times.steps.length;
    if (figure.hidden) { shown = null; figure.replaceChildren(); return; }
    if (!shown || shown.figure !== figure) {
      const canvas = element('canvas', { role: 'img' }), tip = element('div', { class: 'tip', hidden: '' });
      const scaleText = element('span', { class: 'unit' }), under = element('p', { class: 'under' });
      figure.replaceChildren(element('figcaption', {}, element('b', {}, 'Step time of every rank'), scaleText), canvas, under, tip);
      shown = { figure, canvas, tip, scaleText, under };
      canvas.addEventListener('pointermove', point);
      canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    }
    Object.assign(shown, { times, scale: scaleOf(times) });
    const { low, high, least, most } = shown.scale;
    shown.scaleText.replaceChildren(element('i', { class: 'ramp' }), ` ${withUnit(low, 's')} to ${withUnit(high, 's')} and more`);
    shown.under.textContent = `Each cell is the longest step of its column${times.sampled ? ', of a sample of its steps' : ''}; all are between ${withUnit(least, 's')} and ${withUnit(most, 's')}.`;
    shown.canvas.setAttribute('aria-label', `Step time of ${times.ranks.length} ranks: ${withUnit(least, 's')} to ${withUnit(most, 's')}`);
    paint();
  }

  addEventListener('resize', paint);
  return { draw, paint };
})();
