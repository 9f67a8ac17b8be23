// What is around the charts: figures, the comparison, the recipe, the log.
const Details = (() => {
  const { element, swatch, withUnit, plain, duration, count } = Charts;
  const columns = [
    ['steps', 'steps', run => run.about?.done, value => value.toLocaleString('en')],
    ['loss', 'loss', run => last(run, 'loss'), value => plain(value, 5)],
    ['validation', 'validation', run => last(run, 'validation_loss'), value => plain(value, 5)],
    ['step time', 'step_seconds', run => recent(run, 'step_seconds'), value => withUnit(value, 's')],
    ['tokens/s', 'tokens_per_second', run => recent(run, 'tokens_per_second'), value => count(value)],
    ['TFLOP/s', 'tflops_per_device', run => recent(run, 'tflops_per_device'), value => plain(value, 4)],
    ['MFU', 'mfu', run => recent(run, 'mfu'), value => withUnit(value, '%')],
    ['memory', 'memory_bytes', run => last(run, 'memory_bytes'), value => withUnit(value, 'B')],
    ['grad norm', 'grad_norm', run => recent(run, 'grad_norm'), value => plain(value, 4)],
  ];
  const order = { column: null, descending: false };
  const last = (run, key) => run.about?.latest[key]?.value ?? null;
  const recent = (run, key) => run.about?.latest[key]?.recent ?? null;
  const nameOf = run => run.about?.name ?? Data.runs.get(run.id)?.name ?? run.id;
  // Without the folders that all shown runs are in.
  function shortNameOf(run) {
    const folders = [...Data.shown.values()].map(other => nameOf(other).split('/').slice(0, -1));
    let common = 0;
    while (folders.length > 1 && folders[0][common] !== undefined && folders.every(parts => parts[common] === folders[0][common])) ++common;
    return nameOf(run).split('/').slice(common).join('/');
  }
  const known = value => value !== null && value !== undefined;

  // ------------------------------------------------------------------------------------------------------- figures
  function tile(title, value, unit, how) {
    return element('div', { class: 'tile' }, element('dt', {}, title), element('dd', {}, element('span', { class: 'figure' }, value), ' ',
      element('span', { class: 'unit' }, unit), element('div', { class: 'how' }, how)));
  }
  function measured(title, value, unit, how) {
    if (!known(value)) return [];
    const [number, ...rest] = withUnit(value, unit).split(' ');
    return [tile(title, number.replace('%', ''), rest.join(' ') || (number.endsWith('%') ? '%' : ''), how)];
  }

  function progressTile(run) {
    const about = run.about, row = Data.runs.get(run.id) ?? about, parts = [];
    if (!known(about.done)) return [];
    const seconds = recent(run, 'step_seconds'), left = about.planned ? about.planned - about.done : 0;
    const state = run.isGone ? 'its folder is gone' : RunList.stateText(row);
    if (row.state === 'running' && left > 0 && seconds) parts.push(`${duration(left * seconds)} left`);
    if (known(about.elapsed)) parts.push(`${duration(about.elapsed)} so far`);
    const node = tile(state, about.done.toLocaleString('en'), about.planned ? `of ${about.planned.toLocaleString('en')} steps` : 'steps', parts.join(', '));
    node.classList.add('progress', row.state);
    if (about.planned) node.append(element('div', { class: 'bar', style: `--share:${Math.min(1, about.done / about.planned)}` }));
    return [node];
  }

  function tilesOf(run) {
    const about = run.about, peak = about.peak ? `of ${about.peak}` : '', median = 'median of the last 50 steps';
    const loss = last(run, 'loss'), validation = about.latest.validation_loss;
    const speed = recent(run, 'tokens_per_second');
    const goodput = typeof about.goodput === 'number' ? about.goodput : about.goodput?.goodput;
    return element('dl', { class: 'tiles' }, ...progressTile(run),
      ...(known(loss) ? [tile('Loss', plain(loss, 5), '', validation ? `validation ${plain(validation.value, 5)} at step ${validation.step.toLocaleString('en')}` : '')] : []),
      ...measured('Step time', recent(run, 'step_seconds'), 's', median),
      ...(known(speed) ? [tile('Tokens per second', count(speed), '', about.accelerators ? `${count(speed / about.accelerators)} per device on ${about.accelerators}` : '')] : []),
      ...measured('TFLOP/s per device', recent(run, 'tflops_per_device'), 'TFLOP/s', ''),
      ...measured('MFU', recent(run, 'mfu'), '%', peak),
      ...measured('Memory per device', last(run, 'memory_bytes'), 'B', 'the most in use'),
      ...measured('Goodput', goodput, '%', ''),
      ...Object.entries(about.tasks?.scores ?? {}).filter(([, value]) => typeof value === 'number').map(([name, value]) =>
        tile(name, plain(value, 4), '', known(about.tasks.steps_done) ? `at step ${about.tasks.steps_done.toLocaleString('en')}` : '')));
  }

  function comparison(runs) {
    const used = columns.filter(([, , value]) => runs.some(run => known(value(run))));
    const head = element('tr', {}, element('th', { scope: 'col' }, 'run'), element('th', { scope: 'col' }, 'state'));
    for (const column of used) {
      const sort = element('button', { type: 'button', class: 'sort' }, column[0] + (order.column === column[1] ? (order.descending ? ' ↓' : ' ↑') : ''));
      sort.addEventListener('click', () => {
        order.descending = order.column === column[1] && !order.descending;
        order.column = column[1];
        drawSummary();
      });
      head.append(element('th', { scope: 'col', class: 'number' }, sort));
    }
    const by = used.find(column => column[1] === order.column);
    const sorted = by ? [...runs].sort((a, b) => ((by[2](a) ?? Infinity) - (by[2](b) ?? Infinity)) * (order.descending ? -1 : 1)) : runs;
    const body = sorted.map(run => {
      const name = element('button', { type: 'button', class: 'link', title: `recipe, ranks and log of ${nameOf(run)}` }, swatch(run.slot), element('span', {}, shortNameOf(run)));
      name.addEventListener('click', () => focusOn(run.id));
      const row = Data.runs.get(run.id);
      return element('tr', State.state.focus === run.id ? { class: 'focus' } : {}, element('th', { scope: 'row' }, name),
        element('td', {}, run.isGone || !row ? 'gone' : RunList.stateText(row)),
        ...used.map(([, , value, text]) => element('td', { class: 'number' }, known(value(run)) ? text(value(run)) : '–')));
    });
    return element('div', { class: 'scroll table' }, element('table', {}, element('thead', {}, head), element('tbody', {}, ...body)));
  }

  let focusOn = () => {};
  function drawSummary() {
    const place = document.getElementById('summary'), runs = [...Data.shown.values()].filter(run => run.about);
    const notes = [...new Set(runs.flatMap(run => run.about.notes.map(note => runs.length > 1 ? `${nameOf(run)}: ${note}` : note)))].slice(0, 5);
    const parts = runs.length === 1 ? [tilesOf(runs[0]), element('p', { class: 'soft note' }, [runs[0].about.layout, runs[0].about.log].filter(Boolean).join('; '))] : runs.length ? [comparison(runs)] : [];
    const top = place.querySelector('.table')?.scrollTop;
    place.replaceChildren(...parts, ...notes.map(note => element('p', { class: 'soft note' }, note)));
    if (top) place.querySelector('.table').scrollTop = top;
  }

  // ------------------------------------------------------------------------------------------------- recipe and log
  const valueText = value => value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

  async function drawRecipe(place, ids, focus) {
    const about = await Promise.all(ids.map(id => Data.get('api/run', { run: id, settings: 1 })));
    const settings = about.map(run => run.settings);
    const keys = [...new Set(settings.flatMap(Object.keys))].sort();
    const differing = keys.filter(key => {
      const values = new Set(settings.filter(all => key in all).map(all => JSON.stringify(all[key])));
      return values.size > 1;
    });
    const table = (names, runs) => element('div', { class: 'scroll table' }, element('table', {},
      ...(runs.length > 1 ? [element('thead', {}, element('tr', {}, element('th', {}, 'setting'), ...runs.map(run => element('th', { class: 'run' }, run.name))))] : []),
      element('tbody', {}, ...names.map(key => element('tr', {}, element('th', { scope: 'row', class: 'key' }, key),
        ...runs.map(run => element('td', { class: 'key' }, valueText(run.settings[key]))))))));
    const focused = about.find(run => run.id === focus) ?? about[0];
    const own = Object.keys(focused.settings).sort();
    const filter = element('input', { type: 'search', placeholder: 'filter settings', 'aria-label': 'filter settings' });
    const list = element('div', {});
    const fill = () => list.replaceChildren(table(own.filter(key => key.includes(filter.value)), [focused]));
    filter.addEventListener('input', fill);
    fill();
    place.replaceChildren(
      ...(about.length > 1 ? [element('h2', {}, 'Settings that differ'), differing.length ? table(differing, about) : element('p', { class: 'soft' }, 'None: no setting has two values.')] : []),
      ...(own.length ? [element('details', { id: 'recipe', ...(about.length === 1 ? {} : {}) }, element('summary', {}, `Recipe of ${focused.name}, ${own.length} settings`), filter, list)]
        : [element('p', { class: 'soft' }, `There are no settings beside the log of ${focused.name}.`)]));
  }

  const logView = { rank: 0, text: '' };
  async function drawLog(place, id) {
    const reply = await Data.get('api/log', { run: id, rank: logView.rank, lines: 200 });
    if (!reply.ranks) { place.replaceChildren(); return; }
    let box = place.querySelector('pre');
    if (!box || place.dataset.run !== id || place.dataset.ranks !== String(reply.ranks)) {
      Object.assign(place.dataset, { run: id, ranks: reply.ranks });
      box = element('pre', { tabindex: 0, 'aria-label': 'the end of the log' });
      const chooser = reply.ranks > 1 ? [Charts.select('rank', Array.from({ length: reply.ranks }, (_, rank) => [rank, rank]), logView.rank,
        value => { logView.rank = +value; drawLog(place, id); })] : [];
      place.replaceChildren(element('figcaption', {}, element('b', {}, 'Log'), element('span', { class: 'tools' }, ...chooser)), box);
      logView.text = '';
    }
    const text = reply.lines.join('\n');
    if (text === logView.text) return;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30 || !logView.text;
    box.replaceChildren(...reply.lines.map(line => element('span', /^\[NeMo [WE] /.test(line) ? { class: 'alarm' } : {}, line + '\n')));
    logView.text = text;
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  return { drawSummary, drawRecipe, drawLog, nameOf, shortNameOf, setFocus: listener => { focusOn = listener; } };
})();
