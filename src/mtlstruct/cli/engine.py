"""Workers of a command: in this process, or actors of a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from mtlstruct._system.threads import get_threads
from mtlstruct.cli.constraints import located
from mtlstruct.cli.errors import print_message
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.pool import Pool
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.model.calibration import GoldProbabilities, gold_probabilities
from mtlstruct.model.lattice import Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.constraints import Constraints
from mtlstruct.tasks import OutputOptions, task_of

if TYPE_CHECKING:
    from mtlstruct.distributed.ray_pool import RayPool


@dataclass(frozen=True)
class Engine:
    """Where the work is done. `workers` is the number of Ray workers; None: one per thread."""

    name: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None

    def check(self) -> None:
        """Raise an error for options that do not fit together, or if Ray is not installed."""
        if self.name == "local":
            for given, option in ((self.address, "--address"), (self.workers, "--shards")):
                if given is not None:
                    raise IncompatibleError(f"{option} is for --engine ray")
        elif find_spec("ray") is None:
            raise MtlError("--engine ray needs the package ray: pip install 'mtlstruct[ray]'")

    @property
    def size(self) -> int:
        """The number of workers; with the local engine that of threads."""
        return self.workers or get_threads()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a pool; what happens to its workers goes to stderr."""
        threads = max(1, get_threads() // self.size)
        return {"address": self.address, "threads": threads, "listeners": [print_message]}

    def pool(self, make: Callable[[], Any], **settings: Any) -> RayPool:
        """Start Ray workers; each calls `make` for the object that does the work."""
        from mtlstruct.distributed.ray_pool import RayPool  # loads code of training

        return RayPool([make] * self.size, **self.settings, **settings)

    def labellers(self, model: Model, path: Path, *arguments: Any) -> Pool:
        """Return workers that have a model, which Ray workers load from its file."""
        if self.name == "local":
            return Pool([Labeller(model, *arguments)])
        return self.pool(partial(_loaded, path.absolute(), *arguments))


class Evaluated(NamedTuple):
    """Predictions for labelled data, labels of arcs and probabilities, and seconds of labelling."""

    outputs: Outputs
    relations: Outputs | None
    probabilities: GoldProbabilities | None
    seconds: float


@dataclass(frozen=True)
class Labeller:
    """Worker that labels batches; `source` is the name of the input for messages."""

    model: Model
    source: str
    limits: Constraints | None
    output: OutputOptions

    def text(self, batch: Corpus) -> str:
        """Return a batch with its predictions."""
        task, limits = task_of(self.model.task), self.limits
        if self.output.partial:
            given = task.partial_constraints(self.model, batch)
            limits = given if limits is None else given & limits
        with located(self.source, batch):
            return task.format(self.model, batch, limits, self.output)

    def evaluated(self, corpus: Corpus) -> Evaluated:
        """Return predictions for labelled sentences, and their probabilities if there are any."""
        model, found = self.model, None
        with located(self.source, corpus):
            few = corpus.take(np.arange(min(10, len(corpus))))
            for part in (few, corpus):  # the time to load kernels is not measured
                began = time.perf_counter()
                lattice = model.lattice(part, self.limits)
                outputs = lattice.best()
                relations = None if model.relations is None else model.relate(part, outputs)
                seconds = time.perf_counter() - began
        if lattice.has_marginals:
            found = gold_probabilities(lattice, model.gold(corpus), model.temperature)
        return Evaluated(outputs, relations, found, seconds)


def _loaded(path: Path, *arguments: Any) -> Labeller:
    return Labeller(Model.load(path), *arguments)
