"""Column files: what is a cell, what is a sentence, what is rejected and where."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.corpus import UNKNOWN, Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import FORMATS, columns, text

# Whatever a Unicode-minded reader takes for a blank or a line end, beside letters: all of it is cell.
ODD = "\x0b\x0c\x1c\x1d\x1e\x85\u00a0\u2028\u2029\u3000\ufeff"
LETTERS = st.sampled_from("abé語" + ODD)
CELLS = st.text(LETTERS, min_size=1, max_size=4).map(lambda cell: "x" + cell)


@st.composite
def sentences(draw: st.DrawFn, width: int = 3) -> list[list[list[str]]]:
    row = st.lists(CELLS, min_size=width, max_size=width)
    return draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=5))


def put(folder: Path, raw: bytes | str) -> Path:
    path = folder / "data.txt"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return path


def rejects(path: Path, line: int | None, problem: str, **options: object) -> None:
    with pytest.raises(FormatError) as caught:
        columns.read(path, **options)  # type: ignore[arg-type]
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def table(corpus: Corpus) -> list[list[list[str]]]:
    """A labelled corpus as sentences of rows of cells."""
    assert corpus.outputs is not None
    observed = [column.cells() for column in corpus.columns]
    cells = [*observed, [corpus.labels[i] for i in corpus.outputs]]
    rows = [list(row) for row in zip(*cells, strict=True)]
    return [rows[span] for span in corpus.sentences()]


# Reading ---------------------------------------------------------------------------------------------------


def test_reads_cells_sentences_and_labels(tmp_path: Path) -> None:
    corpus = columns.read(put(tmp_path, "the DT B\ncat NN I\n\nsat VB O\nthe DT B\n\n"))
    words, tags = corpus.columns
    assert (words.cells(), tags.cells()) == (["the", "cat", "sat", "the"], ["DT", "NN", "VB", "DT"])
    assert corpus.labels == ("B", "I", "O")
    assert corpus.outputs is not None
    assert words.ids.tolist() == corpus.outputs.tolist() == [0, 1, 2, 0]
    assert corpus.ptr.tolist() == [0, 2, 4]
    assert (words.ids.dtype, corpus.outputs.dtype, corpus.ptr.dtype) == (np.int32, np.int32, np.int64)


@pytest.mark.parametrize(
    "raw",
    [
        "a b X\nc d Y\n\ne f X\n",
        "a b X\nc d Y\n\ne f X",  # no line end at the end
        "\ufeffa b X\nc d Y\n\ne f X\n",  # a byte order mark
        "a b X\r\nc d Y\r\n\r\ne f X\r\n",  # CRLF
        "a b X\r\nc d Y\r\n\r\ne f X\r",  # CRLF, cut off
        "a\tb \t X\nc  d\t\tY\n\ne f   X\n",  # runs of blanks
        "  a b X\t\n\tc d Y  \n \t \n  e f X ",  # blanks at the ends, and on the blank line
        "\n\n a b X\nc d Y\n\n\n\t\n\ne f X\n\n\n",  # runs of blank lines, at the ends too
    ],
)
def test_one_corpus_many_spellings(tmp_path: Path, raw: str) -> None:
    corpus = columns.read(put(tmp_path, raw))
    assert table(corpus) == [[["a", "b", "X"], ["c", "d", "Y"]], [["e", "f", "X"]]]
    assert columns.rows(corpus) == ["a\tb\tX", "c\td\tY", "e\tf\tX"]


@given(sentences(), st.sampled_from([" ", "\t", " \t  "]), st.sampled_from(["\n", "\r\n"]))
def test_reads_what_was_written(found: list[list[list[str]]], gap: str, end: str) -> None:
    raw = end.join(end.join(gap.join(row) for row in rows) + end for rows in found)
    lines = text.tidy(text.decode(raw.encode(), "x", "utf-8"))
    assert table(columns._corpus(lines, 3, 2)) == found


def test_without_labels_all_columns_are_observed(tmp_path: Path) -> None:
    corpus = columns.read(put(tmp_path, "a b\nc d\n"), labelled=False, names=["word", "tag"])
    assert corpus.outputs is None
    assert corpus.labels == ()
    assert corpus.names == ("word", "tag")
    assert corpus.columns[1].cells() == ["b", "d"]
    assert columns.read(put(tmp_path, "a\nb\n"), labelled=False).tokens == 2


def test_labels_may_be_numbers_and_encodings_other(tmp_path: Path) -> None:
    assert columns.read(put(tmp_path, "a 10\nb 9\n")).labels == ("10", "9")
    corpus = columns.read(put(tmp_path, "é O\n".encode("latin-1")), encoding="latin-1")
    assert corpus.columns[0].strings == ["é"]


@given(st.lists(CELLS))
def test_column_numbers_strings_by_first_appearance(cells: list[str]) -> None:
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(cell, len(numbers)) for cell in cells]
    got = text.column(cells)
    assert got.strings == list(numbers)
    assert got.ids.tolist() == ids
    assert got.cells() == cells


# Rejecting -------------------------------------------------------------------------------------------------

EMPTY = "no sentences: expected rows of columns, got only blank lines"
BAD_BYTE = "expected utf-8 text, got byte 0xe9 at offset 1"


@pytest.mark.parametrize(
    ("raw", "line", "problem"),
    [
        ("\na b X\n\nc Y\n", 4, "expected 3 columns as on line 2, got 2"),
        ("\ufeff\r\n \r\na b X\r\n\r\n\r\nc d e Y\r\n", 6, "expected 3 columns as on line 3, got 4"),
        ("a\nb\n", 1, "expected at least 2 columns, got 1"),
        *((raw, None, EMPTY) for raw in ("", "\n", "\n \t\n\r\n", "\ufeff")),
        *((raw, 2, BAD_BYTE)
          for raw in (b"a X\nb\xe9c Y\n", b"a X\r\nb\xe9c Y", b"\xef\xbb\xbfa X\nb\xe9c Y\n")),
        (b"a X\n\xe8\xaa\nb Y\n", 2, "got byte 0xe8 at offset 0"),  # a character cut off at the line end
        (b"a X\n\nb\0 Y\n", 3, "expected text, got a NUL byte"),
    ],
)  # fmt: skip
def test_rejects_with_the_line(tmp_path: Path, raw: bytes | str, line: int | None, problem: str) -> None:
    rejects(put(tmp_path, raw), line, problem)


def test_rejects_names_that_do_not_fit_files_and_encodings(tmp_path: Path) -> None:
    path = put(tmp_path, "a b X\n")
    rejects(path, 1, "expected 2 columns, got 3", names=["word"])
    rejects(path, 1, "expected 1 column, got 3", names=["word"], labelled=False)
    rejects(tmp_path / "missing", None, "cannot be read: No such file")
    rejects(tmp_path, None, "cannot be read: Is a directory")
    for name in ("klingon", "hex"):
        rejects(path, None, f"expected the name of a text encoding, got '{name}'", encoding=name)
    for wide in ("utf-16", "utf-32-le", "cp500"):
        rejects(path, None, f"expected an encoding with one-byte line ends, got '{wide}'", encoding=wide)


# Streaming -------------------------------------------------------------------------------------------------


def batches(raw: str | bytes, width: int = 2, batch_tokens: int = 20000, **options: object) -> list[Corpus]:
    source = io.BytesIO(raw if isinstance(raw, bytes) else raw.encode())
    found = columns.stream(source, columns=width, source="<stdin>", batch_tokens=batch_tokens, **options)  # type: ignore[arg-type]
    return list(found)


@given(sentences(), st.integers(1, 4), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_stream_gives_every_sentence_once(
    found: list[list[list[str]]], batch_tokens: int, end: str, finished: bool
) -> None:
    raw = (end * 2).join(end.join(" ".join(row) for row in rows) for rows in found) + end * finished
    got = [sentence for batch in batches(raw, 2, batch_tokens) for sentence in table(batch)]
    assert got == found


def test_stream_with_and_without_labels() -> None:
    (plain,) = batches("a b\n\nc d\n\n")
    assert plain.outputs is None
    assert len(plain) == 2
    (labelled,) = batches("a b X\n\nc d Y\n\n")
    assert labelled.labels == ("X", "Y")
    assert columns.rows(labelled) == ["a\tb\tX", "c\td\tY"]


def test_stream_ends_without_a_blank_line() -> None:
    assert [table(batch) for batch in batches("a b X\n\nc d Y")] == [[[["a", "b", "X"]]], [[["c", "d", "Y"]]]]
    assert [batches(raw) for raw in ("", "\n\n", " \n\t\n")] == [[], [], []]


@pytest.mark.parametrize("batch_tokens", [1, 20000])
@pytest.mark.parametrize(
    ("raw", "line", "problem"),
    [
        (b"a b X\n\n" * 50 + b"a b\n", 101, "expected 3 columns as on line 1, got 2"),
        (b"a b X\n\n" * 50 + b"a \xff X\n", 101, "expected utf-8 text, got byte 0xff at offset 2"),
        (b"a b X\n\n" * 50 + b"a \0 X\n", 101, "got a NUL byte"),
        (b"\na b c d\n", 2, "expected 2 columns (or 3 with a label), got 4"),
        (b"x " * 500_000 + b"x", 1, "got 500001"),
    ],
)
def test_stream_rejects_with_the_line(raw: bytes, line: int, problem: str, batch_tokens: int) -> None:
    with pytest.raises(FormatError) as caught:
        batches(raw, 2, batch_tokens)
    assert (caught.value.path, caught.value.line) == ("<stdin>", line)
    assert problem in str(caught.value)


def test_stream_rejects_encodings() -> None:
    with pytest.raises(FormatError, match="one-byte line ends, got 'utf-16'"):
        batches(b"a\n", 1, encoding="utf-16")


def test_a_sentence_comes_as_soon_as_its_blank_line() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb", buffering=0) as typist:
        stream = columns.stream(source, columns=1, source="<stdin>")
        for number in range(1, 20):
            typist.write(f"word{number}\n".encode() * number)
            typist.write(b"\n")
            batch = next(stream)  # would wait for ever if it wanted more than has been typed
            assert batch.columns[0].cells() == [f"word{number}"] * number


@pytest.mark.parametrize("batch_tokens", [100, 20000])
def test_one_very_long_sentence(batch_tokens: int) -> None:
    (batch,) = batches("word TAG\n" * 100_000, 2, batch_tokens)
    assert batch.tokens == 100_000
    assert len(batch) == 1


def test_streams_without_read1() -> None:
    class Plain:
        read = io.BytesIO(b"a\n\nb\n\n").read

    found = list(columns.stream(Plain(), columns=1, source="raw"))  # type: ignore[arg-type]
    assert [batch.columns[0].cells() for batch in found] == [["a", "b"]]


# Writing ---------------------------------------------------------------------------------------------------


def written(corpus: Corpus, labels: list[str] | None, predictions: list[int]) -> str:
    out = io.StringIO()
    columns.write(out, corpus, labels, np.array(predictions, np.int32))
    return out.getvalue()


def test_writes_cells_tabs_and_the_prediction() -> None:
    (corpus,) = batches("a  b X\nc d\tY\n\n\n\ne f X\n\n")
    assert written(corpus, ["P", "Q"], [0, 1, 1]) == "a\tb\tX\tP\nc\td\tY\tQ\n\ne\tf\tX\tQ\n\n"
    assert written(corpus, None, [1, 0, 0]) == "a\tb\tX\tY\nc\td\tY\tX\n\ne\tf\tX\tX\n\n"


def test_keeps_labels_that_the_model_does_not_know() -> None:
    (corpus,) = batches("a b STRANGE\n")
    assert written(corpus.relabelled(["O"]), ["O"], [0]) == "a\tb\tSTRANGE\tO\n\n"


@given(sentences())
def test_what_is_written_can_be_read(found: list[list[list[str]]]) -> None:
    raw = "".join("\n".join(" ".join(row) for row in rows) + "\n\n" for rows in found)
    (corpus,) = batches(raw)
    assert corpus.outputs is not None
    (again,) = batches(written(corpus, None, corpus.outputs.tolist()), 3)
    assert table(again) == [[[*row, row[-1]] for row in rows] for rows in found]


def test_rejects_ids_without_a_label() -> None:
    (corpus,) = batches("a b\nc d\n")
    for last, got in ((UNKNOWN, "-1 to 0"), (1, "0 to 1")):
        with pytest.raises(IncompatibleError, match=f"expected label ids from 0 to 0, got {got}"):
            written(corpus, ["O"], [0, last])


def test_formats_by_name() -> None:
    assert FORMATS["columns"] is columns
    assert all(hasattr(module, "read") and hasattr(module, "write") for module in FORMATS.values())


@given(sentences(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_sentences_know_their_lines(
    found: list[list[list[str]]], batch_tokens: int, gap: int, leading: bool
) -> None:
    raw = "\n" * leading + ("\n" * (gap + 1)).join("\n".join(" ".join(row) for row in rows) for rows in found)
    lines = ["", *raw.split("\n")]
    expected = [number for number, line in enumerate(lines) if line and not lines[number - 1]]
    assert [n for batch in batches(raw, 2, batch_tokens) for n in batch.lines.tolist()] == expected  # type: ignore[union-attr]


@pytest.mark.parametrize("batch_tokens", [1, 20000])
def test_stream_of_partly_labelled_rows(batch_tokens: int) -> None:
    def partly(raw: str) -> list[Corpus]:
        return batches(raw, 1, batch_tokens, known={"X", "_"})

    labels = [batch.labels[i] for batch in partly("a X\nb _\n\nc X\n") for i in batch.outputs.tolist()]  # type: ignore[union-attr]
    assert labels == ["X", "_", "X"]
    for raw, problem in (
        ("a X\nb _\n\nc Y\n", "<stdin>, line 4: expected a label in the last column (X, _), got 'Y'"),
        ("\na\n", "<stdin>, line 2: expected 2 columns, got 1"),
    ):
        with pytest.raises(FormatError) as caught:
            partly(raw)
        assert str(caught.value) == problem


SEGMENTED = "segmented text, a sentence a line, is for --task segmentation"


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("a b c\nd e\nf g h i\nj\nk l m n o\n", SEGMENTED),
        ("# text = a b\n1\ta\n", "trees with comments (CoNLL-U) are for --task dependency"),
        ("a N\nb N\n\nc N\nd\ne N\n", ""),  # a column file with one bad row
    ],
)
def test_says_what_lines_that_are_no_rows_may_be(tmp_path: Path, raw: str, hint: str) -> None:
    with pytest.raises(FormatError) as caught:
        columns.read(put(tmp_path, raw))
    assert caught.value.problem.partition("; ")[2] == hint
