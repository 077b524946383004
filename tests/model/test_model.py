"""Models: predictions before saving and after loading, equal bytes for equal runs, damaged files."""

import json
import struct
import zipfile

import numpy as np
import pytest
from support.naive import corpus, random_corpus

from mtlstruct._system import archive, threads
from mtlstruct.errors import ModelFileError, MtlError
from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.structures.base import Batch
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train
from qa.fuzz.models import sealed

TEMPLATES = TemplateSet.parse(
    "# words\nU0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]/%x[2,0]\nU3:%x[2,1]\nU\nB\nB1:%x[0,1]"
)


def data_of(seed, sentences=40, longest=8, words=12):
    return random_corpus(np.random.default_rng(seed), sentences, longest, words)


def trained(seed=0, **options):
    return train(data_of(seed), TEMPLATES, Options(**options))


@pytest.fixture(scope="module")
def model():
    return trained().model


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "a.mtl"
    model.save(path)
    return path


def loaded(model, path):
    """The model after saving and loading."""
    model.save(path)
    return Model.load(path)


@pytest.mark.parametrize("method", ["mtl", "svm"])
@pytest.mark.parametrize(
    ("solver", "loss"), [("coordinate", "hinge"), ("coordinate", "log"), ("cutting-plane", "hinge")]
)
def test_the_compacted_model_predicts_what_the_full_weights_would(method, solver, loss, monkeypatch):
    kept = {}
    value = "hinge" if loss == "hinge" else "likelihood"
    original = getattr(Oracle, value)

    def spy(self, *args, **options):
        kept["oracle"] = self
        return original(self, *args, **options)

    monkeypatch.setattr(Oracle, value, spy)
    training = trained(1, method=method, solver=solver, loss=loss, max_iter=20)
    oracle, fit = kept["oracle"], training.fit
    parts = oracle.score(fit.weights, fit.scale)
    outputs, values = np.zeros(len(oracle.gold), np.int32), np.zeros(oracle.sentences)
    batch = Batch(parts, oracle.encoded.rows, oracle.encoded.ptr)
    oracle.structure.decode(batch, (0, oracle.sentences), outputs, values)
    assert np.array_equal(training.model.predict(data_of(1)), outputs)


def test_a_loaded_model_predicts_the_same_and_is_saved_as_the_same_bytes(model, saved, tmp_path):
    found = Model.load(saved)
    for seed in range(5):
        text = data_of(seed, 30, 9, 15)
        assert np.array_equal(model.predict(text), found.predict(text))
    assert found.labels == model.labels
    assert found.template_weights() == model.template_weights()
    assert found.facts == model.facts
    found.save(tmp_path / "b.mtl")
    assert (tmp_path / "b.mtl").read_bytes() == saved.read_bytes()


@pytest.mark.parametrize("solver", ["coordinate", "cutting-plane"])
def test_the_same_run_gives_the_same_bytes_on_any_number_of_threads(solver, tmp_path):
    found = set()
    for n in (1, 2, 4):
        threads.set_threads(n)
        trained(2, solver=solver).model.save(tmp_path / "m.mtl")
        found.add((tmp_path / "m.mtl").read_bytes())
    threads.set_threads(None)
    assert len(found) == 1


def test_dropped_templates_and_zero_attributes_are_not_stored(model):
    assert set(model.live) == {w.index for w in model.template_weights() if w.features}
    for weights in model.weights:
        assert np.all(np.any(weights[:-1] != 0, axis=1))
        assert not weights[-1].any()


def test_arrays_are_mapped_and_aligned(saved):
    _, arrays = archive.read(saved)
    for name, array in arrays.items():
        assert not array.flags.owndata, name
        assert array.ctypes.data % 64 == 0, name


def test_no_sentences_have_no_labels(model):
    text = data_of(99)
    empty = tuple(type(column)(column.ids[:0], column.strings) for column in text.columns)
    assert len(model.predict(type(text)(empty, np.zeros(1, np.int64), None, model.labels))) == 0


@pytest.mark.parametrize("text", ["B", "U", "U0:%x[0,0]", "B1:%x[0,0]", "U\nB"])
def test_the_smallest_template_files_train_save_and_predict(text, tmp_path):
    data = data_of(5, 15, 6, 5)
    model = train(data, TemplateSet.parse(text), Options()).model
    assert np.array_equal(loaded(model, tmp_path / "small.mtl").predict(data), model.predict(data))


def test_a_model_without_a_live_template_predicts_one_label(tmp_path):
    """Contradictory data and a tiny c leave no weight at all."""
    data = corpus([[("a", "x")], [("a", "x")]], [["A"], ["B"]])
    model = train(data, TemplateSet.parse("U0:%x[0,0]"), Options(c=1e-6)).model
    assert len(set(loaded(model, tmp_path / "empty.mtl").predict(data).tolist())) == 1


def test_a_file_that_is_not_a_model_is_rejected(tmp_path):
    (tmp_path / "text.mtl").write_text("hello")
    (tmp_path / "empty.mtl").write_bytes(b"")
    write_members(tmp_path / "other.mtl", {"x.txt": b"y"})
    for name in ("text.mtl", "empty.mtl", "other.mtl", "missing.mtl", ""):
        with pytest.raises(ModelFileError):
            Model.load(tmp_path / name)


def members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write_members(path, content, compression=zipfile.ZIP_STORED):
    """Write a zip file with the right digest, so that loading goes on to the content."""
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, found in content.items():
            file.writestr(name, found)
    path.write_bytes(sealed(path.read_bytes()))


def rewritten(saved, path, change):
    """The model with its header or arrays changed, and the digest of the new content."""
    header, arrays = archive.read(saved)
    arrays = {k: np.array(v) for k, v in arrays.items()}
    header = json.loads(json.dumps(header))
    change(header, arrays)
    archive.write(path, header, arrays)
    return path


def set_header(key, value):
    return lambda header, arrays: header.__setitem__(key, value)


def fact(key, value):
    return lambda header, arrays: header["facts"].__setitem__(key, value)


def swap(name, change):
    return lambda header, arrays: arrays.__setitem__(name, change(arrays[name]))


def poke(name, index, value):
    return lambda header, arrays: arrays[name].reshape(-1).__setitem__(index, value)


def nested(header, depth):
    """A second stage in the second stage in the second stage …"""
    header["facts"]["task"], header["structure"] = "dependency", "tree"
    for _ in range(depth):
        header["relations"] = dict(header)


HOSTILE = {
    "version": set_header("version", 99),
    "format": set_header("format", "other"),
    "structure": set_header("structure", "octopus"),
    "labels": set_header("labels", ["A", "A"]),
    "labels type": set_header("labels", 7),
    "no labels": set_header("labels", []),
    "templates": set_header("templates", "U0:%x[0,"),
    "live": set_header("live", [0, 99]),
    "live order": set_header("live", [1, 0]),
    "normalize": set_header("normalize", "rot13"),
    "facts": set_header("facts", None),
    "task": lambda h, a: h["facts"].pop("task"),
    "tags": fact("tags", "xyz"),
    "columns": fact("columns", 0),
    "temperature": fact("temperature", 0),
    "temperature of a truth": fact("temperature", True),
    "one column": fact("columns", 1),
    "nan weight": poke("weights/0", 0, np.nan),
    "infinite weight": poke("weights/0", 3, np.inf),
    "map": poke("maps/0", 0, 10**6),
    "map end": poke("maps/0", -1, 0),
    "slots": poke("streams/0/slots", 0, 10**6),
    "full slots": poke("streams/0/slots", slice(None), 0),
    "odd slots": swap("streams/0/slots", lambda a: a[:-1]),
    "offsets": poke("streams/0/ptr", 1, 10**9),
    "pairs": poke("joins/0/pairs", 0, 2**62),
    "negative pairs": poke("joins/0/pairs", 0, -5),
    "not text": poke("streams/0/bytes", 0, 255),
    "sizes": poke("index/sizes", 0, 10**9),
    "missing": lambda h, a: a.pop("maps/0"),
    "more": lambda h, a: a.__setitem__("zzz", np.zeros(3)),
    "shape": swap("weights/0", lambda a: a[:, :-1]),
    "type": swap("weights/0", lambda a: a.astype(np.float64)),
    "mu": poke("templates/mu", 0, np.nan),
    "labels in one string": set_header("labels", "AB"),
    "many columns": fact("columns", 10**6),
    "a second stage without end": lambda h, a: nested(h, 300),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_model_that_contradicts_itself_is_rejected(name, saved, tmp_path):
    with pytest.raises(ModelFileError, match=r"bad\.mtl"):
        Model.load(rewritten(saved, tmp_path / "bad.mtl", HOSTILE[name]))


def test_compressed_entries_are_rejected(saved, tmp_path):
    write_members(tmp_path / "bomb.mtl", members(saved), zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed"):
        Model.load(tmp_path / "bomb.mtl")


def test_absurd_array_headers_are_rejected(tmp_path):
    text = repr({"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**20)}).encode()
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    write_members(tmp_path / "huge.mtl", {"model.json": b"{}", "weights/0.npy": npy})
    with pytest.raises(ModelFileError, match="do not fit its shape"):
        Model.load(tmp_path / "huge.mtl")


def test_characters_that_are_cut_in_two_are_rejected(tmp_path):
    data = corpus([[("é",), ("a",)], [("a",), ("é",)]], [["B", "O"], ["O", "B"]])
    train(data, TemplateSet.parse("U0:%x[0,0]\nB"), Options(c=10)).model.save(tmp_path / "a.mtl")

    def change(header, arrays):
        texts = {name: bytes(array) for name, array in arrays.items() if name.endswith("bytes")}
        name, text = next((name, text) for name, text in texts.items() if "é".encode() in text)
        arrays[name.replace("bytes", "ptr")][1:-1] = text.index("é".encode()) + 1

    with pytest.raises(ModelFileError, match="cut a character in two"):
        Model.load(rewritten(tmp_path / "a.mtl", tmp_path / "b.mtl", change))


@pytest.mark.parametrize("value", ["\ud800", float("nan"), [[[float("inf")]]]])
def test_a_header_with_bad_text_or_numbers_is_rejected(value, saved, tmp_path):
    content = members(saved)
    header = json.dumps(json.loads(content["model.json"]) | {"note": value})
    write_members(tmp_path / "bad.mtl", content | {"model.json": header})
    with pytest.raises(ModelFileError, match=r"the model file is damaged: (model\.json holds|'utf-8' codec)"):
        Model.load(tmp_path / "bad.mtl")


def test_entries_that_overlap_are_rejected(saved, tmp_path):
    """A zip bomb without compression: all names lead to one and the same large entry."""
    raw = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as file:
        first, second = file.infolist()[1:3]
    directory = raw.rindex(b"PK\x01\x02", 0, raw.index(second.filename.encode(), file.start_dir))
    raw[directory + 42 : directory + 46] = struct.pack("<I", first.header_offset)
    (tmp_path / "overlap.mtl").write_bytes(sealed(bytes(raw)))
    with pytest.raises(ModelFileError, match="inside another entry"):
        Model.load(tmp_path / "overlap.mtl")


def test_training_that_does_not_fit_into_memory_is_rejected_with_the_estimate(monkeypatch):
    monkeypatch.setattr("mtlstruct._system.memory.available", lambda: 1000)
    with pytest.raises(MtlError, match=r"needs about .* of memory, but only"):
        trained(4)
