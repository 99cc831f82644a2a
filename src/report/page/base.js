// Shared by all parts of the page: the document, numbers as text, elements, colours, and the selected
// node.
'use strict';

const plan = JSON.parse(document.getElementById('plan-data').textContent);

// --- Numbers as text --------------------------------------------------------------------------

function threeDigits(value) {
  if (value === 0) return '0';
  const size = Math.floor(Math.log10(Math.abs(value)) + 1e-9);
  return String(Number(value.toFixed(Math.max(0, Math.min(3, 2 - size)))));
}
function withPrefix(value, units, base) {
  let at = 0;
  while (at + 1 < units.length && Math.abs(value) >= 999.5 * base[at]) ++at;
  return threeDigits(value / base[at]) + ' ' + units[at];
}
function seconds(value) {
  if (!(value > 0)) return '0 s';
  return withPrefix(value, ['ns', 'µs', 'ms', 's'], [1e-9, 1e-6, 1e-3, 1]);
}
function bytes(value) {
  return withPrefix(value, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], [1, 1e3, 1e6, 1e9, 1e12, 1e15]);
}
function count(value) {
  return withPrefix(value, ['', 'k', 'M', 'G', 'T', 'P', 'E'], [1, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18])
    .trim().replace(' ', '');
}
function flops(value) {
  return withPrefix(value, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP'], [1, 1e3, 1e6, 1e9, 1e12, 1e15]);
}
function percent(part, whole) {
  if (!(whole > 0)) return '';
  const value = 100 * part / whole;
  return (value > 0 && value < 0.5 ? '< 1' : value.toFixed(0)) + ' %';
}
function plural(n, one, many) { return n + ' ' + (n === 1 ? one : many || one + (/(s|x|ch|sh)$/.test(one) ? 'es' : 's')); }
function kindText(kind) { return kind.replace(/_/g, '-'); }

// --- Elements ---------------------------------------------------------------------------------

function byId(id) { return document.getElementById(id); }

// make('td', {class: 'n', onclick: f}, 'text', element, ...)
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'style') for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else element.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== '') element.append(child);
  }
  return element;
}
function fill(id, ...children) { byId(id).replaceChildren(...children.flat(Infinity).filter((c) => c !== '' && c !== null)); }
function swatch(colour, extra) {
  return make('span', {class: 'swatch ' + (extra || ''), style: {background: colour, 'border-color': colour}});
}
function chip(kind, outlined, text) {
  const colour = `var(--${reported(kind)})`;
  return make('span', {class: 'chip' + (outlined ? ' outlined' : ''),
    style: {background: colour, 'border-color': colour, color: outlined ? colour : ''}}, text || kindText(kind));
}
function empty(...text) { return make('p', {class: 'empty'}, ...text); }
// Makes a table from rows of cells. A cell is a text, an element, or [text] for a number.
function table(head, rows) {
  const cell = (tag, content) => Array.isArray(content) ? make(tag, {class: 'n'}, content[0]) : make(tag, null, content);
  return make('div', {class: 'scroll'}, make('table', null,
    make('thead', null, make('tr', null, head.map((h) => cell('th', h)))),
    make('tbody', null, rows.map((row) => make('tr', row.mine ? {class: 'mine'} : null, (row.cells || row).map((c) => cell('td', c)))))));
}

// --- Colours ----------------------------------------------------------------------------------

const kReported = ['compute', 'embedding', 'all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'send_recv'];
const kMemory = ['weights', 'optimizer_state', 'gathered_weights', 'gradients', 'activations', 'inputs'];
// Returns the reported kind of a task: broadcasts, shifts and halos count as sends and receives.
function reported(kind) { return kReported.includes(kind) || kind === 'idle' ? kind : 'send_recv'; }

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = {};
  for (const name of ['paper', 'sheet', 'ink', 'soft', 'faint', 'line', 'line-strong', 'hover', 'accent', 'accent-soft',
    'idle', 'unused', 'limit', 'good', 'on-colour', ...kReported, ...kMemory]) {
    colours[name] = style.getPropertyValue('--' + name).trim();
  }
}

const themed = [];  // functions that redraw when the theme changes
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
  byId('theme').setAttribute('aria-pressed', String(name === 'dark'));
  readColours();
  for (const draw of themed) draw();
}
function startTheme() {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  try { chosen = localStorage.getItem('tandem-theme'); } catch (e) { /* a page opened from a file may have no storage */ }
  setTheme(chosen || (system.matches ? 'dark' : 'light'));
  system.addEventListener('change', () => { if (!chosen) setTheme(system.matches ? 'dark' : 'light'); });
  byId('theme').addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('tandem-theme', chosen); } catch (e) { /* as above */ }
    setTheme(chosen);
  });
}

// --- Tip --------------------------------------------------------------------------------------

function showTip(x, y, ...content) {
  const tip = byId('tip');
  tip.replaceChildren(...content.flat(Infinity).filter((c) => c !== null && c !== ''));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth - 8 ? x - 14 - box.width : x + 14;
  const top = y + 16 + box.height > innerHeight - 8 ? y - 12 - box.height : y + 16;
  tip.style.left = Math.max(8, left) + 'px';
  tip.style.top = Math.max(8, top) + 'px';
}
function hideTip() { byId('tip').hidden = true; }
function tipRow(...text) { return make('div', {class: 'row'}, ...text); }

// --- Selection: a node of the graph, by number ------------------------------------------------

const selection = {
  node: null,
  listeners: [],
  set(node, from) {
    if (this.node === node) return;
    this.node = node;
    for (const listener of this.listeners) listener(node, from);
  },
};

// Returns the first index in [0, size) for which `holds` is true, or size. `holds` must be false up to
// an index and true from there on.
function firstWhere(size, holds) {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
