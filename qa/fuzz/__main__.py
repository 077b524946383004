"""python -m qa.fuzz [TARGET ...] [--inputs N]: mutated inputs per target, within a limit of time and memory.

Mutations are guided by coverage (atheris, the extra `fuzz`) and begin with seeds.py. A run is a process a target; it
ends at the first fault (an error that is no MtlError, a warning, an input that takes too long, too much memory, a
dead process) and leaves the input in build/fuzz/TARGET/. Put it into
tests/project/crashers/TARGET/ and mend the cause: tests/project/test_fuzz.py tries all of these again.
Each run prints its figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FAULTS = ("crash-*", "timeout-*", "oom-*", "leak-*")


def main() -> int:
    """The exit code: 0 if nothing was found."""
    from qa.fuzz.targets import TARGETS

    options = _options(list(TARGETS))
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install 'mtlstruct[fuzz]' (Linux)", file=sys.stderr)
        return 2
    found = [_run(name, options) for name in options.target or TARGETS]
    return int(any(row["fault"] for row in found))


def _options(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m qa.fuzz", description="Hostile input for each target.")
    parser.add_argument("target", nargs="*", metavar="TARGET", choices=[*names, []], help=", ".join(names))
    parser.add_argument(
        "--inputs", type=int, default=200_000, help="inputs for each target (default 200,000)"
    )
    parser.add_argument(
        "--seconds", type=int, default=10, help="the longest that one input may take (default 10)"
    )
    parser.add_argument(
        "--memory", type=int, default=1500, help="MB that the process may hold (default 1500)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default 1)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "fuzz", help="where inputs that fail are left"
    )
    return parser.parse_args()


def _run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Figures of one target."""
    out = options.out / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    # Seconds are counted by the process's own time; libFuzzer, which counts by the clock, is for loops without end.
    limits = [
        f"-runs={options.inputs}",
        f"-timeout={60 * options.seconds}",
        f"-rss_limit_mb={options.memory}",
    ]
    given = [name, str(out), str(options.seconds), *limits, f"-seed={options.seed}"]
    command = [sys.executable, "-m", "qa.fuzz.guided", *given]
    began = time.monotonic()
    with open(out / "log", "wb") as log:
        code = subprocess.run(
            [*command, "-print_final_stats=1"], stdout=log, stderr=log, cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"},
        ).returncode  # fmt: skip
    text = (out / "log").read_text(errors="replace")
    faults = [path.name for pattern in FAULTS for path in out.glob(pattern)]
    own = json.loads((out / "figures").read_text()) if (out / "figures").exists() else {}
    row = {
        "target": name,
        "inputs": _figure(text, "number_of_executed_units"),
        "seconds": round(time.monotonic() - began),
        "peak_mb": _figure(text, "peak_rss_mb"),
        "corpus": int((re.findall(r"corp: (\d+)", text) or [0])[-1]),
        "branches": int((re.findall(r"cov: (\d+)", text) or [0])[-1]),
        **own,
        "fault": ", ".join(faults) or (f"exit code {code}" if code else ""),
    }
    print(json.dumps(row), flush=True)
    if row["fault"]:
        print(text[-4000:], file=sys.stderr)
    return row


def _figure(text: str, name: str) -> int:
    found = re.search(rf"stat::{name}:\s*(\d+)", text)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
