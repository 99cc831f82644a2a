// The simulated iteration: a row for each stream of each class of devices. Binary search finds the
// visible tasks, and tasks narrower than a pixel share one, so that a hundred thousand tasks move
// smoothly.
'use strict';

const kRow = 22;
const kGap = 4;
const kStrip = 7;
const kClassHead = 26;
const kAxis = 26;

// Returns the intervals [starts[i], ends[i]) in order, merged where they touch or overlap.
function joined(starts, ends) {
  const order = [...starts.keys()].sort((a, b) => starts[a] - starts[b]);
  const from = [];
  const to = [];
  for (const i of order) {
    if (to.length && starts[i] <= to[to.length - 1]) to[to.length - 1] = Math.max(to[to.length - 1], ends[i]);
    else if (ends[i] > starts[i]) { from.push(starts[i]); to.push(ends[i]); }
  }
  return {from, to};
}

// Returns the intervals in which a stream is busy. If steps overlap, a task may continue into the next
// iteration. The same task of the previous iteration then fills the start of this one.
function busyOf(stream, iteration) {
  const starts = Array.from(stream.start);
  const ends = Array.from(stream.end);
  for (let i = 0; i < stream.size; ++i) {
    if (stream.end[i] <= iteration + 1) continue;
    starts.push(0);
    ends.push(stream.end[i] - iteration);
  }
  return joined(starts, ends);
}

class Stream {
  constructor(json) {
    this.name = json.name;
    this.computes = json.computes;
    this.size = json.task.length;
    this.task = Uint32Array.from(json.task);
    this.start = Float64Array.from(json.start);
    this.end = Float64Array.from(json.duration, (d, i) => d + json.start[i]);
    this.micro = Uint32Array.from(json.micro_batch);
    this.exposed = new Float64Array(this.size);
    this.bare = null;  // exposed intervals of a stream that communicates
  }
  // Finds the parts of its tasks outside of `busy`, whose intervals are in order.
  expose(busy) {
    const at = [];
    const from = [];
    const to = [];
    const add = (i, a, b) => {
      if (b <= a) return;
      at.push(i);
      from.push(a);
      to.push(b);
      this.exposed[i] += b - a;
    };
    for (let i = 0; i < this.size; ++i) {
      let t = this.start[i];
      let k = firstWhere(busy.to.length, (b) => busy.to[b] > t);
      for (; k < busy.from.length && busy.from[k] < this.end[i]; ++k) {
        add(i, t, Math.min(busy.from[k], this.end[i]));
        t = Math.max(t, busy.to[k]);
      }
      add(i, t, this.end[i]);
    }
    this.bare = {at, from: Float64Array.from(from), to: Float64Array.from(to)};
  }
}

class Timeline {
  constructor(data) {
    this.data = data;
    this.tasks = data.tasks;
    this.iteration = data.iteration;
    this.last = data.iteration;
    this.rows = [];
    this.heads = [];
    let y = kAxis;
    for (const json of data.classes) {
      const streams = json.streams.map((s) => new Stream(s));
      const computing = streams.find((s) => s.computes);
      const busy = computing ? busyOf(computing, this.iteration) : {from: [], to: []};
      const head = {y, name: json.name, number: json.number, states: null};
      this.heads.push(head);
      y += kClassHead + kStrip + kGap;
      for (const s of streams) {
        if (!s.computes) s.expose(busy);
        if (s.size) this.last = Math.max(this.last, s.end[s.size - 1]);
        this.rows.push({y, stream: s, head});
        y += kRow + kGap;
      }
      head.states = this.statesOf(busy, streams);
      y += 10;
    }
    this.height = y + 4;
    this.kindOf = data.tasks.kind ? data.tasks.kind.map((k) => kReported.indexOf(reported(k))) : [];
    this.from = 0;
    this.to = this.last;
    this.listeners = [];
    this.current = null;  // {row, index} of the task selected by keys or a click
    this.board = new Board('timeline-canvas', {draw: (c, w, h) => this.draw(c, w, h), height: () => this.height});
    steer(this.board, {
      sideways: true,
      pan: (dx) => this.move(-dx * (this.to - this.from) / this.plotWidth()),
      zoom: (factor, x) => this.zoom(factor, x),
      hover: (p, event) => this.hover(p, event),
      click: (p) => this.click(p),
      fit: () => this.look(0, this.last),
      key: (event) => this.key(event),
    });
    selection.listeners.push(() => this.board.redraw());
  }

  // Returns the intervals of compute and of exposed communication by kind. The rest is stall.
  statesOf(busy, streams) {
    const from = [...busy.from];
    const to = [...busy.to];
    const kind = from.map(() => 'compute');
    const bare = streams.filter((s) => s.bare);
    for (const s of bare) {
      for (let i = 0; i < s.bare.at.length; ++i) {
        from.push(s.bare.from[i]);
        to.push(s.bare.to[i]);
        kind.push(reported(this.tasks.kind[s.task[s.bare.at[i]]]));
      }
    }
    const order = [...from.keys()].sort((a, b) => from[a] - from[b]);
    return {from: Float64Array.from(order, (i) => from[i]), to: Float64Array.from(order, (i) => to[i]), kind: order.map((i) => kind[i])};
  }

  plotLeft() { return this.board.width < 640 ? 8 : 132; }
  plotWidth() { return Math.max(50, this.board.width - this.plotLeft() - 10); }
  x(t) { return this.plotLeft() + (t - this.from) / (this.to - this.from) * this.plotWidth(); }
  time(x) { return this.from + (x - this.plotLeft()) / this.plotWidth() * (this.to - this.from); }

  look(from, to) {
    const length = Math.min(this.last * 1.02, Math.max(50, to - from));
    this.from = Math.max(-0.01 * this.last, Math.min(from, this.last * 1.01 - length));
    this.to = this.from + length;
    this.board.redraw();
    for (const listener of this.listeners) listener();
  }
  move(by) { this.look(this.from + by, this.to + by); }
  zoom(factor, x) {
    const t = this.time(x);
    this.look(t - (t - this.from) / factor, t + (this.to - t) / factor);
  }

  // --- Pointer --------------------------------------------------------------------------------

  find(p) {
    const row = this.rows.find((r) => p.y >= r.y && p.y < r.y + kRow);
    if (!row || p.x < this.plotLeft()) return null;
    const t = this.time(p.x);
    const near = 1.5 * (this.to - this.from) / this.plotWidth();
    const s = row.stream;
    const i = firstWhere(s.size, (k) => s.end[k] > t - near);
    if (i >= s.size || s.start[i] > t + near) return null;
    // Prefers the task under the pointer to others within reach.
    const under = firstWhere(s.size, (k) => s.end[k] > t);
    return {row, index: under < s.size && s.start[under] <= t ? under : i};
  }
  words({row, index}) {
    const s = row.stream;
    const t = s.task[index];
    const tasks = this.tasks;
    const time = (s.end[index] - s.start[index]) * 1e-9;
    const lines = [make('b', null, tasks.what[t]),
      tipRow(`${row.stream.name}, ${tasks.pass[t]}${this.data.micro_batches > 1 ? `, micro-batch ${s.micro[index] + 1} of ${this.data.micro_batches}` : ''}`),
      tipRow(`${seconds(time)}, from ${seconds(s.start[index] * 1e-9)} to ${seconds(s.end[index] * 1e-9)}`)];
    if (!s.computes) {
      const exposed = s.exposed[index] * 1e-9;
      lines.push(tipRow(swatch(`var(--${reported(tasks.kind[t])})`), `${kindText(tasks.kind[t])} of ${bytes(tasks.bytes[t])} over ${this.data.overs[tasks.over[t]]}`
        + (time > 0 && tasks.bytes[t] > 0 ? `, ${bytes(tasks.bytes[t] / time)}/s` : '')));
      lines.push(tipRow(exposed > 0 ? `${seconds(exposed)} exposed` : 'overlapped with compute'));
    }
    return lines;
  }
  hover(p, event) {
    const found = this.find(p);
    this.board.canvas.style.cursor = found ? 'pointer' : 'grab';
    if (found) showTip(event.clientX, event.clientY, this.words(found));
    else hideTip();
  }
  click(p) {
    const found = this.find(p);
    this.choose(found);
  }
  choose(found) {
    this.current = found;
    fill('timeline-status', found ? this.words(found).map((e, i) => make('span', null, i ? ' · ' : '', ...e.childNodes)) : ' ');
    const node = found ? this.tasks.node[found.row.stream.task[found.index]] : null;
    selection.set(node === undefined ? null : node, 'timeline');
    this.board.redraw();
  }
  key(event) {
    if (event.key !== '.' && event.key !== ',') return false;
    const now = this.current || {row: this.rows[0], index: event.key === '.' ? -1 : 1};
    if (!now.row) return true;
    const s = now.row.stream;
    const index = Math.max(0, Math.min(s.size - 1, now.index + (event.key === '.' ? 1 : -1)));
    const middle = (s.start[index] + s.end[index]) / 2;
    if (s.start[index] < this.from || s.end[index] > this.to) {
      const half = (this.to - this.from) / 2;
      this.look(middle - half, middle + half);
    }
    this.choose({row: now.row, index});
    return true;
  }

  // --- Drawing --------------------------------------------------------------------------------

  draw(c, width) {
    const left = this.plotLeft();
    c.save();
    c.beginPath();
    c.rect(left, 0, width - left, this.height);
    c.clip();
    this.drawAxis(c);
    for (const h of this.heads) this.drawStates(c, h);
    this.drawn = 0;
    for (const row of this.rows) this.drawRow(c, row);
    const end = this.x(this.iteration);
    c.strokeStyle = colours.faint;
    c.setLineDash([3, 3]);
    c.beginPath();
    c.moveTo(end, kAxis - 8);
    c.lineTo(end, this.height);
    c.stroke();
    c.setLineDash([]);
    c.restore();
    this.drawNames(c, left);
  }

  drawAxis(c) {
    const span = this.to - this.from;
    const rough = span / Math.max(2, this.plotWidth() / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    c.font = `11px ${kSans}`;
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.strokeStyle = colours.line;
      c.beginPath();
      c.moveTo(x, kAxis - 6);
      c.lineTo(x, this.height);
      c.stroke();
      c.fillStyle = colours.faint;
      c.textAlign = x < this.plotLeft() + 24 ? 'left' : x > this.board.width - 30 ? 'right' : 'center';
      c.fillText(timeText(t * 1e-9, step * 1e-9), c.textAlign === 'right' ? this.board.width - 4 : x, kAxis - 11);
    }
    c.textAlign = 'left';
  }

  // Draws the strip that shows what the devices do: compute, wait for communication, or stall.
  drawStates(c, head) {
    const y = head.y + kClassHead;
    const s = head.states;
    const x0 = this.x(0);
    const x1 = this.x(this.iteration);
    c.fillStyle = colours.idle;
    c.fillRect(x0, y, x1 - x0, kStrip);
    const columns = new Columns(this.plotLeft(), this.plotWidth(), kReported.length);
    const draw = (x, w, kind, filled) => {
      c.fillStyle = colours[kReported[kind]];
      c.globalAlpha = filled;
      c.fillRect(x, y, w, kStrip);
    };
    for (let i = firstWhere(s.to.length, (k) => s.to[k] > this.from); i < s.from.length && s.from[i] < this.to; ++i) {
      columns.add(this.x(s.from[i]), this.x(s.to[i]), kReported.indexOf(s.kind[i]), draw);
    }
    columns.finish(draw);
    c.globalAlpha = 1;
  }

  drawRow(c, row) {
    const s = row.stream;
    c.fillStyle = colours.hover;
    c.fillRect(this.plotLeft(), row.y, this.plotWidth() + 10, kRow);
    const first = firstWhere(s.size, (i) => s.end[i] > this.from);
    const height = kRow - 4;
    const y = row.y + 2;
    const full = s.computes ? 1 : 0.33;
    const draw = (x, w, kind, filled) => {
      c.fillStyle = colours[kReported[kind]];
      c.globalAlpha = full * filled;
      c.fillRect(x, y, w, height);
      ++this.drawn;
    };
    const columns = new Columns(this.plotLeft(), this.plotWidth(), kReported.length);
    const scale = this.plotWidth() / (this.to - this.from);
    const named = [];
    for (let i = first; i < s.size && s.start[i] < this.to; ++i) {
      const x0 = this.plotLeft() + (s.start[i] - this.from) * scale;
      const x1 = this.plotLeft() + (s.end[i] - this.from) * scale;
      columns.add(x0, x1, this.kindOf[s.task[i]], draw);
      if (x1 - x0 > 40) named.push(i);
    }
    columns.finish(draw);
    c.globalAlpha = 1;
    if (s.bare) this.drawExposed(c, s, y, height);
    this.drawLabels(c, s, named, y);
    this.drawSelected(c, row, first, y, height, scale);
  }
  drawExposed(c, s, y, height) {
    const columns = new Columns(this.plotLeft(), this.plotWidth(), kReported.length);
    const draw = (x, w, kind, filled) => {
      c.fillStyle = colours[kReported[kind]];
      c.globalAlpha = filled;
      c.fillRect(x, y, w, height);
    };
    const b = s.bare;
    for (let k = firstWhere(b.to.length, (i) => b.to[i] > this.from); k < b.from.length && b.from[k] < this.to; ++k) {
      columns.add(this.x(b.from[k]), this.x(b.to[k]), this.kindOf[s.task[b.at[k]]], draw);
    }
    columns.finish(draw);
    c.globalAlpha = 1;
  }
  drawLabels(c, s, named, y) {
    const font = `11px ${kSans}`;
    c.font = font;
    for (const i of named) {
      const x0 = Math.max(this.plotLeft(), this.x(s.start[i]));
      const x1 = Math.min(this.board.width, this.x(s.end[i]));
      const name = this.tasks.name[s.task[i]];
      // The tip shows names that do not fit.
      if (x1 - x0 < 24 || textWidth(name, font) > x1 - x0 - 8) continue;
      c.fillStyle = s.computes || s.exposed[i] > 0.5 * (s.end[i] - s.start[i]) ? colours['on-colour'] : colours.ink;
      c.fillText(name, x0 + 4, y + 13);
    }
  }
  drawSelected(c, row, first, y, height, scale) {
    const s = row.stream;
    if (selection.node !== null) {
      c.strokeStyle = colours.ink;
      c.lineWidth = 1.5;
      let last = -10;
      for (let i = first; i < s.size && s.start[i] < this.to; ++i) {
        if (this.tasks.node[s.task[i]] !== selection.node) continue;
        const x = this.plotLeft() + (s.start[i] - this.from) * scale;
        if (x < last + 1) continue;
        const w = Math.max(1, (s.end[i] - s.start[i]) * scale);
        c.strokeRect(x, y - 1, w, height + 2);
        last = x;
      }
    }
    if (this.current && this.current.row === row) {
      const i = this.current.index;
      c.strokeStyle = colours.accent;
      c.lineWidth = 2.5;
      c.strokeRect(this.x(s.start[i]) - 1, y - 2, Math.max(3, (s.end[i] - s.start[i]) * scale + 2), height + 4);
    }
    c.lineWidth = 1;
  }

  drawNames(c, left) {
    const small = left < 20;
    for (const h of this.heads) {
      c.fillStyle = colours.ink;
      c.font = `600 12.5px ${kSans}`;
      const edge = small ? 8 : 12;
      c.fillText(h.name + (h.number === this.data.busiest && this.data.classes_in_all > 1 ? ', the busiest' : ''), edge, h.y + 17, this.board.width - 2 * edge);
    }
    c.font = `12px ${kSans}`;
    for (const r of this.rows) {
      if (small) {
        c.font = `10px ${kSans}`;
        c.fillStyle = colours.ink;
        c.globalAlpha = 0.6;
        c.fillText(r.stream.name, 12, r.y + 14, this.board.width - 24);
        c.globalAlpha = 1;
      } else {
        c.fillStyle = colours.soft;
        c.fillText(r.stream.name, 12, r.y + 15, left - 18);
      }
    }
  }
}

// Merges tasks that are narrower than a pixel. The kind with the largest part gives the colour, which
// is paler if less of the pixel is busy.
class Columns {
  constructor(left, width, kinds) {
    this.left = left;
    this.right = left + width + 10;
    this.sums = new Float64Array(kinds);
    this.pixel = -1;
  }
  add(x0, x1, kind, draw) {
    if (x1 - x0 >= 1) {
      this.finish(draw);
      const from = Math.max(x0, this.left);
      const to = Math.min(x1, this.right);
      // A thin gap separates neighbours if there is room.
      if (to > from) draw(from, to - from > 3 ? to - from - 0.6 : to - from, kind, 1);
      return;
    }
    const pixel = Math.floor(x0);
    if (pixel !== this.pixel) this.finish(draw);
    this.pixel = pixel;
    this.sums[kind] += x1 - x0;
  }
  finish(draw) {
    if (this.pixel < 0) return;
    let best = 0;
    let filled = 0;
    for (let k = 0; k < this.sums.length; ++k) {
      filled += this.sums[k];
      if (this.sums[k] > this.sums[best]) best = k;
    }
    if (this.pixel >= this.left - 1 && this.pixel <= this.right) draw(this.pixel, 1, best, Math.min(1, 0.12 + filled));
    this.sums.fill(0);
    this.pixel = -1;
  }
}

// Returns the text of a tick, with the digits that `step` needs: "120 ms", "120.5 ms".
function timeText(value, step) {
  const size = Math.max(Math.abs(value), step);
  const [unit, base] = size >= 1 ? ['s', 1] : size >= 1e-3 ? ['ms', 1e-3] : size >= 1e-6 ? ['µs', 1e-6] : ['ns', 1e-9];
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / base) + 1e-9)));
  return `${(value / base).toFixed(digits)} ${unit}`;
}

function startTimeline() {
  const data = plan.timeline;
  const left = data.classes_in_all - data.classes.length;
  byId('timeline-note').textContent = `One iteration of ${seconds(data.iteration * 1e-9)}, with a group of rows for each class of equivalent devices. `
    + 'The strip on top of a group shows what these devices do: compute, wait for communication, or stall. Communication is pale where it is overlapped with compute and solid where it is exposed.'
    + (data.steps_overlap ? ' Steps overlap: the tasks shown start in one iteration.' : '')
    + (left > 0 ? ` ${data.classes.length} of ${data.classes_in_all} classes of devices are shown, including the busiest.` : '');
  const kinds = new Set((data.tasks.kind || []).map(reported));
  fill('legend-timeline', kReported.filter((k) => kinds.has(k)).map((k) => make('span', null, swatch(`var(--${k})`), kindText(k))),
    make('span', null, swatch('var(--idle)'), 'stall'));
  if (!data.classes.length || !data.classes.some((k) => k.streams.length)) {
    byId('timeline-canvas').closest('.stage').replaceWith(empty('No task runs: the timeline is empty.'));
    return null;
  }
  return new Timeline(data);
}
