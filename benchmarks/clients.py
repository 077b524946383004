"""Programs that use a CRF tagger, with their own data and features: `python -m benchmarks.clients FOLDER …`.

The folders hold checkouts or data of clients: usaddress, probablepeople, khPOS, ParsCit, grobid_date,
grobid_name_header, conll2002_esp (the tutorial of sklearn-crfsuite), thai-ner. A client that is not there is
left out. Each is trained three times: by python-crfsuite with the client's settings (those of CRF++ and Wapiti
are converted), by our default, and by `train --method auto`, with `--score` where the client has a measure of
its own; all on one thread. Prints a table, and with `--json FILE` writes all figures, `runs` by split.

usaddress needs the package probableparsing, probablepeople also doublemetaphone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from benchmarks import measure
from benchmarks.programs import tutorial
from benchmarks.programs.attributes import Attributes

Labelled = list[tuple[Any, list[str]]]
"""Sentences, rows of cells or feature dicts, with their labels."""

CRFPP = {"feature.possible_states": True, "feature.possible_transitions": True}
"""CRF++ has features for all pairs of attributes and labels, and of labels."""

WAPITI = {"c1": 0.5, "c2": 0.00005, "feature.possible_transitions": True}
"""Wapiti's default penalties, rho1 = 0.5 and rho2 = 0.0001, which it halves."""

TUTORIAL = {"c1": 0.1, "c2": 0.1, "feature.possible_transitions": True}
PARSERATOR = {"c1": 0.1, "c2": 0.01}
PROGRAMS = ["theirs", "default", "auto"]
ROUNDS = 3


@dataclass(frozen=True)
class Client:
    """A client; `load` returns pairs of training and test data from its folder.

    templates    template file in the folder; "" for feature dicts
    transitions  whether to add `B`, which the templates lack
    fields       whether runs of equal labels are fields
    score        the client's own measure, by which `auto` compares settings; "" for the default
    ours         feature dicts as we get them, where a key would be a template but is a value
    """

    load: Callable[[Path], list[tuple[Labelled, Labelled]]]
    settings: dict[str, Any]
    templates: str = ""
    transitions: bool = False
    fields: bool = True
    score: str = ""
    ours: Callable[[Any], Any] = field(default=lambda sentence: sentence)


def splits(data: Labelled, count: int) -> list[tuple[Labelled, Labelled]]:
    """Random splits into 80 and 20 % with seeds 0, 1, …"""
    found = []
    for seed in range(count):
        order = random.Random(seed).sample(data, len(data))
        cut = len(data) * 4 // 5
        found.append((order[:cut], order[cut:]))
    return found


def columns(path: Path, errors: str = "strict") -> Labelled:
    """The sentences of a column file; a line with only blanks ends one."""
    found: Labelled = []
    rows: list[list[str]] = []
    for line in [*path.read_text("utf-8", errors).split("\n"), ""]:
        if line.strip():
            rows.append(line.split())
        elif rows:
            found.append(([row[:-1] for row in rows], [row[-1] for row in rows]))
            rows = []
    return found


def _tagged_words(path: Path) -> Labelled:
    """Lines of WORD/TAG."""
    found: Labelled = []
    for line in path.read_text("utf-8").splitlines():
        pairs = [word.rsplit("/", 1) for word in line.split() if "/" in word]
        if pairs:
            found.append(([[word] for word, _ in pairs], [tag for _, tag in pairs]))
    return found


def _xml(module: str, folder: Path, names: list[str]) -> Labelled:
    """Sentences of parserator's XML, with the features of the client's own module."""
    sys.path.insert(0, str(folder))
    with warnings.catch_warnings():  # that it has no model yet
        warnings.simplefilter("ignore")
        features = importlib.import_module(module).tokens2features
    sys.path.remove(str(folder))
    found: Labelled = []
    for name in names:
        for sentence in ElementTree.parse(folder / name).getroot():
            parts = [(part.text.strip(), part.tag) for part in sentence if part.text and part.text.strip()]
            if parts:
                found.append((features([token for token, _ in parts]), [tag for _, tag in parts]))
    return found


def _usaddress(folder: Path) -> list[tuple[Labelled, Labelled]]:
    tests = (
        "simple_address_patterns",
        "labeled",
        "synthetic_osm_data",
    )  # those that its tests compare exactly
    test = _xml("usaddress", folder, [f"measure_performance/test_data/{name}.xml" for name in tests])
    return [(_xml("usaddress", folder, ["training/labeled.xml"]), test)]


def _people(folder: Path) -> list[tuple[Labelled, Labelled]]:
    names = [f"name_data/labeled/{kind}_labeled.xml" for kind in ("person", "company")]
    return splits(_xml("probablepeople", folder, names), 5)


def _with_ngrams(sentence: Any) -> Any:
    """Trigrams and fourgrams, which are keys with the value True, as the values of one key."""

    def token(features: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"ngrams": []}
        for key, value in features.items():
            if isinstance(value, dict):
                found[key] = token(value)
            elif value is True and len(key) in (3, 4) and key != "roman":
                found["ngrams"].append(key)
            else:
                found[key] = value
        return found

    return [token(features) for features in sentence]


def _spanish(folder: Path) -> list[tuple[Labelled, Labelled]]:
    def part(name: str) -> Labelled:
        rows, labels = tutorial.read(str(folder / f"{name}.conll"))
        return list(zip(tutorial.dicts(rows), labels, strict=True))

    return [(part("train"), part("test"))]


def _khpos(folder: Path) -> list[tuple[Labelled, Labelled]]:
    data = folder / "corpus-draft-ver-1.0" / "data"
    return [(_tagged_words(data / "train6" / "train6"), _tagged_words(data / "OPEN-TEST"))]


def _thai_features(words: list[str], t: int) -> dict[str, Any]:
    """The client's features of a token, but for parts of speech and stop words, which its checkout lacks."""
    found: dict[str, Any] = {"len5": words[t].isdigit() and len(words[t]) == 5}
    for name, at in (("", t), ("prev", t - 1), ("next", t + 1)):
        if not 0 <= at < len(words):
            found["BOS" if at < 0 else "EOS"] = True
            continue
        word = words[at]
        thai = all("\u0e00" <= letter <= "\u0e7f" or letter == "." for letter in word)
        kinds = {"word": word, "isthai": thai, "isspace": word.isspace(), "isdigit": word.isdigit()}
        found |= {name + key: value for key, value in kinds.items()}
    return found


def _thai(folder: Path) -> list[tuple[Labelled, Labelled]]:
    data: Labelled = []
    text = (folder / "model" / "1.3" / "data.conll").read_text("utf-8-sig")
    for block in text.split("\n\n"):
        rows = [row for line in block.split("\n") if len(row := line.split("\t")) == 2]
        words = [word for word, _ in rows]
        if rows:
            data.append(([_thai_features(words, t) for t in range(len(rows))], [label for _, label in rows]))
    return splits(data, 1)


CLIENTS = {
    "usaddress": Client(_usaddress, PARSERATOR),
    "probablepeople": Client(_people, PARSERATOR, ours=_with_ngrams),
    "grobid_date": Client(lambda folder: splits(columns(folder / "all.conll"), 5), WAPITI, "date.template"),
    "grobid_name_header": Client(
        lambda folder: splits(columns(folder / "all.conll"), 5), WAPITI, "name.template"
    ),
    "ParsCit": Client(
        lambda folder: splits(columns(folder / "crfpp/traindata/parsCit.train.data", "replace"), 3),
        CRFPP | {"c2": 1 / 6, "feature.minfreq": 2},
        "crfpp/traindata/parsCit.template",
        score="fields",
    ),
    "khPOS": Client(
        _khpos, CRFPP | {"c2": 0.5}, "corpus-draft-ver-1.0/model/crf/template", transitions=True, fields=False
    ),
    "conll2002_esp": Client(_spanish, TUTORIAL | {"max_iterations": 100}),
    "thai-ner": Client(_thai, TUTORIAL | {"max_iterations": 500}),
}


def figures(client: Client, folder: Path, name: str, programs: list[str]) -> Iterator[dict[str, Any]]:
    """The figures of the trainings, means over the splits."""
    from mtlstruct.templates import TemplateSet

    pairs = client.load(folder)
    templates = None
    if client.templates:
        text = (folder / client.templates).read_text("utf-8") + "\nB\n" * client.transitions
        templates = TemplateSet.parse(text, dialect="crfpp")
    for program in programs:
        with TemporaryDirectory() as place:
            runs = [_run(program, client, templates, *pair, Path(place)) for pair in pairs]
        means = {key: fmean(run[key] for run in runs) for key in runs[0]}
        yield {"client": name, "program": program, "splits": len(pairs), **means, "runs": runs}


def _run(
    program: str, client: Client, templates: Any, train: Labelled, test: Labelled, place: Path
) -> dict[str, float]:
    gold = [labels for _, labels in test]
    if program == "theirs":
        unseen, tag, cpu, size = _theirs(client, templates, train, test, place)
    else:
        unseen, tag, cpu, size = _ours(program, client, templates, train, test, place)
    found = [tag(sentence) for sentence in unseen]
    return {**scores(gold, found, client.fields), "cpu": cpu, "mb": size / 1e6, "us": _latency(tag, unseen)}


def _theirs(client: Client, templates: Any, train: Labelled, test: Labelled, place: Path) -> Any:
    import pycrfsuite

    make: Callable[[Any], Any] = pycrfsuite.ItemSequence
    if templates is not None:
        attributes = Attributes(templates)
        make = lambda rows: pycrfsuite.ItemSequence(attributes.of(list(zip(*rows, strict=True))))  # noqa: E731
    began = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", params=client.settings, verbose=False)
    for sentence, labels in train:
        trainer.append(make(sentence), labels)
    model = place / "model.crfsuite"
    trainer.train(str(model))
    cpu = time.process_time() - began
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    return [sentence for sentence, _ in test], lambda x: tagger.tag(make(x)), cpu, model.stat().st_size


def _ours(program: str, client: Client, templates: Any, train: Labelled, test: Labelled, place: Path) -> Any:
    from mtlstruct import load

    model, arguments = place / "model.mtl", ["--threads", "1", "--no-log", "-q", "--force"]
    if program == "auto":
        arguments += ["--method", "auto", *(["--score", client.score] if client.score else [])]
    if templates is None:
        data = place / "train.jsonl"
        lines = [json.dumps({"tokens": client.ours(x), "labels": y}) for x, y in train]
        data.write_text("\n".join(lines) + "\n", "utf-8")
        files = [data, model]
    else:
        data, source = place / "train.txt", place / "templates.tpl"
        blocks = ["\n".join(" ".join([*r, t]) for r, t in zip(x, y, strict=True)) for x, y in train]
        data.write_text("\n\n".join(blocks) + "\n", "utf-8")
        source.write_text(templates.text(), "utf-8")
        files = [source, data, model]
    for old in (place / "model.mtl.auto").glob("*"):  # results of the split before
        old.unlink()
    run = measure.python("mtlstruct", "train", *files, *arguments)
    loaded = load(model)
    unseen = [client.ours(sentence) for sentence, _ in test]
    return unseen, lambda x: loaded.predict([x])[0], run.cpu, model.stat().st_size


def scores(gold: list[list[str]], found: list[list[str]], runs: bool) -> dict[str, float]:
    """Accuracy, F1 of fields and share of whole sequences, in percent."""
    from mtlstruct.evaluation.chunks import chunk_scores
    from mtlstruct.evaluation.scores import sequence_scores, without_chunks

    pairs = [(a, b) for x, y in zip(gold, found, strict=True) for a, b in zip(x, y, strict=True)]
    scored: Any = sequence_scores(gold, found)
    if without_chunks(scored):
        scored = chunk_scores(*([_as_chunks(labels) for labels in side] for side in (gold, found)))
    whole = [x == y for x, y in zip(gold, found, strict=True)]
    fields = scored.as_dict()["f1"] if runs else float("nan")
    return {
        "accuracy": 100 * fmean(a == b for a, b in pairs),
        "fields": fields,
        "whole": 100 * fmean(whole),
        "wrong": float(len(whole) - sum(whole)),
    }


def _as_chunks(labels: list[str]) -> list[str]:
    """Runs of equal labels as chunks."""
    before = [None, *labels[:-1]]
    return [f"{'I' if a == b else 'B'}-{b}" for a, b in zip(before, labels, strict=True)]


def _latency(tag: Callable[[Any], Any], sentences: list[Any]) -> float:
    """Microseconds of CPU time per sentence, one at a time: the best of some rounds."""
    some, best = sentences[:300], float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for sentence in some:
            tag(sentence)
        best = min(best, (time.process_time() - began) / len(some))
    return 1e6 * best


def _line(row: dict[str, Any]) -> str:
    fields = "–" if row["fields"] != row["fields"] else f"{row['fields']:.2f}"
    return (
        f"| {row['client']} | {row['program']} | {row['accuracy']:.2f} | {fields} | {row['whole']:.2f} "
        f"| {row['cpu']:.1f} s | {row['mb']:.2f} MB | {row['us']:.0f} µs |"
    )


def main(arguments: list[str]) -> None:
    """Measures the clients that are in the folders given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=list(CLIENTS), metavar="NAME")
    parser.add_argument("--program", action="append", choices=PROGRAMS, metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    rows = []
    print("| client | program | accuracy | fields F1 | whole | training CPU | model | one sentence |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in given.only or CLIENTS:
        folder = next((place / name for place in given.folders if (place / name).is_dir()), None)
        if folder is None:
            print(f"{name}: not run, not found", file=sys.stderr)
            continue
        for row in figures(CLIENTS[name], folder, name, given.program or PROGRAMS):
            rows.append(row)
            print(_line(row), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
