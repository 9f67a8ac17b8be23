// Puts the page together and keeps it up to date.
(() => {
  const { element, button, swatch } = Charts;
  const kPollMilliseconds = 2000, kRanksMilliseconds = 20000, kParallel = 4, kNamedInLegend = 24;
  const charts = [
    ['loss', 'Loss', '', ['loss', 'validation_loss']],
    ['step_seconds', 'Step time', 's', ['step_seconds']],
    ['tokens_per_second', 'Tokens per second', 'tokens/s', ['tokens_per_second']],
    ['tflops_per_device', 'Arithmetic of one device', 'TFLOP/s', ['tflops_per_device']],
    ['mfu', 'MFU', '%', ['mfu']],
    ['memory_bytes', 'Memory of one device', 'B', ['memory_bytes']],
    ['grad_norm', 'Gradient norm', '', ['grad_norm']],
    ['learning_rate', 'Learning rate', '', ['learning_rate']],
  ];
  const { state } = State;
  const names = {};  // by slot, for the charts
  const board = new Charts.Board(document.getElementById('charts'), names, what => what === 'zoom' ? onZoom() : onLog());
  const view = board.view;
  board.isBrief = true;

  // ---------------------------------------------------------------------------------------------------------- drawing
  // Charts out of sight are drawn when they come into it.
  const observer = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const chart = board.charts.find(candidate => candidate.figure === entry.target);
      chart.isAway = !entry.isIntersecting && !entry.target.hidden;
      if (!chart.isAway && chart.isStale) drawChart(chart);
    }
  }, { rootMargin: '200px' });

  function drawChart(chart) {
    chart.isStale = chart.isAway;
    if (!chart.isAway) chart.draw();
  }

  function seriesOf(run, key) {
    const curve = (view.zoom && run.detail || run.curves)[key];
    return curve ? [{ ...curve, run: run.slot, name: key.replaceAll('_', ' '), dots: key === 'validation_loss' }] : [];
  }

  function fillCharts() {
    for (const slot of Object.keys(names)) delete names[slot];
    const runs = [...Data.shown.values()];
    for (const run of runs) names[run.slot] = { name: Details.shortNameOf(run), tokens_per_step: run.about?.tokens_per_step };
    const has = key => runs.some(run => run.curves[key]?.steps.length);
    for (const chart of board.charts) {
      const keys = charts.find(([key]) => key === chart.about.key)[3];
      // MFU and TFLOP/s have the same curves.
      chart.figure.hidden = !keys.some(has) || (chart.about.key === 'tflops_per_device' && has('mfu') && runs.length < 2);
      chart.about.series = runs.flatMap(run => keys.flatMap(key => seriesOf(run, key)));
      if (!chart.figure.hidden) drawChart(chart);
    }
    document.documentElement.dataset.drawn = String(board.charts.filter(chart => !chart.figure.hidden).length);
  }

  // At most one drawing in 150 ms. While nothing is new, only the ages of runs change.
  let isDrawing = false, hasNews = false, drawnAt = 0;
  function draw(isNew = true) {
    hasNews ||= isNew;
    if (isDrawing) return;
    isDrawing = true;
    const wait = Math.max(0, 150 - (performance.now() - drawnAt));
    setTimeout(() => requestAnimationFrame(() => {
      isDrawing = false;
      drawnAt = performance.now();
      RunList.draw();
      Details.drawSummary();
      notice();
      if (hasNews) {
        drawLegend();
        fillCharts();
      }
      hasNews = false;
    }), wait);
  }

  function drawLegend() {
    const runs = [...Data.shown.values()];
    const entry = run => {
      const name = Details.nameOf(run), isShown = !view.hidden.has(run.slot);
      const node = button('', `show ${name}`, isShown, on => { on ? view.hidden.delete(run.slot) : view.hidden.add(run.slot); fillCharts(); });
      node.append(swatch(run.slot), element('span', { title: name }, Details.shortNameOf(run)));
      return node;
    };
    document.getElementById('legend').classList.toggle('many', runs.length > 4);
    document.getElementById('legend').replaceChildren(...runs.slice(0, kNamedInLegend).map(entry),
      ...(runs.length > kNamedInLegend ? [element('span', { class: 'soft' }, `and ${runs.length - kNamedInLegend} more`)] : []));
  }

  function notice(trouble) {
    const place = document.getElementById('notice'), runs = [...Data.shown.values()];
    const unread = runs.filter(run => run.progress < 1 && !run.trouble).length;
    const text = trouble ? `The server does not answer: ${trouble}`
      : !Data.info.isThere ? `The folder ${Data.info.folder} is gone; what was read of it is shown.`
      : runs.find(run => run.trouble)?.trouble
      ?? (unread ? `Reading the logs: ${Math.floor(100 * runs.reduce((sum, run) => sum + run.progress, 0) / runs.length)}%`
      : runs.length || !Data.info.complete ? '' : Data.runs.size ? 'Choose runs on the left.' : `No run below ${Data.info.folder} has written a log yet.`);
    place.textContent = text;
    place.hidden = !text;
  }

  // --------------------------------------------------------------------------------------------------------- fetching
  let generation = 0;  // of what is shown; replies for an older one are dropped

  // Reads what is stale, a few runs at a time, and long logs piece by piece.
  async function refresh() {
    const now = ++generation;
    const queue = [...Data.shown.values()].filter(run => run.isStale || run.progress < 1);
    const work = async () => {
      while (queue.length && now === generation) {
        const run = queue.shift();
        try {
          await Data.fetchCurves(run, state.x);
          if (view.zoom) await Data.fetchDetail(run, state.x, view.zoom);
          run.trouble = null;
          if (run.progress < 1) queue.push(run);
        } catch (error) {
          run.trouble = `${Details.nameOf(run)}: ${error.message}`;  // asked for again at the next look
          run.isStale = true;
        }
        if (now === generation) draw();
      }
    };
    await Promise.all(Array.from({ length: kParallel }, work));
  }

  async function poll() {
    try {
      const changed = await Data.pollRuns();
      Data.info.isConnected = true;
      if (!state.runs.length && Data.runs.size && !poll.hasChosen) {
        state.runs = [RunList.matches()[0]?.id].filter(Boolean);
        Data.show(state.runs);
      }
      poll.hasChosen ||= Data.runs.size > 0;
      for (const id of changed) if (Data.shown.has(id)) Data.shown.get(id).isStale = true;
      const isLive = changed.some(id => Data.shown.has(id));
      draw(changed.length > 0);
      await refresh();
      if (isLive || poll.isFirst !== false) await drawDetails(isLive && poll.isFirst === false);
      poll.isFirst = false;
      notice();
    } catch (error) {
      Data.info.isConnected = false;
      notice(error.message);
    }
  }

  // While the page is hidden nothing is asked for.
  async function follow() {
    if (!document.hidden) await poll();
    setTimeout(follow, Data.info.complete ? kPollMilliseconds : 300);
  }

  // ---------------------------------------------------------------------------------------------------------- details
  const ranks = element('figure', { class: 'wide', id: 'ranks', hidden: '' }), log = element('figure', { class: 'wide', id: 'log' }), recipe = element('section', {});
  let recipeOf = '', ranksOf = '', ranksAt = 0;
  async function drawDetails(isSame) {
    const ids = [...Data.shown.keys()], focus = state.focus && Data.shown.has(state.focus) ? state.focus : ids[0];
    document.getElementById('details').replaceChildren(...(focus ? [ranks, log, recipe] : []));
    if (!focus) return;
    const quietly = work => work.catch(() => {});  // what is wrong with a run is said above
    // Reading the logs of all ranks is the most that a look costs the machine of a run.
    const steps = state.x === 'step' ? view.zoom : null, wantedRanks = `${focus} ${steps}`;
    if (wantedRanks !== ranksOf || performance.now() - ranksAt > kRanksMilliseconds) {
      ranksOf = wantedRanks;
      ranksAt = performance.now();
      await quietly(Ranks.draw(ranks, focus, steps));
    }
    await quietly(Details.drawLog(log, focus));
    const wanted = `${ids.slice(0, 20).join()} ${focus}`;
    if (isSame && recipeOf === wanted) return;
    recipeOf = wanted;
    await quietly(Details.drawRecipe(recipe, [...new Set([...ids.slice(0, 20), focus])], focus));
    document.documentElement.dataset.details = 'drawn';
  }

  // ------------------------------------------------------------------------------------------------------------- hands
  async function onZoom() {
    state.zoom = view.zoom;
    State.write();
    document.getElementById('whole').hidden = view.zoom === null;
    const asked = performance.now();
    await Promise.all([...Data.shown.values()].map(run => Data.fetchDetail(run, state.x, view.zoom).catch(() => {})));
    fillCharts();
    document.documentElement.dataset.zoomMilliseconds = String(Math.round(performance.now() - asked));
    await drawDetails(true);
  }
  function onLog() {
    state.log = board.charts.filter(chart => chart.log).map(chart => chart.about.key);
    State.write();
  }
  async function onRuns() {
    State.write();
    Data.show(state.runs);
    for (const run of Data.shown.values()) run.isStale = true;
    draw();
    await refresh();
    await drawDetails(false);
  }
  Details.setFocus(id => { state.focus = id; State.write(); draw(); drawDetails(false); });

  function fillSettings() {
    const place = document.getElementById('settings');
    const whole = element('button', { type: 'button', id: 'whole', ...(state.zoom ? {} : { hidden: '' }) }, 'whole run');
    whole.addEventListener('click', () => board.zoomTo(null));
    const axis = Charts.select('over', [['steps', 'step'], ['tokens', 'tokens'], ['time', 'time']], state.x, value => {
      state.x = view.x = value;
      state.zoom = view.zoom = null;
      whole.hidden = true;
      onRuns();
    });
    const smoothing = Charts.select('smoothing', [['none', 0], ['light', 0.01], ['strong', 0.04], ['most', 0.15]], state.smoothing, value => {
      state.smoothing = view.smoothing = +value;
      State.write();
      fillCharts();
    });
    place.replaceChildren(whole, axis, smoothing, Charts.themeButton(theme => {
      try { localStorage.setItem('theme', theme); } catch { /* private windows may have no storage */ }
      Ranks.paint();
    }));
  }

  function applyState() {
    Object.assign(view, { x: state.x, smoothing: state.smoothing, zoom: state.zoom });
    for (const chart of board.charts) chart.setLog(state.log.includes(chart.about.key));
    Data.show(state.runs);
    fillSettings();
  }

  if (new URLSearchParams(location.search).has('token')) history.replaceState(null, '', location.pathname + location.hash);
  try { document.documentElement.dataset.theme = localStorage.getItem('theme') || ''; } catch { /* as above */ }
  for (const [key, title, unit] of charts) {
    const chart = board.add({ key, title, unit, series: [] });
    chart.figure.hidden = true;
    observer.observe(chart.figure);
  }
  RunList.start(onRuns);
  applyState();
  State.onChange(() => { applyState(); onRuns(); });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) poll(); });
  follow();
})();
