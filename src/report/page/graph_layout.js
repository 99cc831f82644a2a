// Places the nodes of a graph. A folded block shows its first iteration. Weights and inputs are drawn
// inside the operators that read them. Operators are in layers, each below its operands. Edges to the
// next layer are straight. Longer edges run down a lane beside the graph, one per tensor, so that
// they cross no node.
'use strict';

const kNodeWidth = 252;  // the least width; a node is as wide as its longest text
const kLine = 16;
const kPill = 18;

// Maps each node of a folded block to the node of the first iteration that represents it.
class Folding {
  constructor(graph, isFolded) {
    this.blocks = graph.blocks || [];
    this.isFolded = isFolded;
  }
  standsFor(id) { return this.find(id, this.blocks, 0); }
  find(id, blocks, offset) {
    for (const b of blocks) {
      const start = b.start + offset;
      if (id < start || id >= start + b.period * b.count) continue;
      const skip = Math.floor((id - start) / b.period) * b.period;
      return this.isFolded(b) ? this.find(id - skip, b.blocks, offset) : this.find(id, b.blocks, offset + skip);
    }
    return id;
  }
  // Returns the frames of the folded blocks: {block, from, to, count, depth}.
  frames() {
    const out = [];
    const visit = (blocks, offset, times, depth) => {
      for (const b of blocks) {
        if (this.isFolded(b)) {
          out.push({block: b, from: b.start + offset, to: b.start + offset + b.period, count: b.count, depth});
          visit(b.blocks, offset, times * b.count, depth + 1);
        } else {
          for (let r = 0; r < b.count; ++r) visit(b.blocks, offset + r * b.period, times, depth);
        }
      }
    };
    visit(this.blocks, 0, 1, 0);
    return out;
  }
  // Returns the number of nodes that a shown node represents.
  times(id) {
    let out = 1;
    const visit = (blocks, offset) => {
      for (const b of blocks) {
        const start = b.start + offset;
        if (id < start || id >= start + b.period * b.count) continue;
        if (this.isFolded(b)) { out *= b.count; visit(b.blocks, offset); }
        else visit(b.blocks, offset + Math.floor((id - start) / b.period) * b.period);
      }
    };
    visit(this.blocks, 0);
    return out;
  }
}

// Returns {nodes, edges, ranks, frames, at: Map(id -> node), left, right, bottom}. `label(node)` sets a
// node's texts and width once its weights and moves are known.
function layOut(graph, folding, label) {
  const size = graph.name.length;
  const nodes = [];
  const at = new Map();
  const movesOf = graph.moves_by_node || new Map();
  const isSource = (id) => graph.source[id] !== '';
  const readers = new Array(size).fill(0);
  for (let id = 0; id < size; ++id) for (const i of graph.inputs[id]) ++readers[i];
  for (let id = 0; id < size; ++id) {
    if (isSource(id) && readers[id] > 0) continue;
    if (folding.standsFor(id) !== id) continue;
    const node = {id, stored: [], from: [], to: [], rank: 0, x: 0, y: 0, width: kNodeWidth, how: [], above: [], below: []};
    nodes.push(node);
    at.set(id, node);
  }
  const edges = [];
  for (const node of nodes) {
    const moves = movesOf.get(node.id) || [];
    graph.inputs[node.id].forEach((input, operand) => {
      const own = moves.filter((m) => m.operand === operand);
      if (isSource(input)) { node.stored.push({id: input, moves: own}); return; }
      const from = at.get(folding.standsFor(input));
      if (!from || from.id >= node.id) return;
      const edge = {from, to: node, moves: own};
      edges.push(edge);
      from.to.push(edge);
      node.from.push(edge);
      node.above.push(...own);
    });
    node.below = moves.filter((m) => m.operand < 0);
    label(node);
    node.head = (2 + node.how.length) * kLine + 12;  // from the top to the first weight
    node.height = node.head + 2 + node.stored.reduce((sum, s) => sum + kLine + 3 + s.moves.length * kPill, 0)
      + (node.below.length ? 5 + node.below.length * kPill : 0);
    if (node.stored.length) node.height += 5;
  }
  placeRanks(nodes);
  const ranks = [];
  for (const node of nodes) (ranks[node.rank] ||= []).push(node);
  placeAcross(ranks);
  placeDown(ranks);
  const lanes = layLanes(ranks, nodes, edges);
  const box = {left: Math.min(0, lanes.left), right: 0, bottom: 0};
  for (const n of nodes) {
    box.left = Math.min(box.left, n.x);
    box.right = Math.max(box.right, n.x + n.width);
    box.bottom = Math.max(box.bottom, n.y + n.height);
  }
  return {nodes, edges, at, ranks, frames: layFrames(folding, nodes), ...box};
}

// Assigns each node a layer below its operands. A node without operands moves down to just above its
// first reader.
function placeRanks(nodes) {
  for (const node of nodes) for (const e of node.from) node.rank = Math.max(node.rank, e.from.rank + 1);
  for (let i = nodes.length - 1; i >= 0; --i) {
    const node = nodes[i];
    if (!node.to.length || node.from.length > 0) continue;
    node.rank = Math.max(node.rank, Math.min(...node.to.map((e) => e.to.rank)) - 1);
  }
}

// Orders the nodes of each layer by the mean position of their neighbours above and below, and places
// each as near to it as the others allow.
function placeAcross(ranks) {
  const gap = 34;
  const pack = (rank, wish) => {
    const wishes = rank.map((n) => [wish(n), n]);
    wishes.sort((a, b) => a[0] - b[0] || a[1].id - b[1].id);
    let next = -Infinity;
    let off = 0;
    wishes.forEach(([w, n], i) => {
      rank[i] = n;
      n.x = Math.max(w, next);
      next = n.x + n.width + gap;
      off += n.x - w;
    });
    const shift = off / rank.length;
    for (const n of rank) n.x -= shift;
  };
  // The x at which node n is centred below or above its neighbours.
  const middle = (n, edges, end, fallback) => edges.length
    ? edges.reduce((s, e) => s + e[end].x + e[end].width / 2, 0) / edges.length - n.width / 2 : fallback;
  for (const rank of ranks) {
    let x = -rank.reduce((width, n) => width + n.width + gap, 0) / 2;
    for (const n of rank) { n.x = x; x += n.width + gap; }
  }
  for (let sweep = 0; sweep < 3; ++sweep) {
    for (const rank of ranks) pack(rank, (n) => middle(n, n.from, 'from', middle(n, n.to, 'to', n.x)));
    for (let r = ranks.length - 1; r >= 0; --r) pack(ranks[r], (n) => middle(n, n.to, 'to', middle(n, n.from, 'from', n.x)));
  }
  for (const rank of ranks) pack(rank, (n) => middle(n, n.from, 'from', middle(n, n.to, 'to', n.x)));
}

function placeDown(ranks) {
  let y = 0;
  for (const rank of ranks) {
    const labels = Math.max(0, ...rank.map((n) => Math.max(0, ...n.from.map((e) => e.moves.length))));
    y += 34 + labels * kPill;
    for (const n of rank) n.y = y;
    y += Math.max(...rank.map((n) => n.height));
  }
}

// Assigns a lane to each tensor that is read below the next layer.
function layLanes(ranks, nodes, edges) {
  const leftOf = ranks.map((rank) => Math.min(...rank.map((n) => n.x)));
  const busy = [];  // by lane: the first layer from which it is free
  let leftmost = 0;
  const long = new Map();
  for (const e of edges) {
    if (e.to.rank - e.from.rank < 2) continue;
    if (!long.has(e.from)) long.set(e.from, []);
    long.get(e.from).push(e);
  }
  for (const from of [...long.keys()].sort((a, b) => a.rank - b.rank)) {
    const to = Math.max(...long.get(from).map((e) => e.to.rank));
    let lane = busy.findIndex((free) => free <= from.rank);
    if (lane < 0) lane = busy.length;
    busy[lane] = to;
    let x = Infinity;
    for (let r = from.rank; r <= to; ++r) x = Math.min(x, leftOf[r]);
    x -= 26 + 12 * lane;
    leftmost = Math.min(leftmost, x);
    for (const e of long.get(from)) e.lane = x;
  }
  return {left: leftmost};
}

function layFrames(folding, nodes) {
  const out = [];
  for (const frame of folding.frames()) {
    const low = firstWhere(nodes.length, (i) => nodes[i].id >= frame.from);
    const high = firstWhere(nodes.length, (i) => nodes[i].id >= frame.to);
    if (low === high) continue;
    const box = {...frame, left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity};
    for (let i = low; i < high; ++i) {
      const n = nodes[i];
      box.left = Math.min(box.left, n.x);
      box.right = Math.max(box.right, n.x + n.width);
      box.top = Math.min(box.top, n.y - 6 - Math.max(0, ...n.from.map((e) => e.moves.length)) * kPill);
      box.bottom = Math.max(box.bottom, n.y + n.height);
    }
    const room = Math.max(4, 16 - 6 * frame.depth);
    out.push({...box, left: box.left - room, right: box.right + room, top: box.top - room - 4, bottom: box.bottom + room});
  }
  return out;
}
