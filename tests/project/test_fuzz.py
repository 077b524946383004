"""Hostile input: every input that once did harm, and mutations of valid ones. scripts/fuzz runs more."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qa.fuzz.seeds import TOKENS
from qa.fuzz.targets import TARGETS, refused

CRASHERS = sorted(path for path in (Path(__file__).parent / "crashers").glob("*/*") if path.is_file())
HEAVY = ("archive", "model", "server")
"""Targets that search, so that an input costs milliseconds."""


@pytest.mark.parametrize("path", CRASHERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_did_harm_is_rejected_or_read(path):
    refused(TARGETS[path.parent.name].run, path.read_bytes())


@cache
def seeds(name):
    return TARGETS[name].seeds()


@st.composite
def mutated(draw, name):
    """A valid input with a few edits: bytes changed, pieces put in, cut out or repeated, the end cut off."""
    data = bytearray(draw(st.sampled_from(seeds(name))))
    tokens = [token.encode() for token in TOKENS.get(name, ("\n",))]
    pieces = st.one_of(st.sampled_from(tokens), st.binary(max_size=4))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        stop = draw(st.integers(at, min(len(data), at + 30)))
        match draw(st.sampled_from(("put", "change", "cut", "repeat", "end"))):
            case "put":
                data[at:at] = draw(pieces)
            case "change":
                data[at:stop] = draw(st.binary(min_size=stop - at, max_size=stop - at))
            case "cut":
                del data[at:stop]
            case "repeat":
                data[at:at] = data[at:stop] * draw(st.integers(1, 40))
            case "end":
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_are_rejected_or_read(name):
    @settings(max_examples=60 if name in HEAVY else 150, derandomize=True, database=None)
    @given(mutated(name))
    def run(data):
        refused(TARGETS[name].run, data)

    run()
