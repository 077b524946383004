"""Segmented text: words to labels and back, lines kept, blanks of every sort."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import segmented, text

# Letters of one to four bytes, and what str.split would take for blanks.
WORDS = st.text(st.sampled_from("a語é𠀀\u00a0\u2028\x0b\x85"), min_size=1, max_size=5)
LINES = st.lists(st.lists(WORDS, max_size=5), min_size=1, max_size=5)


def put(folder, raw):
    path = folder / "data.txt"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return path


def spell(corpus):
    """Each sentence's labels as one string."""
    labels = [corpus.labels[i] for i in corpus.outputs]
    return ["".join(labels[span]) for span in corpus.sentences()]


def written(corpus, predictions=None, labels=None):
    ids = corpus.outputs if predictions is None else np.array(predictions, np.int32)
    names = corpus.labels if labels is None else labels
    found = segmented.format_text(corpus, ids, names)
    words = segmented.words_of(corpus, text.named(ids, names))
    assert found == "".join(segmented.format_lines(corpus, words))
    return found


def streamed(raw, *, spaced=False, batch_tokens=20000):
    source = io.BytesIO(raw if isinstance(raw, bytes) else raw.encode())
    return list(segmented.stream(source, raw=spaced, source="<stdin>", batch_tokens=batch_tokens))


def predicted(raw, label, **options):
    """Write what comes of a stream whose characters all get one label."""
    return "".join(written(batch, [0] * batch.tokens, [label]) for batch in streamed(raw, **options))


def test_reads_characters_and_labels(tmp_path):
    path = put(tmp_path, "我  喜欢  计算机\n好 是的\n")
    corpus, four = segmented.read(path), segmented.read(path, tags="bmes")
    assert "".join(corpus.columns[0].cells()) == "我喜欢计算机好是的"
    assert (spell(corpus), corpus.labels) == (["BBEBIE", "BBE"], ("B", "E", "I"))
    assert (spell(four), four.labels) == (["SBEBME", "SBE"], ("B", "E", "M", "S"))
    assert corpus.ptr.tolist() == [0, 6, 9]
    assert corpus.columns[0].ids.dtype == np.int32


@pytest.mark.parametrize(
    "raw",
    [
        "ab c\nd\n",
        "ab c\nd",
        "\ufeffab  c\r\nd\r\n",
        " ab\tc \n\u3000d\u3000\u3000\n",
        "\nab\u3000 \tc\n \u3000\n\nd\n\n",
    ],
)
def test_equivalent_spellings_give_the_same_corpus(tmp_path, raw):
    corpus = segmented.read(put(tmp_path, raw))
    assert corpus.columns[0].cells() == ["a", "b", "c", "d"]
    assert spell(corpus) == ["BEB", "B"]


def test_words_keep_their_line_and_make_a_vocabulary(tmp_path):
    path = put(tmp_path, "\ufeffab  c\r\n\r\n \u3000\r\nd\u3000e\r\n")
    assert list(segmented.words(path)) == [["ab", "c"], [], [], ["d", "e"]]
    for raw in ("ab\nc\nab\n", "ab  c  ab\n"):  # a list, and a text
        assert segmented.vocabulary(put(tmp_path, raw)) == {"ab", "c"}


@pytest.mark.parametrize("raw", ["", "\n", " \n\u3000\r\n"])
def test_rejects_a_file_without_words(tmp_path, raw):
    path = put(tmp_path, raw)
    for reader in (segmented.read, segmented.vocabulary, lambda path: list(segmented.words(path))):
        with pytest.raises(FormatError, match="no sentences: expected words, got only blank lines") as caught:
            reader(path)
        assert caught.value.path == str(path)


def rows(labels, columns=""):
    """A column file with these labels, three rows a sentence."""
    lines = [f"w{n}{columns} {label}" for n, label in enumerate(labels.split())]
    return "\n\n".join("\n".join(lines[n : n + 3]) for n in range(0, len(lines), 3)) + "\n"


COLUMN_FILES = {
    "chunks": rows("B-PER I-PER O", " N"),
    "fields": rows("I-<day> <day> I-<month>", " x y"),
    "chunks after a while": rows("O " * 30 + "B-LOC"),
    "no chunk": rows("O " * 30),
    "characters": "今 B\n天 E\n天 B\n气 E\n好 S\n",
    "parts of speech": rows("D N V P " * 6),
    "trees": "# text = a b c\n" + "".join(f"{n}\tw\t_\tN\t0\t_\n" for n in (1, 2, 3)),
}

SEGMENTED_TEXTS = {
    "one label": "维生素 B\n" * 3,
    "names that look like labels": "他 喜欢 B-52\n我 喜欢 S-300\n" * 3,
    "two words a line": "好 。\n是 。\n不 。\n" * 20,
    "two words in Latin letters": "".join(f"see page{n}\n" for n in range(30)),
    "two rows": "今 B-X\n天 I-X\n",
    "lines of other lengths": "a O\nb B-PER\nc d B-PER\n" * 10,
    "one word a line": "今天\n\n天气\n" * 20,
    "numbers": "".join(f"第 {n % 3}\n" for n in range(40)),
}


@pytest.mark.parametrize("raw", COLUMN_FILES.values(), ids=COLUMN_FILES)
def test_rejects_column_files(tmp_path, raw):
    path = put(tmp_path, raw)
    for reader in (segmented.read, lambda path: list(segmented.words(path))):
        with pytest.raises(FormatError, match=r"expected segmented text .* got a column file") as caught:
            reader(path)
        assert (caught.value.path, caught.value.line) == (str(path), 2 if raw.startswith("#") else 1)
    for spaced in (False, True):
        with pytest.raises(FormatError, match="got a column file"):
            streamed(raw, spaced=spaced)
    assert segmented.vocabulary(path)  # a word list may have columns of any sort


@pytest.mark.parametrize("raw", SEGMENTED_TEXTS.values(), ids=SEGMENTED_TEXTS)
def test_segmented_text_is_no_column_file(tmp_path, raw):
    assert segmented.read(put(tmp_path, raw)).tokens
    assert list(segmented.words(put(tmp_path, raw)))
    for batch_tokens in (1, 20000):
        assert streamed(raw, batch_tokens=batch_tokens)


def test_on_blanks_is_called_once():
    for spaced, expected in ((False, [2]), (True, [])):
        seen: list[int] = []
        source = io.BytesIO("今天\n天 气\n很 好\n".encode())
        list(segmented.stream(source, raw=spaced, source="<stdin>", batch_tokens=1, on_blanks=seen.append))
        assert seen == expected


def test_rejects_bad_bytes_nul_and_unknown_tags(tmp_path):
    for raw, line, problem in (
        (b"a b\n\nc \xff\n", 3, "expected utf-8 text, got byte 0xff at offset 2"),
        (b"a b\nc\0\n", 2, "expected text, got a NUL byte"),
    ):
        with pytest.raises(FormatError, match=f"line {line}: {problem}"):
            segmented.read(put(tmp_path, raw))
        with pytest.raises(FormatError, match=f"<stdin>, line {line}: {problem}"):
            streamed(raw, spaced=True, batch_tokens=1)
    with pytest.raises(IncompatibleError, match="expected tags bie, bmes, six, got 'bio'"):
        segmented.read(put(tmp_path, "a b\n"), tags="bio")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("BEBIE", "ab cde"),
        ("BBBBB", "a b c d e"),
        ("SBMES", "a bcd e"),
        ("IIEIE", "abc de"),  # no B: the first character starts a word, and so does what follows an E
        ("EEEEE", "a b c d e"),
        ("BIIII", "abcde"),  # never ends
        ("BEIIB", "ab cd e"),
        ("OOOOO", "abcde"),  # a label from elsewhere continues
        ("SISIB", "a b c d e"),
    ],
)
def test_words_of_labels(labels, words):
    assert segmented.cut("abcde", list(labels)) == words.split()


@given(st.lists(WORDS), st.sampled_from(["bie", "bmes"]))
def test_cut_inverts_labels_of(words, tags):
    assert segmented.cut("".join(words), segmented.labels_of(map(len, words), tags)) == words


@given(LINES, st.sampled_from([" ", "  ", "\u3000", "\t "]), st.integers(1, 8), st.booleans())
def test_one_output_line_per_input_line(lines, gap, batch_tokens, spaced):
    """If every character is predicted B, then words are characters; empty lines stay."""
    raw = "".join(gap.join(words) + "\n" for words in lines)
    got = predicted(raw, "B", spaced=spaced, batch_tokens=batch_tokens)
    assert got == "".join("  ".join("".join(words)) + "\n" for words in lines)


@given(LINES)
def test_raw_keeps_blanks_as_boundaries(lines):
    """With nothing but I predicted the blanks of the input are the only boundaries, or there are none."""
    raw = "".join(" ".join(words) + "\n" for words in lines)
    for spaced, between in ((True, "  "), (False, "")):
        assert predicted(raw, "I", spaced=spaced) == "".join(between.join(words) + "\n" for words in lines)


@given(LINES.filter(any))
def test_writes_what_was_read(tmp_path_factory, lines):
    raw = "".join("  ".join(words) + "\n" for words in lines)
    corpus = segmented.read(put(tmp_path_factory.getbasetemp(), raw))
    assert written(corpus) == raw


def test_a_batch_of_empty_lines_is_still_written():
    (batch,) = streamed("\n \n")
    assert len(batch) == 0
    assert batch.tokens == 0
    assert written(batch, [], ["B"]) == "\n\n"
    assert streamed("") == []


def test_lines_runs_and_label_stops():
    first, second = streamed("ab c\n\n", spaced=True), streamed("\nab  c\n\nd\n", spaced=True)
    assert [batch.lines.tolist() for batch in (*first, *second)] == [[1], [2, 4]]
    (batch,) = second
    assert segmented.run_starts(batch).tolist() == [0, 2, 3]
    labels = ["B", "B", "B", "S"]
    words = segmented.words_of(batch, labels)
    assert words == ([0, 1, 2, 3], [1, 2, 3, 4], [0, 0, 3, 3, 4])
    # "a" is a word because "b" begins one; "b" and "c" end where their stretches do; S ends by itself
    assert segmented.label_stops(batch, words, labels) == [2, 2, 3, 4]
    blocks = segmented.format_lines(batch, words, ["/1", "/2", "/3", "/4"])
    assert blocks == ["\n", "a/1  b/2  c/3\n", "\n", "d/4\n"]
