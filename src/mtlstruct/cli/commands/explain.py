"""`explain`: the contribution of each template to the label or head of each token."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mtlstruct.cli import common
from mtlstruct.cli.command import option
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.explain.decomposition import Explanation
from mtlstruct.explain.decomposition import explain as explained
from mtlstruct.explain.records import is_wrong, sentence_record
from mtlstruct.formats.conll import given_trees
from mtlstruct.model.model import Model
from mtlstruct.report.html_report import explanation_page
from mtlstruct.report.tree_svg import Tree
from mtlstruct.training.options import MAX_COUNT


def explain(
    model: Path = common.MODEL,
    data: Path = common.INPUT,
    json: bool = option(False, "Print one JSON object per sentence."),
    sentence: int | None = option(
        None, "Explain only this sentence, from 1.", range=(1, MAX_COUNT), shown="all"
    ),
    errors: bool = option(False, "Only sentences with a wrong label or head; the input has them."),
    top: int = option(5, "Number of templates per token.", metavar="K", range=(0, 1000)),
    html: Path | None = option(None, "Write an HTML page instead, with drawings of trees.", metavar="F.html"),
    force: bool = common.FORCE,
    threads: int | None = common.THREADS,
    encoding: str | None = common.MODEL_ENCODING,
) -> None:
    """Show which templates decided each prediction.

    For each token the numbers are differences to the runner-up: the best labelling of the sentence
    with another label at that token, or the best tree with another head. They sum exactly to the
    difference of the scores; "others" are the templates not shown, "elsewhere" is what changes away
    from the token and its transitions or arc. After a template stands what it saw. If the input has
    labels or heads, wrong predictions are marked with them. A wrong label is compared with the best
    labelling that has the right label there: positive numbers favour the error.

    Example: mtlstruct explain ner.mtl test.txt --sentence 3
    """
    if json and html is not None:
        raise IncompatibleError("--json and --html: expected one of them")
    check_outputs([(html, Kind.PAGE)], inputs=[model, data], force=force)
    loaded, task = common.load_model(model, threads)
    pages, shown, known = [], 0, not errors
    with common.reading(data, encoding or loaded.encoding) as source:
        corpora = task.stream(loaded, source)
        for number, corpus, found in _numbered(loaded, corpora, sentence):
            record = sentence_record(loaded, corpus, found, number, top)
            known |= any(token.get("gold") is not None for token in record["tokens"])
            if errors and not is_wrong(record):
                continue
            shown += 1
            if html is not None:
                pages.append((record, _tree(loaded, corpus, found, record)))
            elif json:
                common.print_json(record)
            else:
                print(f"{task.unit} {record['sentence']}")
                for token in record["tokens"]:
                    cells = " ".join(filter(None, token["cells"]))
                    print(f"{token['token']:>3} {cells}   {_contributions(token)}", end="")
                    if "relation" in token:
                        print(f"    as {_contributions(token['relation'])}", end="")
                print()
    if not known:
        raise MtlError(f"{data}: --errors: expected labels or heads in the input, got none")
    if sentence is not None and not shown and not errors:
        raise MtlError(f"{data}: --sentence {sentence}: the input has fewer sentences than that")
    if html is not None:
        explanation_page(f"{model.name}: {data.name}", task.unit, pages).save(html)
        print(f"wrote {html}", file=sys.stderr)


def _tree(model: Model, corpus: Corpus, found: Explanation, record: dict[str, Any]) -> Tree | None:
    """Return the predicted tree of a sentence, with the tree of the input if it has one."""
    if not model.trees:
        return None
    relations = None
    if model.relations is not None:
        relations = [token["relation"]["label"] for token in record["tokens"]]
    heads, labels = given_trees(corpus, found.span) or (None, None)
    rows = [token["cells"] for token in record["tokens"]]
    return Tree.of(rows, found.chosen.tolist(), relations, heads, labels if relations else None)


def _numbered(
    model: Model, corpora: Iterator[Corpus], only: int | None
) -> Iterator[tuple[int, Corpus, Explanation]]:
    """Yield sentences with their numbers in the whole input."""
    before = 0
    for corpus in corpora:
        if only is None:
            yield from ((n, corpus, found) for n, found in enumerate(explained(model, corpus), before + 1))
        elif before < only <= before + len(corpus):
            place = only - before - 1
            if model.first is not None:  # labels depend on the sentences around
                yield only, corpus, next(islice(explained(model, corpus), place, None))
                return
            found = next(explained(model, corpus.take(np.array([place]))))
            yield only, corpus, replace(found, span=slice(*corpus.ptr[place : place + 2].tolist()))
            return
        before += len(corpus)


def _contributions(record: dict[str, Any]) -> str:
    """Return what was predicted, and a line per template, for a token or the label of its arc."""
    seen = (f"  = {part['seen']}" if part.get("seen") else "" for part in record["templates"])
    lines = [(p["value"], p["text"] + cells) for p, cells in zip(record["templates"], seen, strict=True)]
    lines += [(record[key], key) for key in ("others", "elsewhere") if abs(record.get(key, 0)) > 5e-7]
    margin = "" if record["margin"] is None else f": {record['margin']:+.4f}"
    rows = "".join(f"    {value:+9.4f}  {text}\n" for value, text in lines)
    return f"{_against(record)}{margin}\n{rows}"


def _against(token: dict[str, Any]) -> str:
    """Return the predicted label or head, the right one if it is another, and the runner-up."""
    chosen, gold = token.get("label", token.get("head")), token.get("gold")
    wrong = "" if gold in (None, chosen) else f" (wrong, gold {gold})"
    if "label" in token:
        return f"{chosen}{wrong}, not {token['runner_up']}"
    other = "" if token["runner_up"] is None else f", not {token['runner_up']} {token['runner_up_word']}"
    return f"under {token['head']} {token['head_word']}{wrong}{other}"
