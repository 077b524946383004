"""One run of one target by atheris, in a process of its own: TARGET OUT SECONDS [options of libFuzzer]."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path

import atheris

WATCHED = (
    "formats",
    "templates",
    "interop",
    "serve",
    "training.run_log",
    "training.checkpoints",
    "_system.archive",
    "model",
)
"""Modules whose branches guide mutations. None with kernels: numba could not compile what atheris makes of them."""


def main(name: str, out: str, seconds: float, options: list[str]) -> None:
    """Fuzzes until libFuzzer has had enough: it ends the process, with 0 if nothing was found."""
    warnings.simplefilter("error")  # a warning on somebody's screen is no sentence either
    from qa.fuzz.seeds import TOKENS

    with atheris.instrument_imports(include=["mtlstruct"], exclude=_unwatched()):
        from qa.fuzz.targets import TARGETS, refused

        if name == "server":
            import qa.fuzz.serving  # noqa: F401
    target = TARGETS[name]
    corpus = Path(out) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    pieces = Path(out) / "pieces"
    pieces.write_text("".join(f'"{_escaped(piece.encode())}"\n' for piece in TOKENS.get(name, ("\n",))))
    longest = f"-max_len={target.longest}"
    given = [*options, longest, "-len_control=0", f"-dict={pieces}", f"-artifact_prefix={out}/", str(corpus)]
    count = refusals = 0
    slowest = 0.0

    def one(data: bytes) -> None:
        nonlocal count, refusals, slowest
        began = time.process_time()  # of this process: how busy the machine is does not matter
        refusals += refused(target.run, data)
        took = time.process_time() - began
        count, slowest = count + 1, max(slowest, took)
        assert took <= seconds, f"one input took {took:.1f} s"
        if count % 1000 == 0:
            figures = {"refused": round(refusals / count, 3), "slowest_seconds": round(slowest, 3)}
            (Path(out) / "figures").write_text(json.dumps(figures))

    for (
        seed
    ) in target.seeds():  # whatever has to be trained, compiled or started is not a hang of the first input
        refused(target.run, seed)
    atheris.Setup([sys.argv[0], *given], one)
    atheris.Fuzz()


def _unwatched() -> list[str]:
    """All other modules of the package; atheris itself can only take packages as a whole."""
    root = Path(__file__).parents[2] / "src"
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")]
    known = [name.removesuffix(".__init__") for name in names]
    wanted = tuple(f"mtlstruct.{name}." for name in WATCHED)
    return [name for name in known if not f"{name}.".startswith(wanted)]


def _escaped(piece: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in piece)


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])
