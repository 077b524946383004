// Tables that can be sorted and searched.

/**
 * columns: [{title, value(row), show(row)?, number?, className?, less? (not on a phone)}]; rows; options:
 * search(row) -> text to look in, open(row) -> element or null, gone(row) -> whether it is pale, limit, sort: [column, descending]
 */
function dataTable(columns, rows, {search, open, gone, limit = 25, sort = null, label} = {}) {
  let [sorted, descending] = sort || [null, false];
  let words = '';
  let all = false;
  const opened = new Set();
  const body = el('tbody');
  const more = el('button', {type: 'button', class: 'more', onclick: () => { all = true; update(); }});
  const count = el('span', {class: 'soft small', 'aria-live': 'polite'});
  const heads = columns.map((column, n) => el('th', {class: [column.number ? 'number' : '', column.less ? 'phone-less' : ''].join(' ').trim() || null, scope: 'col'},
    el('button', {type: 'button', onclick: () => {
      descending = sorted === n ? !descending : Boolean(column.number && !column.ascending);
      sorted = n;
      update();
    }}, column.title)));

  function compare(a, b) {
    const [x, y] = [columns[sorted].value(a), columns[sorted].value(b)];
    if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0;
    const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
    return descending ? -order : order;
  }

  function rowOf(row) {
    const detail = open && open(row);
    const cells = columns.map(column => el('td', {class: [column.number ? 'number' : column.className || '', column.less ? 'phone-less' : ''].join(' ').trim() || null},
      column.show ? column.show(row) : String(column.value(row))));
    const toggle = () => { opened.has(row) ? opened.delete(row) : opened.add(row); update(); };
    const line = el('tr', {class: [gone && gone(row) ? 'gone' : '', detail ? 'opens' : ''].join(' ').trim() || null,
      tabindex: detail ? 0 : null, 'aria-expanded': detail ? String(opened.has(row)) : null,
      onclick: detail ? toggle : null, onkeydown: detail ? event => { if (event.key === 'Enter') toggle(); } : null}, cells);
    if (!detail || !opened.has(row)) return [line];
    return [line, el('tr', {class: 'detail'}, el('td', {colspan: columns.length}, detail()))];
  }

  function update() {
    const found = words ? rows.filter(row => words.split(/\s+/).every(word => search(row).toLowerCase().includes(word))) : [...rows];
    if (sorted !== null) found.sort(compare);
    const shown = all ? found : found.slice(0, limit);
    body.replaceChildren(...shown.flatMap(rowOf));
    heads.forEach((head, n) => {
      if (n === sorted) head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${whole(found.length)}`;
    count.textContent = words ? `${whole(found.length)} of ${whole(rows.length)} match` : '';
  }

  const input = search && el('input', {class: 'search', type: 'search', placeholder: 'Search', 'aria-label': `Search ${label || ''}`.trim(),
    oninput: event => { words = event.target.value.trim().toLowerCase(); update(); }});
  update();
  return el('div', null,
    input && el('div', {class: 'row screen'}, el('div', {class: 'grow'}, input), count),
    el('div', {class: 'scroll'}, el('table', null, el('thead', null, el('tr', null, heads)), body)),
    more);
}

/** A number with a bar beside it; share is from 0 to 1. */
function meter(text, share, room = 72) {
  const bar = el('i');
  bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  const lane = el('b', null, bar);
  lane.style.width = `${room}px`;
  return el('div', {class: 'meter'}, lane, el('span', null, text));
}

/** What was right (rows) against what was chosen (columns). */
function heatTable({names, cells, rows, axis}) {
  const counts = names.map(() => names.map(() => 0));
  for (const [right, chosen, count] of cells) counts[right][chosen] = count;
  const head = el('tr', null, el('th', {class: 'corner'}, ''), names.map(name => el('th', {scope: 'col'}, el('span', null, name))));
  const body = names.map((name, right) => el('tr', null, el('th', {scope: 'row'}, el('span', null, name)), names.map((other, chosen) => {
    const count = counts[right][chosen];
    const cell = el('td', {class: count ? null : 'zero', ...(count ? tipped(() => [`${name} → ${other}`,
      `${whole(count)} of ${whole(rows[right])} (${(100 * count / rows[right]).toFixed(1)}%) ${right === chosen ? 'are right' : `were taken for ${other}`}`]) : {})}, count ? whole(count) : '·');
    if (count) {
      const share = Math.sqrt(count / rows[right]);
      const shade = right === chosen ? '--accent' : '--alarm';
      cell.style.background = `color-mix(in srgb, var(${shade}) ${Math.round(12 + 60 * share)}%, var(--faint))`;
    }
    return cell;
  })));
  return el('div', {class: 'scroll'}, el('table', {class: 'heat', 'aria-label': `Confusion by ${axis}`}, el('thead', null, head), el('tbody', null, body)));
}
