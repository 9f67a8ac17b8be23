'use strict';
// Draws the heat map: a cell per pair, coloured by its share of the usual bandwidth.
const data = JSON.parse(document.getElementById('data').textContent);
const canvas = document.querySelector('#pairs canvas');

function drawPairs() {
  const names = data.units, count = names.length;
  const styles = getComputedStyle(document.documentElement);
  // The custom properties hold light-dark(), which a canvas does not know: an element resolves them.
  const probe = document.body.appendChild(document.createElement('i'));
  const colour = name => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const channels = name => colour(name).match(/[\d.]+/g).slice(0, 3).map(Number);
  const good = channels('--run2'), bad = channels('--alarm'), shade = colour('--shade'), soft = colour('--soft');
  probe.remove();

  const label = count <= 64 ? 11 * Math.min(12, Math.max(...names.map(name => name.length))) * .62 + 8 : 0;
  const cell = Math.max(2, Math.min(36, Math.floor((canvas.clientWidth - label) / count)));
  const ratio = window.devicePixelRatio || 1, size = label + cell * count;
  canvas.style.height = `${size}px`;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = size * ratio;
  const pen = canvas.getContext('2d');
  pen.scale(ratio, ratio);
  pen.fillStyle = shade;
  pen.fillRect(label, label, cell * count, cell * count);
  let slow = 0;
  for (const [a, b, rate] of data.pairs) {
    const share = data.reference > 0 ? rate / data.reference : 1;
    const fault = Math.min(1, Math.max(0, (1 - share) * 2));  // half of the usual bandwidth has the full colour
    slow += fault >= 1 ? 1 : 0;
    pen.fillStyle = `rgb(${good.map((value, i) => Math.round(value + (bad[i] - value) * fault)).join(' ')})`;
    for (const [row, column] of [[a, b], [b, a]])
      pen.fillRect(label + column * cell, label + row * cell, Math.max(1, cell - 1), Math.max(1, cell - 1));
  }
  if (label > 0) {
    pen.fillStyle = soft;
    pen.font = `11px ${styles.fontFamily || 'sans-serif'}`;
    pen.textBaseline = 'middle';
    names.forEach((name, i) => {
      pen.fillText(name.slice(-12), 0, label + (i + .5) * cell, label - 6);
      pen.save();
      pen.translate(label + (i + .5) * cell, label - 6);
      pen.rotate(-Math.PI / 2);
      pen.fillText(name.slice(-12), 0, 0, label - 6);
      pen.restore();
    });
  }
  canvas.dataset.drawn = `${data.pairs.length} pairs, ${slow} slow`;
  return { label, cell, count };
}

if (canvas) {
  let grid = drawPairs();
  const tip = document.querySelector('#pairs .tip');
  const rates = new Map(data.pairs.map(([a, b, rate]) => [`${a} ${b}`, rate]));
  window.addEventListener('resize', () => { grid = drawPairs(); });
  canvas.addEventListener('pointermove', event => {
    const box = canvas.getBoundingClientRect();
    const [a, b] = [event.clientY - box.top, event.clientX - box.left].map(at => Math.floor((at - grid.label) / grid.cell));
    const rate = rates.get(`${Math.min(a, b)} ${Math.max(a, b)}`);
    tip.hidden = rate === undefined;
    if (tip.hidden) return;
    tip.textContent = `${data.units[a]} - ${data.units[b]}: ${(rate / 1e9).toFixed(3)} GB/s, ` +
      `${Math.round(100 * rate / data.reference)}% of the usual`;
    tip.style.left = `${Math.min(canvas.offsetLeft + event.clientX - box.left + 14, canvas.clientWidth - 160)}px`;
    tip.style.top = `${canvas.offsetTop + event.clientY - box.top + 14}px`;
  });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
}
