"""Where the work is done: in this process, or by the workers of a Ray cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtlstruct.cli.errors import complain
from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.distributed.ray_pool import RayPool
    from mtlstruct.training.options import Options


Engine = Literal["local", "ray"]
EngineOption = Annotated[
    Engine,
    typer.Option("--engine", help="Where to work: in this process, or in the actors of a Ray cluster."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", help="The Ray cluster (--engine ray).", show_default="one on this machine, for this run"
    ),
]


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster; `address` None for one on this machine."""

    address: str | None

    def check(self, options: Options) -> None:
        """Raise an error for what cannot be trained there."""
        replace(options, shards=2).checked()  # a single shard has the same limits

    def pool(self, data: Path, options: Options, encoding: str) -> AbstractContextManager[RayPool]:
        """Start workers for the data; what happens to them goes to stderr."""
        from mtlstruct._system.threads import get_threads
        from mtlstruct.distributed.ray_pool import read_pool
        from mtlstruct.tasks import Form, task_of

        task = task_of(options.task)
        return read_pool(
            data,
            options.shards,
            partial(task.read_file, form=Form(encoding, options.tags)),
            at_blank_lines=task.ends_at_blank_line,
            address=self.address,
            threads=max(1, get_threads() // options.shards),
            listeners=[complain],
        )


def cluster_of(engine: str, address: str | None) -> Cluster | None:
    """Return the cluster of `--engine ray`, None for this process; raise an error where Ray is not installed."""
    if engine == "ray":
        if find_spec("ray") is None:
            raise MtlError("--engine ray needs the package ray: pip install 'mtlstruct[ray]'")
        return Cluster(address)
    if address is not None:
        raise IncompatibleError("--address is for --engine ray")
    return None
