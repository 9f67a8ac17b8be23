// What the user chose, kept in the address, so that a link shows the same to others.
const State = (() => {
  const state = { runs: [], focus: null, x: 'step', smoothing: 0, zoom: null, log: [], search: '', order: 'newest' };
  let heard = () => {};

  function read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const list = name => (words.get(name) || '').split(',').filter(Boolean);
    state.runs = list('runs').filter(id => /^[0-9a-f]{12}$/.test(id));
    state.focus = state.runs.includes(words.get('focus')) ? words.get('focus') : null;
    state.x = ['step', 'tokens', 'time'].includes(words.get('x')) ? words.get('x') : 'step';
    state.smoothing = [0.01, 0.04, 0.15].find(share => String(share) === words.get('smoothing')) || 0;
    const zoom = (words.get('zoom') || '').split('~').map(Number);
    state.zoom = zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null;
    state.log = list('log');
    state.search = words.get('search') || '';
    state.order = ['newest', 'name', 'loss'].includes(words.get('order')) ? words.get('order') : 'newest';
  }

  function write() {
    const words = new URLSearchParams();
    if (state.runs.length) words.set('runs', state.runs.join(','));
    if (state.focus) words.set('focus', state.focus);
    if (state.x !== 'step') words.set('x', state.x);
    if (state.smoothing) words.set('smoothing', state.smoothing);
    if (state.zoom) words.set('zoom', state.zoom.map(edge => +edge.toPrecision(8)).join('~'));
    if (state.log.length) words.set('log', state.log.join(','));
    if (state.search) words.set('search', state.search);
    if (state.order !== 'newest') words.set('order', state.order);
    history.replaceState(null, '', '#' + words.toString().replaceAll('%2C', ',').replaceAll('%7E', '~'));
  }

  addEventListener('hashchange', () => { read(); heard(); });
  read();
  return { state, write, onChange: listener => { heard = listener; } };
})();
