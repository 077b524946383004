"""Column files: what is a cell, what is a sentence, what is rejected and where."""

import contextlib
import gzip
import io
import os
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.corpus import UNKNOWN
from mtlstruct.errors import FormatError, IncompatibleError, ResourceError
from mtlstruct.formats import columns, interning, segmented, text

# Whatever a Unicode-minded reader takes for a blank or a line end, beside letters: all of it is cell.
ODD = "\x0b\x0c\x1c\x1d\x1e\x85\u00a0\u2028\u2029\u3000\ufeff"
LETTERS = st.sampled_from("abé語" + ODD)
CELLS = st.text(LETTERS, min_size=1, max_size=4).map(lambda cell: "x" + cell)


@st.composite
def sentences(draw, width=3):
    row = st.lists(CELLS, min_size=width, max_size=width)
    return draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=5))


def put(folder, raw):
    path = folder / "data.txt"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return path


def rejects(path, line, problem, **options):
    with pytest.raises(FormatError) as caught:
        columns.read(path, **options)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def table(corpus):
    """A labelled corpus as sentences of rows of cells."""
    observed = [column.cells() for column in corpus.columns]
    cells = [*observed, [corpus.labels[i] for i in corpus.outputs]]
    rows = [list(row) for row in zip(*cells, strict=True)]
    return [rows[span] for span in corpus.sentences()]


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
def test_equivalent_spellings_give_the_same_corpus(tmp_path, raw):
    corpus = columns.read(put(tmp_path, raw))
    assert table(corpus) == [[["a", "b", "X"], ["c", "d", "Y"]], [["e", "f", "X"]]]
    assert columns.rows(corpus) == ["a\tb\tX", "c\td\tY", "e\tf\tX"]
    assert (corpus.columns[0].ids.dtype, corpus.outputs.dtype, corpus.ptr.dtype) == (
        np.int32,
        np.int32,
        np.int64,
    )


def test_without_labels_all_columns_are_observed(tmp_path):
    assert columns.read(put(tmp_path, "a 10\nb 9\n")).labels == ("10", "9")
    latin = columns.read(put(tmp_path, "é O\n".encode("latin-1")), encoding="latin-1")
    assert latin.columns[0].strings == ["é"]
    corpus = columns.read(put(tmp_path, "a b\nc d\n"), labelled=False, names=["word", "tag"])
    assert corpus.outputs is None
    assert corpus.labels == ()
    assert corpus.names == ("word", "tag")
    assert corpus.columns[1].cells() == ["b", "d"]
    assert columns.read(put(tmp_path, "a\nb\n"), labelled=False).tokens == 2


EMPTY = "no sentences: expected rows of columns, got none"
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
def test_rejects_with_the_line(tmp_path, raw, line, problem):
    rejects(put(tmp_path, raw), line, problem)


def test_rejects_names_that_do_not_fit_files_and_encodings(tmp_path):
    path = put(tmp_path, "a b X\n")
    rejects(path, 1, "expected 2 columns, got 3", names=["word"])
    rejects(path, 1, "expected 1 column, got 3", names=["word"], labelled=False)
    rejects(tmp_path / "missing", None, "cannot be read: No such file")
    rejects(tmp_path, None, "cannot be read: Is a directory")
    for name in ("klingon", "hex"):
        rejects(path, None, f"expected the name of a text encoding, got '{name}'", encoding=name)
    for wide in ("utf-16", "utf-32-le", "cp500"):
        rejects(path, None, f"expected an encoding with one-byte line ends, got '{wide}'", encoding=wide)


def batches(raw, width=2, batch_tokens=20000, **options):
    source = io.BytesIO(raw if isinstance(raw, bytes) else raw.encode())
    found = columns.stream(source, columns=width, source="<stdin>", batch_tokens=batch_tokens, **options)
    return list(found)


@given(sentences(), st.integers(1, 4), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_stream_gives_every_sentence_once(found, batch_tokens, end, finished):
    raw = (end * 2).join(end.join(" ".join(row) for row in rows) for rows in found) + end * finished
    got = [sentence for batch in batches(raw, 2, batch_tokens) for sentence in table(batch)]
    assert got == found


def test_stream_without_labels_or_a_last_blank_line():
    (plain,) = batches("a b\n\nc d\n\n")
    assert plain.outputs is None
    assert len(plain) == 2
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
def test_stream_rejects_with_the_line(raw, line, problem, batch_tokens):
    with pytest.raises(FormatError) as caught:
        batches(raw, 2, batch_tokens)
    assert (caught.value.path, caught.value.line) == ("<stdin>", line)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("stream", "end"),
    [(partial(columns.stream, columns=1), "\n"), (partial(segmented.stream, raw=True), "")],
    ids=["a sentence of rows", "a line of segmented text"],
)
def test_a_sentence_comes_as_soon_as_it_is_typed(stream, end):
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb", buffering=0) as typist:
        batches = stream(source, source="<stdin>")
        for word in ("a", "b", "c" * 20):
            typist.write(f"{word}\n{end}".encode())
            batch = next(batches)  # would wait for ever if it wanted more than has been typed
            assert "".join(batch.columns[0].cells()) == word


def written(corpus, labels, predictions):
    names, outputs = corpus.labels if labels is None else labels, np.array(predictions, np.int32)
    found = columns.format_text(corpus, outputs, names)
    assert found == "".join(columns.format_sentences(corpus, text.named(outputs, names)))
    return found


@given(st.lists(CELLS | st.text(LETTERS), max_size=30))
def test_columns_of_bytes_and_characters_equal_those_of_strings(cells):
    blob = np.frombuffer("".join(cells).encode(), np.uint8)
    ends = np.cumsum([0, *(len(cell.encode()) for cell in cells)])
    pairs = (
        (interning.column(blob, ends[:-1], ends[1:]), cells),
        (text.character_column("".join(cells)), "".join(cells)),
    )
    for found, given_cells in pairs:
        expected = text.column(given_cells)
        assert (found.ids.tolist(), found.strings) == (expected.ids.tolist(), expected.strings)


def test_writes_cells_tabs_and_the_prediction():
    (corpus,) = batches("a  b X\nc d\tY\n\n\n\ne f X\n\n")
    assert written(corpus, ["P", "Q"], [0, 1, 1]) == "a\tb\tX\tP\nc\td\tY\tQ\n\ne\tf\tX\tQ\n\n"


def test_rejects_ids_without_a_label():
    (corpus,) = batches("a b\nc d\n")
    for last, got in ((UNKNOWN, "-1 to 0"), (1, "0 to 1")):
        with pytest.raises(IncompatibleError, match=f"expected label ids from 0 to 0, got {got}"):
            written(corpus, ["O"], [0, last])


@given(sentences(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_sentences_know_their_lines(found, batch_tokens, gap, leading):
    raw = "\n" * leading + ("\n" * (gap + 1)).join("\n".join(" ".join(row) for row in rows) for rows in found)
    lines = ["", *raw.split("\n")]
    expected = [number for number, line in enumerate(lines) if line and not lines[number - 1]]
    assert [n for batch in batches(raw, 2, batch_tokens) for n in batch.lines.tolist()] == expected


@pytest.mark.parametrize("batch_tokens", [1, 20000])
def test_stream_of_partly_labelled_rows(batch_tokens):
    def partly(raw):
        return batches(raw, 1, batch_tokens, known={"X", "_"})

    labels = [batch.labels[i] for batch in partly("a X\nb _\n\nc X\n") for i in batch.outputs.tolist()]
    assert labels == ["X", "_", "X"]
    for raw, problem in (
        ("a X\nb _\n\nc Y\n", "<stdin>, line 4: expected a label in the last column (X, _), got 'Y'"),
        ("\na\n", "<stdin>, line 2: expected 2 columns, got 1"),
    ):
        with pytest.raises(FormatError) as caught:
            partly(raw)
        assert str(caught.value) == problem


SEGMENTED = "segmented text, one sentence per line, is for --task segmentation"


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("a b c\nd e\nf g h i\nj\nk l m n o\n", SEGMENTED),
        ("# text = a b\n1\ta\n", "trees with comments (CoNLL-U) are for --task dependency"),
        ("a N\nb N\n\nc N\nd\ne N\n", ""),  # a column file with one bad row
    ],
)
def test_says_what_lines_that_are_no_rows_may_be(tmp_path, raw, hint):
    with pytest.raises(FormatError) as caught:
        columns.read(put(tmp_path, raw))
    assert caught.value.problem.partition("; ")[2] == hint


@given(st.data(), st.sampled_from("\t,|x"))
def test_cells_between_separators_may_be_empty_or_have_spaces(tmp_path_factory, data, separator):
    cell = st.text(st.sampled_from("ab é "), max_size=3)
    row = st.tuples(cell, cell, st.just("L")).map(list)
    given_rows = data.draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=4))
    raw = "\n".join("".join(separator.join(row) + "\n" for row in sentence) for sentence in given_rows)
    path = put(tmp_path_factory.mktemp("cells"), raw)
    corpus = columns.read(path, cells=columns.CellFormat(separator))
    assert table(corpus) == given_rows
    assert columns.rows(corpus) == ["\t".join(row) for sentence in given_rows for row in sentence]
    batches = columns.stream(
        io.BytesIO(raw.encode()), columns=2, source="x", cells=columns.CellFormat(separator)
    )
    assert [sentence for batch in batches for sentence in table(batch)] == given_rows


def test_rejects_a_tab_in_a_cell_between_other_separators(tmp_path):
    path = put(tmp_path, "a,O\nb\tc,O\n")
    rejects(path, 2, "expected ',' between cells, got a tab in a cell", cells=columns.CellFormat(","))


def test_ragged_rows_lack_cells_before_the_label(tmp_path):
    ragged = columns.CellFormat(ragged=True)
    path = put(tmp_path, "a b c X\nd Y\n\ne f Z\n")
    rows = [[["a", "b", "c", "X"], ["d", "_", "_", "Y"]], [["e", "f", "_", "Z"]]]
    assert table(columns.read(path, cells=ragged)) == rows
    assert table(columns.read(path, cells=ragged, names=["w", "x", "y"])) == rows
    rejects(path, 1, "expected 3 columns, got 4", cells=ragged, names=["w", "x"])
    rejects(put(tmp_path, "a X\nb\n"), 2, "expected 2 columns", cells=ragged)
    [batch] = columns.stream(io.BytesIO(b"a b\nc\n"), columns=3, source="x", cells=ragged)
    assert columns.rows(batch) == ["a\tb\t_", "c\t_\t_"]


@given(st.binary(max_size=400), st.integers(1, 50))
def test_gzip_files_and_streams_are_decompressed(tmp_path_factory, cut, size):
    raw = "".join(f"é{i} O\n\n" for i in range(50)).encode()
    packed = gzip.compress(raw[:200]) + gzip.compress(raw[200:])  # a file may have several members
    path = put(tmp_path_factory.mktemp("gzip"), packed)
    assert text.load(path) == raw.decode().removesuffix("\n")
    blocks = text.blocks(io.BytesIO(packed), "x", size=size)
    assert "\n".join(block for _, block in blocks) == raw.decode().removesuffix("\n")
    damaged = packed[: len(cut) % len(packed)] + cut
    with contextlib.suppress(FormatError):  # and no other error
        text.load(put(path.parent, damaged))


def test_rejects_damaged_gzip_files(tmp_path):
    packed = gzip.compress(b"a O\n" * 100)
    rejects(put(tmp_path, packed[:-9]), None, "expected a whole gzip file, got one that is cut short")
    rejects(put(tmp_path, packed[:12] + b"xyz" + packed[15:]), None, "got one that is damaged")
    with pytest.raises(FormatError, match="a gzip file cannot be split into shards"):
        text.load(text.Part(put(tmp_path, packed), 0, len(packed)))


@pytest.mark.parametrize("packed", [False, True])
def test_lines_without_end_are_rejected_while_they_are_read(tmp_path, monkeypatch, packed):
    monkeypatch.setattr("mtlstruct.formats.text.MAX_LINE", 3_000_000)
    raw = b"a X\n\nb Y\n" + b"c" * 5_000_000
    path = tmp_path / "endless.txt"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    for read in (lambda: columns.read(path), lambda: batches(path.read_bytes(), width=2)):
        with pytest.raises(FormatError, match=r"line 4: expected lines of at most 3,000,000 bytes"):
            read()


def test_text_beyond_the_memory_is_rejected_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("mtlstruct.formats.text.MAX_LINE", 100_000)
    monkeypatch.setattr("mtlstruct._system.memory.available", lambda: 1_000_000)
    raw = b"a X\n" * 1_000_000  # one sentence
    (tmp_path / "long.txt").write_bytes(raw)
    for read in (lambda: columns.read(tmp_path / "long.txt"), lambda: batches(raw)):
        with pytest.raises(ResourceError, match=r"reading .* bytes and more needs about"):
            read()
