"""Kernels compiled ahead are those that a training calls, and nothing depends on them."""

import subprocess
import sys
import time

import pytest

from mtlstruct._numba.decorators import COMPILED
from mtlstruct.training import precompile as ahead
from mtlstruct.training import warmup as warming
from mtlstruct.training.options import Options

SAME_TYPES = """
import numpy as np
from mtlstruct import ahead
from mtlstruct.formats import columns
from mtlstruct import folding
from mtlstruct.linear.products import _count, _score
from mtlstruct.training.options import Options
from mtlstruct.structures import box, sequence, sequence_flow, sequence_segments, sequence_twins, sequence_visit
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import train
kernels = [sequence_visit._visit, sequence_flow._repair, sequence_flow._marginals, sequence_flow._loose,
           sequence_segments._choose, sequence_segments._weigh, sequence_segments._move, sequence_segments._by_pairs,
           sequence_twins._match, box._climb, sequence._viterbi, sequence._path_scores,
           _score, _count, folding._squares]
for part in ahead.PARTS.values():
    part()
known = [set(map(str, kernel.signatures)) for kernel in kernels]
assert all(known), known
for made in (made for kernel in kernels for made in kernel.overloads.values()):
    assert "array" not in str(made.signature.return_type), "a lean kernel returns no array"
lines = [f"{word} {label}\\n" for word, label in zip("abcdefghabcd", "ABCABCBCAACB")]
open("a.txt", "w").write("\\n".join("".join(lines[k : k + 3]) for k in range(0, 12, 3)))
templates = TemplateSet.parse("U0:%x[0,0]\\nU1:%x[-1,0]/%x[0,0]\\nU2:%x[1,0]\\nB\\n")
train(columns.read("a.txt"), templates, Options(), lambda record: False)
for kernel, before in zip(kernels, known):
    new = set(map(str, kernel.signatures)) - before
    assert not new, (kernel.py_func.__name__, new)
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_what_is_compiled_ahead_has_the_types_of_a_training(tmp_path):
    """Else a training would compile it again, and the first run would be longer, not shorter."""
    subprocess.run([sys.executable, "-c", SAME_TYPES], check=True, cwd=tmp_path)


def test_all_that_is_known_is_compiled_ahead():
    assert tuple(ahead.PARTS) == warming.PARTS


def test_two_processes_take_each_part_once(tmp_path):
    """Also where one of them fails: the other takes what is left."""
    script = tmp_path / "parts.py"
    script.write_text(
        "import os\n"
        "from functools import partial\n"
        "from pathlib import Path\n"
        "from mtlstruct import ahead\n"
        "def note(name):\n"
        "    with open(f'{name}.{os.getpid()}', 'x'):\n"
        "        pass\n"
        "ahead.PARTS = {name: partial(note, name) for name in 'abcdef'} | {'none': lambda: 1 / 0}\n"
        "ahead.main(['a', 'b', 'none', 'c', 'd', 'e', 'f'])\n"
    )
    subprocess.run([sys.executable, str(script)], check=False, cwd=tmp_path, stderr=subprocess.DEVNULL)
    done = sorted(path.name.split(".")[0] for path in tmp_path.iterdir() if path.suffix != ".py")
    assert done == list("abcdef")


def test_nothing_is_started_where_all_is_compiled_or_nothing_would_be_won(monkeypatch):
    monkeypatch.setattr(warming, "_compiled", lambda kernel: False)
    monkeypatch.setattr(warming, "Warming", list)
    wanted = list(warming.PARTS) if COMPILED and warming.threads.get_threads() > 1 else []
    assert warming.begin(Options()) == wanted
    for other in (
        Options(task="dependency"),
        Options(method="crf-l2"),
        Options(solver="cutting-plane"),
        Options(label_support="seen"),
        Options(shards=2),
    ):
        assert warming.begin(other) == []
    monkeypatch.setattr(warming, "_compiled", lambda kernel: True)
    assert warming.begin(Options()) == []


def test_a_training_that_fails_leaves_no_process_behind():
    some = warming.Warming(["visits"])
    running = list(some._running)
    some.close()
    assert all(process.returncode is not None for process in running)
    assert not some.at_work


def test_a_part_that_fails_is_not_waited_for_forever():
    some = warming.Warming(["nothing"])
    began = time.monotonic()
    some.wait()
    assert time.monotonic() - began < 60


def test_another_numba_compiles_nothing_ahead():
    assert warming._compiled(object())
