// The compared strategies as time against memory, and the result of the search.
'use strict';

const kSvg = 'http://www.w3.org/2000/svg';
function shape(tag, attributes, ...children) {
  const element = document.createElementNS(kSvg, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Returns the ticks of a logarithmic scale: 1, 2 and 5 times powers of ten.
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
  let labelled = -Infinity;  // position of the last label: the next one needs some distance
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
    shape('text', {x: 4, y: height - 8}, '↑ step time'));
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
  const nearEdge = x(own.memory_bytes) > width - 90;
  svg.append(shape('text', {x: x(own.memory_bytes) + (nearEdge ? -12 : 12), y: y(own.iteration_s) + 4, 'text-anchor': nearEdge ? 'end' : 'start', style: 'fill: var(--ink); font-weight: 600'}, 'this plan'));
  byId('front').replaceChildren(svg);
}

function showStrategies() {
  const points = plan.strategies.points;
  if (!points.length) {
    byId('strategies-note').hidden = true;
    fill('front', empty(plan.strategies.why_none ? `No strategy to compare with: ${plan.strategies.why_none}`
      : 'No strategy was compared. To compare some for ten seconds, run `tandem report plan.json -o page.html --compare 10`.'));
    return;
  }
  const front = points.filter((p) => p.front).length;
  byId('strategies-note').textContent = `${plural(points.length, 'known strategy', 'known strategies')} on the same machine, one dot each: lower is faster, further left needs less memory. `
    + (plan.strategies.untried > 0 ? `${plan.strategies.untried} more were not evaluated in the time limit. ` : '')
    + `The line is the Pareto front of ${front}. Hollow dots do not fit. Both axes are logarithmic.`;
  drawFront();
  addEventListener('resize', () => { clearTimeout(drawFront.wait); drawFront.wait = setTimeout(drawFront, 150); });
  const best = [...points].sort((a, b) => b.feasible - a.feasible || a.iteration_s - b.iteration_s).slice(0, 12);
  fill('strategy-table', make('h3', null, 'Fastest strategies'), table(['', ['step time'], ['vs plan'], ['memory']], best.map((p) => [
    make('span', null, breakable(p.name), make('div', {class: 'sub'}, p.feasible ? (p.front ? 'on the Pareto front' : '') : 'does not fit')),
    [seconds(p.iteration_s)], [`${(p.iteration_s / head.iteration_s).toFixed(2)} ×`], [bytes(p.memory_bytes)]])));
}

const kStops = {
  done: 'The search was complete.',
  beam: 'The search was complete, but dropped some layouts because the graph is far from series-parallel.',
  budget: 'The search reached its time limit.',
  candidates: 'The search reached its limit of candidates.',
  interrupted: 'The search was interrupted; this is the best plan until then.',
  fits: 'The search stopped at the first plan that fits.',
};

function showSearch() {
  const s = plan.search;
  if (!s) {
    fill('found-how', empty('This page was made from a plan file, which does not record the search. ',
      make('code', null, `tandem plan ${head.model} --machine ${head.machine} --report page.html`), ' makes a page with the search.'));
    return;
  }
  const rows = [['Candidates', `${s.simulated} simulated` + (s.estimated ? `, ${s.estimated} estimated` : '')], ['Time', seconds(s.seconds)],
    ['Ended', kStops[s.stop_reason] || s.stop_reason]];
  if (s.runner_up) {
    rows.push(['Runner-up', `${s.runner_up.strategy}: ${seconds(s.runner_up.iteration_s)}, ${(s.runner_up.iteration_s / head.iteration_s).toFixed(3)} × the plan’s time, ${bytes(s.runner_up.memory_bytes)}`]);
  }
  const bound = s.lower_bound_s;
  rows.push(['Lower bound', bound ? `${seconds(bound)} for ${s.bound_scope}: optimality gap ${(100 * (head.iteration_s / bound - 1)).toFixed(1)} %.`
    : 'No lower bound is known for this search.']);
  const list = make('dl', {class: 'facts'}, rows.map(([term, text]) => [make('dt', null, term), make('dd', null, text)]));
  const bars = [['this plan', head.iteration_s, true]];
  if (s.runner_up) bars.push([s.runner_up.strategy, s.runner_up.iteration_s]);
  if (bound) bars.push(['lower bound', bound]);
  const longest = Math.max(...bars.map((b) => b[1]));
  fill('found-how', list, make('div', {class: 'bars'}, bars.map(([name, time, mine]) => [make('span', {class: 'name'}, breakable(name)),
    make('span', {class: 'rule' + (mine ? ' mine' : ''), style: {width: 100 * time / longest + '%'}}), make('span', {class: 'amount'}, seconds(time))])));
}
