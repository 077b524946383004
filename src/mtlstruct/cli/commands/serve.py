"""`serve`: a model behind a page and a JSON API."""

import importlib.util
import os
import sys
from pathlib import Path

from mtlstruct.cli import common
from mtlstruct.cli.command import option
from mtlstruct.errors import MtlError
from mtlstruct.formats import text

TOKEN = "MTLSTRUCT_TOKEN"
"""Environment variable of the token."""

EXAMPLES = 12
"""Number of example sentences on the page."""


def serve(
    model: Path = common.MODEL,
    host: str = option("127.0.0.1", "Address to listen on."),
    port: int = option(8377, "Port; 0 takes any free one.", range=(0, 65535)),
    token_file: Path | None = option(None, f"File with the token that clients must send (or set {TOKEN})."),
    examples: Path | None = option(None, "Data whose first sentences the page offers as examples."),
    max_bytes: int = option(1_000_000, "Most bytes per request.", range=(1, 10**9)),
    max_tokens: int = option(20_000, "Most tokens per request.", range=(1, 10**9)),
    max_sentence: int | None = option(
        None, "Most tokens per sentence.", range=(1, 10**9), shown="2000; trees: 500"
    ),
    timeout: float = option(10.0, "Most seconds per request.", range=(0.001, 3600.0)),
    threads: int = option(1, "Number of threads.", range=(1, 1000)),
    encoding: str | None = common.MODEL_ENCODING,
) -> None:
    """Serve a model as a web page and a JSON API.

    The page shows labels or trees, and for each token the templates that decided. Only this machine
    can reach the server unless --host is given; then clients need a token, which is made if none is
    given. Ctrl-C stops it.

    Example: mtlstruct serve ner.mtl --examples test.txt
    """
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise MtlError('serving needs Starlette and uvicorn: pip install "mtlstruct[serve]"')
    from mtlstruct.serve.app import make_app
    from mtlstruct.serve.requests import Limits
    from mtlstruct.serve.server import address, bound, checked_token, is_loopback, make_server

    # Other users can see the command line, but neither the environment nor the file.
    token = os.environ.get(TOKEN) or None if token_file is None else text.load(token_file).strip()
    token = checked_token(token, host)
    loaded, task = common.load_model(model, threads)
    longest = max_sentence or task.longest_request
    limits = Limits(bytes=max_bytes, tokens=max_tokens, sentence=longest, seconds=timeout)
    shown, local = _examples(examples, encoding or loaded.encoding), is_loopback(host)
    app = make_app(loaded, name=model.name, limits=limits, token=token, loopback=local, examples=shown)
    with bound(host, port) as listening:
        where = address(listening) + (f"#token={token}" if token else "")
        print(f"serving {model} on {where} (Ctrl-C stops)", file=sys.stderr, flush=True)
        if hasattr(loaded.structure, "marginals"):
            common.warn_uncalibrated(loaded, model)
        make_server(app).run(sockets=[listening])
    print("stopped", file=sys.stderr)


def _examples(path: Path | None, encoding: str) -> tuple[str, ...]:
    """Return the first sentences of a file: paragraphs, or lines if no line is blank."""
    if path is None:
        return ()
    lines = text.load(path, encoding).split("\n")
    paragraphs = [part.strip("\n") for part in "\n".join(line.rstrip() for line in lines).split("\n\n")]
    found = [part for part in paragraphs if part] if len(paragraphs) > 1 else [line for line in lines if line]
    return tuple(found[:EXAMPLES])
