// The machine: its devices by level, coloured by equivalence class or by the shard that they hold of
// the selected node's tensor.
'use strict';

class MachineView {
  constructor(graphView) {
    this.machine = plan.machine;
    this.graphView = graphView;
    this.strides = this.stridesOf();
    this.cells = [];
    this.board = new Board('machine-canvas', {draw: (c, w) => this.draw(c, w), height: (w) => this.layOut(w)});
    steer(this.board, {pan: () => {}, zoom: () => {}, fit: () => {}, click: () => {},
      hover: (p, event) => this.hover(p, event)});
    selection.listeners.push(() => { this.describe(); this.board.redraw(); });
    this.describe();
  }

  // Returns for each digit the difference in device number between neighbours in this digit.
  stridesOf() {
    const {digits} = this.machine;
    const strides = new Array(digits.length).fill(0);
    let stride = 1;
    for (let i = digits.length - 1; i >= 0; --i) {
      if (digits[i].level === null) continue;
      strides[i] = stride;
      stride *= digits[i].size;
    }
    return strides;
  }
  coordinate(device, digit) { return Math.floor(device / this.strides[digit]) % this.machine.digits[digit].size; }
  rank(device, digits) {
    return digits.reduce((sum, d) => sum * this.machine.digits[d].size + this.coordinate(device, d), 0);
  }
  classes() { return this.machine.class_digits.reduce((n, d) => n * this.machine.digits[d].size, 1); }
  stages() { return this.machine.stage_digits.reduce((n, d) => n * this.machine.digits[d].size, 1); }

  // --- Placement of devices -------------------------------------------------------------------

  // Nests boxes by level. The units of a level are in a row, or in several rows if they need more room.
  layOut(width) {
    const {levels} = this.machine;
    const room = width - 24;
    let best = null;
    for (let cell = 26; cell >= 2; cell -= cell > 8 ? 2 : 1) {
      best = this.boxes(0, cell, room);
      if (best.height <= 430 && best.width <= room) break;
    }
    this.cells = [];
    this.frames = [];
    this.place(0, best, 12, 26, 0);
    return best.height + 40 + (levels.length > 1 ? 4 : 0);
  }
  boxes(level, cell, room) {
    const {levels} = this.machine;
    if (level === levels.length) return {width: cell, height: cell};
    const inner = this.boxes(level + 1, cell, room);
    const isLast = level === levels.length - 1;
    const gap = isLast ? Math.max(1, Math.round(cell / 9)) : Math.max(3, Math.round(cell / 3));
    const pad = level === 0 ? 0 : Math.max(2, Math.round(cell / 4));
    const {count} = levels[level];
    const columns = level === 0 ? Math.max(1, Math.min(count, Math.floor((room + gap) / (inner.width + gap))))
      : count <= 4 ? count : Math.ceil(Math.sqrt(count * (isLast ? 2 : 1)));
    const rows = Math.ceil(count / columns);
    return {inner, gap, pad, columns, width: columns * (inner.width + gap) - gap + 2 * pad, height: rows * (inner.height + gap) - gap + 2 * pad};
  }
  place(level, box, x, y, first) {
    const {levels} = this.machine;
    if (level === levels.length) { this.cells.push({x, y, size: box.width, device: first}); return; }
    const below = levels.slice(level + 1).reduce((n, l) => n * l.count, 1);
    for (let u = 0; u < levels[level].count; ++u) {
      const at = {x: x + box.pad + (u % box.columns) * (box.inner.width + box.gap), y: y + box.pad + Math.floor(u / box.columns) * (box.inner.height + box.gap)};
      if (level < levels.length - 1) this.frames.push({...at, width: box.inner.width, height: box.inner.height, level});
      this.place(level + 1, box.inner, at.x, at.y, first + u * below);
    }
  }

  // --- Shards ---------------------------------------------------------------------------------

  // Returns the layout of the selected node's tensor, or null.
  layout() {
    const node = selection.node;
    const g = plan.graph;
    if (node === null || this.graphView.graph !== g || !g.layout) return null;
    return g.layouts[g.layout[node]] || null;
  }
  // Returns the shard of a device: {idle, dims: by dimension {index, of}, copies, partial, key, of}. Skips
  // digits of time, which do not tell devices apart.
  part(device, layout) {
    const out = {idle: false, dims: new Map(), copies: 1, partial: 1, key: 0, of: 1};
    for (let i = 0; i < layout.length; ++i) {
      const digit = this.machine.digits[i];
      if (digit.level === null) continue;
      const role = layout[i];
      const own = this.coordinate(device, i);
      if (role === 'r') out.copies *= digit.size;
      else if (role === 'p') out.partial *= digit.size;
      else if (/[0-9]/.test(role)) {
        const d = out.dims.get(role) || {index: 0, of: 1};
        d.index = d.index * digit.size + own;
        d.of *= digit.size;
        out.dims.set(role, d);
      } else if (own !== (role === '.' ? 0 : role.charCodeAt(0) - 64)) out.idle = true;
    }
    for (const [, d] of out.dims) { out.key = out.key * d.of + d.index; out.of *= d.of; }
    return out;
  }
  colour(index, of) {
    if (of <= 1) return colours.compute;
    const dark = document.documentElement.dataset.theme === 'dark';
    const hue = 215 + 250 * (index / of);
    const turn = of > 6 ? (index % 2) * 9 : 0;
    return `hsl(${hue % 360} ${dark ? 38 : 42}% ${(dark ? 52 : 58) + turn}%)`;
  }

  draw(c, width) {
    const layout = this.layout();
    c.font = `12px ${kSans}`;
    c.fillStyle = colours.soft;
    c.fillText(this.machine.levels.map((l) => plural(l.count, l.name)).join(' of '), 12, 17, width - 24);
    for (const f of this.frames) {
      roundRect(c, f.x, f.y, f.width, f.height, 4);
      c.fillStyle = f.level === 0 ? colours.hover : colours.sheet;
      c.fill();
      c.strokeStyle = colours.line;
      c.stroke();
    }
    const classes = this.classes();
    for (const cell of this.cells) {
      let fillStyle;
      let part = null;
      if (layout) {
        part = this.part(cell.device, layout);
        fillStyle = part.idle ? null : this.colour(part.key, part.of);
      } else {
        fillStyle = this.colour(this.rank(cell.device, this.machine.class_digits), classes);
      }
      if (fillStyle) {
        c.fillStyle = fillStyle;
        c.fillRect(cell.x, cell.y, cell.size, cell.size);
        if (part && part.partial > 1 && cell.size > 8) {
          c.fillStyle = colours.sheet;
          c.beginPath();
          c.arc(cell.x + cell.size / 2, cell.y + cell.size / 2, cell.size / 7, 0, 7);
          c.fill();
        }
      } else {
        c.strokeStyle = colours['line-strong'];
        c.strokeRect(cell.x + 0.5, cell.y + 0.5, cell.size - 1, cell.size - 1);
      }
      if (cell.size >= 22 && this.machine.devices <= 200) {
        c.font = `10px ${kSans}`;
        c.fillStyle = fillStyle ? colours['on-colour'] : colours.faint;
        if (!(part && part.partial > 1)) c.fillText(cell.device, cell.x + 3, cell.y + 11, cell.size - 6);
      }
    }
  }

  describe() {
    const layout = this.layout();
    const m = this.machine;
    if (layout) {
      const part = this.part(0, layout);
      const cuts = [...part.dims].map(([d, p]) => `dimension ${d} sharded ${p.of} ways`);
      const words = [`${cuts.length ? cuts.join(', ') : 'not sharded'}`, part.copies > 1 ? `replicated on ${part.copies}` : '', part.partial > 1 ? `${part.partial} partial sums (dots)` : ''].filter(Boolean);
      fill('machine-legend', make('span', null, `Colours show the shards of ${plan.graph.name[selection.node]}: ${words.join(', ')}. Outlined devices hold none. `),
        make('button', {class: 'link', type: 'button', onclick: () => selection.set(null, 'machine')}, 'Show device classes'));
      return;
    }
    const n = this.classes();
    const shown = n > 1 && n <= 16 ? [...Array(n).keys()].map((k) => make('span', null, swatch(this.colour(k, n)), m.classes ? m.classes[k].name : `class ${k}`)) : [];
    fill('machine-legend', shown, make('span', null, n === 1 ? 'All devices are equivalent, each with its own shard of the data. Select a node of the graph to see the shards of its tensor.'
      : 'Select a node of the graph to see the shards of its tensor.'));
  }

  hover(p, event) {
    const cell = this.cells.find((k) => p.x >= k.x - 0.5 && p.x < k.x + k.size + 1 && p.y >= k.y - 0.5 && p.y < k.y + k.size + 1);
    if (!cell) { hideTip(); return; }
    const m = this.machine;
    let rest = cell.device;
    const place = [];
    for (let l = m.levels.length - 1; l >= 0; --l) { place.unshift(`${m.levels[l].name} ${rest % m.levels[l].count}`); rest = Math.floor(rest / m.levels[l].count); }
    const lines = [make('b', null, `Device ${cell.device}`), tipRow(place.join(', '))];
    if (m.stages > 1) {
      const rank = this.rank(cell.device, m.stage_digits);
      const ranks = this.stages();
      const own = [];
      for (let s = rank; s < m.stages; s += ranks) own.push(s + 1);
      lines.push(tipRow(`${own.length === 1 ? 'stage' : 'stages'} ${own.join(', ')} of ${m.stages}`));
    }
    const layout = this.layout();
    if (layout) {
      const part = this.part(cell.device, layout);
      lines.push(tipRow(part.idle ? `holds nothing of ${plan.graph.name[selection.node]}` : [...part.dims].map(([d, x]) => `shard ${x.index + 1} of ${x.of} of dimension ${d}`).join(', ') || 'full tensor'));
      if (!part.idle && part.partial > 1) lines.push(tipRow(`one of ${part.partial} partial sums`));
    } else if (m.classes) {
      const k = m.classes[this.rank(cell.device, m.class_digits)];
      if (k) lines.push(tipRow(`compute ${seconds(k.compute_s)}, exposed ${seconds(k.exposed_s)}, stall ${seconds(k.idle_s)}, ${bytes(k.memory_bytes)}`));
    }
    showTip(event.clientX, event.clientY, lines);
  }
}

function showLevels() {
  const m = plan.machine;
  const rows = m.levels.map((l) => [make('span', null, make('b', null, l.name), make('div', {class: 'sub'}, `${l.count} per unit of the level above`)),
    make('span', null, `${bytes(l.bytes_per_s)}/s${l.shared ? ' shared' : ''}`, make('div', {class: 'sub'},
      `${bytes(l.bytes_per_s_and_device)}/s per device, latency ${seconds(l.latency_s)}${l.topology === 'switch' ? '' : ', ' + l.topology}`))]);
  const devices = m.groups.map((g) => [make('span', null, make('b', null, g.name), g.group ? make('div', {class: 'sub'}, `group ${g.group}, ${g.units} units`) : ''),
    make('span', null, `${g.flops_per_s ? flops(g.flops_per_s) + '/s' : 'no peak given'} in ${head.dtype}`, make('div', {class: 'sub'}, `${bytes(g.memory_bytes)}, ${bytes(g.bytes_per_s)}/s`))]);
  fill('levels', make('h3', null, 'Links'), table(['level', 'link'], rows), make('h3', null, 'Devices'), table(['', ''], devices));
}

function showClasses() {
  const all = plan.machine.classes;
  if (!all) { fill('classes', make('h3', null, 'Device classes'), empty('There are too many classes of equivalent devices to list.')); return; }
  if (all.length < 2) { fill('classes'); return; }
  const rows = all.slice(0, 32).map((k) => {
    const bar = make('div', {class: 'tablebar', title: `compute ${seconds(k.compute_s)}, exposed ${seconds(k.exposed_s)}, stall ${seconds(k.idle_s)}`},
      make('i', {style: {flex: `${k.compute_s / head.iteration_s * 1000} 0 0`, background: 'var(--compute)'}}), make('i', {style: {flex: `${k.exposed_s / head.iteration_s * 1000} 0 0`, background: 'var(--all_reduce)'}}),
      make('i', {style: {flex: `${k.idle_s / head.iteration_s * 1000} 0 0`, background: 'var(--idle)'}}));
    return [make('span', null, k.name), bar, [bytes(k.memory_bytes)]];
  });
  fill('classes', make('h3', null, 'Device classes: compute, exposed communication, stall; memory'), table(['', '', ['']], rows));
}

function startMachine(graphView) {
  const m = plan.machine;
  byId('machine-note').textContent = `${m.name}: ${plural(m.devices, 'device')}.` + (m.stages > 1 ? ` Pipeline of ${plural(m.stages, 'stage')}.` : '')
    + (plan.machine.class_digits.length ? '' : ' All devices run the same program.');
  showLevels();
  showClasses();
  return new MachineView(graphView);
}
