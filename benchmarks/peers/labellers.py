"""Programs that label sequences: CRF++, Wapiti, CRFsuite by its command and from Python; and ours."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Run
from benchmarks.peers.base import Job, Trained, digest
from benchmarks.peers.ours import Mtlstruct
from benchmarks.places import Missing, program, work


@dataclass(frozen=True)
class CrfPlus:
    """CRF++: l2, L-BFGS. It writes its model at the end only, so one that is stopped leaves none."""

    name: str = "CRF++"
    settings: str = "l2, c = 1, eta 1e-4 (its defaults)"

    def identity(self) -> str:
        """Its two programs."""
        return digest(program("crf_learn", self.name), program("crf_test", self.name))

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """`crf_learn`."""
        some = [] if iterations is None else ["-m", str(iterations)]
        files = [str(path) for path in (job.templates, job.train, model)]
        run = measure.run([program("crf_learn", self.name), "-p", "1", *some, *files], limit=limit)
        return Trained(run, _last(r"^iter=(\d+)", run, 1))

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """`crf_test`."""
        return measure.run([program("crf_test", self.name), "-m", str(model), "-o", str(out), str(data)])


@dataclass(frozen=True)
class Wapiti:
    """Wapiti: elastic net, L-BFGS. An interrupt makes it stop after the iteration and write its model.

    Its rule on the error of the training text is off (`-w 0`): while a young model says O everywhere, that error does
    not change, and the rule would end the training. Its rule on the objective stays.
    """

    name: str = "Wapiti"
    settings: str = "l1 0.5, l2 1e-4 (its defaults), until its objective falls by less than 2 % in 5"

    def identity(self) -> str:
        """Its program."""
        return digest(program("wapiti", self.name))

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """`wapiti train`, with a compact model."""
        some = [] if iterations is None else ["-i", str(iterations)]
        command = [program("wapiti", self.name), "train", "-c", "-t", "1", "-w", "0", *some]
        command += ["-p", str(job.templates)]
        run = measure.run(
            [*command, str(job.train), str(model)], limit=limit, stop=signal.SIGINT, together=True
        )
        return Trained(run, _last(r"^\s*\[\s*(\d+)\]", run))

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """`wapiti label`."""
        command = [program("wapiti", self.name), "label", "-m", str(model), str(data), str(out)]
        return measure.run(command, together=True)


@dataclass(frozen=True)
class CrfsuiteCommand:
    """CRFsuite's own program. It has no templates: files of attribute strings are made for it, and not counted."""

    name: str = "CRFsuite"
    settings: str = "l2, c2 = 1, L-BFGS (its defaults)"

    def identity(self) -> str:
        """Its program."""
        return digest(program("crfsuite", self.name))

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """`crfsuite learn`."""
        command = [program("crfsuite", self.name), "learn", "-m", str(model)]
        some = [] if iterations is None else ["-p", f"max_iterations={iterations}"]
        making = _attributes(job, job.train)
        run = measure.run([*command, *some, str(_attribute_file(job, job.train))], limit=limit)
        return Trained(run, _last(r"^\*+ Iteration #(\d+)", run), making)

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """`crfsuite tag`; it prints labels alone."""
        _attributes(job, data)
        command = [program("crfsuite", self.name), "tag", "-m", str(model), str(_attribute_file(job, data))]
        run = measure.run(command)
        out.write_text(run.stdout, "utf-8")
        return run


@dataclass(frozen=True)
class PythonPeer:
    """A learner with a Python package (programs/python_peers.py); making strings is not counted in training.

    `needs` names a program that its training calls.
    """

    name: str
    settings: str
    module: str
    needs: str = ""
    segments: bool = False

    def identity(self) -> str:
        """Its version."""
        if find_spec(self.module) is None:
            raise Missing(f"not run: {self.name} not found")
        return version(self.name) + (digest(program(self.needs, self.name)) if self.needs else "")

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """Its trainer."""
        some = [] if iterations is None else [iterations]
        arguments = ["train", self.name, job.templates, job.train, model, *some]
        run = measure.python("benchmarks.programs.python_peers", *arguments, limit=limit)
        if run.stopped:
            return Trained(run, None)
        making = run.json["making"]
        rest = Run(run.cpu - making, run.wall - making, run.peak_mb, run.stdout)
        return Trained(rest, run.json["iterations"], making)

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """Its tagger, with the making of strings."""
        return measure.python(
            "benchmarks.programs.python_peers", "tag", self.name, job.templates, data, model, out
        )


PYTHON_CRFSUITE = PythonPeer(
    "python-crfsuite", "averaged perceptron, 100 iterations (its defaults)", "pycrfsuite"
)
LABELLERS = (
    Mtlstruct("mtl", "log loss, c = 20, gap 1 % (its defaults)", ()),
    Mtlstruct("crf-l2", "c = 1, gap 1 %", ()),
    Mtlstruct("mtl", "hinge, c = 1, gap 1 %", ("--loss", "hinge"), "mtlstruct mtl, hinge"),
    PYTHON_CRFSUITE,
    PythonPeer(
        "vowpalwabbit", "search, sequence, gold histories, no rollout, 5 passes, 2^24 weights", "vowpalwabbit"
    ),
    PythonPeer("underthesea_core", "OWL-QN (its defaults)", "underthesea_core"),
    PythonPeer("chaine", "L-BFGS, c2 = 1 (its defaults)", "chaine"),
    PythonPeer("spacy-pkuseg", "20 iterations, features of its own", "spacy_pkuseg", segments=True),
    PythonPeer("ltp-extension", "5 epochs, features of its own", "ltp_extension", segments=True),
    PythonPeer("vaporetto", "KyTea's SVM, its defaults", "vaporetto", "train-kytea", segments=True),
    CrfsuiteCommand(),
    CrfPlus(),
    Wapiti(),
)


def clear() -> None:
    """Removes files of attribute strings, which are large."""
    for path in work().glob("*.attributes"):
        path.unlink()


def _attributes(job: Job, data: Path) -> float:
    """Makes the file of attribute strings if it is not there; the CPU seconds of that."""
    target = _attribute_file(job, data)
    if target.is_file():
        return 0.0
    return measure.python("benchmarks.programs.attribute_file", job.templates, data, target).cpu


def _attribute_file(job: Job, data: Path) -> Path:
    return work() / f"{job.templates.stem}.{data.name}.attributes"


def _last(pattern: str, run: Run, more: int = 0) -> int | None:
    """The last number that a program has printed for its iterations."""
    found = re.findall(pattern, run.stdout, re.M)
    return int(found[-1]) + more if found else None
