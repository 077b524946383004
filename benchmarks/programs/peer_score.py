"""Labels that some program wrote, against gold: TASK GOLD TAGGED. The label is the last column of both.

Prints F1, of words for segmentation, of chunks otherwise; and for labels accuracy and the share of whole sequences.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from mtlstruct.evaluation.scores import sequence_scores
from mtlstruct.evaluation.words import word_scores
from mtlstruct.formats.segmented import cut


def read(path: Path) -> list[list[list[str]]]:
    """The cells of each line of each sentence. Some programs end a file with more blank lines than others."""
    blocks = re.split(r"\n\s*\n", path.read_text("utf-8").strip())
    return [[line.split() for line in block.split("\n")] for block in blocks]


def main(task: str, gold: Path, tagged: Path) -> dict[str, float]:
    """Scores in percent."""
    right = read(gold)
    labels, found = ([[row[-1] for row in rows] for rows in sentences] for sentences in (right, read(tagged)))
    if task != "segmentation":
        scores = sequence_scores(labels, found)
        kept = ("f1", "accuracy", "sequence_accuracy")
        return {name: value for name, value in scores.as_dict().items() if name in kept}
    texts = ["".join(row[0] for row in rows) for rows in right]
    words, ours = ([cut(*pair) for pair in zip(texts, some, strict=True)] for some in (labels, found))
    return {"f1": word_scores(words, ours).as_dict()["f1"]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
