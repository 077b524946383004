"""Options that restrict the labels of a prediction, and the constraints they mean for a model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mtlstruct.cli.command import option
from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError, IncompatibleError, InfeasibleError
from mtlstruct.formats import text
from mtlstruct.structures.constraints import Constraints

FORBID = option(
    None,
    "Never label B after A; * matches any text, an empty side the edge of a sentence. @F reads rules from a file, "
    "one per line. May be repeated.",
    metavar="A>B|@F",
)
VALID_BIO = option(False, "Only allow valid sequences of BIO, BIOES, BILOU, BIE or BMES labels.")


def rule_files(forbid: Sequence[str] | None) -> list[Path]:
    """Return the files of --forbid @F; @>B is a rule for the label @."""
    return [Path(rule[1:]) for rule in forbid or () if rule.startswith("@") and ">" not in rule]


def constraints_of(
    labels: Sequence[str], forbid: Sequence[str] | None, valid_bio: bool
) -> Constraints | None:
    """Return the constraints of the options; None for no options."""
    if not (forbid or valid_bio):
        return None
    found = Constraints()
    rules: list[tuple[Path | None, int, str]] = []
    for rule in forbid or ():
        if not (files := rule_files([rule])):
            rules.append((None, 0, rule))
        for file in files:  # comments begin with "# ", since # may be a label
            lines = enumerate(text.tidy(text.load(file)), 1)
            rules += [(file, n, line) for n, line in lines if line and line.partition(" ")[0] != "#"]
    for path, number, rule in rules:
        try:
            found &= Constraints.from_rules([rule], labels)
        except IncompatibleError as error:
            if path is None:
                raise IncompatibleError(f"--forbid: {error}") from None
            raise FormatError(path, number, str(error)) from None
    if valid_bio:
        try:
            found &= Constraints.valid_chunks(labels)
        except IncompatibleError as error:
            raise IncompatibleError(f"--valid-bio: {error}") from None
    return found


@contextmanager
def located(source: str, corpus: Corpus) -> Iterator[None]:
    """Name file and line of a sentence that constraints leave without a labelling."""
    try:
        yield
    except InfeasibleError as error:
        assert corpus.lines is not None
        problem = "the sentence that begins here has no labelling that satisfies --forbid, --valid-bio and --partial"
        raise FormatError(source, int(corpus.lines[error.sentence]), problem) from None
