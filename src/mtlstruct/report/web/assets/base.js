// What every page needs: elements, numbers, the tooltip, the theme.

const SVG = 'http://www.w3.org/2000/svg';
const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element. Children that are strings become text, never markup. */
function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** A drawing that Python has made: an svg element and nothing else. */
function picture(text) {
  return document.adoptNode(new DOMParser().parseFromString(text, 'text/html').querySelector('svg'));
}

// Numbers ------------------------------------------------------------------------------------------------------

const known = value => value !== null && value !== undefined;
const whole = value => known(value) ? value.toLocaleString('en-US') : '–';
const percent = value => known(value) ? rounded(value, 'toFixed', 2) : '–';

/**
 * Rounds as Python's format does, so that pages and commands print the same digits: to the nearest decimal, and
 * a value halfway between two to the even one. toFixed and toPrecision alone round it away from zero.
 */
function rounded(value, method, digits) {
  const near = value[method](digits);
  const exact = value[method](digits + 30);
  const below = exact.slice(0, near.length);
  return /^50*$/.test(exact.slice(near.length)) && /[02468]$/.test(below) ? below : near;
}

/** A few significant digits: 1234.5 is 1,235, 0.01234 is 0.0123. */
function figure(value, digits = 4) {
  if (!known(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 10 ** digits) return Math.round(value).toLocaleString('en-US');
  if (size < 1e-4) return value.toExponential(2);
  return String(Number(rounded(value, 'toPrecision', digits)));
}

/** The same with all its digits, for numbers that stand below each other. */
function column(value) {
  if (!known(value) || value === 0 || Math.abs(value) >= 1e4 || Math.abs(value) < 1e-4) return figure(value);
  return rounded(value, 'toPrecision', 4);
}

function bytes(value) {
  if (!known(value)) return '–';
  for (const [size, unit] of [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return `${value} bytes`;
}

function duration(seconds) {
  if (!known(seconds)) return '–';
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// The tooltip --------------------------------------------------------------------------------------------------

const tip = el('div', {class: 'bubble', hidden: true, role: 'tooltip'});

function showTip(event, lines) {
  const [title, ...rest] = lines;
  tip.replaceChildren(el('b', null, title), ...rest.map(line => el('div', null, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const below = event.clientY + 18;
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${below + box.height > innerHeight ? Math.max(8, event.clientY - box.height - 12) : below}px`;
}

/** Attributes that show a tooltip over an element. */
function tipped(lines) {
  return {
    onpointermove: event => showTip(event, lines()),
    onpointerleave: () => { tip.hidden = true; },
  };
}

// The theme: that of the system until the button is pressed ------------------------------------------------------

function themeButton() {
  const root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const button = el('button', {class: 'theme', type: 'button', title: 'Light or dark', 'aria-label': 'Light or dark',
    onclick: () => { root.dataset.theme = isDark() ? 'light' : 'dark'; }}, '◐');
  return button;
}

/** The bar on top: links to the sections of the page. */
function topBar(sections) {
  const links = sections.map(section => el('a', {href: `#${section.id}`}, section.dataset.short));
  return el('div', {class: 'bar'}, el('div', null, el('nav', {'aria-label': 'Sections'}, links), themeButton()));
}

/** A section of the page as a card. */
function card(id, short, title, note, ...children) {
  return el('section', {class: 'card', id, 'data-short': short},
    el('h2', null, title), note && el('p', {class: 'soft small'}, note), ...children);
}

/** A picture that is drawn for the width it has, and again when that changes. */
function drawn(draw, label) {
  const box = el('div', {class: 'chart', role: 'img', 'aria-label': label});
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(box.clientWidth);
    if (now && now !== width) {
      width = now;
      box.replaceChildren(draw(width));
    }
  }).observe(box);
  box.redraw = () => { if (width) box.replaceChildren(draw(width)); };
  return box;
}
