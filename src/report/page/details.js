// The panel next to the graph: the facts of the selected node.
'use strict';

function passRow(label, pass, longest) {
  if (!pass) return null;
  const bound = pass.bound_by ? make('div', {class: 'sub'},
    `bound by ${pass.bound_by}: compute ${seconds(pass.compute_s)} (${flops(pass.flops)}), memory ${seconds(pass.memory_s)} (${bytes(pass.bytes)}), launches ${seconds(pass.launch_s)}`) : '';
  const bar = make('div', {class: 'tablebar', style: {width: Math.max(2, 100 * pass.time_s / longest) + '%'}},
    make('i', {style: {flex: '1', background: 'var(--compute)'}}));
  return [make('span', null, label, bound), [make('span', null, seconds(pass.time_s), pass.times > 1 ? make('div', {class: 'sub'}, `${pass.times} times`) : '',
    pass.time_s > 0 ? bar : make('div', {class: 'sub'}, pass.times === 0 ? 'part of another kernel' : ''))]];
}

function tensorRow(label, tensor) {
  return make('div', {class: 'tensor'},
    make('div', {class: 'top'}, make('span', {class: 'mono'}, label), make('span', null, bytes(tensor.bytes_per_device))),
    make('div', null, make('span', {class: 'mono'}, `[${tensor.shape.join(', ')}]`), ` ${tensor.dtype}, per device `,
      make('span', {class: 'mono'}, `[${tensor.shape_per_device.join(', ')}]`)),
    make('div', {class: 'how'}, tensor.lies || 'not sharded'));
}

function nodeLinks(view, names) {
  const known = new Map(view.graph.name.map((n, i) => [n, i]));
  return names.slice(0, 12).map((name, i) => [i ? ', ' : '', known.has(name)
    ? make('button', {class: 'link', type: 'button', onclick: () => selection.set(known.get(name), 'details')}, name) : name])
    .concat(names.length > 12 ? [` and ${names.length - 12} more`] : []);
}

function plainDetails(view, node) {
  const g = view.graph;
  return [make('div', {class: 'name'}, g.name[node]), make('div', {class: 'sub'}, `${view.opOf(node)} ${view.textOf('type', 'types', node)}`),
    make('p', {class: 'doc'}, g.facts ? 'No more is known of this node: it is part of another operator.' : 'Node of the model, before rewrites.')];
}

// Returns the rule and the step of the derivation that made a node of a rewritten graph.
function madeBy(g, node) {
  if (!g.rules[node]) return [make('p', {class: 'sub'}, 'Node of the model: no rewrite made this node.')];
  const [rule, step] = g.rules[node];
  return [make('p', {class: 'made-by'}, 'Made by rule ', make('b', null, rule), `, step ${step} of ${g.steps} of the derivation:`),
    make('p', {class: 'doc'}, make('code', null, g.rule_texts[rule] || ''))];
}

function details(view, node) {
  const f = view.factsOf(node);
  if (!f) return plainDetails(view, node);
  const g = view.graph;
  const stored = g.source[node] !== '';
  const out = [make('div', {class: 'name'}, g.name[node]),
    make('div', {class: 'sub'}, [stored ? g.source[node] : f.op, f.attributes].filter(Boolean).join(' '),
      plan.explanation.schedule.stages > 1 && !stored ? ` · stage ${g.stage[node] + 1} of ${plan.explanation.schedule.stages}` : '',
      f.alike > 1 ? ` · one of ${f.alike} equivalent nodes` : '')];
  if (f.name !== g.name[node]) out.push(make('p', {class: 'doc'}, `Equivalent to ${f.name}, whose figures are shown.`));
  if (f.doc && !stored) out.push(make('p', {class: 'doc'}, make('code', null, f.doc)));
  if (g.steps && !stored) out.push(...madeBy(g, node));

  const passes = [['forward', f.forward], ['recompute', f.recompute], ['backward', f.backward], ['update', f.update]];
  const longest = Math.max(1e-15, ...passes.map((p) => p[1] ? p[1].time_s : 0));
  const rows = passes.map((p) => passRow(p[0], p[1], longest)).filter(Boolean);
  if (rows.length) out.push(make('h3', null, 'Time on one device, per step'), table(['', ['']], rows));

  out.push(make('h3', null, stored ? 'Placement on each machine level' : 'Work of each machine level'),
    make('ul', null, f.levels.map((l) => make('li', null, make('b', null, plural(l.count, l.level)), ': ' + l.does.join('; ')))));

  out.push(make('h3', null, 'Communication, per device and step'));
  out.push(f.communication.length ? make('div', null, f.communication.map((t) => make('div', {class: 'tensor'},
    make('div', {class: 'top'}, chip(t.kind, t.backward), make('span', null, seconds(t.time_s))),
    make('div', null, t.what.replace(/^\w+ of /, 'of ')),
    make('div', {class: 'how'}, `${t.backward ? 'backward' : 'forward'}, over ${t.over}, ${bytes(t.bytes)}${t.times > 1 ? `, ${t.times} times` : ''}, `
      + (t.exposed_s > 0 ? `${seconds(t.exposed_s)} exposed` : 'overlapped'))))) : make('p', {class: 'sub'}, 'None.'));

  out.push(make('h3', null, 'Tensors'), ...f.operands.map((t) => tensorRow(t.name, t)), tensorRow(stored ? g.name[node] : 'result', f.result));
  if (f.optimizer_state_bytes > 0) {
    out.push(make('div', {class: 'tensor'}, make('div', {class: 'top'}, 'optimizer state', make('span', null, bytes(f.optimizer_state_bytes)))));
  }
  if (!stored) {
    const needs = f.needed_backward.map((k) => `${k.name} (${bytes(k.bytes)}${k.recomputed ? ', recomputed or regathered' : ''})`);
    out.push(make('h3', null, 'Backward pass'), make('p', null, needs.length ? 'It reads ' + needs.join(', ') + '. ' : 'It reads no saved tensor. ',
      f.result_recomputed ? 'Its result is recomputed.' : f.result_saved_for.length ? `Its result is saved for the backward pass of ${f.result_saved_for.slice(0, 4).join(', ')}${f.result_saved_for.length > 4 ? ', …' : ''}.` : ''));
  }
  if (f.users.length) out.push(make('h3', null, 'Read by'), make('p', null, nodeLinks(view, f.users)));
  return out;
}

function startDetails(view) {
  const show = () => {
    const node = selection.node;
    fill('details', node === null ? [make('div', {class: 'name'}, 'Nothing selected'),
      make('p', {class: 'doc'}, 'Select a node of the graph or a task of the timeline to see its time, its communication, and the placement of its tensors.'),
      make('h3', null, 'Slowest operators'),
      make('p', null, nodeLinks(view, plan.explanation.slowest_operators.map((o) => {
        const pattern = new RegExp('^' + o.name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace('\\*', '\\d+') + '$');
        return view.graph.name.find((n) => pattern.test(n)) || o.name;
      })))] : details(view, node));
    byId('details').scrollTop = 0;
  };
  selection.listeners.push(show);
  show();
}
