'use strict';
// The charts, legend and settings of a report, from the JSON in the page. Nothing is fetched.
(() => {
  const { element, button, swatch } = Charts;
  const data = JSON.parse(document.getElementById('data').textContent);
  const board = new Charts.Board(document.getElementById('charts'), data.runs, what => {
    if (what === 'zoom') document.getElementById('whole').hidden = board.view.zoom === null;
  });
  const view = board.view;

  function fillLegend() {
    const legend = document.getElementById('legend');
    data.runs.forEach((run, i) => {
      const entry = button('', `show ${run.name}`, true, on => { on ? view.hidden.delete(i) : view.hidden.add(i); board.drawAll(); });
      entry.append(swatch(i), element('span', { title: run.name }, run.name));
      legend.append(entry);
    });
    legend.hidden = data.runs.length < 2;
  }

  function fillSettings() {
    const place = document.getElementById('settings');
    const whole = element('button', { type: 'button', id: 'whole', hidden: '' }, 'whole run');
    whole.addEventListener('click', () => board.zoomTo(null));
    place.append(whole);
    if (data.runs.every(run => run.tokens_per_step))
      place.append(Charts.select('over', [['steps', 'step'], ['tokens', 'tokens']], 'step', value => { view.x = value; board.zoomTo(null); }));
    place.append(Charts.select('smoothing', [['none', 0], ['light', 5], ['strong', 30]], 0, value => { view.smoothing = +value; board.drawAll(); }));
    place.append(Charts.themeButton());
  }

  fillLegend();
  fillSettings();
  for (const description of data.charts) board.add(description);
  board.drawAll();
  document.documentElement.dataset.drawn = String(board.charts.length);  // for tests: the script has finished
})();
