// The graph on its canvas. It shows less detail when zoomed out, and supports search and arrow keys.
'use strict';

const kKinds = {all_reduce: 'all-reduce', all_gather: 'all-gather', reduce_scatter: 'reduce-scatter', all_to_all: 'all-to-all', send_recv: 'send'};

// Indexes the moves by node: [{operand, kind, over, bytes, times, backward, again}].
function readMoves(graph) {
  graph.moves_by_node = new Map();
  for (const [node, operand, kind, over, size, times, backward, again] of graph.moves || []) {
    if (!graph.moves_by_node.has(node)) graph.moves_by_node.set(node, []);
    graph.moves_by_node.get(node).push({operand, kind, over, bytes: size, times, backward, again,
      label: `${backward ? '↑' : '↓'} ${kindText(kind)} ${bytes(size)}${times > 1 ? ' × ' + times : ''} · ${over}`});
  }
}

const kFont = {name: `600 13px ${kSans}`, text: `12px ${kSans}`, weight: `11.5px ${kSans}`, pill: `500 11px ${kSans}`,
  farName: `600 19px ${kSans}`, farText: `16px ${kSans}`};

class GraphView {
  constructor(graph) {
    readMoves(graph);
    this.graph = graph;
    this.folded = true;
    this.unfolded = new Set();  // blocks, by their first node
    this.view = {x: 0, y: 0, scale: 1};
    this.wholeFolding = new Folding(graph, () => true);
    this.board = new Board('graph-canvas', {draw: (c, w, h) => this.draw(c, w, h), resized: () => { if (this.layout && !this.touched) this.start(); }});
    steer(this.board, {
      pan: (dx, dy) => this.pan(dx, dy),
      zoom: (factor, x, y) => this.zoom(factor, x, y),
      hover: (p, event) => this.hover(p, event),
      leave: () => this.leave(),
      click: (p) => this.click(p),
      fit: () => this.fit(),
      key: (event) => this.key(event),
    });
    this.layItOut();
    this.start();
    selection.listeners.push((node, from) => {
      if (node !== null && from !== 'graph') this.show(node);
      this.board.redraw();
    });
  }

  isFolded(block) { return this.folded && !this.unfolded.has(block.start); }
  layItOut() {
    this.folding = new Folding(this.graph, (b) => this.isFolded(b));
    this.layout = layOut(this.graph, this.folding, (node) => this.label(node));
    const longest = Math.max(1e-12, ...this.layout.nodes.map((n) => n.seconds));
    for (const n of this.layout.nodes) n.share = n.seconds / longest;
    // The bottom of each layer, so that binary search finds the visible ones.
    this.bottoms = this.layout.ranks.map((rank) => Math.max(...rank.map((n) => n.y + n.height)));
  }

  // Returns the facts of a node, or of the node that represents it when all blocks are folded.
  factsOf(id) {
    const facts = this.graph.facts || {};
    return facts[id] || facts[this.wholeFolding.standsFor(id)] || null;
  }
  timeOf(id) {
    const f = this.factsOf(id);
    if (!f) return 0;
    return ['forward', 'recompute', 'backward', 'update'].reduce((sum, pass) => sum + (f[pass] ? f[pass].time_s : 0), 0);
  }
  textOf(column, texts, id) { return this.graph[column] ? this.graph[texts][this.graph[column][id]] : ''; }
  opOf(id) { return this.graph.ops[this.graph.op[id]]; }
  typeOf(id) { return this.textOf('type', 'types', id).replace(/ fp32$| bf16$| fp16$| fp64$/, ''); }
  label(node) {
    const g = this.graph;
    node.seconds = this.timeOf(node.id);
    node.time = node.seconds > 0 ? seconds(node.seconds) : '';
    node.name = g.name[node.id];
    node.op = this.opOf(node.id);
    node.type = this.typeOf(node.id);
    node.rule = ((g.rules || {})[node.id] || [])[0];
    for (const s of node.stored) {
      s.name = g.name[s.id];
      s.text = this.typeOf(s.id);
      s.size = g.bytes ? bytes(g.bytes[s.id]) : '';
    }
    const how = this.textOf('how_of', 'how', node.id) || (g.how ? 'not partitioned' : '');
    this.fitWidth(node);
    node.how = wrap(node.rule ? `by ${node.rule}` : how, kFont.text, Math.max(node.width, 300) - 26);
    node.width = Math.max(node.width, 26 + Math.max(...node.how.map((line) => textWidth(line, kFont.text))));
  }
  // Makes a node as wide as its longest text, at both levels of detail.
  fitWidth(node) {
    const gap = 12;
    const moves = (list, edge) => list.map((m) => textWidth(m.label, kFont.pill) + 12 + edge);
    node.width = Math.ceil(Math.max(kNodeWidth,
      26 + textWidth(node.name, kFont.farName), 26 + textWidth(node.op, kFont.farText),
      26 + textWidth(node.name, kFont.name) + gap + textWidth(node.time, kFont.text),
      26 + textWidth(`${node.op}  ${node.type}`, kFont.text),
      ...node.stored.map((s) => 38 + textWidth(`${s.name}  ${s.text}`, kFont.weight) + gap + textWidth(s.size, kFont.weight)),
      ...node.stored.flatMap((s) => moves(s.moves, 38)), ...moves(node.below, 26), ...moves(node.above, 16)));
  }

  // --- Viewport -------------------------------------------------------------------------------

  start() {
    const {left, right} = this.layout;
    const scale = Math.min(1, Math.max(0.5, this.board.width / (right - left + 60)));
    const first = this.layout.nodes.length ? this.layout.ranks[0].reduce((s, n) => s + n.x + n.width / 2, 0) / this.layout.ranks[0].length : 0;
    const wide = (right - left) * scale > this.board.width;
    this.view = {scale, x: this.board.width / 2 - (wide ? first : (left + right) / 2) * scale, y: 6};
    this.board.redraw();
  }
  fit() {
    const {left, right, bottom} = this.layout;
    const scale = Math.min(1.2, this.board.width / (right - left + 60), this.board.height / (bottom + 60));
    this.view = {scale, x: this.board.width / 2 - (left + right) / 2 * scale, y: (this.board.height - bottom * scale) / 2};
    this.touched = true;
    this.board.redraw();
  }
  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.touched = true;
    this.board.redraw();
  }
  zoom(factor, x, y) {
    const v = this.view;
    const {left, right, bottom} = this.layout;
    const least = Math.min(0.2, 0.7 * this.board.width / (right - left + 60), 0.7 * this.board.height / (bottom + 60));
    const scale = Math.min(3, Math.max(least, v.scale * factor));
    v.x = x - (x - v.x) * scale / v.scale;
    v.y = y - (y - v.y) * scale / v.scale;
    v.scale = scale;
    this.touched = true;
    this.board.redraw();
  }
  // Scrolls to a node. For a weight, scrolls to the node that reads it.
  show(id) {
    const node = this.shown(id);
    if (!node) return;
    const v = this.view;
    if (v.scale < 0.45) v.scale = 0.8;
    const x = node.x * v.scale + v.x;
    const y = node.y * v.scale + v.y;
    const inside = x > 20 && y > 30 && x + node.width * v.scale < this.board.width - 20 && y + node.height * v.scale < this.board.height - 20;
    if (!inside) {
      v.x = this.board.width / 2 - (node.x + node.width / 2) * v.scale;
      v.y = this.board.height / 2 - (node.y + node.height / 2) * v.scale;
    }
    this.touched = true;
    this.board.redraw();
  }
  shown(id) {
    if (id === null || id >= this.graph.name.length) return null;
    const own = this.layout.at.get(this.folding.standsFor(id));
    if (own) return own;
    for (let reader = id + 1; reader < this.graph.name.length; ++reader) {
      if (this.graph.inputs[reader].includes(id)) return this.layout.at.get(this.folding.standsFor(reader)) || null;
    }
    return null;
  }

  // --- Pointer --------------------------------------------------------------------------------

  toGraph(p) { return {x: (p.x - this.view.x) / this.view.scale, y: (p.y - this.view.y) / this.view.scale}; }
  find(p) {
    const {x, y} = this.toGraph(p);
    const first = firstWhere(this.bottoms.length, (r) => this.bottoms[r] >= y);
    if (first < this.layout.ranks.length) {
      for (const n of this.layout.ranks[first]) {
        if (x >= n.x && x <= n.x + n.width && y >= n.y && y <= n.y + n.height) return {node: n, ...this.partOf(n, y)};
        let top = n.y - n.above.length * kPill - 4;
        for (const move of n.above) {
          if (x >= n.x + 8 && x <= n.x + n.width - 8 && y >= top && y < top + kPill) return {node: n, move};
          top += kPill;
        }
      }
    }
    for (const f of this.layout.frames) {
      if (x >= f.left && x <= f.left + 110 && y >= f.top - 22 && y <= f.top + 4) return {frame: f};
    }
    return {};
  }
  partOf(n, y) {
    let at = n.y + n.head;
    for (const s of n.stored) {
      const rows = kLine + 3 + s.moves.length * kPill;
      if (y >= at && y < at + rows) {
        const move = s.moves[Math.floor((y - at - kLine - 1) / kPill)];
        return y > at + kLine + 1 && move ? {stored: s, move} : {stored: s};
      }
      at += rows;
    }
    const move = n.below[Math.floor((y - at - 5) / kPill)];
    return move ? {move} : {};
  }

  hover(p, event) {
    const {node, move, stored, frame} = this.find(p);
    this.board.canvas.style.cursor = node || frame ? 'pointer' : 'grab';
    this.hovered = node || null;
    this.board.redraw();
    if (move) {
      showTip(event.clientX, event.clientY, make('b', null, kindText(move.kind)), tipRow(`${bytes(move.bytes)} per device, ${plural(move.times, 'time')} per step`),
        tipRow('over ' + move.over), tipRow(move.again ? 'repeated for the backward pass' : move.backward ? 'in the backward pass' : 'in the forward pass'));
    } else if (stored) {
      showTip(event.clientX, event.clientY, make('b', null, stored.name), tipRow(this.textOf('type', 'types', stored.id)),
        tipRow(this.textOf('how_of', 'how', stored.id) || 'not sharded'), tipRow(stored.size + ' per device'));
    } else if (node && this.view.scale < 0.62) {
      showTip(event.clientX, event.clientY, make('b', null, node.name), tipRow(`${node.op} ${node.type}`), tipRow(node.how.join(' ')), tipRow(node.time));
    } else if (frame) {
      showTip(event.clientX, event.clientY, `Repeated ${frame.count} times. Click to draw all of them.`);
    } else {
      hideTip();
    }
  }
  leave() { this.hovered = null; this.board.redraw(); }
  click(p) {
    const {node, stored, frame} = this.find(p);
    if (frame) {
      this.unfolded.add(frame.block.start);
      this.layItOut();
      this.board.redraw();
      return;
    }
    selection.set(stored ? stored.id : node ? node.id : null, 'graph');
  }
  key(event) {
    const moves = {ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right'};
    if (event.key === 'Enter') { byId('details').focus(); return true; }
    if (!moves[event.key] || event.shiftKey) return false;
    const now = this.shown(selection.node);
    let next = null;
    if (!now) {
      next = this.layout.ranks.length ? this.layout.ranks[0][0] : null;
    } else if (event.key === 'ArrowUp') {
      next = now.from.length ? now.from[0].from : null;
    } else if (event.key === 'ArrowDown') {
      next = now.to.length ? now.to[0].to : null;
    } else {
      const rank = this.layout.ranks[now.rank];
      next = rank[rank.indexOf(now) + (event.key === 'ArrowLeft' ? -1 : 1)] || null;
    }
    if (next) selection.set(next.id, 'keys');
    return true;
  }

  // --- Drawing --------------------------------------------------------------------------------

  draw(c, width, height) {
    const v = this.view;
    const ratio = devicePixelRatio || 1;
    c.setTransform(ratio * v.scale, 0, 0, ratio * v.scale, ratio * v.x, ratio * v.y);
    const sight = {left: -v.x / v.scale, top: -v.y / v.scale, right: (width - v.x) / v.scale, bottom: (height - v.y) / v.scale};
    const detail = v.scale > 0.62 ? 2 : v.scale > 0.3 ? 1 : 0;
    this.drawFrames(c, sight, v.scale);
    this.drawEdges(c, sight, detail);
    const first = firstWhere(this.bottoms.length, (r) => this.bottoms[r] >= sight.top);
    const selected = this.shown(selection.node);
    let drawn = 0;
    for (let r = first; r < this.layout.ranks.length; ++r) {
      const rank = this.layout.ranks[r];
      if (rank[0].y - 80 > sight.bottom) break;
      for (const n of rank) {
        if (n.x > sight.right || n.x + n.width < sight.left) continue;
        this.drawNode(c, n, detail, n === selected);
        ++drawn;
      }
    }
    this.drawn = drawn;
  }

  drawFrames(c, sight, scale) {
    for (const f of this.layout.frames) {
      if (f.bottom < sight.top || f.top - 24 > sight.bottom) continue;
      c.fillStyle = colours.hover;
      c.globalAlpha = 0.55;
      roundRect(c, f.left, f.top, f.right - f.left, f.bottom - f.top, 12);
      c.fill();
      c.globalAlpha = 1;
      c.strokeStyle = colours['line-strong'];
      c.lineWidth = 1 / Math.min(1, scale * 1.6);
      c.stroke();
      const size = Math.min(46, 13 / Math.min(1, scale * 1.3));
      c.font = `600 ${size}px ${kSans}`;
      c.fillStyle = colours.soft;
      c.fillText(`${f.count} times`, f.left + 4, f.top - 6);
    }
  }

  drawEdges(c, sight, detail) {
    c.strokeStyle = colours['line-strong'];
    c.lineWidth = detail === 0 ? 2.2 : 1.3;
    c.beginPath();
    const near = [];
    for (const e of this.layout.edges) {
      if (e.to.y < sight.top || e.from.y + e.from.height > sight.bottom) continue;
      if (e.from === this.hovered || e.to === this.hovered || e.from.id === selection.node || e.to.id === selection.node) near.push(e);
      this.path(c, e, detail);
    }
    c.stroke();
    if (!near.length) return;
    c.strokeStyle = colours.accent;
    c.lineWidth = detail === 0 ? 4 : 2;
    c.beginPath();
    for (const e of near) this.path(c, e, detail);
    c.stroke();
  }
  path(c, e, detail) {
    const x0 = e.from.x + e.from.width / 2;
    const y0 = e.from.y + e.from.height;
    const x1 = e.to.x + e.to.width / 2;
    const y1 = e.to.y - e.to.above.length * kPill - (e.to.above.length ? 4 : 0);
    if (e.lane === undefined) {
      c.moveTo(x0, y0);
      if (detail === 0 || Math.abs(x1 - x0) < 1) {
        c.lineTo(x1, y1);
      } else {
        const bend = Math.min(30, (y1 - y0) / 2);
        c.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
      }
      return;
    }
    // The edge goes out to the lane, down, and back in from above.
    const out = e.from.x + 22;
    const into = e.to.x + 22;
    const turn = 10;
    c.moveTo(out, y0);
    if (detail === 0) {
      c.lineTo(e.lane, y0 + turn);
      c.lineTo(e.lane, y1 - turn);
      c.lineTo(into, y1);
      return;
    }
    c.lineTo(out, y0 + 4);
    c.arcTo(out, y0 + turn, out - turn, y0 + turn, 6);
    c.arcTo(e.lane, y0 + turn, e.lane, y0 + turn + 10, 6);
    c.arcTo(e.lane, y1 - turn, e.lane + 10, y1 - turn, 6);
    c.arcTo(into, y1 - turn, into, y1, 6);
    c.lineTo(into, y1);
  }

  drawNode(c, n, detail, selected) {
    const kind = n.op.startsWith('embedding') ? 'embedding' : 'compute';
    if (detail === 0) {
      c.fillStyle = colours[kind];
      c.globalAlpha = 0.25 + 0.75 * n.share;
      c.fillRect(n.x, n.y, n.width, n.height);
      c.globalAlpha = 1;
      this.drawMarks(c, n);
    } else {
      roundRect(c, n.x, n.y, n.width, n.height, 7);
      c.fillStyle = colours.sheet;
      c.fill();
      c.strokeStyle = n === this.hovered ? colours.faint : colours['line-strong'];
      c.lineWidth = 1;
      c.stroke();
      // A bar on the left side shows the share of the time.
      c.fillStyle = colours[kind];
      c.globalAlpha = 0.3 + 0.7 * n.share;
      if (n.share > 0) {
        roundRect(c, n.x + 5, n.y + 7, 3.5, Math.max(5, (n.height - 14) * n.share), 2);
        c.fill();
      }
      c.globalAlpha = 1;
      if (detail === 1) this.drawName(c, n);
      else this.drawText(c, n);
    }
    if (selected) {
      c.strokeStyle = colours.accent;
      c.lineWidth = Math.max(2.5, 2 / this.view.scale);
      roundRect(c, n.x - 2, n.y - 2, n.width + 4, n.height + 4, 8);
      c.stroke();
    }
  }
  drawMarks(c, n) {
    const all = n.above.concat(n.below, ...n.stored.map((s) => s.moves));
    all.forEach((m, i) => {
      c.fillStyle = colours[reported(m.kind)];
      c.fillRect(n.x + n.width + 6 + 22 * (i % 6), n.y + 22 * Math.floor(i / 6), 18, 18);
    });
  }
  drawName(c, n) {
    c.fillStyle = colours.ink;
    c.font = kFont.farName;
    c.fillText(n.name, n.x + 16, n.y + 26);
    c.fillStyle = colours.soft;
    c.font = kFont.farText;
    c.fillText(n.op, n.x + 16, n.y + 47);
    this.drawMarks(c, n);
  }
  drawText(c, n) {
    const x = n.x + 16;
    let y = n.y + 18;
    c.font = kFont.text;
    c.fillStyle = colours.soft;
    c.textAlign = 'right';
    c.fillText(n.time, n.x + n.width - 10, y);
    c.textAlign = 'left';
    c.fillStyle = colours.ink;
    c.font = kFont.name;
    c.fillText(n.name, x, y);
    y += kLine;
    c.font = kFont.text;
    c.fillStyle = colours.soft;
    c.fillText(`${n.op}  ${n.type}`, x, y);
    c.fillStyle = n.rule ? colours.accent : colours.faint;
    for (const line of n.how) c.fillText(line, x, y += kLine);
    y = n.y + n.head;
    for (const s of n.stored) {
      c.fillStyle = this.graph.source[s.id] === 'weight' ? colours.weights : colours.inputs;
      c.fillRect(x, y + 4, 7, 7);
      c.fillStyle = colours.ink;
      c.font = kFont.weight;
      c.fillText(`${s.name}  ${s.text}`, x + 12, y + 12);
      c.fillStyle = colours.faint;
      c.textAlign = 'right';
      c.fillText(s.size, n.x + n.width - 10, y + 12);
      c.textAlign = 'left';
      y += kLine + 3;
      for (const m of s.moves) { this.drawPill(c, m, x + 12, y - 1, n.width - 38); y += kPill; }
    }
    if (n.below.length) y += 5;
    for (const m of n.below) { this.drawPill(c, m, x, y - 1, n.width - 26); y += kPill; }
    let top = n.y - n.above.length * kPill - 4;
    for (const m of n.above) { this.drawPill(c, m, n.x + 8, top, n.width - 16); top += kPill; }
  }
  drawPill(c, move, x, y, width) {
    const colour = colours[reported(move.kind)];
    roundRect(c, x, y + 1, width, kPill - 3, 4);
    if (move.backward) {
      c.fillStyle = colours.sheet;
      c.fill();
      c.strokeStyle = colour;
      c.lineWidth = 1.2;
      c.stroke();
    } else {
      c.fillStyle = colour;
      c.fill();
    }
    c.fillStyle = move.backward ? colour : colours['on-colour'];
    c.font = kFont.pill;
    c.fillText(move.label, x + 6, y + 12.5);
  }
}

// --- The search field -------------------------------------------------------------------------

function startFind(view) {
  const field = byId('find');
  const list = byId('found');
  let hits = [];
  let at = 0;
  const close = () => { list.hidden = true; field.setAttribute('aria-expanded', 'false'); field.removeAttribute('aria-activedescendant'); };
  const mark = () => {
    [...list.children].forEach((li, i) => {
      if (hits.length) li.setAttribute('aria-selected', String(i === at));
      if (i === at && hits.length) { li.scrollIntoView({block: 'nearest'}); field.setAttribute('aria-activedescendant', li.id); }
    });
  };
  const choose = (i) => {
    if (!hits[i] && hits[i] !== 0) return;
    close();
    field.value = view().graph.name[hits[i]];
    selection.node = null;
    selection.set(hits[i], 'find');
  };
  const search = () => {
    const words = field.value.trim().replace(/^%/, '').toLowerCase();
    if (!words) { close(); return; }
    const {graph} = view();
    const ranked = [];
    for (let id = 0; id < graph.name.length; ++id) {
      const name = graph.name[id].toLowerCase();
      const op = graph.ops[graph.op[id]];
      const rank = name === words ? 0 : name.startsWith(words) ? 1 : name.includes(words) ? 2 : op.includes(words) ? 3 : 9;
      if (rank < 9) ranked.push([rank, id]);
    }
    ranked.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    hits = ranked.slice(0, 40).map((r) => r[1]);
    at = 0;
    list.replaceChildren(...(hits.length
      ? hits.map((id, i) => make('li', {role: 'option', id: 'hit' + i, onmousedown: (e) => { e.preventDefault(); choose(i); }}, graph.name[id],
        make('span', null, graph.ops[graph.op[id]])))
      : [make('li', {class: 'none'}, 'No node has this name.')]));
    list.hidden = false;
    field.setAttribute('aria-expanded', 'true');
    mark();
  };
  field.addEventListener('input', search);
  field.addEventListener('focus', search);
  field.addEventListener('blur', close);
  field.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      at = (at + (event.key === 'ArrowDown' ? 1 : hits.length - 1)) % Math.max(1, hits.length);
      mark();
      event.preventDefault();
    } else if (event.key === 'Enter') {
      choose(at);
    } else if (event.key === 'Escape') {
      close();
    }
  });
}

function startGraph() {
  const main = new GraphView(plan.graph);
  let shown = main;
  startFind(() => shown);
  byId('fold').addEventListener('change', (event) => {
    shown.folded = event.target.checked;
    shown.unfolded.clear();
    shown.layItOut();
    shown.touched = false;
    shown.start();
  });
  if (!(plan.graph.blocks || []).length) byId('fold').closest('label').hidden = true;
  if (plan.before) startBefore(main);
  fill('legend-kinds', Object.entries(kKinds).map(([kind, text]) => make('span', null, swatch(`var(--${kind})`), text)),
    make('span', null, swatch('var(--soft)'), 'forward'), make('span', null, swatch('var(--soft)', 'outlined'), 'backward'),
    make('span', null, swatch('var(--compute)'), 'share of the time (left side of a node)'));
  return main;
}

// Lets the canvas switch between the plan's graph and the model's graph before rewrites.
function startBefore(main) {
  const choice = byId('before-choice');
  choice.hidden = false;
  readMoves(plan.before);
  const graphs = {plan: plan.graph, before: plan.before};
  for (const button of choice.querySelectorAll('button')) {
    button.addEventListener('click', () => {
      for (const b of choice.querySelectorAll('button')) b.setAttribute('aria-pressed', String(b === button));
      main.graph = graphs[button.dataset.graph];
      main.wholeFolding = new Folding(main.graph, () => true);
      selection.set(null, 'graph');
      main.layItOut();
      main.start();
    });
  }
}
