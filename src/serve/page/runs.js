// The list of runs.
const RunList = (() => {
  const { element, swatch } = Charts;
  const kListed = 150, kMostCompared = 200;
  const place = document.getElementById('runs'), search = document.getElementById('search');
  let changed = () => {};

  const orders = {
    newest: (a, b) => b.modified - a.modified || (a.name < b.name ? -1 : 1),
    name: (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }),
    loss: (a, b) => (a.loss ?? Infinity) - (b.loss ?? Infinity),
  };

  function age(run) {
    const seconds = Math.max(0, Data.info.now - run.modified);
    const [size, unit] = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']].find(([size]) => seconds >= size) || [1, 's'];
    return `${Math.floor(seconds / size)}${unit} ago`;
  }
  const stateText = run => run.state === 'running' ? 'running' : `${run.state} ${age(run)}`;

  function matches() {
    const words = State.state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = run => { const name = run.name.toLowerCase(); return words.every(word => name.includes(word)); };
    return [...Data.runs.values()].filter(fits).sort(orders[State.state.order]);
  }

  function rowOf(run) {
    const chosen = Data.shown.get(run.id);
    const facts = [run.state === 'running' ? 'running' : age(run), run.steps === null ? '' : `step ${run.steps.toLocaleString('en')}`, run.loss === null ? '' : `loss ${Charts.plain(run.loss, 4)}`];
    const toggle = element('button', { type: 'button', class: 'run', 'aria-pressed': Boolean(chosen), title: run.name },
      chosen ? swatch(chosen.slot) : element('span', { class: 'box' }), element('span', { class: 'name' }, run.name),
      element('span', { class: 'facts' }, element('span', { class: `dot ${run.state}`, title: run.state }), facts.filter(Boolean).join(' · ')));
    toggle.addEventListener('click', () => {
      const runs = State.state.runs;
      State.state.runs = chosen ? runs.filter(id => id !== run.id) : [...runs, run.id];
      changed();
    });
    const only = element('button', { type: 'button', class: 'only', 'aria-label': `show ${run.name} only` }, 'only');
    only.addEventListener('click', () => { State.state.runs = [run.id]; changed(); });
    return element('li', {}, toggle, only);
  }

  function draw() {
    const found = matches(), total = Data.runs.size, running = [...Data.runs.values()].filter(run => run.state === 'running').length;
    const few = found.slice(0, kListed);
    place.replaceChildren(...few.map(rowOf));
    if (found.length > few.length)
      place.append(element('li', { class: 'soft more' }, `${(found.length - few.length).toLocaleString('en')} more; search to see them`));
    if (!found.length)
      place.append(element('li', { class: 'soft more' }, total ? 'no run has that name' : Data.info.complete ? 'no runs yet: none has written a log' : 'looking for runs…'));
    const shownOf = found.length === total ? `${total.toLocaleString('en')} run${total === 1 ? '' : 's'}` : `${found.length.toLocaleString('en')} of ${total.toLocaleString('en')}`;
    document.getElementById('counts').textContent = `${shownOf}${running ? `, ${running} running` : ''}${Data.info.complete ? '' : '…'}`;
    document.getElementById('folder').textContent = Data.info.folder;
    document.getElementById('toggle').textContent = `runs (${total.toLocaleString('en')})`;
    const all = document.getElementById('all');
    all.textContent = `compare ${Math.min(found.length, kMostCompared)}`;
    all.disabled = found.length < 2;
  }

  function start(listener) {
    changed = listener;
    search.value = State.state.search;
    search.addEventListener('input', () => { State.state.search = search.value; State.write(); draw(); });
    document.getElementById('all').addEventListener('click', () => {
      State.state.runs = matches().slice(0, kMostCompared).map(run => run.id);
      changed();
    });
    document.getElementById('none').addEventListener('click', () => { State.state.runs = []; changed(); });
    document.getElementById('order').append(Charts.select('', [['newest', 'newest'], ['name', 'name'], ['loss', 'loss']], State.state.order,
      value => { State.state.order = value; State.write(); draw(); }));
    const toggle = document.getElementById('toggle');
    toggle.addEventListener('click', () => {
      const open = document.body.classList.toggle('choosing');
      toggle.setAttribute('aria-expanded', open);
    });
  }

  return { start, draw, matches, age, stateText };
})();
