// A canvas that is drawn at most once per frame, at the screen's resolution. Mouse, fingers and keys
// pan and zoom it. Both axes zoom together, or only the horizontal one.
'use strict';

class Board {
  // options: {draw(context, width, height), height(width)?}
  constructor(id, options) {
    this.canvas = byId(id);
    this.context = this.canvas.getContext('2d');
    this.options = options;
    this.width = 0;
    this.height = 0;
    this.asked = false;
    this.frames = 0;
    new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
    themed.push(() => this.redraw());
    this.resize();
  }

  resize() {
    const stage = this.canvas.parentElement;
    const width = stage.clientWidth;
    const height = this.options.height ? this.options.height(width) : stage.clientHeight;
    if (width === this.width && height === this.height) return;
    this.width = width;
    this.height = height;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = height + 'px';
    if (this.options.resized) this.options.resized(width, height);
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.drawNow(); });
  }

  drawNow() {
    if (!(this.width > 0 && this.height > 0)) return;
    const ratio = devicePixelRatio || 1;
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    this.options.draw(c, this.width, this.height);
    ++this.frames;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }
}

// Connects the events of a board to the functions of `does`: `pan(dx, dy)` in pixels,
// `zoom(factor, x, y)` about a point, `fit()`, `hover(point, event)`, `click(point, event)`, `leave()`.
function steer(board, does) {
  const canvas = board.canvas;
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button > 0) return;
    const wasFocused = document.activeElement === canvas;
    canvas.focus({preventScroll: true});
    // On a touch screen, the first tap focuses the canvas. Until then, fingers scroll the page.
    if (event.pointerType === 'touch' && !wasFocused) { moved = 0; pointers.set(event.pointerId, board.point(event)); return; }
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, board.point(event));
    moved = 0;
  });
  canvas.addEventListener('pointermove', (event) => {
    const now = board.point(event);
    const before = pointers.get(event.pointerId);
    if (!before) { does.hover(now, event); return; }
    if (pointers.size === 1) {
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (moved > 4) { hideTip(); does.pan(now.x - before.x, now.y - before.y); }
    } else {
      const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const is = Math.hypot(now.x - other.x, now.y - other.y);
      if (was > 4) does.zoom(is / was, (now.x + other.x) / 2, (now.y + other.y) / 2);
      moved += 10;
    }
    pointers.set(event.pointerId, now);
  });
  const release = (event) => {
    const known = pointers.delete(event.pointerId);
    if (known && event.type === 'pointerup' && moved <= 4) does.click(board.point(event), event);
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => { hideTip(); if (does.leave) does.leave(); });
  canvas.addEventListener('wheel', (event) => {
    const taken = event.ctrlKey || event.metaKey || document.activeElement === canvas;
    if (!taken) {
      if (does.sideways && Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); does.pan(-event.deltaX, 0); }
      return;
    }
    event.preventDefault();
    const at = board.point(event);
    if (does.sideways && Math.abs(event.deltaX) > Math.abs(event.deltaY)) return does.pan(-event.deltaX, 0);
    if (event.shiftKey) return does.pan(-event.deltaY, 0);
    const lines = event.deltaMode === 1 ? 30 : 1;
    does.zoom(Math.exp(-event.deltaY * lines * 0.0016), at.x, at.y);
  }, {passive: false});
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (does.key && does.key(event)) { event.preventDefault(); return; }
    const step = 60;
    const moves = {ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]};
    if (moves[event.key]) does.pan(...moves[event.key]);
    else if (event.key === '+' || event.key === '=') does.zoom(1.3, board.width / 2, board.height / 2);
    else if (event.key === '-') does.zoom(1 / 1.3, board.width / 2, board.height / 2);
    else if (event.key === '0') does.fit();
    else if (event.key === 'Escape') { canvas.blur(); hideTip(); }
    else return;
    event.preventDefault();
  });
  const name = canvas.id.replace('-canvas', '');
  const buttons = document.querySelector(`.zoom[data-for="${name}"]`);
  if (buttons) {
    buttons.append(
      make('button', {type: 'button', 'aria-label': 'Zoom out', onclick: () => does.zoom(1 / 1.5, board.width / 2, board.height / 2)}, '−'),
      make('button', {type: 'button', 'aria-label': 'Zoom in', onclick: () => does.zoom(1.5, board.width / 2, board.height / 2)}, '+'),
      make('button', {type: 'button', onclick: () => does.fit()}, 'Fit'));
  }
}

function roundRect(c, x, y, w, h, r) {
  c.beginPath();
  c.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2));
}
// Returns the width of a text in pixels.
function textWidth(text, font) {
  const key = font + text;
  let width = textWidth.known.get(key);
  if (width === undefined) {
    textWidth.context.font = font;
    width = textWidth.context.measureText(text).width;
    textWidth.known.set(key, width);
  }
  return width;
}
textWidth.known = new Map();
textWidth.context = document.createElement('canvas').getContext('2d');

// Breaks a list "a, b, c" into lines no wider than `width`, unless one item alone is.
function wrap(text, font, width) {
  const lines = [];
  for (const item of text.split(', ')) {
    const longer = lines.length ? `${lines[lines.length - 1]}, ${item}` : item;
    if (!lines.length || textWidth(longer + ',', font) > width) {
      if (lines.length) lines[lines.length - 1] += ',';
      lines.push(item);
    } else {
      lines[lines.length - 1] = longer;
    }
  }
  return lines;
}

const kSans = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif';
