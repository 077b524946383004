// The page of `explain --html`: for each token the templates that speak for what was chosen, and against it.

const unit = data.unit;
const signed = value => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(4)}`;

/** What the colours of a drawing mean, where the input has the right tree. */
function colours(gold) {
  if (!gold) return null;
  if (!gold.wrong && !gold.mislabelled) return el('p', {class: 'soft small'}, 'All heads are right.');
  const labels = gold.mislabelled && `; of the others ${gold.mislabelled} ${gold.mislabelled === 1 ? 'has' : 'have'} a wrong label, the right one in brackets`;
  return el('p', {class: 'soft small'}, `${gold.wrong} of ${gold.words} heads are wrong: `, el('b', {class: 'wrong'}, 'found'), ' above, ',
    el('b', {class: 'missed'}, 'right'), ` below the words${labels || ''}.`);
}

const wrong = found => known(found.gold) && found.gold !== ('label' in found ? found.label : found.head);

/** The words of a sentence, wrong ones marked. */
function words(sentence) {
  return el('p', null, sentence.tokens.map(token => [wrong(token) ? el('b', {class: 'wrong'}, token.cells[0]) : token.cells[0], ' ']));
}

/** A line for a choice, which opens to what the templates say. */
function choice(name, found, elsewhere) {
  const chosen = 'label' in found ? found.label : `under ${found.head} ${found.head_word}`;
  const other = 'label' in found ? found.runner_up : known(found.runner_up) && `${found.runner_up} ${found.runner_up_word}`;
  const rest = [['others', found.others], ['elsewhere', elsewhere]].filter(line => Math.abs(line[1]) > 5e-7);
  const lines = [...found.templates.map(template => [[el('code', null, template.text), template.seen && el('span', {class: 'soft'}, ` = ${template.seen}`)], template.value]), ...rest];
  return el('details', null,
    el('summary', null, known(found.margin) && el('span', {class: 'margin'}, signed(found.margin)), `${name} · `, el('b', {class: wrong(found) ? 'wrong' : null}, chosen), wrong(found) && el('span', {class: 'missed'}, ` (gold ${found.gold})`), other && `, not ${other}`),
    el('table', null, lines.map(([text, value]) => el('tr', null, el('td', {class: `number ${value > 0 ? 'plus' : 'minus'}`}, signed(value)), el('td', null, text)))));
}

function sentenceCard(sentence) {
  return el('section', {class: 'card'}, el('h2', null, `${unit} ${sentence.sentence}`),
    sentence.tree && el('div', {class: 'scroll'}, picture(sentence.tree.drawing)), sentence.tree && colours(sentence.tree.gold),
    !sentence.tree && words(sentence),
    el('div', null, sentence.tokens.map(token => [
      choice(token.cells.join(' '), token, token.elsewhere),
      token.relation && choice(`label of ${token.cells[0]}`, token.relation, 0),
    ])));
}

page.replaceChildren(
  el('header', {class: 'titled'}, el('div', null, el('h1', null, data.title),
    el('p', {class: 'soft'}, 'Contributions of templates to the difference between the prediction and the runner-up: the best answer that differs there, or that is right there if the label is wrong.')), themeButton()),
  ...data.sentences.map(sentenceCard));
