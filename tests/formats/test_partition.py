"""Files split into shards: whole sentences, in order; errors name the line of the file."""

import pytest
from support.commands import TRAIN, WORDS

from mtlstruct.corpus import joined
from mtlstruct.errors import FormatError, MtlError
from mtlstruct.formats import columns, partition
from mtlstruct.tasks import TASKS, FileOptions


def cut(files, count, task):
    return partition.split(files, count, at_blank_lines=TASKS[task].ends_at_blank_line)


def read_piece(piece, task):
    return partition.read(piece, lambda part: TASKS[task].read_file(part, FileOptions()))


def cells(corpus):
    labels = [corpus.labels[y] for y in corpus.outputs]
    return [*(column.cells() for column in corpus.columns), labels, corpus.ptr.tolist()]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 50])
@pytest.mark.parametrize(
    ("task", "text"), [("sequence", TRAIN), ("segmentation", WORDS), ("multiclass", TRAIN)]
)
def test_shards_are_the_file(tmp_path, count, task, text):
    path = tmp_path / "train.txt"
    path.write_text(text.replace("\n\n", "\n \n\n") + "\n\n")
    parts = cut([path], count, task)
    assert 1 <= len(parts) <= count
    whole = TASKS[task].read_file(path, FileOptions())
    assert cells(joined([read_piece(piece, task) for piece in parts])) == cells(whole)


def test_a_folder_is_its_files_in_order(tmp_path):
    sentences = TRAIN.strip().split("\n\n")
    for name, text in zip("cab", sentences, strict=False):
        (tmp_path / f"{name}.txt").write_text(text + "\n")
    (tmp_path / ".hidden").write_text("not data")
    files = partition.files_of(tmp_path)
    assert [file.name for file in files] == ["a.txt", "b.txt", "c.txt"]
    whole = partition.read(partition.files_of(tmp_path), columns.read)
    for count in (1, 2, 3):
        read = [read_piece(piece, "sequence") for piece in cut(files, count, "sequence")]
        assert cells(joined(read)) == cells(whole)
    (tmp_path / "d.txt").write_text("one two three LABEL\n")
    with pytest.raises(MtlError, match=r"d\.txt: expected 2 observation columns as in .*, got 3"):
        partition.read(partition.files_of(tmp_path), columns.read)


def test_an_error_in_a_shard_names_the_line_of_the_file(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(TRAIN + "\nonly two\nnow three cells\n")
    line = path.read_text().split("\n").index("now three cells") + 1
    *_, last = cut([path], 6, "sequence")
    with pytest.raises(FormatError, match=f"line {line}: expected 2 columns"):
        read_piece(last, "sequence")


def test_missing_files_are_rejected(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        cut([tmp_path / "missing"], 2, "sequence")
    with pytest.raises(FormatError, match="expected a folder with data files"):
        partition.files_of(tmp_path)
