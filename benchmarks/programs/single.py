"""`python -m benchmarks.programs.single DATA`: one sentence at a time, in turns with python-crfsuite.

Both programs train on the same feature dicts of a Spanish column file (word, POS, label) and label the first six
tokens of other sentences: one per call, one line of JSON through a pipe to `mtlstruct predict`, one request to
`mtlstruct serve` on a connection that stays open. Prints the least mean time in microseconds.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pycrfsuite

from mtlstruct import SequenceLabeler
from mtlstruct.formats import columns

TRAINED, TAGGED, TOKENS, ROUNDS = 2000, 300, 6, 10

Rows = Sequence[tuple[str, ...]]


def features(rows: Rows) -> list[dict[str, str]]:
    """Return 13 string features of each token."""
    padded = [("_B-1", "_B-1"), *rows, ("_B+1", "_B+1")]
    found = []
    for (before, before_tag, *_), (word, tag, *_), (after, after_tag, *_) in zip(
        padded[:-2], rows, padded[2:], strict=True
    ):
        token = {
            "w": word,
            "low": word.lower(),
            "p": tag,
            "suf3": word[-3:],
            "suf2": word[-2:],
            "pre3": word[:3],
        }
        token |= {"title": str(word.istitle()), "digit": str(word.isdigit()), "up": str(word.isupper())}
        found.append(token | {"w-1": before, "w+1": after, "p-1": before_tag, "p+1": after_tag})
    return found


def sentences(path: Path) -> tuple[list[Rows], list[list[str]]]:
    """Return the rows and the labels of each sentence of a column file."""
    corpus = columns.read(path)
    assert corpus.outputs is not None
    rows = list(zip(*(column.cells() for column in corpus.columns), strict=True))
    names = [corpus.labels[i] for i in corpus.outputs.tolist()]
    spans = list(corpus.sentences())
    return [rows[span] for span in spans], [names[span] for span in spans]


def microseconds(call: Callable[[Any], Any], inputs: Sequence[Any]) -> float:
    """Return the mean time of a call."""
    began = time.perf_counter()
    for one in inputs:
        call(one)
    return (time.perf_counter() - began) / len(inputs) * 1e6


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of mtlstruct that reads and writes pipes, and is stopped at the end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-m", "mtlstruct", *arguments], **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.terminate()


def through_pipe(process: subprocess.Popen[bytes], x: Any) -> list[str]:
    """The labels of a sentence that is written as one line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(x).encode() + b"\n")
    process.stdin.flush()
    found: list[str] = json.loads(process.stdout.readline())["labels"]
    return found


def by_request(connection: HTTPConnection, x: Any) -> list[str]:
    """The labels of a sentence that is sent to a server."""
    connection.request("POST", "/v1/tag", json.dumps({"dicts": [x]}), {"Content-Type": "application/json"})
    (sentence,) = json.loads(connection.getresponse().read())["sentences"]
    return [token["label"] for token in sentence["tokens"]]


def main(path: Path) -> None:
    """Train both on the head of the file, and measure both on sentences after it."""
    rows, y = sentences(path)
    X = [features(one) for one in rows[:TRAINED]]
    few = [features(one[:TOKENS]) for one in rows[TRAINED:] if len(one) >= TOKENS][:TAGGED]
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"max_iterations": 30})
    for one, labels in zip(X, y, strict=False):
        trainer.append(one, labels)
    with tempfile.TemporaryDirectory() as place:
        trainer.train(f"{place}/peer.crfsuite")
        tagger = pycrfsuite.Tagger()
        tagger.open(f"{place}/peer.crfsuite")
        ours = SequenceLabeler(max_iter=3).fit(X, y[:TRAINED])
        names = tagger.labels()

        def peer_marginals(x: Any) -> Any:
            tagger.tag(x)
            return [[tagger.marginal(name, t) for name in names] for t in range(len(x))]

        calls: dict[str, Callable[[Any], Any]] = {
            "peer": tagger.tag,
            "ours": lambda x: ours.predict([x]),
            "peer_marginals": peer_marginals,
            "ours_marginals": lambda x: ours.predict_marginals([x]),
        }
        model = f"{place}/ours.mtl"
        ours.model_.save(model)
        predict, serve = ["predict", model, "--format", "json"], ["serve", model, "--port", "0"]
        with command(*predict) as pipe, command(*serve) as server:
            assert server.stderr is not None
            port = re.search(rb":(\d+)/", server.stderr.readline())
            assert port is not None
            connection = HTTPConnection("127.0.0.1", int(port[1]))
            calls |= {
                "ours_pipe": lambda x: through_pipe(pipe, x),
                "ours_serve": lambda x: by_request(connection, x),
            }
            assert all(calls["ours_pipe"](x) == calls["ours_serve"](x) == calls["ours"](x)[0] for x in few)
            found: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    found[name].append(microseconds(call, few))
    print(json.dumps({name: round(min(times), 1) for name, times in found.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
