"""Dependency trees: heads for the tokens of sentences, from templates of arcs."""

from made_up import sentences

from mtlstruct import DependencyParser

TEMPLATES = [
    "A0:%x[h,pos]/%x[m,pos]/%direction[h,m]",
    "A1:%x[h,pos]/%x[m,pos]/%distance[h,m]",
    "A2:%x[h,form]/%x[m,pos]",
    "A3:%x[h,pos]/%x[m,form]",
    "A4:%x[l,pos]/%x[b,pos]/%x[r,pos]",
    "A5:%x[m-1,pos]/%x[m,pos]/%x[m+1,pos]/%x[h,pos]",
]


def trees(data):
    """Tokens with named columns, and the number of each one's head (1 is the first token, 0 the root)."""
    X = [[{"form": word, "pos": tag} for word, tag, _, _ in s] for s in data]
    return X, [[head for *_, head in s] for s in data]


X, y = trees(sentences(150, seed=1))
X_new, y_new = trees(sentences(50, seed=2, unseen=True))
parser = DependencyParser(templates=TEMPLATES, projective=True).fit(X, y)
print(f"UAS {parser.score(X_new, y_new):.2f}")
for token, head in zip(X_new[0], parser.predict(X_new[:1])[0], strict=True):
    print(token["form"], "<-", X_new[0][head - 1]["form"] if head else "root")
for row in parser.template_weights_[:3]:
    print(f"{row['mu']:.3f}  {row['text']}")
