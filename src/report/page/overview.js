// The overview: the job, the time of a step and its parts, and the comparison with other strategies.
'use strict';

const head = plan.headline;
const why = plan.explanation;

function figure(label, value, unit, ...more) {
  return make('div', {class: 'figure'}, make('div', {class: 'label'}, label),
    make('div', {class: 'value'}, value, ' ', make('small', null, unit)), make('div', {class: 'more'}, more));
}
// Splits a quantity into number and unit: "26.9 s" -> ["26.9", "s"].
function split(text) {
  const at = text.indexOf(' ');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function peakBytes() {
  const peak = why.memory_at_peak;
  return kMemory.reduce((sum, kind) => sum + peak[kind + '_bytes'], 0) + peak.unused_bytes;
}

// Memory use from which little room is left for what a prediction does not know.
const kNearlyFull = 0.95;

function showFigures() {
  const used = peakBytes();
  const limit = why.memory_limit_bytes;
  const state = used > limit ? ' over' : used > kNearlyFull * limit ? ' near' : '';
  const gauge = make('div', {class: 'gauge' + state}, make('i', {style: {width: Math.min(100, 100 * used / limit) + '%'}}));
  const rate = head.tokens_per_s ? [head.tokens_per_s, 'tokens/s'] : [head.throughput, 'samples/s'];
  fill('figures',
    figure('Step time', ...split(seconds(head.iteration_s)), head.bubble_s > 0.005 * head.iteration_s
      ? percent(head.bubble_s, head.iteration_s) + ' stall' : 'on the busiest device'),
    figure('Throughput', count(rate[0] / head.devices), rate[1] + '/GPU', `${count(rate[0])} ${rate[1]} in all, batch ${head.batch}`),
    figure('MFU', (100 * head.mfu).toFixed(1), '%', 'of the peak of all devices'),
    figure('Memory', ...split(bytes(used)), gauge, state ? make('b', null, state === ' over' ? 'does not fit: ' : 'nearly full: ') : '',
      `${percent(used, limit)} of ${bytes(limit)} per device`));
}

// Shows the plan as settings of the frameworks that can run it, each with a button to copy them.
function showConfiguration() {
  const all = plan.configurations || [];
  byId('configuration-block').hidden = !all.length;
  if (!all.length) return;
  const text = make('pre', {class: 'configuration', tabindex: 0});
  const note = make('p', {class: 'note'});
  const copy = make('button', {type: 'button', onclick: async () => {
    let done = true;
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch (e) {  // no permission: select the text instead
      getSelection().selectAllChildren(text);
      done = document.execCommand('copy');
    }
    copy.textContent = done ? 'Copied' : 'Press Ctrl+C';
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  }}, 'Copy');
  const buttons = all.map((one) => make('button', {type: 'button', onclick: () => choose(one)}, one.name));
  const choose = (chosen) => {
    buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(all[i] === chosen)));
    text.textContent = chosen.text || '';
    text.hidden = copy.hidden = !chosen.text;
    note.textContent = [chosen.why_not ? `Cannot express this plan: ${chosen.why_not}` : '', ...(chosen.notes || [])].filter(Boolean).join(' ');
    note.hidden = !note.textContent;
  };
  fill('configuration', make('div', {class: 'tools'}, make('span', {class: 'segments'}, buttons), make('span', {class: 'space'}), copy), text, note);
  choose(all.find((one) => one.text) || all[0]);
}

// Returns the parts of the iteration: compute, exposed communication by kind, and stall.
function stepParts() {
  const parts = [];
  for (const kind of kReported) {
    const own = why.breakdown[kind];
    if (!own) continue;
    const computes = kind === 'compute' || kind === 'embedding';
    const time = computes ? own.serialized_s : own.exposed_s;
    if (time > 0) parts.push({kind, time, text: computes ? kindText(kind) : 'exposed ' + kindText(kind)});
  }
  if (head.bubble_s > 0) parts.push({kind: 'idle', time: head.bubble_s, text: 'stall'});
  return parts;
}
function showStep() {
  const parts = stepParts();
  const whole = parts.reduce((sum, p) => sum + p.time, 0);
  const bar = make('div', {class: 'stack', role: 'img', 'aria-label': parts.map((p) => `${p.text} ${percent(p.time, whole)}`).join(', ')},
    parts.map((p) => make('i', {class: p.kind === 'idle' ? 'hatched' : '', title: `${p.text}: ${seconds(p.time)}`,
      style: {flex: `${p.time / whole * 1000} 0 0`, background: `var(--${p.kind})`}})));
  const keys = make('div', {class: 'keys'}, parts.map((p) => make('span', null, swatch(`var(--${p.kind})`), p.text + ' ',
    make('b', null, seconds(p.time)), ' ' + percent(p.time, whole))));
  fill('step-bar', bar, keys);
}

// Returns a strategy's name with places to break lines.
function breakable(name) { return name.replace(/[,:]/g, '$&\u200b'); }

// Returns the best strategy of each family, with the search's own figures if it has any.
function familyRows() {
  const rows = new Map();
  const add = (row) => {
    const before = rows.get(row.family);
    const better = !before || (row.feasible !== before.feasible ? row.feasible : row.iteration_s < before.iteration_s);
    if (better) rows.set(row.family, row);
  };
  if (plan.strategies.baselines.length) {
    for (const b of plan.strategies.baselines) add({name: b.strategy, ...b});
  } else {
    for (const p of plan.strategies.points) add(p);
  }
  return [...rows.values()].sort((a, b) => b.feasible - a.feasible || a.iteration_s - b.iteration_s);
}
function showBaselines() {
  const rows = familyRows();
  if (!rows.length) {
    fill('baselines', empty(plan.strategies.why_none
      ? `No strategy to compare with: ${plan.strategies.why_none}`
      : 'No strategy was compared. To compare some, run `tandem report plan.json -o page.html --compare 10`.'));
    return;
  }
  const own = {name: head.strategy === 'search' ? 'this plan' : head.strategy, feasible: why.feasible, iteration_s: head.iteration_s, mine: true};
  const others = rows.filter((r) => r.name !== head.strategy).slice(0, 9);
  const longest = Math.max(own.iteration_s, ...others.filter((r) => r.feasible).map((r) => r.iteration_s));
  const row = (r) => {
    const times = r.iteration_s / own.iteration_s;
    return [
      make('span', {class: 'name' + (r.feasible ? '' : ' no'), style: {'font-weight': r.mine ? 600 : 400}}, breakable(r.name)),
      make('span', {class: 'rule' + (r.mine ? ' mine' : r.feasible ? '' : ' no'), style: {width: (r.feasible ? 100 * r.iteration_s / longest : 100) + '%'}}),
      make('span', {class: 'amount'}, r.feasible ? seconds(r.iteration_s) + (r.mine ? '' : `  ${times.toFixed(2)} ×`) : 'does not fit')];
  };
  fill('baselines', make('div', {class: 'bars'}, [own, ...others].map(row)));
}

function showKinds() {
  const longest = Math.max(...kReported.map((k) => (why.breakdown[k] || {serialized_s: 0}).serialized_s), 1e-12);
  const rows = [];
  for (const kind of kReported) {
    const own = why.breakdown[kind];
    if (!own || !(own.serialized_s > 0)) continue;
    const computes = kind === 'compute' || kind === 'embedding';
    const exposed = computes ? own.serialized_s : own.exposed_s;
    const bar = make('div', {class: 'tablebar', style: {width: Math.max(1, 100 * own.serialized_s / longest) + '%'}},
      make('i', {style: {flex: `${exposed / longest * 1000} 0 0`, background: `var(--${kind})`}}),
      computes ? '' : make('i', {style: {flex: `${own.overlapped_s / longest * 1000} 0 0`, background: `var(--${kind})`, opacity: 0.35}}));
    rows.push([make('span', null, swatch(`var(--${kind})`), kindText(kind)), bar, [seconds(own.serialized_s)],
      [computes ? '' : own.exposed_s > 0 ? seconds(own.exposed_s) : 'none']]);
  }
  fill('kinds', table(['', '', ['total'], ['exposed']], rows));
}

function showSlowest() {
  const rows = why.slowest_operators.map((o) => [
    make('span', null, o.count > 1 ? `${o.name} ` : o.name, o.count > 1 ? make('span', {class: 'sub'}, `× ${o.count}`) : '', make('div', {class: 'sub'}, o.op)),
    [seconds(o.time_s)], [percent(o.time_s, head.compute_s)]]);
  fill('slowest', rows.length ? table(['', ['per step'], ['of compute']], rows) : empty('No task computes.'));
}

function showExposed() {
  const rows = why.most_exposed.filter((t) => t.exposed_s > 0).map((t) => [
    make('span', null, t.what, make('div', {class: 'sub'}, `over ${t.over}, ${plural(t.times, 'time')}, ${bytes(t.bytes)}`)),
    chip(t.kind), [seconds(t.serialized_s)], [seconds(t.exposed_s)]]);
  fill('exposed', rows.length ? table(['', '', ['total'], ['exposed']], rows)
    : empty('No communication is exposed.'));
}

function showOverview() {
  document.title = `${head.model} on ${head.machine} · Tandem`;
  byId('bar-title').textContent = `${head.model} on ${head.machine}`;
  byId('overview-title').textContent = `${head.model} on ${head.machine}`;
  byId('overview-run').textContent = [plural(head.devices, 'device'), `batch ${head.batch}`, head.seq ? `sequence ${head.seq}` : '',
    head.task, head.dtype, head.optimizer, `strategy ${head.strategy}`].filter(Boolean).join(' · ');
  byId('parallelism').textContent = head.parallelism || '';
  byId('bound').replaceChildren(why.bound_by ? 'Bound by ' + why.bound_by + '.' : '');
  showFigures();
  showConfiguration();
  showStep();
  showBaselines();
  showKinds();
  showSlowest();
  showExposed();
  const rules = why.rules && why.rules.length
    ? 'The graph is the model’s, rewritten by ' + why.rules.map((r) => r.times > 1 ? `${r.name} × ${r.times}` : r.name).join(', ') + '.'
    : 'The graph is the model’s, without rewrites.';
  fill('schedule', [...why.schedule.in_words, rules].map((s) => make('li', null, s)));
}
