"""`python -m benchmarks.programs.single DATA`: one sentence at a time, in turns with python-crfsuite.

Both programs train on a Spanish column file (word, POS, label): on the same feature dicts, ours also on templates
of the same features. They label the first six tokens of other sentences: one per call, one line of JSON through a
pipe, one request to a server on a connection that stays open; columns through a pipe come back with the label. The
peers are python-crfsuite in process, in a loop over standard input, and behind a handler of starlette and uvicorn.
Prints the least mean time in microseconds; `cpu` is the CPU time of the process that answers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pycrfsuite

from mtlstruct import SequenceLabeler, load
from mtlstruct.formats import columns

TRAINED, TAGGED, TOKENS, ROUNDS = 2000, 300, 6, 5

TEMPLATES = (
    "%x[0,0] %lower[0,0] %x[0,1] %suffix[0,0,3] %suffix[0,0,2] %prefix[0,0,3] %case[0,0] %x[-1,0] %x[1,0] "
    "%x[-1,1] %x[1,1]"
)

LOOP = """import json, sys, pycrfsuite
tagger = pycrfsuite.Tagger()
tagger.open(sys.argv[1])
for line in sys.stdin:
    sys.stdout.write(json.dumps({"labels": tagger.tag(json.loads(line))}) + "\\n")
    sys.stdout.flush()
"""

ROWS_LOOP = (
    LOOP.partition("for line")[0]
    + """from benchmarks.programs.single import features
rows = []
for line in sys.stdin:
    if line.strip():
        rows.append(line.split())
        continue
    for row, label in zip(rows, tagger.tag(features(rows))):
        sys.stdout.write("\\t".join(row) + "\\t" + label + "\\n")
    sys.stdout.write("\\n")
    sys.stdout.flush()
    rows = []
"""
)

SERVER = """import json, sys, pycrfsuite, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
tagger = pycrfsuite.Tagger()
tagger.open(sys.argv[1])
async def tag(request):
    found = [tagger.tag(x) for x in json.loads(await request.body())["dicts"]]
    return JSONResponse({"sentences": [{"tokens": [{"label": y} for y in labels]} for labels in found]})
config = uvicorn.Config(Starlette(routes=[Route("/v1/tag", tag, methods=["POST"])]), log_level="error", http="h11")
from mtlstruct.serve.server import address, bound
listening = bound("127.0.0.1", 0)
print(address(listening), file=sys.stderr, flush=True)
uvicorn.Server(config).run(sockets=[listening])
"""

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


def cpu_time(pid: int) -> float:
    """Return the CPU time of a process, of all its threads, in seconds (Linux)."""
    return time.clock_gettime(~pid << 3 | 2)


def microseconds(call: Callable[[Any], Any], inputs: Sequence[Any], pid: int) -> tuple[float, float]:
    """Return the mean time of a call, and the CPU time of the process that answers."""
    call(inputs[0])
    began, cpu = time.perf_counter(), cpu_time(pid)
    for one in inputs:
        call(one)
    scale = 1e6 / len(inputs)
    return (time.perf_counter() - began) * scale, (cpu_time(pid) - cpu) * scale


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Python that reads and writes pipes, and is stopped at the end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, *arguments], **pipes) as process:  # type: ignore[call-overload]
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


def rows_through_pipe(process: subprocess.Popen[bytes], rows: Rows) -> list[str]:
    """The labels of a sentence that is written as rows of columns."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(f"{' '.join(row)}\n" for row in rows).encode() + b"\n")
    process.stdin.flush()
    found = [process.stdout.readline() for _ in range(len(rows) + 1)]
    return [line.decode().rstrip("\n").rpartition("\t")[2] for line in found[:-1]]


def by_request(connection: HTTPConnection, x: Any, key: str = "dicts") -> list[str]:
    """The labels of a sentence that is sent to a server."""
    request = "POST", "/v1/tag", json.dumps({key: [x]}), {"Content-Type": "application/json"}
    try:
        connection.request(*request)
        answer = connection.getresponse()
    except OSError:  # the server has ended a connection that was idle
        connection.close()
        connection.request(*request)
        answer = connection.getresponse()
    (sentence,) = json.loads(answer.read())["sentences"]
    return [token["label"] for token in sentence["tokens"]]


def connected(server: subprocess.Popen[bytes]) -> HTTPConnection:
    """A connection to a server that has said its address."""
    assert server.stderr is not None
    port = re.search(rb":(\d+)/", server.stderr.readline())
    assert port is not None
    return HTTPConnection("127.0.0.1", int(port[1]))


def trained(place: str, rows: list[Rows], y: list[list[str]]) -> dict[str, str]:
    """Train the models; return their files."""
    files = {name: f"{place}/{name}" for name in ("peer", "dicts", "columns")}
    X = [features(one) for one in rows]
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"max_iterations": 30})
    for one, labels in zip(X, y, strict=True):
        trainer.append(one, labels)
    trainer.train(files["peer"])
    SequenceLabeler(max_iter=3).fit(X, y).model_.save(files["dicts"])
    templates = [*(f"U{n}:{cell}" for n, cell in enumerate(TEMPLATES.split())), "B"]
    SequenceLabeler(templates, max_iter=3).fit(rows, y).model_.save(files["columns"])
    return files


def main(path: Path) -> None:
    """Train both on the head of the file, and measure both on sentences after it."""
    rows, y = sentences(path)
    some = [[row[:2] for row in one] for one in rows]
    few = [one[:TOKENS] for one in some[TRAINED:] if len(one) >= TOKENS][:TAGGED]
    dicts = [features(one) for one in few]
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        files = trained(place, some[:TRAINED], y[:TRAINED])
        tagger, ours = pycrfsuite.Tagger(), load(files["dicts"])
        tagger.open(files["peer"])
        names = tagger.labels()

        def peer_marginals(x: Any) -> Any:
            tagger.tag(x)
            return [[tagger.marginal(name, t) for name in names] for t in range(len(x))]

        def started(*arguments: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(command(*arguments))

        run = ("-m", "mtlstruct")
        pipes = {
            "peer_pipe": started("-c", LOOP, files["peer"]),
            "ours_pipe": started(*run, "predict", files["dicts"], "--format", "json"),
            "peer_pipe_columns": started("-c", ROWS_LOOP, files["peer"]),
            "ours_pipe_columns": started(*run, "predict", files["columns"]),
        }
        servers = {
            "peer_serve": started("-c", SERVER, files["peer"]),
            "ours_serve": started(*run, "serve", files["dicts"], "--port", "0"),
            "ours_serve_rows": started(*run, "serve", files["columns"], "--port", "0"),
        }
        links = {name: connected(server) for name, server in servers.items()}
        own = os.getpid()
        calls: dict[str, tuple[Callable[[Any], Any], list[Any], int]] = {
            "peer": (tagger.tag, dicts, own),
            "ours": (lambda x: ours.predict([x]), dicts, own),
            "peer_marginals": (peer_marginals, dicts, own),
            "ours_marginals": (lambda x: ours.predict_marginals([x]), dicts, own),
        }
        for name, process in pipes.items():
            ask, given = (rows_through_pipe, few) if "columns" in name else (through_pipe, dicts)
            calls[name] = (lambda x, ask=ask, process=process: ask(process, x)), given, process.pid
        for name, link in links.items():
            key, given = ("rows", few) if "rows" in name else ("dicts", dicts)
            calls[name] = (
                (lambda x, link=link, key=key: by_request(link, x, key)),
                given,
                servers[name].pid,
            )
        for x in dicts:
            assert calls["ours_pipe"][0](x) == calls["ours_serve"][0](x) == ours.predict([x])[0]
            assert calls["peer_pipe"][0](x) == calls["peer_serve"][0](x) == tagger.tag(x)
        for one in few:
            assert calls["ours_pipe_columns"][0](one) == calls["ours_serve_rows"][0](one)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                if name in links:
                    links[name].close()  # servers end connections that are idle
                found[name].append(microseconds(*call))
    for name, times in found.items():
        wall, cpu = (round(min(column), 1) for column in zip(*times, strict=True))
        print(json.dumps({name: wall, "cpu": cpu}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
