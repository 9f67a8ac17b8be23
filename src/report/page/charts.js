'use strict';
// Draws charts of runs, for `trireme report` and `trireme serve`. A board holds the charts of a page and what they share: which runs
// are hidden, the x axis, smoothing and zoom. Text from logs only ever becomes text nodes.
const Charts = (() => {
  const dashes = ['', '7 3', '2 3', '9 3 2 3'];
  const kManyRuns = 4;   // more have no bands
  const kMostRows = 12;  // of the values at the pointer

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
  // A run has a colour and a dash by its slot.
  const colour = slot => `var(--run${slot % 8})`;
  const dash = slot => dashes[Math.floor(slot / 8) % dashes.length];
  const swatch = (slot, dots) => element('svg', { class: 'swatch', viewBox: '0 0 22 10', 'aria-hidden': 'true' }, dots
    ? element('circle', { cx: 11, cy: 5, r: 4, style: `fill:${colour(slot)}` })
    : element('line', { x1: 0, x2: 22, y1: 5, y2: 5, 'stroke-width': 3, style: `stroke:${colour(slot)}`, 'stroke-dasharray': dash(slot) }));
  function select(label, options, value, change) {
    const node = element('select', {}, ...options.map(([text, option]) => element('option', { value: option }, text)));
    node.value = value;
    node.addEventListener('change', () => change(node.value));
    return element('label', {}, `${label} `, node);
  }
  function themeButton(changed) {
    const node = element('button', { type: 'button' }, 'light or dark');
    node.addEventListener('click', () => {
      const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
      const now = root.dataset.theme || (dark ? 'dark' : 'light');
      root.dataset.theme = now === 'dark' ? 'light' : 'dark';
      changed?.(root.dataset.theme);
    });
    return node;
  }

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

  // Time since the start of a run, in the largest unit that the whole axis fills.
  const kTimeUnits = [[86400, 'days'], [3600, 'hours'], [60, 'minutes'], [1, 'seconds']];
  const timeUnit = span => kTimeUnits.find(([seconds]) => span >= 2 * seconds) || kTimeUnits[3];
  function duration(seconds) {
    const whole = Math.round(seconds), two = value => String(value).padStart(2, '0');
    const days = Math.floor(whole / 86400), rest = `${Math.floor(whole / 3600) % 24}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
    return days ? `${days}d ${rest}` : rest;
  }

  // ---------------------------------------------------------------------------------------------------------- curves
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
  // Returns the index of the point at a step, or before it.
  function nearestStep(series, step) {
    const after = series.steps.findIndex(candidate => candidate > step);
    return Math.max(0, (after < 0 ? series.steps.length : after) - 1);
  }
  const pathOf = points => {
    let path = '', pen = 'M';
    for (const [x, y] of points) {
      if (y === null || !Number.isFinite(x)) { pen = 'M'; continue; }
      path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = 'L';
    }
    return path;
  };

  // ----------------------------------------------------------------------------------------------------------- a chart
  class Chart {
    constructor(board, description) {
      this.board = board;
      this.about = description;
      this.log = false;
      this.all = false;  // shows outliers too
      this.margin = { left: 62, right: 14, top: 8, bottom: 26 };
      this.unitText = element('span', { class: 'unit' });
      this.tools = element('span', { class: 'tools' });
      this.tools.append(this.logButton = button('log', `${description.title}: logarithmic scale`, false, on => { this.log = on; this.draw(); board.changed('log'); }));
      this.svg = element('svg', { role: 'img', tabindex: 0 });
      this.tip = element('div', { class: 'tip', hidden: '', role: 'status' });
      this.under = element('p', { class: 'under' });
      const name = element('b', {}, description.title);
      this.figure = element('figure', description.key === 'loss' ? { class: 'wide' } : {},
        element('figcaption', {}, name, this.unitText, this.tools), this.svg, this.under, this.tip);
      board.place.append(this.figure);
      this.listen();
    }

    // Smoothing below 1 is a share of the points.
    spanFor(series) { return this.view.smoothing < 1 ? this.view.smoothing * series.steps.length : this.view.smoothing; }
    get view() { return this.board.view; }
    xOf(series, i) { return this.board.xOf(series, i); }
    visible() { return this.about.series.filter(series => series.steps.length && !this.view.hidden.has(series.run)); }
    setLog(on) { this.log = on; this.logButton.setAttribute('aria-pressed', on); }

    draw() {
      this.width = Math.max(280, this.svg.clientWidth || 600);
      this.height = this.about.key === 'loss' ? 330 : 230;
      this.svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
      this.svg.replaceChildren();
      const noisy = !['learning_rate', 'memory_bytes'].includes(this.about.key);
      this.shown = this.visible().map(series => ({
        ...series,
        drawn: this.view.smoothing && noisy && !series.dots ? smoothed(series.values, this.spanFor(series)) : series.values,
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
        first = Math.min(first, this.xOf(series, 0));
        last = Math.max(last, this.xOf(series, series.steps.length - 1));
      }
      if (this.view.zoom) [first, last] = this.view.zoom;
      if (!(last > first)) { first = (Number.isFinite(first) ? first : 0) - 1; last = first + 2; }
      this.x = [first, last];

      const found = [];
      for (const series of this.shown)
        for (let i = 0; i < series.steps.length; ++i) {
          const at = this.xOf(series, i);
          if (!(at >= first && at <= last)) continue;
          const parts = this.hasBands() ? [series.values[i], series.low?.[i], series.high?.[i]] : [series.values[i]];
          for (const value of parts)
            if (value !== null && value !== undefined && (!this.log || value > 0)) found.push(value);
        }
      const values = Float64Array.from(found).sort();
      let low = values[0] ?? 1, high = values[values.length - 1] ?? 10;
      // One slow first step or one gradient spike would flatten all other points.
      this.beyond = 0;
      if (!this.log && values.length >= 8 && ['step_seconds', 'grad_norm'].includes(this.about.key)) {
        const at = share => values[Math.round(share * (values.length - 1))];
        const upper = at(0.9), lower = at(0.1), limit = upper + 6 * Math.max(upper - lower, upper * 0.05);
        if (high > limit) {
          this.beyond = values.length - values.findIndex(value => value > limit);
          this.most = high;
          if (!this.all) high = values[values.length - this.beyond - 1];
        }
      }
      if (this.log) { this.y = low < high ? [low, high] : [low / 2, high * 2]; return; }
      const padding = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
      this.y = [low >= 0 && low - padding < 0 ? 0 : low - padding, high + padding];
    }

    hasBands() { return this.shown.length <= kManyRuns; }
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
      const [scale, name] = this.view.x === 'time' ? timeUnit(this.x[1]) : [1, this.view.x];
      for (const tick of linearTicks(this.x[0] / scale, this.x[1] / scale, inner.width / 85)) {
        if (this.view.x === 'step' && !Number.isInteger(tick)) continue;
        const x = this.px(tick * scale);
        this.svg.append(element('line', { class: 'axis', x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
          element('text', { x: Math.max(Math.min(x, right - 12), inner.left + 6), y: bottom + 18, 'text-anchor': 'middle' }, tick >= 1e5 ? count(tick) : tick.toLocaleString('en')));
      }
      this.svg.append(element('line', { class: 'axis', x1: inner.left, x2: right, y1: bottom, y2: bottom }),
        element('text', { x: inner.left - 8, y: bottom + 18, 'text-anchor': 'end' }, name));
    }

    drawSeries(series, group) {
      const paint = `stroke:${colour(series.run)}`, fill = `fill:${colour(series.run)}`;
      const points = values => values.map((value, i) => [this.px(this.xOf(series, i)), value === null ? null : this.py(value)]);
      if (series.low && this.hasBands()) {
        const edge = (values, i) => [this.px(this.xOf(series, i)), values[i] === null ? null : this.py(values[i])];
        const indices = series.steps.map((_, i) => i).filter(i => edge(series.low, i)[1] !== null && edge(series.high, i)[1] !== null);
        const outline = [...indices.map(i => edge(series.high, i)), ...indices.reverse().map(i => edge(series.low, i))];
        group.append(element('path', { class: 'band', style: fill, d: pathOf(outline) + 'Z' }));
      }
      const few = series.steps.length <= 60, thin = series.steps.length > 800 && !this.view.smoothing ? ' thin' : '';
      if (!series.dots) {
        if (series.drawn !== series.values)
          group.append(element('path', { class: 'curve faint', style: paint, d: pathOf(points(series.values)) }));
        group.append(element('path', { class: 'curve' + thin, 'data-run': series.run, style: paint, 'stroke-dasharray': dash(series.run), d: pathOf(points(series.drawn)) }));
      }
      if (series.dots || series.steps.length === 1)
        for (const [x, y] of points(series.values))
          if (y !== null) group.append(element('circle', { cx: x, cy: y, r: few ? 4 : 2.5, style: `${fill};stroke:var(--card)`, 'stroke-width': 1.3 }));
      for (const step of series.nonfinite || []) {
        const x = this.px(this.xOf(series, nearestStep(series, step))), top = this.inner().top;
        group.append(element('path', { class: 'alarm', d: `M${x - 5} ${top}h10l-5 8z` }));
      }
    }

    // Describes the chart for screen readers, and below it what the chart does not show.
    describe() {
      const unit = this.about.unit, parts = [];
      for (const series of this.shown.slice(0, kMostRows)) {
        const finite = series.values.filter(value => value !== null);
        if (!finite.length) continue;
        parts.push(`${this.board.runs[series.run].name}, ${series.name}: from ${withUnit(finite[0], unit)} at step ${series.steps[0]} to ` +
          `${withUnit(finite[finite.length - 1], unit)} at step ${series.steps[series.steps.length - 1]}`);
      }
      this.svg.setAttribute('aria-label', `${this.about.title}. ${parts.join('; ') || 'Nothing is shown.'}. Arrow keys move through the steps.`);
      const words = [];
      const groups = this.hasBands() && this.shown.find(series => series.low);
      if (groups && !this.board.isBrief) words.push(`Line: mean of ${groups.group} steps; band: least to most of them.`);
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
        this.pointerY = (event.clientY - this.svg.getBoundingClientRect().top) * this.width / this.svg.getBoundingClientRect().width;
        this.board.pointAt(xAt(event), this);
        if (this.dragFrom !== undefined) this.showDrag(this.dragFrom, xAt(event));
      });
      // On a touch screen the values stay until the next touch.
      this.svg.addEventListener('pointerleave', event => { if (this.dragFrom === undefined && event.pointerType !== 'touch') this.board.pointAt(null); });
      this.svg.addEventListener('pointerdown', event => {
        if (event.pointerType === 'touch') { this.board.pointAt(xAt(event), this); return; }
        if (event.button !== 0) return;
        this.dragFrom = xAt(event);
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener('pointerup', event => {
        const from = this.dragFrom, to = xAt(event);
        this.dragFrom = undefined;
        if (from === undefined) return;
        if (Math.abs(this.px(from) - this.px(to)) > 8) this.board.zoomTo([Math.min(from, to), Math.max(from, to)]); else this.board.pointAt(to, this);
      });
      this.svg.addEventListener('dblclick', () => this.board.zoomTo(null));
      this.svg.addEventListener('keydown', event => this.onKey(event));
      this.svg.addEventListener('blur', () => this.board.pointAt(null));
    }

    onKey(event) {
      const series = this.shown.find(candidate => candidate.steps.length);
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
      this.pointerY = undefined;
      if (event.key === 'Escape') { this.board.pointAt(null); this.board.zoomTo(null); }
      if (!series || !(event.key in moves)) return;
      event.preventDefault();
      const from = this.at === undefined || this.at === null ? -1 : this.nearest(series, this.at);
      const to = Math.min(series.steps.length - 1, Math.max(0, from + moves[event.key]));
      this.board.pointAt(this.xOf(series, to), this);
    }

    // Returns the index of the point nearest to x.
    nearest(series, x) {
      let low = 0, high = series.steps.length - 1;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (this.xOf(series, middle) <= x) low = middle; else high = middle;
      }
      return x - this.xOf(series, low) <= this.xOf(series, high) - x ? low : high;
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
        const i = this.nearest(series, x);
        if (series.dots && Math.abs(this.px(this.xOf(series, i)) - this.px(x)) > 6) continue;
        const value = series.values[i], y = value === null ? null : this.py(series.drawn[i]);
        label ??= this.label(series, i);
        rows.push({ series, y, at: this.px(this.xOf(series, i)), text: withUnit(value, this.about.unit), range: series.low && this.hasBands() && value !== null ? ` (${withUnit(series.low[i], this.about.unit)} to ${withUnit(series.high[i], this.about.unit)})` : '' });
      }
      const shown = this.rowsToShow(rows, withTip);
      for (const row of shown)
        if (row.y !== null && row.y >= inner.top - 3)
          this.cursor.append(element('circle', { cx: row.at, cy: row.y, r: 4, style: `fill:${colour(row.series.run)};stroke:var(--card)`, 'stroke-width': 1.5 }));
      if (withTip && rows.length) this.showTip(label, shown, rows.length - shown.length, this.px(x));
    }

    // Of many runs those nearest to the pointer, whose curves stand out.
    rowsToShow(rows, withTip) {
      const distance = row => Math.abs((row.y ?? -1e6) - (this.pointerY ?? 0));
      const near = withTip && rows.length > 1 && this.pointerY !== undefined ? rows.reduce((a, b) => distance(a) <= distance(b) ? a : b) : null;
      this.board.highlight(near && distance(near) < 24 ? near.series.run : null);
      const shown = rows.length > kMostRows ? rows.sort((a, b) => distance(a) - distance(b)).slice(0, kMostRows) : rows;
      return shown.sort((a, b) => rows.length > kMostRows ? (a.y ?? 0) - (b.y ?? 0) : a.series.run - b.series.run);
    }

    label(series, i) {
      const step = series.steps[i], next = series.steps[i + 1];
      const steps = series.low && next > step + 1 ? `steps ${step.toLocaleString('en')} to ${(next - 1).toLocaleString('en')}` : `step ${step.toLocaleString('en')}`;
      const x = this.xOf(series, i), tokens = this.board.runs[series.run].tokens_per_step;
      if (this.view.x === 'time') return `${steps}, after ${duration(x)}`;
      if (this.view.x === 'tokens') return `${steps}, ${count(x)} tokens`;
      return tokens ? `${steps}, ${count((step + 1) * tokens)} tokens` : steps;
    }

    showTip(label, rows, others, at) {
      const runs = this.board.runs, several = this.board.several();
      this.tip.replaceChildren(element('div', { class: 'at' }, label), ...rows.map(row => element('div', { class: 'row' }, swatch(row.series.run, row.series.dots),
        element('span', {}, (several ? runs[row.series.run].name : '') + (row.series.dots ? (several ? ', validation' : 'validation') : '')),
        element('b', {}, row.text + row.range))),
        ...(others ? [element('div', { class: 'at' }, `and ${others} more`)] : []));
      this.tip.hidden = false;
      const box = this.figure.getBoundingClientRect(), svg = this.svg.getBoundingClientRect();
      const x = svg.left - box.left + at * svg.width / this.width, width = this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(4, x + 16 + width > box.width - 4 ? x - width - 16 : x + 16)}px`;
      this.tip.style.top = `${svg.top - box.top + 8}px`;
    }
  }

  // ------------------------------------------------------------------------------------------------------------ the board
  class Board {
    // runs[slot]: its name, and tokens_per_step if steps have the same tokens. `changed` hears what the user changed: zoom or log.
    constructor(place, runs, changed = () => {}) {
      this.place = place;
      this.runs = runs;
      this.changed = changed;
      this.charts = [];
      this.view = { hidden: new Set(), x: 'step', smoothing: 0, zoom: null };
      let width = innerWidth;
      addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; this.drawAll(); } });
    }

    // Series may say where their points are on the axis; tokens otherwise follow from the step.
    xOf(series, i) {
      if (this.view.x === 'step') return series.steps[i];
      if (series.x) return series.x[i] ?? undefined;
      return this.view.x === 'tokens' ? (series.steps[i] + 1) * this.runs[series.run].tokens_per_step : undefined;
    }
    several() { return Object.keys(this.runs).length > 1; }
    add(description) { const chart = new Chart(this, description); this.charts.push(chart); return chart; }
    drawAll() { for (const chart of this.charts) chart.draw(); }
    pointAt(x, pointed) {
      if (x === null) this.highlight(null);
      for (const chart of this.charts) if (!chart.figure.hidden) chart.showCursor(x, chart === pointed);
    }
    zoomTo(range) { this.view.zoom = range; this.changed('zoom'); this.drawAll(); }
    highlight(run) {
      if (run === this.near) return;
      this.near = run;
      for (const path of this.place.querySelectorAll('.curve[data-run]')) path.classList.toggle('dim', run !== null && path.dataset.run !== String(run));
    }
  }

  return { Board, element, button, swatch, select, themeButton, colour, plain, withUnit, count, duration, unitFor };
})();
