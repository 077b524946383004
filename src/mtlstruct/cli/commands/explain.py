"""`explain`: for each token, which templates speak for its label or head and which against it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlstruct.cli.commands.predict import STANDARD, reading
from mtlstruct.cli.common import EncodingOption, ThreadsOption, print_json, use_threads
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.explain.sequences import Explanation
    from mtlstruct.model.model import Model
    from mtlstruct.report.tree_svg import Tree


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    data: Annotated[
        Path, typer.Argument(metavar="INPUT", help="The text, with or without labels; - is stdin.")
    ] = STANDARD,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a sentence.")] = False,
    sentence: Annotated[
        int | None,
        typer.Option("--sentence", metavar="N", min=1, help="Only this one, from 1.", show_default="all"),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", metavar="K", min=0, help="How many templates to show for a token.")
    ] = 5,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="F.html", help="Write a page instead, with drawings of trees."),
    ] = None,
    force: ForceOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Show how much each template speaks for the chosen label of a token, or for its head.

    Figures are differences to the runner-up, the best labelling of the sentence with another label at that
    token, or the best tree with another head there. They are exact: templates, the others and "elsewhere" (what
    changes farther away than the token and its two transitions, or its arc) sum to the difference of the scores.
    Heads that the input has are taken for the right ones where trees are drawn.
    """
    from mtlstruct.explain.records import sentence_record
    from mtlstruct.formats.text import check_encoding
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import task_of

    if json and html is not None:
        raise IncompatibleError("--json and --html: expected one of them")
    use_threads(threads)
    check_encoding(encoding, data)
    check_outputs([(html, Kind.PAGE)], inputs=[model, data], force=force)
    loaded = Model.load(model)
    task = task_of(loaded.task)
    pages, shown = [], 0
    with reading(data, encoding) as source:
        corpora = task.stream(loaded, source)
        for number, corpus, found in _numbered(loaded, corpora, sentence):
            record = sentence_record(loaded, corpus, found, number, top)
            shown += 1
            if html is not None:
                pages.append((record, _tree(loaded, corpus, found, record)))
            else:
                print_json(record) if json else print(_text(record, task.unit))
    if sentence is not None and not shown:
        raise MtlError(f"{data}: --sentence {sentence}: the input has fewer sentences than that")
    if html is not None:
        from mtlstruct.report.html_explanation import explanation_page

        explanation_page(f"{model.name}: {data.name}", task.unit, pages).save(html)
        print(f"wrote {html}", file=sys.stderr)


def _tree(model: Model, corpus: Corpus, found: Explanation, record: dict[str, Any]) -> Tree | None:
    """What is drawn of a sentence with a tree, beside the tree that the input has, if it has one."""
    if not model.trees:
        return None
    from mtlstruct.formats.conll import given_trees
    from mtlstruct.report.tree_svg import Tree

    relations = None
    if model.relations is not None:
        relations = [token["relation"]["label"] for token in record["tokens"]]
    heads, labels = given_trees(corpus, found.span) or (None, None)
    rows = [token["cells"] for token in record["tokens"]]
    return Tree.of(rows, found.chosen.tolist(), relations, heads, labels if relations else None)


def _numbered(
    model: Model, corpora: Iterator[Corpus], only: int | None
) -> Iterator[tuple[int, Corpus, Explanation]]:
    """Sentences with their numbers in the whole input."""
    from mtlstruct.explain.sequences import explain as explained
    from mtlstruct.explain.sequences import one_sentence

    before = 0
    for corpus in corpora:
        if only is None:
            yield from ((n, corpus, found) for n, found in enumerate(explained(model, corpus), before + 1))
        elif before < only <= before + len(corpus):
            first, last = corpus.ptr[only - before - 1 : only - before + 1].tolist()
            found = next(explained(model, one_sentence(corpus, slice(first, last))))
            yield only, corpus, replace(found, span=slice(first, last))
            return
        before += len(corpus)


def _text(record: dict[str, Any], unit: str) -> str:
    """A sentence for people: a paragraph a token."""
    return f"{unit} {record['sentence']}\n" + "".join(_paragraph(token) for token in record["tokens"])


def _paragraph(token: dict[str, Any]) -> str:
    head = f"{token['token']:>3} {' '.join(filter(None, token['cells']))}   {_against(token)}"
    lines = [(voice["value"], voice["text"]) for voice in token["templates"]]
    lines += [(token[key], key) for key in ("others", "elsewhere") if abs(token[key]) > 5e-7]
    margin = "" if token["margin"] is None else f": {token['margin']:+.4f}"
    said = f"{head}{margin}\n" + "".join(f"    {value:+9.4f}  {text}\n" for value, text in lines)
    return said + (_labelled(token["relation"]) if "relation" in token else "")


def _labelled(relation: dict[str, Any]) -> str:
    """What the second stage says of a token."""
    lines = [(voice["value"], voice["text"]) for voice in relation["templates"]]
    lines += [(relation["others"], "others")] if abs(relation["others"]) > 5e-7 else []
    head = f"    as {_against(relation)}: {relation['margin']:+.4f}\n"
    return head + "".join(f"    {value:+9.4f}  {text}\n" for value, text in lines)


def _against(token: dict[str, Any]) -> str:
    """What was chosen, and instead of what."""
    if "label" in token:
        return f"{token['label']}, not {token['runner_up']}"
    other = "" if token["runner_up"] is None else f", not {token['runner_up']} {token['runner_up_word']}"
    return f"under {token['head']} {token['head_word']}{other}"
