// The report: sections in the order in which somebody would ask.

const [main, second] = data.stages;
for (const stage of data.stages) {
  stage.byIndex = new Map(stage.templates.map(row => [row.index, row]));
  stage.featuresOf = new Map(stage.features.map(entry => [entry.index, entry.list]));
  stage.kept = stage.templates.filter(row => row.kept);
}

/** A section about one stage: the second one, the labels of arcs, says so. */
function stageCard(stage, id, short, title, ...rest) {
  return stage === main ? card(id, short, title, ...rest) : card(`label-${id}`, `Labels: ${short.toLowerCase()}`, `Labels of arcs: ${title[0].toLowerCase()}${title.slice(1)}`, ...rest);
}

function tile(name, value, note) {
  return el('div', {class: 'tile'}, el('dt', null, name), el('dd', null, value, note && el('small', null, note)));
}

function plain(pairs) {
  const rows = pairs.filter(([, value]) => known(value) && value !== '–');
  return el('table', {class: 'plain'}, el('tbody', null, rows.map(([name, value]) => el('tr', null, el('td', null, name), el('td', null, value)))));
}

// Summary ------------------------------------------------------------------------------------------------------

const TASKS = {sequence: 'Label sequences', segmentation: 'Word segmentation', dependency: 'Dependency trees', multiclass: 'Classes of items'};

function certificate({facts}) {
  if (facts.converged) return el('span', {class: 'badge good'}, `certified: within ${(100 * facts.gap).toPrecision(2)}% of the optimum`);
  if (known(facts.gap) && facts.gap < 1) return el('span', {class: 'badge bad'}, `not converged: gap ${(100 * facts.gap).toPrecision(3)}%`);
  return el('span', {class: 'badge bad'}, 'no certificate');
}

function mainScore() {
  if (!data.assessment) return null;
  const s = data.assessment.scores;
  const name = known(s.uas) ? 'uas' : data.alone || s.scheme === 'classes' || !(s.f1 > 0) ? 'accuracy' : 'f1';
  return tile(name.length > 3 ? name : name.toUpperCase(), percent(s[name]), `on ${data.assessment.source}`);
}

function summary() {
  const {facts, kept, labels} = main;
  const items = data.alone;
  const method = [facts.method, known(facts.p) && `p = ${figure(facts.p)}`, known(facts.c) && `c = ${figure(facts.c)}`].filter(Boolean).join(', ');
  return card('summary', 'Summary', 'Summary', null,
    el('dl', {class: 'tiles'},
      mainScore(),
      tile('templates kept', `${kept.length} of ${main.templates.length}`, facts.sparse ? 'the others have no weight' : 'this method drops none on purpose'),
      tile('features', whole(data.sizes.features), data.sizes.features_seen && `of ${whole(data.sizes.features_seen)} looked at`),
      tile('training data', `${whole(facts.tokens)} ${items ? 'items' : 'tokens'}`,
        [!items && `${whole(facts.sentences)} sentences`, labels.length && `${labels.length} ${items ? 'classes' : 'labels'}`, second && `${second.labels.length} relations`].filter(Boolean).join(', ')),
      tile('method', facts.method || '–', method.replace(`${facts.method}, `, '')),
      data.run && tile('training time', duration(data.run.seconds), known(data.run.encode) && `of it ${duration(data.run.encode)} reading features`),
      tile('model file', bytes(data.sizes.file), known(data.sizes.peak) && `training took ${bytes(data.sizes.peak * 1e6)} of memory`),
      tile('certificate', known(facts.gap) && facts.gap < 1 ? `${(100 * facts.gap).toPrecision(2)}%` : 'none', facts.converged ? 'gap to the optimum, proved' : 'gap to the optimum: not converged')));
}

// Templates ----------------------------------------------------------------------------------------------------

function legend({kept, templates: all}) {
  const names = [...Object.keys(SHADES).filter(name => kept.some(row => row.cells === name))];
  const square = shade => svg('svg', {viewBox: '0 0 10 10', 'aria-hidden': 'true'}, svg('rect', {class: shade, width: 10, height: 10, rx: 2}));
  const entries = names.map(name => el('span', null, square(SHADES[name]), name));
  if (kept.length < all.length) entries.push(el('span', null, square('dropped'), 'dropped'));
  return el('div', {class: 'legend'}, entries);
}

function templates(stage) {
  const {templates: rows, learned, featuresOf} = stage;
  const value = row => learned ? row.relative : row.norm;
  const most = Math.max(...rows.map(value));
  const dash = (row, text) => row.kept ? text : '–';
  const columns = [
    {title: 'rank', value: row => row.rank, number: true, ascending: true},
    {title: 'template', value: row => row.text, className: 'mono'},
    {title: learned ? 'relative weight' : 'norm', value, number: true,
      show: row => row.kept ? meter(column(value(row)), value(row) / most) : 'dropped'},
    {title: 'μ', value: row => row.mu, number: true, less: true, show: row => dash(row, column(row.mu))},
    ...(learned ? [{title: '‖w‖', value: row => row.norm, number: true, less: true, show: row => dash(row, column(row.norm))}] : []),
    {title: 'features', value: row => row.features, number: true, show: row => dash(row, whole(row.features))},
  ];
  const open = row => featuresOf.has(row.index) ? () => featureCards(stage, featuresOf.get(row.index), null) : null;
  const note = learned
    ? 'Weight of each template relative to the average, which is 1, on a log scale; heaviest first. A dropped template costs nothing and is not in the model.'
    : 'Norm of the weights of each template, on a log scale, largest first: this method weighs all templates alike.';
  return stageCard(stage, 'templates', 'Templates', 'What the templates are worth', note,
    drawn(width => weightsChart(rows, learned, width), 'Templates by rank'), legend(stage),
    el('p', {class: 'soft small screen'}, 'Click a row for its features of largest weight.'),
    dataTable(columns, rows, {search: row => `${row.name} ${row.text}`, open, gone: row => !row.kept, limit: 15, sort: [0, false], label: 'templates'}));
}

// Convergence --------------------------------------------------------------------------------------------------

function convergence(stage) {
  const {facts, passes} = stage;
  if (!passes.length) {
    return stageCard(stage, 'convergence', 'Convergence', 'Convergence',
      `Final bounds: objective ${figure(facts.objective, 6)}, dual ${figure(facts.dual, 6)}. The log of the training (MODEL.log.jsonl) was not there, so the way to them is not shown.`,
      el('div', null, certificate(stage)));
  }
  let along = 'passes';
  const bounds = drawn(width => passesChart(passes, {along, area: true, log: wide(passes),
    curves: [{key: 'objective', shade: 'upper'}, {key: 'dual', shade: 'lower'}]}, width), 'Objective and dual by pass');
  const gaps = drawn(width => passesChart(passes, {along, log: true, target: data.run && data.run.asked, note: '%',
    curves: [{key: 'gap', shade: 'upper'}]}, width), 'Duality gap by pass');
  const redraw = () => { bounds.redraw(); gaps.redraw(); };
  const choices = (options, choose) => {
    const buttons = options.map(([text, value], n) => el('button', {type: 'button', 'aria-pressed': String(n === 0), onclick: event => {
      buttons.forEach(button => button.setAttribute('aria-pressed', String(button === event.target)));
      choose(value);
      redraw();
    }}, text));
    return el('span', {class: 'row'}, buttons);
  };
  const last = passes[passes.length - 1];
  return stageCard(stage, 'convergence', 'Convergence', 'Convergence',
    'Every pass bounds the optimum from above (the objective of these weights) and from below (the dual). The gap between them is a proof of how much could still be gained; hollow points are estimates.',
    el('div', {class: 'row'}, certificate(stage), el('span', {class: 'soft small'}, `${whole(last.passes)} passes, ${duration(last.seconds)}`),
      el('span', {class: 'row screen'}, choices([['by passes', 'passes'], ['by seconds', 'seconds']], value => { along = value; }))),
    el('div', {class: 'two-up'},
      el('div', null, el('h3', null, 'Objective and dual'), bounds),
      el('div', null, el('h3', null, 'Duality gap'), gaps)));
}

function wide(passes) {
  const values = passes.flatMap(p => [p.objective, p.dual]).filter(value => known(value));
  return Math.min(...values) > 0 && Math.max(...values) > 20 * Math.min(...values);
}

// Scores -------------------------------------------------------------------------------------------------------

const NAMES = {precision: 'precision', recall: 'recall', f1: 'F1', accuracy: 'accuracy', micro_f1: 'micro F1', sequence_accuracy: 'whole sequences', uas: 'UAS', uasp: 'UAS with punctuation',
  acc: 'whole sentences', las: 'LAS', r_iv: 'recall of known words', r_oov: 'recall of unknown words', oov_rate: 'unknown words'};

function scores() {
  if (!data.assessment) {
    return card('scores', 'Scores', 'Scores', null, el('p', null, 'There are no scores without labelled data. ', el('code', null, 'mtlstruct report MODEL OUT.html --data GOLD'),
      ' adds scores by type, confusions and calibration; ', el('code', null, 'train --valid'), ' leaves them in the log.'));
  }
  const {scores: s, groups, source} = data.assessment;
  const tiles = Object.entries(NAMES).filter(([name]) => known(s[name])).map(([name, title]) => tile(title, percent(s[name])));
  return card('scores', 'Scores', 'Scores', `On ${source}: ${whole(s.sentences)} ${data.alone ? 'items' : `sentences, ${whole(s.tokens)} tokens`}. In percent.`,
    el('dl', {class: 'tiles few'}, tiles), el('div', {class: 'two-up'}, groups.map(group => el('div', null, el('h3', null, `${even(group) ? 'Right' : 'F1'} ${group.title}`), groupTable(group)))));
}

/** Whether as many are chosen as there are, in every row, so that precision and recall are one. */
const even = group => group.rows.every(row => row.gold === row.predicted);

function groupTable(group) {
  const same = even(group);
  const columns = [
    {title: 'type', value: row => row.name, className: 'name'},
    {title: same ? 'right' : 'F1', value: row => row.f1, number: true, show: row => meter(percent(row.f1), row.f1 / 100, 56)},
    ...(same ? [] : [
      {title: 'precision', value: row => row.precision, number: true, show: row => percent(row.precision)},
      {title: 'recall', value: row => row.recall, number: true, show: row => percent(row.recall)}]),
    {title: 'gold', value: row => row.gold, number: true, show: row => whole(row.gold)},
  ];
  return dataTable(columns, group.rows, {limit: 14});
}

function confusions() {
  return data.assessment ? data.assessment.confusions.map(confusion) : [];
}

function confusion(table, number) {
  const some = table.of > table.names.length ? ` The ${table.names.length} of ${table.of} with the most errors.` : '';
  return card(number ? `confusion-${number}` : 'confusion', number ? `Confusion: ${table.axis}` : 'Confusion', 'What is taken for what', `Rows are right, columns were chosen (${table.axis}); blue is right, red is wrong, by share of the row.${some}`, heatTable(table), mistakes(table));
}

/** The most frequent errors as a list. */
function mistakes({names, cells, rows}) {
  const wrong = cells.filter(([right, chosen]) => right !== chosen).sort((a, b) => b[2] - a[2]).slice(0, 12);
  if (!wrong.length) return el('p', null, 'Nothing is taken for anything else.');
  return el('div', null, el('h3', null, 'Most frequent'), el('ol', {class: 'mistakes'}, wrong.map(([right, chosen, count]) => el('li', null,
    el('span', null, `${names[right]} taken for ${names[chosen]}`), el('span', {class: 'soft'}, `${whole(count)} (${(100 * count / rows[right]).toFixed(1)}%)`)))));
}

function calibration() {
  const calibration = data.assessment && data.assessment.calibration;
  if (!calibration) return null;
  const noun = data.trees ? 'head' : 'label';
  return card('calibration', 'Calibration', 'How reliable the probabilities are',
    `Of the ${noun}s that the model gives a probability, how many are right; on the line both agree. ` +
    (calibration.calibrated !== false ? '' : 'This model is not calibrated: it was trained for a margin, and its probabilities are not reliable. Fit its temperature on held-out data: mtlstruct calibrate MODEL HELDOUT.'),
    el('div', {class: 'two-up'}, drawn(width => reliabilityChart(calibration.bins, noun, width), 'Reliability'),
      el('dl', {class: 'tiles few'}, tile(calibration.calibrated !== false ? 'calibration error' : 'calibration error (not calibrated)', `${percent(calibration.ece)}%`), tile('log loss per sentence', figure(calibration.nll)),
        tile('log loss per token', figure(calibration.token_nll)), tile('temperature', figure(calibration.temperature)))));
}

// Features -----------------------------------------------------------------------------------------------------

/** Cards of features, one for each part; entries [text, part, weight, template?]. */
function featureCards({labels}, list, most) {
  const parts = new Map();
  for (const entry of list) parts.set(entry[1], [...(parts.get(entry[1]) || []), entry]);
  const single = parts.size > 60 || parts.size === 1 || [...parts.values()].every(entries => entries.length < 3);
  const place = new Map(labels.map((name, n) => [name, n]));
  const groups = single ? [[list[0][1] === list[list.length - 1][1] ? list[0][1] : 'strongest', list]]
    : [...parts].sort(([a], [b]) => (place.get(a) ?? 1e9) - (place.get(b) ?? 1e9));
  const high = Math.max(...list.map(entry => Math.abs(entry[2])), 1e-12);
  return el('div', {class: single ? 'features wide' : 'features'}, groups.map(([part, entries]) => el('div', null, el('h3', null, part),
    el('ol', null, entries.slice(0, most || entries.length).map(([text, own, weight, template]) => {
      const bar = el('i');
      bar.style.width = `${100 * Math.abs(weight) / high}%`;
      const name = part === own ? text : text === '(always)' ? own : `${text} · ${own}`;
      const attributes = template ? tipped(() => [template.text, text]) : null;
      return el('li', {class: weight < 0 ? 'against' : null, ...attributes}, bar, el('span', {class: 'mono'}, name), template && el('small', null, template.name), el('span', null, `${weight > 0 ? '+' : '−'}${Math.abs(weight).toPrecision(3)}`));
    })))));
}

function features(stage) {
  const {features: lists, byIndex, kept} = stage;
  if (!lists.length) return null;
  const every = lists.flatMap(({index, list}) => list.map(entry => [...entry, byIndex.get(index)]))
    .sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  const labels = stage.labels.filter(name => every.some(entry => entry[1] === name));
  const box = el('div');
  const template = el('select', {'aria-label': 'Template', onchange: () => show()}, el('option', {value: ''}, 'all templates'),
    lists.map(({index}) => el('option', {value: index}, byIndex.get(index).text)));
  const label = el('select', {'aria-label': 'Label', onchange: () => show()}, el('option', {value: ''}, 'all labels'),
    labels.length > 1 && labels.map(name => el('option', {value: name}, name)));
  function show() {
    const chosen = every.filter(entry => (!template.value || String(entry[3].index) === template.value) && (!label.value || entry[1] === label.value));
    const single = chosen.filter(entry => !entry[1].includes(' → '));
    const pairs = chosen.filter(entry => entry[1].includes(' → '));
    const most = label.value || template.value ? 24 : 8;
    box.replaceChildren(single.length ? featureCards(stage, single, labels.length > 1 ? most : 45) : '',
      pairs.length && !label.value ? el('div', {class: 'pairs'}, el('h3', null, 'Pairs of labels'), featureCards(stage, pairs.slice(0, 36), null)) : '');
  }
  show();
  const some = kept.length > lists.length ? ` Listed are those of the ${lists.length} heaviest templates.` : '';
  return stageCard(stage, 'features', 'Features', 'Features of largest weight', `Positive (blue) and negative (red) weights: what a template sees, and the label.${some}`,
    el('div', {class: 'row screen'}, template, labels.length > 1 && label), box);
}

// Sizes and the run ----------------------------------------------------------------------------------------------

function sizes() {
  const s = data.sizes;
  const of = (value, all) => known(all) ? `${whole(value)} of ${whole(all)}` : whole(value);
  return card('sizes', 'Sizes', 'Sizes', null, plain([
    ['model file', bytes(s.file)], ['weights', `${bytes(s.weights)} in single precision`], ['templates', of(s.kept, s.templates)],
    ['attributes', of(s.attributes, s.attributes_seen)], ['features with a weight', of(s.features, s.features_seen)],
    ['strings known', whole(s.strings)], ['peak memory of the training', known(s.peak) ? bytes(s.peak * 1e6) : null]]));
}

function tried() {
  if (!data.search) return null;
  const {tried: rows, score, scored_on: source, reason} = data.search;
  const number = (title, key, show = figure) => ({title, number: true, value: row => row[key], show: row => known(row[key]) ? show(row[key]) : '–'});
  const word = (title, key) => ({title, value: row => row[key] || ''});
  return card('tried', 'Tried', 'Settings that were tried', `Scores on ${source}. Chosen: ${reason}. ± is the standard error of the difference to the best.`,
    dataTable([{title: '', value: row => row.chosen ? '*' : ''}, word('method', 'method'), word('loss', 'loss'), word('scheme', 'scheme'), number('p', 'p'), number('c', 'c'),
      number(score, 'score', value => value.toFixed(2)), number('±', 'error', value => value.toFixed(2)), number('templates', 'active_templates', whole), number('features', 'features', whole)],
    rows, {limit: 40, sort: [6, true], label: 'settings'}));
}

function repeat() {
  const {facts} = main;
  const run = data.run || {};
  const copy = el('button', {type: 'button', onclick: event => {
    navigator.clipboard.writeText(run.command).then(() => { event.target.textContent = 'Copied'; }, () => { event.target.textContent = 'Could not copy'; });
  }}, 'Copy');
  const versions = Object.entries(run.versions || {}).map(([name, version]) => `${name} ${version}`).join(', ');
  const files = Object.entries(run.files || {}).filter(([, name]) => name).map(([role, name]) => `${role}: ${name}`).join(', ');
  return card('repeat', 'Repeat', 'The same again', 'The same data, options and seed give the same model file, on any number of threads.',
    run.command ? [el('pre', {id: 'command'}, run.command), el('div', {class: 'screen'}, copy)] : el('p', null, 'The command is in the log of the training, which was not there.'),
    plain([['started', run.started], ['files', files || null], ['versions', versions || null], ['method', facts.method], ['solver', facts.solver],
      ['c', figure(facts.c)], ['p', known(facts.p) ? figure(facts.p) : null], ['seed', facts.seed], ['objective', figure(facts.objective, 7)],
      ['dual', figure(facts.dual, 7)], ['gap', known(facts.gap) ? `${(100 * facts.gap).toPrecision(3)}%` : null]]));
}

const sections = [summary(), templates(main), convergence(main), scores(), ...confusions(), calibration(), features(main),
  ...(second ? [templates(second), convergence(second), features(second)] : []), tried(), sizes(), repeat()].filter(Boolean);
document.body.prepend(topBar(sections));
page.append(
  el('header', {class: 'top'}, el('h1', null, data.name), el('p', {class: 'soft row'}, second ? 'Dependency trees with labels' : TASKS[data.task] || data.task, certificate(main))),
  ...sections,
  el('footer', null, `Written by mtlstruct ${data.version}. This page needs no network; its figures are in its source, as JSON.`));
document.body.append(tip);
