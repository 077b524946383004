"""A column file as CRFsuite's command reads it: TEMPLATES DATA TARGET. A line is a label with its attributes."""

from __future__ import annotations

import sys

from benchmarks.programs.attributes import Attributes, sentences
from mtlstruct.formats import columns, text
from mtlstruct.templates import TemplateSet

_ESCAPES = str.maketrans({"\\": "\\\\", ":": "\\:"})
"""A colon would begin the value of an attribute."""


def line(label: str, attributes: tuple[str, ...]) -> str:
    """One token."""
    return "\t".join((label, *attributes)).translate(_ESCAPES) + "\n"


def main(templates: str, data: str, target: str) -> None:
    """Writes the file."""
    corpus = columns.read(data)
    assert corpus.outputs is not None
    made, labels = Attributes(TemplateSet.read(templates)), text.named(corpus.outputs, corpus.labels)
    with open(target, "w", encoding="utf-8") as out:
        for cells, span in zip(sentences(corpus), corpus.sentences(), strict=True):
            out.writelines(map(line, labels[span], made.of(cells)))
            out.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
