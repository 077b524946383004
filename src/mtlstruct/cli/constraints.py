"""The options that rule labelings out, and what they come to for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.errors import FormatError, IncompatibleError, InfeasibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.structures.constraints import Constraints

ForbidOption = Annotated[
    list[str] | None,
    typer.Option(
        "--forbid",
        metavar="A>B",
        help="Never label B after A; * is any text, an empty side the edge of a sentence. May be repeated.",
    ),
]
ForbidFileOption = Annotated[
    Path | None,
    typer.Option(
        "--forbid-file",
        help="A file of such rules, one a line.",
    ),
]
ValidOption = Annotated[
    bool,
    typer.Option(
        "--valid-bio", help="Only labelings that write chunks rightly: BIO, BIOES, BILOU, BIE or BMES."
    ),
]


def constraints_of(
    labels: Sequence[str], forbid: Sequence[str] | None, rules: Path | None, valid_bio: bool
) -> Constraints | None:
    """What the options allow; None if all is."""
    if not (forbid or rules or valid_bio):
        return None
    from mtlstruct.structures.constraints import Constraints, forbidding, valid

    found = Constraints()
    for rule in forbid or ():
        with _blaming(lambda problem: IncompatibleError(f"--forbid: {problem}")):
            found &= forbidding([rule], labels)
    for number, rule in _rules(rules):
        with _blaming(partial(FormatError, str(rules), number)):
            found &= forbidding([rule], labels)
    if valid_bio:
        with _blaming(lambda problem: IncompatibleError(f"--valid-bio: {problem}")):
            found &= valid(labels)
    return found


def _rules(path: Path | None) -> list[tuple[int, str]]:
    """The rules of a file with their lines. A comment begins with # and a blank: # alone may be a label."""
    if path is None:
        return []
    from mtlstruct.formats import text

    lines = enumerate(text.tidy(text.load(path)), 1)
    return [(number, line) for number, line in lines if line and line.partition(" ")[0] != "#"]


@contextmanager
def _blaming(place: Callable[[str], MtlError]) -> Iterator[None]:
    try:
        yield
    except IncompatibleError as error:
        raise place(str(error)) from None


@contextmanager
def located(source: str, corpus: Corpus) -> Iterator[None]:
    """Says where in the input the sentence is that constraints leave without a labelling."""
    try:
        yield
    except InfeasibleError as error:
        assert corpus.lines is not None
        problem = "no labelling of the sentence that begins here keeps all that is given and forbidden"
        raise FormatError(source, int(corpus.lines[error.sentence]), problem) from None
