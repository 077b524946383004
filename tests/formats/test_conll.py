"""CoNLL-X and CoNLL-U: what is a token, what is kept untouched, what is rejected and where."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlstruct.errors import FormatError
from mtlstruct.formats import conll

ODD = "\x0b\x0c\x1c\x85\u00a0\u2028\u3000\ufeff"
CELLS = st.text(st.sampled_from("abé語 #-.1" + ODD), min_size=1, max_size=4).map(lambda cell: "x" + cell)

UNIVERSAL = """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\tSpaceAfter=No
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_
5.1\tva\tir\tVERB\t_\t_\t_\t_\t1:conj\t_

# a comment before the second
1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\t_

"""


@st.composite
def heads(draw, size):
    """A tree: tokens in some order, each under one that came before, or under the root."""
    order = draw(st.permutations(range(1, size + 1)))
    found = [0] * size
    for place, token in enumerate(order):
        found[token - 1] = draw(st.sampled_from([0, *order[:place]]))
    return found


@st.composite
def files(draw):
    """Sentences with all that CoNLL-U allows between tokens."""

    def row(*first, rest=9):
        return "\t".join([*first, *draw(st.lists(CELLS, min_size=rest, max_size=rest))])

    lines = []
    for _ in range(draw(st.integers(1, 4))):
        lines += draw(st.lists(CELLS.map(lambda c: "# " + c), max_size=2))
        for token, head in enumerate(draw(heads(draw(st.integers(1, 5)))), 1):
            lines += [row(f"{token}-{token + 1}")] * draw(st.booleans())
            lines.append(row(row(str(token), rest=5), str(head), rest=3))
            lines += [row(f"{token}.1")] * draw(st.booleans())
        lines += [""] * draw(st.integers(1, 2))
    return "".join(line + "\n" for line in lines)


def put(folder, text):
    path = folder / "trees.conll"
    path.write_bytes(text.encode())
    return path


def written(corpus, predictions=None, **options):
    predicted = corpus.outputs if predictions is None else np.array(predictions, np.int32)
    return conll.format_trees(corpus, predicted, **options)


def rows(*changes, tokens=3):
    """A chain of tokens, with some cells changed: (token, field, text)."""
    table = [[str(t), "w", "_", "N", "NN", "_", str(t - 1), "r", "_", "_"] for t in range(1, tokens + 1)]
    for token, field, cell in changes:
        table[token - 1][field] = cell
    return "".join("\t".join(row) + "\n" for row in table) + "\n"


def rejects(path, line, problem, **options):
    with pytest.raises(FormatError) as caught:
        conll.read(path, **options)
    assert str(path) in str(caught.value)
    assert caught.value.line == line
    assert problem in str(caught.value)


def stream(text, size=1 << 20):
    """Read what comes in pieces of `size` bytes."""

    class Slow(io.BytesIO):
        def read1(self, _size=-1):
            return self.read(size)

    return list(conll.stream(Slow(text.encode()), source="pipe"))


def test_reads_tokens_by_name_and_leaves_the_rest(tmp_path):
    corpus = conll.read(put(tmp_path, UNIVERSAL))
    assert corpus.names == ("FORM", "LEMMA", "CPOSTAG", "POSTAG", "FEATS")
    assert corpus.columns[0].cells() == ["vamos", "nos", "a", "el", "mar", "Sí"]
    assert corpus.columns[2].cells() == ["VERB", "PRON", "ADP", "DET", "NOUN", "INTJ"]
    assert corpus.ptr.tolist() == [0, 5, 6]
    assert corpus.outputs.tolist() == [0, 1, 5, 5, 1, 0]
    assert corpus.outputs.dtype == np.int32
    assert conll.relations(corpus).cells() == ["root", "obj", "case", "det", "obl", "root"]
    assert written(corpus) == UNIVERSAL


@settings(max_examples=25)
@given(files())
def test_what_is_read_is_written_back_and_only_heads_and_relations_change(tmp_path_factory, text):
    corpus = conll.read(put(tmp_path_factory.mktemp("conll"), text))
    assert written(corpus) == text
    wrong = written(corpus, np.zeros(corpus.tokens, np.int32), relations=["R"] * corpus.tokens)
    after = conll.read(put(tmp_path_factory.mktemp("conll"), wrong))
    assert not after.outputs.any()
    assert set(conll.relations(after).strings) == {"R"}
    for a, b in zip(corpus.columns, after.columns, strict=True):
        assert a.cells() == b.cells()
    assert written(after, corpus.outputs, relations=conll.relations(corpus).cells()) == text


@settings(max_examples=25)
@given(files(), st.integers(1, 300))
def test_streams_give_the_same_lines_however_they_come(text, size):
    batches = stream(text, size)
    heads = [[int(cell) for cell in batch.extra.cells(6)] for batch in batches]
    assert "".join(written(*pair) for pair in zip(batches, heads, strict=True)) == text
    assert all(batch.outputs is None for batch in batches)


def test_a_missing_last_line_end_is_supplied(tmp_path):
    text = rows().rstrip("\n")
    assert written(conll.read(put(tmp_path, text))) == text + "\n\n"
    assert written(conll.read(put(tmp_path, text.replace("\n", "\r\n")))) == text + "\n\n"


def test_text_to_be_parsed_needs_six_columns(tmp_path):
    blind = "1\tGo\tgo\tV\tVB\t_\n2\thome\thome\tN\tNN\t_\n\n"
    (batch,) = stream(blind)
    assert written(batch, [0, 1]) == "1\tGo\tgo\tV\tVB\t_\t0\t_\n2\thome\thome\tN\tNN\t_\t1\t_\n\n"
    assert conll.relations(batch).cells() == ["_", "_"]
    rejects(put(tmp_path, blind), 1, "expected 8 to 10 columns")
    (batch,) = stream(rows((1, 6, "_"), (2, 6, "7")))
    assert batch.tokens == 3


def test_comments_alone_are_kept():
    batches = stream("# nothing here\n\n# nor here\n")
    assert [batch.tokens for batch in batches] == [0, 0]
    assert "".join(written(batch, []) for batch in batches) == "# nothing here\n\n# nor here\n\n"


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        ((2, 6, "4"), 2, "expected a head from 0 to 3 other than the token itself, got '4'"),
        ((2, 6, "2"), 2, "other than the token itself, got '2'"),
        ((2, 6, "-1"), 2, "expected the number of a head, got '-1'"),
        ((2, 6, "_"), 2, "got '_'"),
        ((2, 6, "²"), 2, "got '²'"),
        ((2, 6, "99999999999999999999"), 2, "got '99999999999999999999'"),
        ((1, 6, "3"), 1, "expected a tree, got a cycle of heads, 1 → 3 → 2 → 1"),
        ((2, 0, "3"), 2, "expected token 2, a range or an empty node, got '3'"),
        ((3, 0, "2"), 3, "expected token 3, a range or an empty node, got '2'"),
        ((2, 0, "two"), 2, "got 'two'"),
        ((2, 4, ""), 2, "expected a value or _ in POSTAG, got nothing"),
        ((2, 9, "_\t_"), 2, "expected 10 columns as on line 1, got 11"),
        ((1, 9, "_\t_"), 1, "expected 8 to 10 columns separated by tabs, got 11"),
    ],
)
def test_rejections_name_the_line(tmp_path, change, line, problem):
    """Put an untouched sentence before it, unless the first line is the wrong one."""
    before = rows() if line > 1 else ""
    rejects(put(tmp_path, before + rows(change)), before.count("\n") + line, problem)


def test_files_without_tokens_and_several_roots_are_rejected(tmp_path):
    for text in ("", "\n\n", "# a comment\n"):
        rejects(put(tmp_path, text), None, "no sentences")
    rejects(put(tmp_path, "1 Go _ V\n"), 1, "expected 8 to 10 columns separated by tabs, got 1")
    path = put(tmp_path, rows((3, 6, "0")))
    assert conll.read(path).outputs.tolist() == [0, 1, 0]
    rejects(path, 3, "expected one token with head 0, got 2 (1, 3)", single_root=True)
    free = conll.read(put(tmp_path, rows((1, 6, "3"), (2, 6, "9"))), trees=False)
    assert free.outputs.tolist() == [3, 9, 2]


def test_lines_are_counted_over_batches():
    with pytest.raises(FormatError, match="line 11: expected token 3"):
        stream(rows() + rows() + rows((3, 0, "9")), 20)
