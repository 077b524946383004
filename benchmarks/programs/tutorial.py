"""Feature dicts as the CoNLL-2002 tutorial of sklearn-crfsuite makes them: PROGRAM TRAIN TEST [NAME=VALUE …].

PROGRAM is mtlstruct or crfsuite; both get the same lists of dicts, or with stream=true the same generators. Prints
the F1 on TEST and the CPU seconds of making the dicts (0 for generators), of fitting and of predicting.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

Rows = list[tuple[str, ...]]
Sentence = list[dict[str, Any]]


def read(path: str) -> tuple[list[Rows], list[list[str]]]:
    """The rows and labels of each sentence of a column file."""
    with open(path, encoding="utf-8") as lines:
        blocks = lines.read().strip().split("\n\n")
    sentences = [[tuple(line.split()) for line in block.split("\n")] for block in blocks]
    return [[row[:-1] for row in s] for s in sentences], [[row[-1] for row in s] for s in sentences]


def features(sentence: Rows, i: int) -> dict[str, Any]:
    """What is seen at token i: itself, and a little of its neighbours."""
    word, tag = sentence[i]
    found: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": tag,
        "postag[:2]": tag[:2],
    }
    for step, edge in ((-1, "BOS"), (1, "EOS")):
        if not 0 <= i + step < len(sentence):
            found[edge] = True
            continue
        word, tag = sentence[i + step]
        found |= {
            f"{step:+d}:word.lower()": word.lower(),
            f"{step:+d}:word.istitle()": word.istitle(),
            f"{step:+d}:word.isupper()": word.isupper(),
            f"{step:+d}:postag": tag,
            f"{step:+d}:postag[:2]": tag[:2],
        }
    return found


def dicts(sentences: list[Rows]) -> list[Sentence]:
    """The features of all tokens."""
    return [[features(sentence, i) for i in range(len(sentence))] for sentence in sentences]


def ours(
    X: Iterable[Sentence], y: list[list[str]], options: dict[str, Any]
) -> Callable[[list[Sentence]], Any]:
    """Fits a SequenceLabeler; returns what predicts."""
    from mtlstruct import SequenceLabeler

    return SequenceLabeler(threads=1, **options).fit(X, y).predict  # type: ignore[no-any-return]


def theirs(
    X: Iterable[Sentence], y: list[list[str]], options: dict[str, Any]
) -> Callable[[list[Sentence]], Any]:
    """Fits python-crfsuite with the tutorial's parameters."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True} | options
    )
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    from benchmarks.places import work

    model = str(work() / "tutorial.crfsuite")
    trainer.train(model)
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    return lambda found: [tagger.tag(sentence) for sentence in found]


def main(program: str, train: str, test: str, options: dict[str, Any]) -> dict[str, Any]:
    """One run."""
    from mtlstruct.evaluation.chunks import chunk_scores

    clock = time.process_time
    began = clock()
    stream = bool(options.pop("stream", False))
    rows, y = read(train)
    X: Iterable[Sentence] = (dicts([sentence])[0] for sentence in rows) if stream else dicts(rows)
    made = clock()
    predict = (ours if program == "mtlstruct" else theirs)(X, y, options)
    fitted = clock()
    held, gold = read(test)
    unseen = dicts(held)
    before = clock()
    found = predict(unseen)
    predicted = clock()
    return {
        "f1": chunk_scores(gold, found).as_dict()["f1"],
        "making": made - began,
        "fitting": fitted - made,
        "predicting": predicted - before,
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    program, train, test, *more = sys.argv[1:]
    options = {name: _value(value) for name, _, value in (pair.partition("=") for pair in more)}
    print(json.dumps(main(program, train, test, options)))
