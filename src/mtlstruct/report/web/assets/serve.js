// The page of a served model: text in, labels or trees out, and for each token the contributions of the templates.

const VOICES = 8;
const WAIT = 350;
const OUTSIDE = new Set(['O', '_']);
let token = new URLSearchParams(location.hash.slice(1)).get('token') || '';
if (token) history.replaceState(null, '', location.pathname);

async function ask(path, body) {
  const headers = body ? {'Content-Type': 'application/json'} : {};
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, {method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body)});
  const found = await response.json();
  if (response.ok) return found;
  throw Object.assign(new Error(found.error), {status: response.status});
}

// What the model wants ---------------------------------------------------------------------------------------------

const TASKS = {sequence: 'labels sequences', segmentation: 'cuts text into words', dependency: 'finds dependency trees', multiclass: 'classifies items'};

function expected(model) {
  if (model.dicts) return 'This model takes feature dicts: paste JSON, one list of dicts per line.';
  if (model.text) return model.alone ? 'Type or paste items, one per line.' : 'Type or paste text, one sentence per line.';
  const names = model.columns.map(column => column.name).join(', ');
  const whole = model.trees ? ' CoNLL lines are taken too.' : model.columns.length < model.width ? ` Rows with all ${model.width} columns are taken too.` : '';
  const unit = model.alone ? 'item' : 'token';
  return `This model looks at ${model.columns.length} columns: ${names}. Paste column text, one ${unit} per line, cells separated by blanks` +
    `${model.alone ? '' : ', a blank line between sentences'}.${whole}`;
}

// One answer -------------------------------------------------------------------------------------------------------

const tones = new Map();

/** The word of a token: its first cell, or the first string among its features. */
function wordOf(entry) {
  const cell = entry.cells[0];
  if (!cell.startsWith('{')) return cell;
  try { return Object.values(JSON.parse(cell)).find(value => typeof value === 'string') || '·'; } catch { return cell; }
}

const isWrong = entry => known(entry.gold) && known(entry.label) && entry.gold !== entry.label;

/** A label in two: B-PER is B and PER; a label without a hyphen is a kind of its own. */
function parts(label) {
  const at = label.indexOf('-');
  return at > 0 ? [label.slice(0, at), label.slice(at + 1)] : ['', label];
}

function tone(kind) {
  if (!tones.has(kind)) tones.set(kind, tones.size % 8);
  return `var(--c${tones.get(kind)})`;
}

function tokenButton(word, entry, choose, before, segmenting) {
  const [place, kind] = entry.label === undefined ? ['', ''] : parts(entry.label);
  const outside = OUTSIDE.has(entry.label);
  const goesOn = !outside && ['I', 'M', 'E', 'L'].includes(place) && before && !OUTSIDE.has(before) && parts(before)[1] === kind;
  const said = known(entry.probability) ? `${entry.label} ${(100 * entry.probability).toFixed(0)}%` : entry.label;
  const button = el('button', {type: 'button', class: ['token', segmenting ? '' : outside ? 'out' : 'in', goesOn ? 'goes-on' : ''].join(' ').trim()},
    word, el('small', null, said, isWrong(entry) && el('b', {class: 'gold'}, ` gold ${entry.gold}`)));
  if (isWrong(entry)) button.classList.add('wrong');
  if (!outside && !segmenting) button.style.setProperty('--tone', tone(kind));
  for (const event of ['pointerenter', 'focus', 'click']) button.addEventListener(event, () => choose(button));
  return button;
}

/** Tokens of a sentence in a row; words of segmented text stand apart. */
function sentenceRow(sentence, alone, why) {
  const starts = new Set();
  let at = 0;
  for (const word of sentence.words || []) {
    starts.add(at);
    at += [...word].length;
  }
  const buttons = sentence.tokens.map((entry, t) => {
    const before = t ? sentence.tokens[t - 1].label : null;
    const button = tokenButton(wordOf(entry), entry, chosen => why(chosen, entry, wordOf(entry)), alone ? null : before, Boolean(sentence.words));
    if (starts.has(t)) button.classList.add('starts');
    return button;
  });
  return el('div', {class: sentence.words ? 'sentence words' : 'sentence'}, buttons);
}

/** A tree as a table of words and heads. */
function treeView(sentence, why) {
  const rows = sentence.tokens.map((entry, t) => {
    const row = el('tr', {tabindex: 0}, el('td', {class: 'number'}, String(t + 1)), el('td', null, entry.cells[0]),
      el('td', null, entry.head ? `${entry.head} ${entry.head_word}` : 'ROOT'), known(entry.relation) && el('td', null, entry.relation),
      known(entry.probability) && el('td', {class: 'number'}, `${(100 * entry.probability).toFixed(0)}%`));
    for (const event of ['pointerenter', 'focus', 'click']) row.addEventListener(event, () => why(row, entry, entry.cells[0]));
    return row;
  });
  const labelled = sentence.tokens.some(entry => known(entry.relation));
  return el('table', {class: 'heads'}, el('thead', null, el('tr', null, ['', 'word', 'head', labelled && 'relation', known(sentence.tokens[0].probability) && 'probability'].filter(name => name !== false).map(name => el('th', null, name)))), el('tbody', null, rows));
}

// Why ----------------------------------------------------------------------------------------------------------------

function whyPanel() {
  const box = el('div');
  const panel = el('aside', {class: 'card why', 'aria-live': 'polite'}, el('h2', null, 'Why'), box);
  let marked = null;
  const say = (...children) => box.replaceChildren(...children.flat());
  say(el('p', {class: 'soft small'}, 'Point at a token to see the contributions of the templates.'));
  return {panel, show(element, entry, word) {
    if (marked) marked.classList.remove('chosen');
    marked = element;
    element.classList.add('chosen');
    const found = entry.explanation;
    if (!found) say(el('h3', null, word), el('p', {class: 'soft small'}, 'The text is too long to explain every token; try one sentence.'));
    else say(el('h3', null, word), verdicts(entry, found));
  }, clear() { marked = null; say(el('p', {class: 'soft small'}, 'Point at a token to see the contributions of the templates.')); }};
}

function verdicts(entry, found) {
  const tree = entry.head !== undefined;
  const chosen = tree ? `under ${entry.head_word}` : entry.label;
  const rival = tree ? found.runner_up_word && `under ${found.runner_up_word}` : found.runner_up;
  const parts = [verdict(chosen, rival, found, isWrong(entry) && entry.gold)];
  if (found.relation) parts.push(verdict(found.relation.label, found.relation.runner_up, found.relation));
  return parts;
}

function verdict(chosen, rival, found, gold) {
  const lines = found.templates.map(voice => [voice.seen ? `${voice.text} = ${voice.seen}` : voice.text, voice.value, '']);
  for (const name of ['others', 'elsewhere']) if (Math.abs(found[name] || 0) > 5e-7) lines.push([name === 'others' ? 'other templates' : 'elsewhere in the sentence', found[name], 'rest']);
  const most = Math.max(...lines.map(line => Math.abs(line[1])), 1e-12);
  return el('div', null,
    el('p', {class: 'verdict'}, el('b', null, chosen), gold && el('span', {class: 'gold'}, ` (gold ${gold})`), rival && el('span', {class: 'soft'}, `, not ${rival}`)),
    known(found.margin) && el('p', {class: 'soft small'}, `ahead by ${figure(found.margin)}, which is the sum of:`),
    el('ol', {class: 'voices'}, lines.map(([text, value, kind]) => {
      const bar = el('i');
      bar.style.width = `${100 * Math.abs(value) / most}%`;
      return el('li', {class: [value < 0 ? 'against' : 'for', kind].join(' ').trim()}, el('span', {class: 'mono'}, text),
        el('b', null, bar), el('span', {class: 'number'}, `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`));
    })));
}

// The page -----------------------------------------------------------------------------------------------------------

function build(model) {
  document.title = `${model.name} · mtlstruct`;
  const input = el('textarea', {class: model.text ? null : 'columns', spellcheck: 'false', 'aria-label': 'Text', placeholder: model.text ? 'Text' : 'Column text'});
  const problem = el('p', {class: 'problem', role: 'alert'});
  const output = el('div', {class: 'output'});
  const drawings = el('section', {class: 'card drawings', hidden: true});
  const note = el('p', {class: 'soft small'});
  const kinds = el('div', {class: 'kinds'});
  const why = whyPanel();
  const chances = el('input', {type: 'checkbox', onchange: run});
  let number = 0;

  async function run() {
    const text = input.value;
    const mine = ++number;
    problem.textContent = '';
    if (!text.trim()) {
      output.replaceChildren(el('p', {class: 'soft'}, 'The labels appear here.'));
      note.textContent = '';
      drawings.hidden = true;
      why.clear();
      return;
    }
    let given = {[model.text && !isRows(text, model) ? 'text' : 'columns']: text};
    if (model.dicts) {
      try { given = {dicts: text.split('\n').filter(line => line.trim()).map(line => JSON.parse(line))}; } catch (error) { return fail(`expected JSON: ${error.message}`); }
    }
    const wanted = {...given, ...(chances.checked ? {probabilities: true} : {}), ...(model.trees ? {drawing: true} : {})};
    const began = performance.now();
    try {
      const found = await ask('v1/tag', {...wanted, explain: VOICES}).catch(error => {
        if (error.status === 413) return ask('v1/tag', wanted);
        throw error;
      });
      if (mine === number) show(found, performance.now() - began);
    } catch (error) {
      if (mine !== number) return;
      if (error.status === 401) return askToken(error.message);
      fail(error.message);
    }
  }

  function fail(sentence) {
    problem.textContent = sentence;
    output.replaceChildren();
    drawings.hidden = true;
    note.textContent = '';
    why.clear();
  }

  function show(found, time) {
    why.clear();
    const view = model.trees ? sentence => treeView(sentence, why.show) : sentence => sentenceRow(sentence, model.alone, why.show);
    output.replaceChildren(...found.sentences.map(view));
    drawings.replaceChildren(...found.sentences.filter(sentence => sentence.drawing).map(sentence => el('div', {class: 'scroll'}, picture(sentence.drawing))));
    drawings.hidden = !drawings.firstChild;
    const tokens = found.sentences.reduce((sum, sentence) => sum + sentence.tokens.length, 0);
    note.textContent = `${whole(tokens)} ${model.characters ? 'character' : 'token'}${tokens === 1 ? '' : 's'} in ${Math.max(1, Math.round(time))} ms.`;
    kinds.replaceChildren(...[...tones].map(([kind]) => {
      const name = el('span', null, kind);
      name.style.setProperty('--tone', tone(kind));
      return name;
    }));
  }

  let timer = 0;
  input.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(run, WAIT); });
  input.addEventListener('keydown', event => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run(); });
  const examples = model.examples.length > 0 && el('select', {'aria-label': 'Examples', onchange: event => {
    if (event.target.value !== '') { input.value = model.examples[Number(event.target.value)]; run(); }
  }}, el('option', {value: ''}, 'Examples'), model.examples.map((text, n) => el('option', {value: n}, brief(text, model))));
  const options = el('label', {class: 'row small'}, chances, 'probabilities', !model.calibrated && el('span', {class: 'soft'}, '(not calibrated)'));
  const sample = model.examples[0] || (model.text ? 'Ann lives in Oslo .' : model.columns.map(() => 'a').join(' '));
  const example = JSON.stringify(model.dicts ? {dicts: [[{key: 'value'}]]} : {[model.text && !isRows(sample, model) ? 'text' : 'columns']: sample, explain: 3}).replaceAll("'", '\\u0027');
  page.replaceChildren(
    el('header', {class: 'titled'}, el('div', null, el('h1', null, model.name),
      el('p', {class: 'soft'}, `A model that ${TASKS[model.task] || model.task}; ${whole(model.templates)} templates` + (model.labels.length ? `, ${model.labels.length} labels` : ''))), themeButton()),
    el('section', {class: 'card'}, el('p', {class: 'soft small'}, expected(model)), input, problem,
      el('div', {class: 'row'}, el('button', {type: 'button', class: 'main', onclick: run}, 'Tag'), examples, model.probabilities && options)),
    drawings,
    el('div', {class: 'split'}, el('section', {class: 'card'}, output, !model.alone && !model.trees && !model.characters && kinds, note), why.panel),
    el('section', {class: 'card'}, el('h2', null, 'From a program'),
      el('code', {class: 'api'}, `curl -H 'Content-Type: application/json'${token ? " -H 'Authorization: Bearer TOKEN'" : ''} ${location.origin}/v1/tag -d '${example}'`),
      el('p', {class: 'soft small'}, `A request may hold many sentences. Limits: ${whole(model.limits.bytes)} bytes and ${whole(model.limits.tokens)} tokens per request, ${whole(model.limits.sentence)} tokens per sentence, ${model.limits.seconds} s.`)));
  run();
  input.focus();
}

/** Whether a text is an example of rows, with labels or without. */
function isRows(text, model) {
  const widths = text.split('\n').filter(line => line.trim()).map(line => line.trim().split(/[ \t]+/).length - model.width);
  return !model.characters && model.examples.includes(text) && widths.every(more => more === 0 || more === 1);
}

/** An example in the menu: its words. */
function brief(text, model) {
  const lines = text.split('\n').filter(line => line.trim() && !line.startsWith('#'));
  const conll = line => line.includes('\t') && /^\d+$/.test(line.split('\t')[0]);
  const words = model.text && !isRows(text, model) ? text : lines.map(line => conll(line) ? line.split('\t')[1] : line.trim().split(/[ \t]+/)[0]).join(' ');
  return words.length > 60 ? `${words.slice(0, 59)}…` : words;
}

function askToken(reason) {
  const field = el('input', {type: 'password', 'aria-label': 'Token', autocomplete: 'off'});
  const form = el('form', {class: 'row', onsubmit: event => { event.preventDefault(); token = field.value.trim(); start(); }}, field, el('button', {type: 'submit', class: 'main'}, 'Go on'));
  page.replaceChildren(el('section', {class: 'card'}, el('h2', null, 'A token is needed'), el('p', {class: 'soft'}, token ? reason : 'The command that started the server has printed it.'), form));
  field.focus();
}

async function start() {
  try {
    build(await ask('v1/model'));
  } catch (error) {
    if (error.status === 401) askToken(error.message);
    else page.replaceChildren(el('section', {class: 'card'}, el('h2', null, 'No answer'), el('p', {class: 'problem'}, error.message)));
  }
}

document.body.append(tip);
start();
