"""A spaCy component that sets entities with a trained model; needs spaCy (pip install spacy)."""

import spacy
from spacy.tokens import Doc, Span

from mtlstruct import Model, SequenceLabeler, load
from mtlstruct.samples import recipes as demo

TEMPLATES = [
    "U0:%lower[0,0]",
    "U1:%lower[-1,0]",
    "U2:%lower[1,0]",
    "U3:%suffix[0,0,3]",
    "U4:%shape[0,0]",
    "B",
]


class Tagger:
    """Label the tokens of a text; BIO labels become `doc.ents`, others `token.tag_`."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, doc: Doc) -> Doc:
        (labels,) = self.model.predict([[(token.text,) for token in doc]])
        starts = [i for i, label in enumerate(labels) if label.startswith("B-")]
        ends = [next((j for j in range(i + 1, len(doc)) if labels[j][:2] != "I-"), len(doc)) for i in starts]
        doc.ents = [Span(doc, i, j, labels[i][2:]) for i, j in zip(starts, ends, strict=True)]
        for token, label in zip(doc, labels, strict=True):
            token.tag_ = label
        return doc


@spacy.Language.factory("mtlstruct", default_config={"path": "recipes.mtl"})
def make_tagger(nlp: spacy.Language, name: str, path: str) -> Tagger:
    """Load the model when the component is added to a pipeline."""
    return Tagger(load(path))


train, test = demo.split(demo.bundled())
rows = [[(word,) for word in line.tokens] for line in train]
SequenceLabeler(templates=TEMPLATES).fit(rows, [list(line.labels) for line in train]).save("recipes.mtl")
nlp = spacy.blank("en")
nlp.add_pipe("mtlstruct", config={"path": "recipes.mtl"})
docs = [nlp(Doc(nlp.vocab, words=list(line.tokens))) for line in test]
found = [token.tag_ for doc in docs for token in doc]
gold = [label for line in test for label in line.labels]
print(f"accuracy {sum(map(str.__eq__, found, gold)) / len(gold):.2f}")
print([(entity.text, entity.label_) for entity in docs[0].ents])
