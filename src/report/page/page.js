'use strict';
// Draws the charts of a report from the JSON in the page. Nothing is fetched, and text from logs only ever becomes text nodes.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const view = { hidden: new Set(), x: 'step', smoothing: 0, zoom: null };  // shared by all charts
  const dashes = ['', '7 3', '2 3', '9 3 2 3'];
  const colour = run => `var(--run${run % 8})`;
  const dash = run => dashes[Math.floor(run / 8) % dashes.length];

  // ------------------------------------------------------------------------------------------------------- elements
  function element(name, attributes = {}, ...children) {
    const isSvg = ['svg', 'g', 'path', 'line', 'rect', 'circle', 'text', 'clipPath', 'title'].includes(name);
    const node = isSvg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }
  const button = (text, label, pressed, click) => {
    const node = element('button', { type: 'button', 'aria-pressed': pressed, 'aria-label': label }, text);
    node.addEventListener('click', () => {
      const now = node.getAttribute('aria-pressed') !== 'true';
      node.setAttribute('aria-pressed', now);
      click(now);
    });
    return node;
  };
  const swatch = (run, dots) => element('svg', { class: 'swatch', viewBox: '0 0 22 10', 'aria-hidden': 'true' }, dots
    ? element('circle', { cx: 11, cy: 5, r: 4, style: `fill:${colour(run)}` })
    : element('line', { x1: 0, x2: 22, y1: 5, y2: 5, 'stroke-width': 3, style: `stroke:${colour(run)}`, 'stroke-dasharray': dash(run) }));

  // -------------------------------------------------------------------------------------------------------- numbers
  const kUnits = {
    's': [[60, 1, 's'], [1, 1, 's'], [1e-3, 1e3, 'ms'], [0, 1e6, 'µs']],
    'B': [[2 ** 40, 2 ** -40, 'TiB'], [2 ** 30, 2 ** -30, 'GiB'], [2 ** 20, 2 ** -20, 'MiB'], [0, 2 ** -10, 'KiB']],
    '%': [[0, 100, '%']],
    'tokens/s': [[1e6, 1e-6, 'M tokens/s'], [1e3, 1e-3, 'k tokens/s'], [0, 1, 'tokens/s']],
    'TFLOP/s': [[1, 1, 'TFLOP/s'], [0, 1e3, 'GFLOP/s']],
  };
  // Returns the factor and the unit for values of this size.
  function unitFor(unit, size) {
    const rows = kUnits[unit];
    return rows ? rows.find(row => size >= row[0]) || rows[rows.length - 1] : [0, 1, ''];
  }
  function plain(value, digits = 5) {
    if (value === 0) return '0';
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e7) return value.toExponential(3).replace(/\.?0+e/, 'e').replace('e+', 'e');
    return value.toLocaleString('en', { maximumSignificantDigits: digits });
  }
  function withUnit(value, unit) {
    if (value === null) return 'not finite';
    const [, factor, name] = unitFor(unit, Math.abs(value));
    return plain(value * factor) + (name ? (name === '%' ? '%' : ' ' + name) : '');
  }
  const count = value => value.toLocaleString('en', { notation: 'compact', maximumSignificantDigits: 4 }).replace('K', 'k');

  function linearTicks(low, high, wanted) {
    const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find(multiple => multiple * power >= raw * 0.999);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step || 0);  // never -0
    return ticks;
  }
  function logTicks(low, high) {
    const decades = Math.log10(high / low), ticks = [];
    const every = Math.max(1, Math.ceil(decades / 6));
    const multiples = decades < 1.3 ? [1, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += every)
      for (const multiple of multiples) {
        const tick = multiple * 10 ** power;
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    return ticks.length > 1 ? ticks : [low, high];
  }

  // ---------------------------------------------------------------------------------------------------------- curves
  const xOf = (series, i) => view.x === 'tokens' ? (series.steps[i] + 1) * data.runs[series.run].tokens_per_step : series.steps[i];

  // Exponential moving average with bias correction; the weight of a point falls to 1/e after `span` points.
  function smoothed(values, span) {
    const keep = Math.exp(-1 / span);
    let sum = 0, weight = 0;
    return values.map(value => {
      if (value === null) return null;
      sum = sum * keep + value * (1 - keep);
      weight = weight * keep + (1 - keep);
      return sum / weight;
    });
  }
  // Returns the index of the point nearest to x.
  function nearest(series, x) {
    let low = 0, high = series.steps.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xOf(series, middle) <= x) low = middle; else high = middle;
    }
    return x - xOf(series, low) <= xOf(series, high) - x ? low : high;
  }
  const pathOf = points => {
    let path = '', pen = 'M';
    for (const [x, y] of points) {
      if (y === null) { pen = 'M'; continue; }
      path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = 'L';
    }
    return path;
  };

  // ----------------------------------------------------------------------------------------------------------- a chart
  const charts = [];
  class Chart {
    constructor(description, place) {
      this.about = description;
      this.log = false;
      this.all = false;  // shows outliers too
      this.margin = { left: 62, right: 14, top: 8, bottom: 26 };
      this.unitText = element('span', { class: 'unit' });
      this.tools = element('span', { class: 'tools' });
      this.tools.append(button('log', `${description.title}: logarithmic scale`, false, on => { this.log = on; this.draw(); }));
      this.svg = element('svg', { role: 'img', tabindex: 0 });
      this.tip = element('div', { class: 'tip', hidden: '', role: 'status' });
      this.under = element('p', { class: 'under' });
      const name = element('b', {}, description.title);
      this.figure = element('figure', description.key === 'loss' ? { class: 'wide' } : {},
        element('figcaption', {}, name, this.unitText, this.tools), this.svg, this.under, this.tip);
      place.append(this.figure);
      this.listen();
    }

    visible() { return this.about.series.filter(series => !view.hidden.has(series.run)); }

    draw() {
      this.width = Math.max(280, this.svg.clientWidth || 600);
      this.height = this.about.key === 'loss' ? 330 : 230;
      this.svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
      this.svg.replaceChildren();
      const noisy = !['learning_rate', 'memory_bytes'].includes(this.about.key);
      this.shown = this.visible().map(series => ({
        ...series,
        drawn: view.smoothing && noisy && !series.dots ? smoothed(series.values, view.smoothing) : series.values,
      }));
      this.findDomain();
      this.drawAxes();
      const id = `clip-${this.about.key}`, inner = this.inner();
      this.svg.append(element('clipPath', { id }, element('rect', { x: inner.left - 5, y: inner.top - 3, width: inner.width + 10, height: inner.height + 6 })));
      const curves = element('g', { 'clip-path': `url(#${id})` });
      for (const series of this.shown) this.drawSeries(series, curves);
      this.svg.append(curves);
      this.cursor = element('g', {});
      this.svg.append(this.cursor);
      this.describe();
    }

    inner() {
      const m = this.margin;
      return { left: m.left, top: m.top, width: this.width - m.left - m.right, height: this.height - m.top - m.bottom };
    }

    findDomain() {
      let first = Infinity, last = -Infinity;
      for (const series of this.shown) {
        if (!series.steps.length) continue;
        first = Math.min(first, xOf(series, 0));
        last = Math.max(last, xOf(series, series.steps.length - 1));
      }
      if (view.zoom) [first, last] = view.zoom;
      if (!(last > first)) { first = (Number.isFinite(first) ? first : 0) - 1; last = first + 2; }
      this.x = [first, last];

      const values = [];
      for (const series of this.shown)
        series.steps.forEach((step, i) => {
          const at = xOf(series, i);
          if (at < first || at > last) return;
          for (const value of [series.values[i], series.low?.[i], series.high?.[i]])
            if (value !== null && value !== undefined && (!this.log || value > 0)) values.push(value);
        });
      values.sort((a, b) => a - b);
      let low = values[0] ?? 1, high = values[values.length - 1] ?? 10;
      // One slow first step or one gradient spike would flatten all other points.
      this.beyond = 0;
      if (!this.log && values.length >= 8 && ['step_seconds', 'grad_norm'].includes(this.about.key)) {
        const at = share => values[Math.round(share * (values.length - 1))];
        const upper = at(0.9), lower = at(0.1), limit = upper + 6 * Math.max(upper - lower, upper * 0.05);
        if (high > limit) {
          this.beyond = values.filter(value => value > limit).length;
          this.most = high;
          if (!this.all) high = values.filter(value => value <= limit).pop();
        }
      }
      if (this.log) { this.y = low < high ? [low, high] : [low / 2, high * 2]; return; }
      const padding = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
      this.y = [low >= 0 && low - padding < 0 ? 0 : low - padding, high + padding];
    }

    px(x) { const i = this.inner(); return i.left + (x - this.x[0]) / (this.x[1] - this.x[0]) * i.width; }
    py(value) {
      const i = this.inner();
      if (this.log && !(value > 0)) return null;
      const share = this.log ? Math.log(value / this.y[0]) / Math.log(this.y[1] / this.y[0]) : (value - this.y[0]) / (this.y[1] - this.y[0]);
      return i.top + (1 - share) * i.height;
    }

    drawAxes() {
      const inner = this.inner(), bottom = inner.top + inner.height, right = inner.left + inner.width;
      const [, factor, unit] = unitFor(this.about.unit, Math.max(Math.abs(this.y[0]), Math.abs(this.y[1])));
      this.unitText.textContent = unit;
      const ticks = this.log ? logTicks(this.y[0] * factor, this.y[1] * factor) : linearTicks(this.y[0] * factor, this.y[1] * factor, inner.height / 38);
      for (const tick of ticks) {
        const y = this.py(tick / factor);
        this.svg.append(element('line', { class: 'grid', x1: inner.left, x2: right, y1: y, y2: y }),
          element('text', { x: inner.left - 8, y: y + 4, 'text-anchor': 'end' }, plain(+tick.toPrecision(8), 6)));
      }
      for (const tick of linearTicks(this.x[0], this.x[1], inner.width / 85)) {
        if (view.x === 'step' && !Number.isInteger(tick)) continue;
        const x = this.px(tick);
        this.svg.append(element('line', { class: 'axis', x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
          element('text', { x: Math.max(Math.min(x, right - 12), inner.left + 6), y: bottom + 18, 'text-anchor': 'middle' }, tick >= 1e5 ? count(tick) : tick.toLocaleString('en')));
      }
      this.svg.append(element('line', { class: 'axis', x1: inner.left, x2: right, y1: bottom, y2: bottom }),
        element('text', { x: inner.left - 8, y: bottom + 18, 'text-anchor': 'end' }, view.x === 'tokens' ? 'tokens' : 'step'));
    }

    drawSeries(series, group) {
      const paint = `stroke:${colour(series.run)}`, fill = `fill:${colour(series.run)}`;
      const points = values => values.map((value, i) => [this.px(xOf(series, i)), value === null ? null : this.py(value)]);
      if (series.low) {
        const edge = (values, i) => [this.px(xOf(series, i)), values[i] === null ? null : this.py(values[i])];
        const indices = series.steps.map((_, i) => i).filter(i => edge(series.low, i)[1] !== null && edge(series.high, i)[1] !== null);
        const outline = [...indices.map(i => edge(series.high, i)), ...indices.reverse().map(i => edge(series.low, i))];
        group.append(element('path', { class: 'band', style: fill, d: pathOf(outline) + 'Z' }));
      }
      const few = series.steps.length <= 60, thin = series.steps.length > 800 && !view.smoothing ? ' thin' : '';
      if (!series.dots) {
        if (series.drawn !== series.values)
          group.append(element('path', { class: 'curve faint', style: paint, d: pathOf(points(series.values)) }));
        group.append(element('path', { class: 'curve' + thin, style: paint, 'stroke-dasharray': dash(series.run), d: pathOf(points(series.drawn)) }));
      }
      if (series.dots || series.steps.length === 1)
        for (const [x, y] of points(series.values))
          if (y !== null) group.append(element('circle', { cx: x, cy: y, r: few ? 4 : 2.5, style: `${fill};stroke:var(--card)`, 'stroke-width': 1.3 }));
      for (const step of series.nonfinite || []) {
        const x = this.px(view.x === 'tokens' ? (step + 1) * data.runs[series.run].tokens_per_step : step), top = this.inner().top;
        group.append(element('path', { class: 'alarm', d: `M${x - 5} ${top}h10l-5 8z` }));
      }
    }

    // Describes the chart for screen readers, and below it what the chart does not show.
    describe() {
      const unit = this.about.unit, parts = [];
      for (const series of this.shown) {
        const finite = series.values.filter(value => value !== null);
        if (!finite.length) continue;
        parts.push(`${data.runs[series.run].name}, ${series.name}: from ${withUnit(finite[0], unit)} at step ${series.steps[0]} to ` +
          `${withUnit(finite[finite.length - 1], unit)} at step ${series.steps[series.steps.length - 1]}`);
      }
      this.svg.setAttribute('aria-label', `${this.about.title}. ${parts.join('; ') || 'Nothing is shown.'}. Arrow keys move through the steps.`);
      const words = [];
      const groups = this.shown.find(series => series.low);
      if (groups) words.push(`Line: mean of ${groups.group} steps; band: least to most of them.`);
      if (this.shown.some(series => series.dots)) words.push('Dots: validation.');
      if (this.shown.some(series => (series.nonfinite || []).length)) words.push('Red marks: not a finite number.');
      this.under.replaceChildren(words.join(' '));
      if (this.beyond) {
        const text = this.all ? 'all values are shown' : `${this.beyond} beyond the scale, up to ${withUnit(this.most, unit)}`;
        const toggle = button(this.all ? 'fit the rest' : 'show', `${this.about.title}: ${text}`, this.all, on => { this.all = on; this.draw(); });
        this.under.append(words.length ? ' ' : '', `${text[0].toUpperCase()}${text.slice(1)}. `, toggle);
        toggle.style.cssText = 'padding:0 7px;font-size:12px';
      }
    }

    // ----------------------------------------------------------------------------------------------------- the cursor
    listen() {
      const xAt = event => {
        const box = this.svg.getBoundingClientRect(), inner = this.inner();
        const share = ((event.clientX - box.left) * this.width / box.width - inner.left) / inner.width;
        return this.x[0] + Math.min(1, Math.max(0, share)) * (this.x[1] - this.x[0]);
      };
      this.svg.addEventListener('pointermove', event => {
        pointAt(xAt(event), this);
        if (this.dragFrom !== undefined) this.showDrag(this.dragFrom, xAt(event));
      });
      // On a touch screen the values stay until the next touch.
      this.svg.addEventListener('pointerleave', event => { if (this.dragFrom === undefined && event.pointerType !== 'touch') pointAt(null); });
      this.svg.addEventListener('pointerdown', event => {
        if (event.pointerType === 'touch') { pointAt(xAt(event), this); return; }
        if (event.button !== 0) return;
        this.dragFrom = xAt(event);
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener('pointerup', event => {
        const from = this.dragFrom, to = xAt(event);
        this.dragFrom = undefined;
        if (from === undefined) return;
        if (Math.abs(this.px(from) - this.px(to)) > 8) zoomTo([Math.min(from, to), Math.max(from, to)]); else pointAt(to, this);
      });
      this.svg.addEventListener('dblclick', () => zoomTo(null));
      this.svg.addEventListener('keydown', event => this.onKey(event));
      this.svg.addEventListener('blur', () => pointAt(null));
    }

    onKey(event) {
      const series = this.shown.find(candidate => candidate.steps.length);
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
      if (event.key === 'Escape') { pointAt(null); zoomTo(null); }
      if (!series || !(event.key in moves)) return;
      event.preventDefault();
      const from = this.at === undefined || this.at === null ? -1 : nearest(series, this.at);
      const to = Math.min(series.steps.length - 1, Math.max(0, from + moves[event.key]));
      pointAt(xOf(series, to), this);
    }

    showDrag(from, to) {
      const left = Math.min(this.px(from), this.px(to)), inner = this.inner();
      this.cursor.append(element('rect', { class: 'zoom', x: left, y: inner.top, width: Math.abs(this.px(from) - this.px(to)), height: inner.height }));
    }

    // Draws the line at x and, for the chart under the pointer, the values there.
    showCursor(x, withTip) {
      this.at = x;
      this.cursor.replaceChildren();
      this.tip.hidden = true;
      if (x === null || x < this.x[0] || x > this.x[1]) return;
      const inner = this.inner(), rows = [];
      this.cursor.append(element('line', { class: 'cursor', x1: this.px(x), x2: this.px(x), y1: inner.top, y2: inner.top + inner.height }));
      let label = null;
      for (const series of this.shown) {
        if (!series.steps.length) continue;
        const i = nearest(series, x);
        if (series.dots && Math.abs(this.px(xOf(series, i)) - this.px(x)) > 6) continue;
        const value = series.values[i], y = value === null ? null : this.py(series.drawn[i]);
        if (y !== null && y >= inner.top - 3)
          this.cursor.append(element('circle', { cx: this.px(xOf(series, i)), cy: y, r: 4, style: `fill:${colour(series.run)};stroke:var(--card)`, 'stroke-width': 1.5 }));
        label ??= this.label(series, i);
        rows.push({ series, text: withUnit(value, this.about.unit), range: series.low && value !== null ? ` (${withUnit(series.low[i], this.about.unit)} to ${withUnit(series.high[i], this.about.unit)})` : '' });
      }
      rows.sort((a, b) => a.series.run - b.series.run);
      if (withTip && rows.length) this.showTip(label, rows, this.px(x));
    }

    label(series, i) {
      const step = series.steps[i], next = series.steps[i + 1];
      const steps = series.low && next > step + 1 ? `steps ${step.toLocaleString('en')} to ${(next - 1).toLocaleString('en')}` : `step ${step.toLocaleString('en')}`;
      const tokens = data.runs[series.run].tokens_per_step;
      return tokens ? `${steps}, ${count((step + 1) * tokens)} tokens` : steps;
    }

    showTip(label, rows, at) {
      const several = data.runs.length > 1;
      this.tip.replaceChildren(element('div', { class: 'at' }, label), ...rows.map(row => element('div', { class: 'row' }, swatch(row.series.run, row.series.dots),
        element('span', {}, (several ? data.runs[row.series.run].name : '') + (row.series.dots ? (several ? ', validation' : 'validation') : '')),
        element('b', {}, row.text + row.range))));
      this.tip.hidden = false;
      const box = this.figure.getBoundingClientRect(), svg = this.svg.getBoundingClientRect();
      const x = svg.left - box.left + at * svg.width / this.width, width = this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(4, x + 16 + width > box.width - 4 ? x - width - 16 : x + 16)}px`;
      this.tip.style.top = `${svg.top - box.top + 8}px`;
    }
  }

  // ----------------------------------------------------------------------------------------------------------- the page
  const drawAll = () => charts.forEach(chart => chart.draw());
  function pointAt(x, pointed) { charts.forEach(chart => chart.showCursor(x, chart === pointed)); }
  function zoomTo(range) {
    view.zoom = range;
    document.getElementById('whole').hidden = range === null;
    drawAll();
  }

  function fillLegend() {
    const legend = document.getElementById('legend');
    data.runs.forEach((run, i) => {
      const entry = button('', `show ${run.name}`, true, on => { on ? view.hidden.delete(i) : view.hidden.add(i); drawAll(); });
      entry.append(swatch(i), element('span', { title: run.name }, run.name));
      legend.append(entry);
    });
    legend.hidden = data.runs.length < 2;
  }

  function select(label, options, change) {
    const node = element('select', {}, ...options.map(([text, value]) => element('option', { value }, text)));
    node.addEventListener('change', () => change(node.value));
    return element('label', {}, `${label} `, node);
  }

  function fillSettings() {
    const place = document.getElementById('settings');
    const whole = element('button', { type: 'button', id: 'whole', hidden: '' }, 'whole run');
    whole.addEventListener('click', () => zoomTo(null));
    place.append(whole);
    if (data.runs.every(run => run.tokens_per_step))
      place.append(select('over', [['steps', 'step'], ['tokens', 'tokens']], value => { view.x = value; view.zoom = null; zoomTo(null); }));
    place.append(select('smoothing', [['none', 0], ['light', 5], ['strong', 30]], value => { view.smoothing = +value; drawAll(); }));
    const theme = element('button', { type: 'button' }, 'light or dark');
    theme.addEventListener('click', () => {
      const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
      const now = root.dataset.theme || (dark ? 'dark' : 'light');
      root.dataset.theme = now === 'dark' ? 'light' : 'dark';
    });
    place.append(theme);
  }

  fillLegend();
  fillSettings();
  const place = document.getElementById('charts');
  for (const description of data.charts) charts.push(new Chart(description, place));
  drawAll();
  let width = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
  document.documentElement.dataset.drawn = String(charts.length);  // for tests: the script has finished
})();
