"""Ray: reaching a cluster, and its errors as sentences."""

from __future__ import annotations

import logging
import os
import socket
from importlib import import_module
from typing import Any

from mtlstruct._system.memory import gigabytes
from mtlstruct.errors import MtlError, ResourceError

PATIENCE = 10.0
"""Seconds in which a cluster must answer."""


def connect(size: int, address: str | None, store: int | None) -> Any:
    """Ray, connected to a cluster that has a processor for each worker.

    address    of a running one; None starts one on this machine, with `store` bytes of object store
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise MtlError("--engine ray needs the package ray: pip install 'mtlstruct[ray]'") from None
    if address is not None:
        _check_answers(address)
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        settings |= {"num_cpus": size, "include_dashboard": False, "object_store_memory": store}
    try:
        ray.init(address=address or "local", **settings)
    except Exception as error:  # Ray has no class of its own for a cluster that does not come up
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise MtlError(f"cannot reach {where}: {first_line(error)}") from None
    there = int(ray.cluster_resources().get("CPU", 0))
    if there < size:
        ray.shutdown()
        raise ResourceError(f"--shards {size} needs as many processors, the Ray cluster has {there}")
    return ray


def _check_answers(address: str) -> None:
    """Refuses an address where nobody answers; Ray itself would ask for minutes. Names such as `auto` are its own."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        return
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise MtlError(f"cannot reach the Ray cluster at {address}: {first_line(error)}") from None


def store_full(size: int | None) -> ResourceError:
    """What to say where the object store is full of other things."""
    what = "an answer" if size is None else f"an array of {gigabytes(size)}"
    return ResourceError(
        f"{what} does not fit into Ray's object store: start Ray with a larger --object-store-memory"
    )


def own_error(error: Any) -> Exception:
    """The exception that a worker raised; what Ray says of the store becomes a sentence."""
    from ray.exceptions import ObjectStoreFullError, OutOfDiskError

    cause: Exception = error.cause if isinstance(getattr(error, "cause", None), Exception) else error
    return store_full(None) if isinstance(cause, ObjectStoreFullError | OutOfDiskError) else cause


def reason(error: Exception) -> str:
    """Why a worker was lost, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if "exit" in line.lower() or "died" in line.lower()), lines[0])
    return found[:200]


def first_line(error: Exception) -> str:
    """What an error says, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0]
