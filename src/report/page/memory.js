// Memory: the peak against the limit, and the course over the step on the timeline's axis.
'use strict';

function memoryText(kind) { return kind.replace('_', ' '); }

function showMemoryBar() {
  const peak = why.memory_at_peak;
  const limit = why.memory_limit_bytes;
  const parts = kMemory.map((kind) => ({kind, text: memoryText(kind), size: peak[kind + '_bytes']}));
  parts.push({kind: 'unused', text: 'unused (reserved by the allocator)', size: peak.unused_bytes});
  const shown = parts.filter((p) => p.size > 0);
  const used = peakBytes();
  const whole = Math.max(used, limit);
  const bar = make('div', {class: 'stack', role: 'img', 'aria-label': `${bytes(used)} of ${bytes(limit)}`},
    shown.map((p) => make('i', {title: `${p.text}: ${bytes(p.size)}`, style: {flex: `${p.size / whole * 1000} 0 0`, background: `var(--${p.kind})`}})),
    limit > used ? make('i', {style: {flex: `${(limit - used) / whole * 1000} 0 0`}}) : '');
  const keys = make('div', {class: 'keys'}, shown.map((p) => make('span', null, swatch(`var(--${p.kind})`), p.text + ' ',
    make('b', null, bytes(p.size)), ' ' + percent(p.size, used))), make('span', null, limit >= used ? `${bytes(limit - used)} free of ${bytes(limit)}`
    : make('b', null, `${bytes(used - limit)} above the limit of ${bytes(limit)}`)));
  fill('memory-bar', bar, keys);
  byId('memory-note').textContent = `Peak of the fullest device (device ${peak.device}): ${bytes(used)} of ${bytes(limit)}, in ${peak.when}.`
    + (peak.cache_bytes > 0 ? ` ${bytes(peak.cache_bytes)} are the KV cache of all tokens so far.` : '');
  const rows = why.largest_tensors.map((t) => [make('span', null, swatch(`var(--${t.part.replace(' ', '_')})`), t.name + (t.count > 1 ? ' ' : ''),
    t.count > 1 ? make('span', {class: 'sub'}, `× ${t.count}`) : ''), t.part, [bytes(t.bytes)], [percent(t.bytes, used)]]);
  fill('largest', rows.length ? table(['', '', [''], ['of the peak']], rows) : empty('The device holds no tensor.'));
}

class MemoryCurve {
  constructor(timeline) {
    this.timeline = timeline;
    this.classes = plan.timeline.classes.filter((k) => k.memory && k.memory.at.length);
    this.limit = why.memory_limit_bytes;
    const fullest = (k) => Math.max(...k.memory.at.map((t, i) => kMemory.reduce((sum, kind) => sum + k.memory[kind][i], 0)));
    this.peaks = this.classes.map(fullest);
    this.chosen = this.peaks.indexOf(Math.max(...this.peaks));
    const choice = byId('memory-class');
    choice.replaceChildren(...this.classes.map((k, i) => make('option', {value: i, selected: i === this.chosen}, k.name)));
    choice.hidden = this.classes.length < 2;
    choice.addEventListener('change', () => { this.chosen = Number(choice.value); this.board.redraw(); });
    this.board = new Board('memory-canvas', {draw: (c, w, h) => this.draw(c, w, h), height: () => 220});
    steer(this.board, {
      sideways: true,
      pan: (dx) => timeline.move(-dx * (timeline.to - timeline.from) / timeline.plotWidth()),
      zoom: (factor, x) => timeline.zoom(factor, x),
      hover: (p, event) => this.hover(p, event),
      leave: () => { this.at = null; this.board.redraw(); },
      click: () => {},
      fit: () => timeline.look(0, timeline.last),
    });
    timeline.listeners.push(() => this.board.redraw());
  }

  top() { return 1.08 * Math.max(this.peaks[this.chosen], this.limit <= 3 * this.peaks[this.chosen] ? this.limit : 0); }
  y(value) { return 206 - value / this.top() * 190; }

  draw(c, width) {
    const t = this.timeline;
    const memory = this.classes[this.chosen].memory;
    const left = t.plotLeft();
    this.drawScale(c, left, width);
    c.save();
    c.beginPath();
    c.rect(left, 0, width - left, 220);
    c.clip();
    const first = Math.max(0, firstWhere(memory.at.length, (i) => memory.at[i] > t.from) - 1);
    const last = Math.min(memory.at.length, firstWhere(memory.at.length, (i) => memory.at[i] > t.to) + 1);
    let below = new Float64Array(Math.max(0, last - first));
    for (const kind of kMemory) {
      const above = below.map((b, k) => b + memory[kind][first + k]);
      c.fillStyle = colours[kind];
      c.beginPath();
      this.steps(c, memory.at, above, first, last);
      this.stepsBack(c, memory.at, below, first, last);
      c.fill();
      below = above;
    }
    c.restore();
    this.drawLimit(c, left, width);
    if (this.at) {
      c.strokeStyle = colours.soft;
      c.beginPath();
      c.moveTo(this.at, 8);
      c.lineTo(this.at, 206);
      c.stroke();
    }
  }
  steps(c, at, values, first, last) {
    for (let i = first; i < last; ++i) {
      const x = this.timeline.x(at[i]);
      const y = this.y(values[i - first]);
      if (i === first) c.moveTo(x, y);
      c.lineTo(x, y);
      c.lineTo(this.timeline.x(i + 1 < at.length ? at[i + 1] : this.timeline.iteration), y);
    }
  }
  stepsBack(c, at, values, first, last) {
    for (let i = last - 1; i >= first; --i) {
      const y = this.y(values[i - first]);
      c.lineTo(this.timeline.x(i + 1 < at.length ? at[i + 1] : this.timeline.iteration), y);
      c.lineTo(this.timeline.x(at[i]), y);
    }
    c.closePath();
  }
  drawScale(c, left, width) {
    const top = this.top();
    const power = 10 ** Math.floor(Math.log10(top / 3));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => top / s <= 5);
    c.font = `11px ${kSans}`;
    for (let v = 0; v < top; v += step) {
      const y = Math.round(this.y(v)) + 0.5;
      c.strokeStyle = colours.line;
      c.beginPath();
      c.moveTo(left, y);
      c.lineTo(width, y);
      c.stroke();
      c.fillStyle = colours.faint;
      if (left > 20) { c.textAlign = 'right'; c.fillText(bytes(v), left - 8, y + 4); }
      c.textAlign = 'left';
    }
  }
  drawLimit(c, left, width) {
    const y = this.y(this.limit);
    c.font = `11px ${kSans}`;
    c.fillStyle = colours.limit;
    if (y < 0) {
      c.textAlign = 'right';
      c.fillText(`limit ${bytes(this.limit)} is far above`, width - 10, 14);
      c.textAlign = 'left';
      return;
    }
    c.strokeStyle = colours.limit;
    c.setLineDash([6, 4]);
    c.beginPath();
    c.moveTo(left, y);
    c.lineTo(width, y);
    c.stroke();
    c.setLineDash([]);
    c.fillText(`limit ${bytes(this.limit)}`, left + 6, y - 5);
  }
  hover(p, event) {
    const memory = this.classes[this.chosen].memory;
    const t = this.timeline.time(p.x);
    const i = firstWhere(memory.at.length, (k) => memory.at[k] > t) - 1;
    this.at = i >= 0 && p.x > this.timeline.plotLeft() ? p.x : null;
    this.board.redraw();
    if (!this.at) { hideTip(); return; }
    const all = kMemory.reduce((sum, kind) => sum + memory[kind][i], 0);
    showTip(event.clientX, event.clientY, make('b', null, `${bytes(all)} at ${seconds(t * 1e-9)}`),
      kMemory.filter((kind) => memory[kind][i] > 0).reverse().map((kind) => tipRow(swatch(`var(--${kind})`), `${memoryText(kind)} ${bytes(memory[kind][i])}`)));
  }
}

function startMemory(timeline) {
  showMemoryBar();
  if (timeline && plan.timeline.classes.some((k) => k.memory && k.memory.at.length)) return new MemoryCurve(timeline);
  byId('memory-canvas').closest('.stage').replaceWith(empty('The memory over the course of the step is not known.'));
  byId('memory-class').hidden = true;
  return null;
}
