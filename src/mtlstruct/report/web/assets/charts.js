// Pictures as SVG. Each function takes its width and returns an svg element; colours are classes.

const SHADES = {'one cell': 'one', 'two cells': 'two', 'three or more': 'three', transition: 'transition'};

function frame(width, height, ...children) {
  return svg('svg', {viewBox: `0 0 ${width} ${height}`, width, height}, ...children);
}

/** Round numbers from low to high, about `count` of them. */
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

/** Powers of ten from low to high, at most `count`. */
function decades(low, high, count = 6) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const stride = Math.max(1, Math.ceil((last - first + 1) / count));
  const found = [];
  for (let power = first; power <= last; power += stride) found.push(Number(`1e${power}`));
  return found;
}

/** A scale from values to places, linear or logarithmic. */
function scale(low, high, from, to, log = false) {
  const f = log ? value => Math.log(Math.max(value, low)) : value => value;
  const span = f(high) - f(low) || 1;
  return value => from + (f(value) - f(low)) / span * (to - from);
}

const line = (points, move = 'M') => points.map(([x, y], n) => `${n ? 'L' : move}${x.toFixed(1)},${y.toFixed(1)}`).join('');

/** Templates by rank: bars on a log scale, the cut, and a mark for each dropped one. */
function weightsChart(rows, learned, width) {
  const height = width < 500 ? 240 : 290;
  const box = {left: 44, right: width - 10, top: 26, bottom: height - 24};
  const size = row => learned ? row.relative : row.norm;
  const kept = rows.filter(row => row.kept);
  const values = kept.map(size).filter(value => value > 0);
  const high = Math.max(...values, 1e-3) * 1.15;
  const low = Math.max(Math.min(...values, high / 10) / 1.6, high * 1e-6);
  const y = scale(low, high, box.bottom, box.top, true);
  const step = (box.right - box.left) / rows.length;
  const x = n => box.left + n * step;
  const parts = decades(low, high).map(value => [
    svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: y(value), y2: y(value)}),
    svg('text', {x: box.left - 6, y: y(value) + 4, 'text-anchor': 'end'}, figure(value))]);
  const room = Math.max(1, step * 0.84);
  rows.forEach((row, n) => {
    const shade = row.kept ? SHADES[row.cells] : 'dropped';
    const top = row.kept ? Math.min(y(size(row)), box.bottom - 2) : box.bottom - 6;
    parts.push(svg('rect', {class: shade, x: x(n).toFixed(2), y: top.toFixed(1), width: room.toFixed(2), height: (box.bottom - top).toFixed(1)}));
  });
  if (learned && low < 1 && high > 1) {
    parts.push(svg('line', {class: 'mark', x1: box.left, x2: box.right, y1: y(1), y2: y(1)}),
      svg('text', {class: 'marked', x: box.right, y: y(1) - 5, 'text-anchor': 'end'}, 'average'));
  }
  if (kept.length && kept.length < rows.length && rows.slice(0, kept.length).every(row => row.kept)) {
    const cut = x(kept.length);
    const right = cut > (box.left + box.right) / 2;
    parts.push(svg('line', {class: 'mark cut', x1: cut, x2: cut, y1: box.top - 12, y2: box.bottom}),
      svg('text', {class: 'strong', x: cut + (right ? -7 : 7), y: box.top - 4, 'text-anchor': right ? 'end' : 'start'},
        `${kept.length} kept · ${rows.length - kept.length} dropped`));
  }
  for (const rank of ticks(1, rows.length, width < 500 ? 4 : 8).map(Math.round).filter(rank => rank >= 1)) {
    parts.push(svg('text', {x: x(rank - 0.5), y: height - 7, 'text-anchor': 'middle'}, String(rank)));
  }
  const hits = rows.map((row, n) => svg('rect', {class: 'hit', x: x(n), y: box.top, width: Math.max(step, 1), height: box.bottom - box.top,
    ...tipped(() => templateLines(row))}));
  return frame(width, height, parts, hits);
}

function templateLines(row) {
  if (!row.kept) return [row.text, `rank ${row.rank} · dropped`];
  return [row.text, `rank ${row.rank} · relative ${figure(row.relative)} · μ ${figure(row.mu)}`, `norm ${figure(row.norm)} · ${whole(row.features)} features`];
}

/** Curves over passes or seconds. curves: [{key, shade}]; a value that is null is not there. */
function passesChart(passes, {curves, along, log, target, area, note}, width) {
  const height = 230;
  const box = {left: 58, right: width - 14, top: 14, bottom: height - 34};
  const values = curves.flatMap(curve => passes.map(p => p[curve.key])).filter(value => known(value) && (!log || value > 0));
  if (!values.length) return frame(width, 40, svg('text', {x: 4, y: 24}, 'This method proves no bounds.'));
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (known(target)) [low, high] = [Math.min(low, target), Math.max(high, target)];
  if (log) [low, high] = [low / 1.4, high * 1.4];
  else {
    const slack = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    [low, high] = [Math.max(low - slack, Math.min(0, low)), high + slack];
  }
  const places = passes.map(p => p[along]);
  const last = Math.max(...places);
  const first = along === 'seconds' ? 0 : Math.min(...places);
  const x = scale(first, Math.max(last, first + 1e-9), box.left, box.right);
  const y = scale(low, high, box.bottom, box.top, log);
  let marks = log ? decades(low, high) : ticks(low, high, 5);
  if (log && marks.length < 2) marks = ticks(low, high, 4).filter(value => value > 0);
  const parts = marks.map(value => [
    svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: y(value), y2: y(value)}),
    svg('text', {x: box.left - 7, y: y(value) + 4, 'text-anchor': 'end'}, note === '%' ? `${figure(value * 100)}%` : figure(value))]);
  const steps = ticks(first, last, Math.min(8, Math.max(2, Math.round(width / 90)))).filter(value => along === 'seconds' || Number.isInteger(value));
  for (const value of steps) parts.push(svg('text', {x: x(value), y: box.bottom + 16, 'text-anchor': 'middle'}, figure(value)));
  parts.push(svg('text', {x: (box.left + box.right) / 2, y: height - 3, 'text-anchor': 'middle'}, along === 'seconds' ? 'seconds' : 'passes over the data'));
  const points = curve => passes.filter(p => known(p[curve.key]) && (!log || p[curve.key] > 0)).map(p => [x(p[along]), y(p[curve.key])]);
  if (area && points(curves[0]).length === points(curves[1]).length) {
    parts.push(svg('path', {class: 'between', d: `${line(points(curves[0]))}${line([...points(curves[1])].reverse(), 'L')}Z`}));
  }
  if (known(target)) {
    parts.push(svg('line', {class: 'mark', x1: box.left, x2: box.right, y1: y(target), y2: y(target)}),
      svg('text', {class: 'marked', x: box.right, y: y(target) - 5, 'text-anchor': 'end'}, 'asked for'));
  }
  for (const curve of curves) {
    parts.push(svg('path', {class: curve.shade, d: line(points(curve))}));
    if (passes.length <= 60) {
      for (const p of passes) {
        if (!known(p[curve.key]) || (log && p[curve.key] <= 0)) continue;
        parts.push(svg('circle', {class: `dot ${curve.shade}${p.certified ? '' : ' guess'}`, cx: x(p[along]), cy: y(p[curve.key]), r: 3.2}));
      }
    }
  }
  const strip = (box.right - box.left) / Math.max(1, passes.length);
  const hits = passes.map(p => svg('rect', {class: 'hit', x: Math.max(box.left, x(p[along]) - strip / 2), y: box.top, width: strip, height: box.bottom - box.top,
    ...tipped(() => passLines(p))}));
  return frame(width, height, parts, hits);
}

function passLines(p) {
  const gap = known(p.gap) ? `gap ${p.certified ? '' : '~'}${(100 * p.gap).toPrecision(3)}%` : '';
  return [`pass ${p.passes} · ${duration(p.seconds)}`, `objective ${figure(p.objective, 6)} · dual ${figure(p.dual, 6)}`,
    [gap, `risk ${figure(p.risk)}`, `${p.active} active templates`].filter(Boolean).join(' · ')];
}

/** How often labels of a probability are right. bins: [count, confidence, accuracy] */
function reliabilityChart(bins, what, width) {
  const height = Math.min(400, Math.max(310, width * 0.8));
  const box = {left: 48, right: width - 12, top: 10, bottom: height - 92};
  const foot = height - 34;
  const most = Math.max(...bins.map(([count]) => count), 10);
  const tall = scale(1, most, 3, foot - box.bottom - 24, true);
  const x = scale(0, 1, box.left, box.right);
  const y = scale(0, 1, box.bottom, box.top);
  const parts = [0, 0.25, 0.5, 0.75, 1].map(value => [
    svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: y(value), y2: y(value)}),
    svg('text', {x: box.left - 6, y: y(value) + 4, 'text-anchor': 'end'}, `${100 * value}%`),
    svg('text', {x: x(value), y: foot + 15, 'text-anchor': value === 1 ? 'end' : 'middle'}, String(value))]);
  parts.push(svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: foot, y2: foot}),
    svg('text', {x: box.left - 6, y: foot - 4, 'text-anchor': 'end'}, 'tokens'));
  const step = (box.right - box.left) / bins.length;
  bins.forEach(([count, confidence, accuracy], n) => {
    if (!count) return;
    const left = box.left + n * step;
    parts.push(svg('rect', {class: 'one', x: left + 1, width: step - 2, y: y(accuracy), height: Math.max(1, box.bottom - y(accuracy))}),
      svg('rect', {class: 'two', x: left + 1, width: step - 2, y: foot - tall(count), height: tall(count)}),
      svg('rect', {class: 'hit', x: left, width: step, y: box.top, height: foot - box.top, ...tipped(() => [
        `${(100 * accuracy).toFixed(1)}% are right`, `said: ${(100 * confidence).toFixed(1)}%`, `${whole(count)} tokens`])}));
  });
  parts.push(svg('line', {class: 'mark', x1: x(0), y1: y(0), x2: x(1), y2: y(1)}),
    svg('text', {x: (box.left + box.right) / 2, y: height - 4, 'text-anchor': 'middle'}, `probability of the ${what}`));
  return frame(width, height, parts);
}
