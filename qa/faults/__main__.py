"""python -m qa.faults [--kills N] [--limits N] [--seed S]: kill runs and limit the size of files (POSIX).

Kills: `train --checkpoint`, `tune -o` and `train --method auto` are killed at random moments, up to three
times a run, and started again with the same command until they end. The model must have the bytes of a run
that was not killed. Full disk: the same commands run under N limits of the size of a file (RLIMIT_FSIZE).
They must end with exit code 0 or 2, and with a complete model or none; a run without the limit must then end
with the same bytes. Figures are printed as JSON; the exit code is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks import measure

COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("--gap", "1e-5", "--checkpoint", "state", "--checkpoint-every", "0", "--resume"),
    "auto": ("--method", "auto"),
    "tune": ("--out", "cells", "-c", "0.3,1,3", "--method", "mtl,svm", "-o", "model.mtl"),
}
"""Options of each command; its arguments are templates and data, and for `train` the model."""


class Place:
    """A folder in which one command runs, and the bytes that its model must have."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.expected = folder, name, b""
        given = ["tune", "t.tpl", "d.txt"] if name == "tune" else ["train", "t.tpl", "d.txt", "model.mtl"]
        self.line = [sys.executable, "-m", "mtlstruct", *given, *COMMANDS[name], "-q"]
        began = time.monotonic()
        self.clear()
        if self.run().wait():
            raise SystemExit(f"{name} fails without any fault")
        self.seconds, self.expected = time.monotonic() - began, self.model() or b""

    def clear(self) -> None:
        """Remove all files but the input."""
        for path in self.folder.iterdir():
            if path.name not in ("t.tpl", "d.txt"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(self, before: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        """Start the command."""
        null = subprocess.DEVNULL
        return subprocess.Popen(self.line, cwd=self.folder, stdout=null, stderr=null, preexec_fn=before)

    def model(self) -> bytes | None:
        """Return the bytes of the model, None if there is none."""
        path = self.folder / "model.mtl"
        return path.read_bytes() if path.exists() else None

    def killed(self, rng: random.Random) -> list[str]:
        """Run with up to three kills; return what happened."""
        self.clear()
        kills = 0
        for _ in range(rng.randint(1, 3)):
            process = self.run()
            try:
                process.wait(rng.uniform(0, 1.1 * self.seconds))
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                if self.model() not in (None, self.expected):
                    return ["HALF A MODEL AFTER A KILL"]
        return ["kills"] * kills + self.ended()

    def limited(self, size: int) -> list[str]:
        """Run with files of at most `size` bytes, then without the limit; return what happened."""
        self.clear()
        code = self.run(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))).wait()
        found = ["limits"] if code in (0, 2) else [f"limits: EXIT CODE {code}"]
        if self.model() not in (None, self.expected):
            found.append("limits: HALF A MODEL")
        found += ["limits: PART LEFT"] * any(self.folder.rglob("*.part"))
        return [*found, *self.ended()]

    def ended(self) -> list[str]:
        """Run to the end; return whether the model is the expected one."""
        code = self.run().wait()
        return [
            "same bytes" if code == 0 and self.model() == self.expected else f"OTHER BYTES, exit code {code}"
        ]


def main() -> int:
    """Run the faults of all commands; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m qa.faults", description="Kills and full disks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(COMMANDS)} (default all)")
    parser.add_argument("--kills", type=int, default=200, help="runs with kills, of all commands together")
    parser.add_argument("--limits", type=int, default=60, help="limits of the size of files")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names = given.names or list(COMMANDS)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="mtlstruct-faults-") as folder:
        measure.python("mtlstruct", "demo", "--out", Path(folder) / "demo")
        for name in names:
            own = Path(folder) / name
            own.mkdir()
            shutil.copy(Path(folder) / "demo" / "train.txt", own / "d.txt")
            (own / "t.tpl").write_text("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%suffix[0,0,2]\nB\n")
            place = Place(own, name)
            for _ in range(given.kills // len(names)):
                counts[name].update(place.killed(rng))
            for _ in range(given.limits // len(names)):
                counts[name].update(place.limited(int(len(place.expected) ** rng.uniform(0, 1.1))))
            print(json.dumps({name: counts[name]}), flush=True)
    return int(any(word.isupper() for found in counts.values() for what in found for word in what.split()))


if __name__ == "__main__":
    sys.exit(main())
