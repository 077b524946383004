"""Where the work is done: in this process, or by the workers of a Ray cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.errors import complain
from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.distributed.ray_team import RayTeam
    from mtlstruct.training.options import Options


class Engine(StrEnum):
    """Where."""

    local = "local"
    ray = "ray"


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
    """A Ray cluster: None for one on this machine; and when a worker counts as lost, None for the default."""

    address: str | None
    limit: float | None = None

    def check(self, options: Options, refit_top: int | None) -> None:
        """Refuses what cannot be trained there."""
        if refit_top is not None:
            raise IncompatibleError(
                "--refit-top is not for --engine ray: train on the templates it would keep"
            )
        replace(options, shards=2).checked()  # what cannot be learned in shards cannot be in one of them

    def team(self, data: Path, options: Options, encoding: str) -> AbstractContextManager[RayTeam]:
        """Workers that have read the data; what befalls them is said."""
        from mtlstruct._system.threads import get_threads
        from mtlstruct.distributed.ray_team import TIME_LIMIT, read_team

        return read_team(
            data,
            options,
            encoding,
            address=self.address,
            time_limit=TIME_LIMIT if self.limit is None else self.limit,
            threads=max(1, get_threads() // options.shards),
            listeners=[complain],
        )


def cluster_of(engine: str, address: str | None, limit: float | None = None) -> Cluster | None:
    """The cluster that was asked for, None to work here; refuses Ray where it is not installed."""
    if engine == Engine.ray:
        if find_spec("ray") is None:
            raise MtlError("--engine ray needs the package ray: pip install 'mtlstruct[ray]'")
        return Cluster(address, limit)
    for option, given in (("--address", address), ("--worker-limit", limit)):
        if given is not None:
            raise IncompatibleError(f"{option} is for --engine ray")
    return None
