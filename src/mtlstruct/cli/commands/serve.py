"""`serve`: a model behind a page and a JSON API."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated

from mtlstruct.cli.common import ModelArgument, ModelEncodingOption, load_model, option, warn_uncalibrated
from mtlstruct.errors import MtlError

TOKEN = "MTLSTRUCT_TOKEN"
"""Environment variable of the token."""

EXAMPLES = 12
"""Number of example sentences on the page."""


def serve(
    model: ModelArgument,
    host: Annotated[str, option("Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("Port; 0 takes any free one.", limits=(0, 65535))] = 8377,
    token_file: Annotated[
        Path | None, option(f"File with the token that clients must send (or set {TOKEN}).")
    ] = None,
    examples: Annotated[
        Path | None, option("Data whose first sentences the page offers as examples.")
    ] = None,
    max_bytes: Annotated[int, option("Most bytes per request.", limits=(1, 10**9))] = 1_000_000,
    max_tokens: Annotated[int, option("Most tokens per request.", limits=(1, 10**9))] = 20_000,
    max_sentence: Annotated[
        int | None, option("Most tokens per sentence.", limits=(1, 10**9), shown="2000; trees: 500")
    ] = None,
    timeout: Annotated[float, option("Most seconds per request.", limits=(0.001, 3600.0))] = 10.0,
    threads: Annotated[int, option("Number of threads.", metavar="N", limits=(1, 1000))] = 1,
    encoding: ModelEncodingOption = None,
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

    token = checked_token(_token(token_file), host)
    loaded, task = load_model(model, threads)
    longest = max_sentence or task.longest_request
    limits = Limits(bytes=max_bytes, tokens=max_tokens, sentence=longest, seconds=timeout)
    shown, local = _examples(examples, encoding or loaded.encoding), is_loopback(host)
    app = make_app(loaded, name=model.name, limits=limits, token=token, loopback=local, examples=shown)
    with bound(host, port) as listening:
        where = address(listening) + (f"#token={token}" if token else "")
        print(f"serving {model} on {where} (Ctrl-C stops)", file=sys.stderr, flush=True)
        if hasattr(loaded.structure, "marginals"):
            warn_uncalibrated(loaded, model)
        make_server(app).run(sockets=[listening])
    print("stopped", file=sys.stderr)


def _token(path: Path | None) -> str | None:
    """Return the token of a file or of the environment; other users can see the command line."""
    if path is None:
        return os.environ.get(TOKEN) or None
    from mtlstruct.formats import text

    return text.load(path).strip()


def _examples(path: Path | None, encoding: str) -> tuple[str, ...]:
    """Return the first sentences of a file: paragraphs, or lines if no line is blank."""
    from mtlstruct.formats import text

    if path is None:
        return ()
    lines = text.load(path, encoding).split("\n")
    paragraphs = [part.strip("\n") for part in "\n".join(line.rstrip() for line in lines).split("\n\n")]
    found = [part for part in paragraphs if part] if len(paragraphs) > 1 else [line for line in lines if line]
    return tuple(found[:EXAMPLES])
