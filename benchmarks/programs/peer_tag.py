"""python-crfsuite's tagger: TEMPLATES TEST MODEL [LABELS]. Prints F1 and the CPU seconds of strings and of tagging.

Tagging is timed on items that are already in the peer's own form (ItemSequence); making these counts as making
attributes, as encoding does on our side. The labels go to a file if one is named.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pycrfsuite

from benchmarks.programs.attributes import Attributes, sentences
from mtlstruct.evaluation.chunks import chunk_scores
from mtlstruct.formats import columns, text
from mtlstruct.templates import TemplateSet


def main(templates: str, data: str, model: str, out: str | None = None) -> dict[str, Any]:
    """Tags a file sentence by sentence."""
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    attributes = Attributes(TemplateSet.read(templates))
    corpus = columns.read(data)
    assert corpus.outputs is not None
    making, tagging, found = 0.0, 0.0, []
    for cells in sentences(corpus):
        start = time.process_time()
        items = pycrfsuite.ItemSequence(attributes.of(cells))
        made = time.process_time()
        found.append(tagger.tag(items))
        making += made - start
        tagging += time.process_time() - made
    if out is not None:
        Path(out).write_text("".join("\n".join(labels) + "\n\n" for labels in found), "utf-8")
    gold = text.named(corpus.outputs, corpus.labels)
    scores = chunk_scores([gold[span] for span in corpus.sentences()], found).as_dict()
    return {"f1": scores["f1"], "tokens": corpus.tokens, "making": making, "tagging": tagging}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:5])))
