"""Names in text: generate a pile of templates, see which are kept, keep only those."""

from made_up import sentences

from mtlstruct import SequenceLabeler
from mtlstruct.templates import generate


def columns(data):
    """Rows of a word and its part of speech, and the labels."""
    return [[(w, tag) for w, tag, _, _ in s] for s in data], [[label for _, _, label, _ in s] for s in data]


X, y = columns(sentences(150, seed=1))
X_new, y_new = columns(sentences(60, seed=2, unseen=True))  # other names: words alone do not help

# All single cells and pairs in a window of five, with the shape and the ends of words: nobody chose them.
pile = generate((-2, 2), columns=(0, 1), functions=("shape[0]", "suffix[0,2]", "case[0]"), orders=(1, 2))
tagger = SequenceLabeler(templates=pile, c=1.0).fit(X, y)
kept = [row for row in tagger.template_weights_ if row["mu"] > 1e-5]
print(f"{len(kept)} of {len(pile)} templates kept; F1 on unseen names {tagger.score(X_new, y_new):.2f}")
for row in kept[:5]:
    print(f"{row['mu']:.3f}  {row['text']}")

best = pile.select(sorted(row["index"] for row in kept[:10]))
small = SequenceLabeler(templates=best, c=1.0).fit(X, y)
print(f"the ten heaviest alone: F1 {small.score(X_new, y_new):.2f}")
