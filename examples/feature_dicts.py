"""Sequence labelling from feature dicts, as sklearn-crfsuite has them; which keys matter; a grid over c."""

from sklearn.model_selection import GridSearchCV

from mtlstruct import Sentences, SequenceLabeler
from mtlstruct.samples import recipes as demo


def features(words, t):
    """What is seen at token t. Strings, booleans, numbers, lists and nested dicts may be mixed."""
    word = words[t]
    found = {
        "bias": 1.0,
        "word": word.lower(),
        "suffix": word[-2:],
        "digit": word[0].isdigit(),
        "length": len(word),
        "is": [name for name, yes in (("title", word.istitle()), ("sign", not word.isalnum())) if yes],
    }
    if t:
        found["before"] = {"word": words[t - 1].lower(), "suffix": words[t - 1][-2:]}
    else:
        found["first"] = True
    return found


train, test = demo.split(demo.bundled())  # lines of recipes: 1 1/2 cups flour , sifted
X_train = [[features(line.tokens, t) for t in range(len(line.tokens))] for line in train]
X_test = [[features(line.tokens, t) for t in range(len(line.tokens))] for line in test]
y_train, y_test = [list(line.labels) for line in train], [list(line.labels) for line in test]

tagger = SequenceLabeler(c=1.0).fit(X_train, y_train)
print(f"F1 {tagger.score(X_test, y_test):.2f}, certified gap {tagger.gap_:.2%}")
for row in tagger.template_weights_[:4]:
    print(f"{row['name']:<14} {row['mu']:.3f}")
print(list(zip(test[0].tokens, tagger.predict(X_test[:1])[0], strict=True))[:3])

# The data are encoded once for the whole grid: a fold is a part of Sentences.
grid = GridSearchCV(SequenceLabeler(gap=0.05), {"c": [0.1, 1.0]}, cv=3).fit(Sentences(X_train), y_train)
print(f"best c: {grid.best_params_['c']}")

tagger.save("ingredients.mtl")  # `mtlstruct weights ingredients.mtl` reads it, and so does mtlstruct.load
