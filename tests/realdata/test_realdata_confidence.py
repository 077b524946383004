"""Probabilities, N best and constraints on the real corpora, and beside CRF++ where it is installed."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from support.corpora import DATA, head, ner, pku

from mtlstruct import cli
from mtlstruct.model.calibration import calibration_report, fit_temperature
from mtlstruct.templates import generate, preset
from mtlstruct.training.train import Options, train

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def spanish():
    """Words and parts of speech in −3..3 and the transition: 15 templates. With its temperature."""
    model = train(
        ner("esp", "train"), generate((-3, 3), columns=(0, 1), bigrams=False), Options(loss="hinge")
    ).model
    dev = ner("esp", "dev").relabelled(model.labels)
    temperature = fit_temperature(model.lattice(dev), dev.outputs)
    return replace(model, facts=model.facts | {"temperature": temperature})


def test_a_temperature_from_one_text_is_worth_something_on_another(spanish):
    test = ner("esp", "test").relabelled(spanish.labels)
    lattice = spanish.lattice(test)
    raw, mended = (calibration_report(lattice, test.outputs, t) for t in (1.0, spanish.temperature))
    print(f"\nesp: {raw.line()}\n     {mended.line()}")
    assert mended.reliability.error < 0.01 < 0.3 < raw.reliability.error
    assert mended.nll < raw.nll / 4


def test_characters_have_a_temperature_too():
    corpus = head(pku(), 5500)
    training, held_out = head(corpus, 4000), 4000
    model = train(training, preset("cws-tp1"), Options(task="segmentation", loss="hinge")).model
    lattice = model.lattice(corpus)
    gold = corpus.outputs.copy()
    gold[: corpus.ptr[held_out]] = -1  # training text is left out of the fit
    temperature = fit_temperature(lattice, gold)
    raw, mended = (calibration_report(lattice, gold, t) for t in (1.0, temperature))
    print(f"\npku: temperature {temperature:.3f}, -ln p {raw.nll:.2f} -> {mended.nll:.2f} a sentence")
    assert 0.1 < temperature < 0.5
    assert mended.nll < raw.nll / 3


def test_scores_are_those_of_crf_test(spanish, tmp_path, capsys):
    """crf_test -v2 -n 3 line by line, but for labelings that tie and numbers on the edge of rounding."""
    if not (shutil.which("crf_test") and shutil.which("crf_learn")):
        pytest.skip("NOT RUN: crf_test and crf_learn of CRF++ are not on the PATH")
    test = DATA / "ner" / "conll2002_esp" / "test.conll"
    model, text, binary = (str(tmp_path / name) for name in ("m.mtl", "m.txt", "m.bin"))
    spanish.save(model)
    assert cli.run(["export", model, text, "--format", "crfpp-text"]) == 0
    subprocess.run(["crf_learn", "-C", text, binary], check=True, capture_output=True)
    factor = repr(1 / spanish.temperature)
    asked = ["crf_test", "-m", binary, "-v2", "-n", "3", "-c", factor, str(test)]
    theirs = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    capsys.readouterr()
    assert cli.run(["predict", model, str(test), "--scores", "all", "--nbest", "3"]) == 0
    ours = capsys.readouterr().out
    pairs = [(a, b) for a, b in zip(ours.split("\n"), theirs.split("\n"), strict=True) if a != b]
    print(f"\n{ours.count(chr(10)):,} lines of crf_test -v2 -n 3, {len(pairs)} of them differ")
    assert len(pairs) <= 20
    for a, b in pairs:
        cells, others = a.split("\t"), b.split("\t")
        chosen = slice(3, 4)  # another where two labelings tie
        del cells[chosen], others[chosen]
        numbers = [[float(cell.rpartition("/")[2]) for cell in row[3:]] for row in (cells, others)]
        np.testing.assert_allclose(*numbers, atol=1.1e-6, rtol=0)
        assert [re.sub("[0-9]", "", cell) for cell in cells] == [re.sub("[0-9]", "", cell) for cell in others]
