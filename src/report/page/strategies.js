// What the plan was compared with, as time against memory, and how the search went.
'use strict';

const kSvg = 'http://www.w3.org/2000/svg';
function shape(tag, attributes, ...children) {
  const element = document.createElementNS(kSvg, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Ticks of a scale with logarithms: 1, 2, 5 times powers of ten.
function logTicks(low, high) {
  const all = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p) {
    for (const m of [1, 2, 5]) if (m * 10 ** p >= low && m * 10 ** p <= high) all.push(m * 10 ** p);
  }
  return all.length > 7 ? all.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9) : all;
}

function drawFront() {
  const points = plan.strategies.points;
  const limit = why.memory_limit_bytes;
  const own = {name: 'this plan', iteration_s: head.iteration_s, memory_bytes: peakBytes(), feasible: why.feasible};
  const width = Math.max(300, byId('front').clientWidth);
  const height = width < 500 ? 300 : 380;
  const edge = {left: 62, right: 16, top: 14, bottom: 40};
  const all = [...points, own];
  const range = (key, more) => {
    const values = all.map((p) => p[key]).concat(more).filter((v) => v > 0);
    return [Math.min(...values) / 1.15, Math.max(...values) * 1.15];
  };
  const [x0, x1] = range('memory_bytes', [limit]);
  const [y0, y1] = range('iteration_s', []);
  const place = (v, low, high, from, to) => from + (Math.log(v) - Math.log(low)) / (Math.log(high) - Math.log(low)) * (to - from);
  const x = (v) => place(v, x0, x1, edge.left, width - edge.right);
  const y = (v) => place(v, y0, y1, height - edge.bottom, edge.top);
  const svg = shape('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Time against memory of ${points.length} strategies and the plan`});
  let labelled = -Infinity;  // a label has room where the last one is far enough to the left
  for (const v of logTicks(x0, x1)) {
    svg.append(shape('line', {class: 'axis', x1: x(v), x2: x(v), y1: edge.top, y2: height - edge.bottom}));
    if (x(v) - labelled < 52) continue;
    labelled = x(v);
    svg.append(shape('text', {x: x(v), y: height - edge.bottom + 16, 'text-anchor': 'middle'}, bytes(v)));
  }
  for (const v of logTicks(y0, y1)) {
    svg.append(shape('line', {class: 'axis', x1: edge.left, x2: width - edge.right, y1: y(v), y2: y(v)}),
      shape('text', {x: edge.left - 8, y: y(v) + 4, 'text-anchor': 'end'}, seconds(v)));
  }
  svg.append(shape('text', {x: width - edge.right, y: height - 8, 'text-anchor': 'end'}, 'memory of the fullest device →'),
    shape('text', {x: 4, y: height - 8}, '↑ time of a step'));
  if (limit > x0 && limit < x1) {
    svg.append(shape('rect', {x: x(limit), y: edge.top, width: Math.max(0, width - edge.right - x(limit)), height: height - edge.top - edge.bottom, style: 'fill: var(--limit); opacity: .06'}),
      shape('line', {x1: x(limit), x2: x(limit), y1: edge.top, y2: height - edge.bottom, style: 'stroke: var(--limit); stroke-dasharray: 6 4'}),
      shape('text', {x: x(limit) - 6, y: edge.top + 12, 'text-anchor': 'end', style: 'fill: var(--limit)'}, `limit ${bytes(limit)}`));
  }
  const front = points.filter((p) => p.front).sort((a, b) => a.memory_bytes - b.memory_bytes);
  if (front.length > 1) {
    svg.append(shape('path', {d: 'M' + front.map((p, i) => (i ? `H${x(p.memory_bytes)}V${y(p.iteration_s)}` : `${x(p.memory_bytes)} ${y(p.iteration_s)}`)).join(''),
      style: 'fill: none; stroke: var(--soft); stroke-width: 1.3; opacity: .7'}));
  }
  const dot = (p, mine) => {
    const style = mine ? 'fill: var(--compute); stroke: var(--paper); stroke-width: 2'
      : p.feasible ? `fill: var(--${p.front ? 'soft' : 'faint'}); opacity: ${p.front ? 1 : 0.55}` : 'fill: none; stroke: var(--faint); opacity: .7';
    const element = shape('circle', {class: 'dot', cx: x(p.memory_bytes), cy: y(p.iteration_s), r: mine ? 7.5 : p.front ? 4.5 : 3.5, style});
    element.addEventListener('pointermove', (event) => showTip(event.clientX, event.clientY, make('b', null, p.name),
      tipRow(`${seconds(p.iteration_s)}, ${bytes(p.memory_bytes)}`), tipRow(p.feasible ? `${(p.iteration_s / own.iteration_s).toFixed(2)} × the plan’s time` : 'does not fit')));
    element.addEventListener('pointerleave', hideTip);
    return element;
  };
  svg.append(...points.map((p) => dot(p, false)), dot(own, true));
  svg.append(shape('text', {x: x(own.memory_bytes) + 12, y: y(own.iteration_s) + 4, style: 'fill: var(--ink); font-weight: 600'}, 'this plan'));
  byId('front').replaceChildren(svg);
}

function showStrategies() {
  const points = plan.strategies.points;
  if (!points.length) {
    byId('strategies-note').hidden = true;
    fill('front', empty(plan.strategies.why_none ? `There is nothing to compare with: ${plan.strategies.why_none}`
      : 'No strategy was compared. `tandem report plan.json -o page.html --compare 10` takes ten seconds to do that.'));
    return;
  }
  const front = points.filter((p) => p.front).length;
  byId('strategies-note').textContent = `${plural(points.length, 'known strategy', 'known strategies')} on the same machine, each a dot: further down is faster, further left is smaller. `
    + (plan.strategies.untried > 0 ? `For ${plan.strategies.untried} more there was no time. ` : '')
    + `The line joins the ${front} that no other beats in both. Rings do not fit. Both axes are logarithmic.`;
  drawFront();
  addEventListener('resize', () => { clearTimeout(drawFront.wait); drawFront.wait = setTimeout(drawFront, 150); });
  const best = [...points].sort((a, b) => b.feasible - a.feasible || a.iteration_s - b.iteration_s).slice(0, 12);
  fill('strategy-table', make('h3', null, 'The fastest of them'), table(['', ['a step'], ['of the plan’s'], ['memory']], best.map((p) => [
    make('span', null, p.name.replace(/[,:]/g, '$&\u200b'), make('div', {class: 'sub'}, p.feasible ? (p.front ? 'on the line' : '') : 'does not fit')),
    [seconds(p.iteration_s)], [`${(p.iteration_s / head.iteration_s).toFixed(2)} ×`], [bytes(p.memory_bytes)]])));
}

const kStops = {
  done: 'It looked at all there was to look at.',
  beam: 'It looked at all there was; of layouts some had to be dropped unseen, as the graph is far from series-parallel.',
  budget: 'It stopped as its time was up.',
  candidates: 'It stopped at the number of candidates it was allowed.',
  interrupted: 'It was interrupted, and this is the best until then.',
  fits: 'It stopped at the first plan that fits.',
};

function showSearch() {
  const s = plan.search;
  if (!s) {
    fill('found-how', empty('This page was made from a plan file, which does not tell how its plan was found. ',
      make('code', null, `tandem plan ${head.model} --machine ${head.machine} --report page.html`), ' makes one that does.'));
    return;
  }
  const rows = [['Candidates', `${s.simulated} simulated` + (s.estimated ? `, ${s.estimated} estimated` : '')], ['Time', seconds(s.seconds)],
    ['Ended', kStops[s.stop_reason] || s.stop_reason]];
  if (s.runner_up) {
    rows.push(['Next best', `${s.runner_up.strategy}: ${seconds(s.runner_up.iteration_s)}, ${(s.runner_up.iteration_s / head.iteration_s).toFixed(3)} × the plan’s time, ${bytes(s.runner_up.memory_bytes)}`]);
  }
  const bound = s.lower_bound_s;
  rows.push(['Lower bound', bound ? `${seconds(bound)} for ${s.bound_scope}: the plan is ${(100 * (head.iteration_s / bound - 1)).toFixed(1)} % above it.`
    : 'None is known for this search.']);
  const list = make('dl', {class: 'facts'}, rows.map(([term, text]) => [make('dt', null, term), make('dd', null, text)]));
  const bars = [['this plan', head.iteration_s, true]];
  if (s.runner_up) bars.push([s.runner_up.strategy, s.runner_up.iteration_s]);
  if (bound) bars.push(['lower bound', bound]);
  const longest = Math.max(...bars.map((b) => b[1]));
  fill('found-how', list, make('div', {class: 'bars'}, bars.map(([name, time, mine]) => [make('span', {class: 'name', title: name}, name),
    make('span', {class: 'rule' + (mine ? ' mine' : ''), style: {width: 100 * time / longest + '%'}}), make('span', {class: 'amount'}, seconds(time))])));
}
