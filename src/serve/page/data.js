// The runs that the server has, and the curves of those that are shown. Curves grow: a reply has the groups that are new.
const Data = (() => {
  const runs = new Map();    // by id, as /api/runs describes them
  const shown = new Map();   // by id: { id, slot, curves, detail, about, generation, progress }
  const info = { version: 0, folder: '', isThere: true, complete: false, now: Date.now() / 1000, isConnected: true };

  async function get(path, words = {}) {
    const response = await fetch(`${path}?${new URLSearchParams(words)}`, { cache: 'no-store' });
    if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
    return response.json();
  }

  // Returns the ids of the runs that changed.
  async function pollRuns() {
    const reply = await get('api/runs', { since: info.version });
    if (reply.version < info.version) {  // the server started again
      info.version = 0;
      return pollRuns();
    }
    Object.assign(info, { version: reply.version, folder: reply.folder, isThere: reply.is_there, complete: reply.complete, now: reply.now });
    for (const run of reply.runs) run.gone ? runs.delete(run.id) : runs.set(run.id, run);
    for (const run of reply.runs) if (run.gone && shown.has(run.id)) shown.get(run.id).isGone = true;
    return reply.runs.map(run => run.id);
  }

  function show(ids) {
    for (const id of [...shown.keys()]) if (!ids.includes(id)) shown.delete(id);
    const taken = new Set([...shown.values()].map(run => run.slot));
    for (const id of ids) {
      if (shown.has(id)) continue;
      let slot = 0;
      while (taken.has(slot)) ++slot;
      taken.add(slot);
      shown.set(id, { id, slot, curves: {}, detail: null, about: null, generation: 0, progress: 0, isStale: true });
    }
  }

  const pointsFor = count => Math.round(Math.min(700, Math.max(120, 4000 / Math.max(1, count))));

  // Puts the groups of a reply after those that are there.
  function joined(old, fresh) {
    if (!fresh.continues || !old) return fresh;
    const first = fresh.steps[0];
    let kept = old.steps.length;
    while (kept > 0 && old.steps[kept - 1] >= first) --kept;
    const series = { ...fresh };
    for (const name of ['steps', 'values', 'low', 'high', 'x'])
      if (fresh[name]) series[name] = old[name].slice(0, kept).concat(fresh[name]);
    series.nonfinite = [...new Set([...(old.nonfinite || []), ...(fresh.nonfinite || [])])];
    return series;
  }

  async function fetchCurves(run, axis) {
    const have = Object.entries(run.axis === axis ? run.curves : {}).filter(([, series]) => series.steps.length > 1)
      .map(([key, series]) => `${key}:${series.group}:${series.steps[series.steps.length - 1]}`).join(',');
    const reply = await get('api/series', { run: run.id, points: pointsFor(shown.size), x: axis, generation: run.generation, have });
    const old = run.curves;
    run.curves = {};
    for (const [key, fresh] of Object.entries(reply.series)) run.curves[key] = joined(old[key], fresh);
    Object.assign(run, { axis, generation: reply.generation, progress: reply.progress, about: reply.about, isStale: false });
  }

  // The steps of a run between two positions on the axis.
  function stepsBetween(run, axis, [from, to]) {
    if (axis === 'step') return [Math.max(0, Math.floor(from)), Math.ceil(to)];
    const curve = Object.values(run.curves).reduce((a, b) => !a || b.steps.length > a.steps.length ? b : a, null);
    if (!curve?.x) return null;
    const first = curve.x.findLastIndex(x => x <= from), last = curve.x.findIndex(x => x >= to);
    return [curve.steps[Math.max(0, first)], last < 0 ? curve.steps[curve.steps.length - 1] : curve.steps[last]];
  }

  async function fetchDetail(run, axis, zoom) {
    const steps = zoom && stepsBetween(run, axis, zoom);
    if (!steps) { run.detail = null; return; }
    const reply = await get('api/series', { run: run.id, points: pointsFor(shown.size), x: axis, from: steps[0], to: Math.max(0, steps[1]) });
    run.detail = reply.series;
  }

  return { runs, shown, info, get, pollRuns, show, fetchCurves, fetchDetail };
})();
