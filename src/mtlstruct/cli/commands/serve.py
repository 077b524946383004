"""`serve`: a model behind a page and a JSON API."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mtlstruct.cli.common import EncodingOption, use_threads, warn_uncalibrated
from mtlstruct.errors import FormatError, IncompatibleError, MtlError

TOKEN = "MTLSTRUCT_TOKEN"
"""The environment variable that may hold the token."""

EXAMPLES = 12
"""How many sentences of a file the page offers."""


def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any that is free.")
    ] = 8377,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help=f"A file with the token to ask for (or in {TOKEN})."),
    ] = None,
    examples: Annotated[
        Path | None, typer.Option("--examples", help="Data of which the page offers the first sentences.")
    ] = None,
    max_bytes: Annotated[int, typer.Option("--max-bytes", min=1, help="The largest body.")] = 1_000_000,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens of a request.")] = 20_000,
    max_sentence: Annotated[
        int | None,
        typer.Option(
            "--max-sentence", min=1, help="Tokens of a sentence.", show_default="2000, of trees 500"
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Seconds until an answer is given up.")
    ] = 10.0,
    threads: Annotated[int, typer.Option("--threads", metavar="N", min=1, help="How many to use.")] = 1,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Serve a model on this machine: a page to try it on, and a JSON API.

    The page shows labels or trees, and for each token the templates that spoke for it. Only this machine can reach
    the server, unless --host says otherwise; then a token is needed, and made if none is given. Ctrl-C stops it.
    """
    _check_installed()
    from mtlstruct.model.model import Model
    from mtlstruct.serve.app import make_app
    from mtlstruct.serve.requests import Limits, default_limits
    from mtlstruct.serve.server import address, bound, checked_token, is_loopback, run

    use_threads(threads)
    token = checked_token(_token(token_file), host)
    loaded = Model.load(model)
    if loaded.takes_dicts:
        raise IncompatibleError(
            f"{model} was learned from feature dicts, which only the program that makes them can make of text: "
            "use it from Python, or give `predict` a JSON list of dicts a line"
        )
    longest = max_sentence or default_limits(loaded.task).sentence
    limits = Limits(bytes=max_bytes, tokens=max_tokens, sentence=longest, seconds=timeout)
    app = make_app(
        loaded,
        name=model.name,
        limits=limits,
        token=token,
        loopback=is_loopback(host),
        examples=_examples(examples, encoding),
    )
    with bound(host, port) as listening:
        where = address(listening) + (f"#token={token}" if token else "")
        print(f"serving {model} on {where} (Ctrl-C stops)", file=sys.stderr, flush=True)
        if hasattr(loaded.structure, "marginals"):
            warn_uncalibrated(loaded, model)
        run(app, listening)
    print("stopped", file=sys.stderr)


def _check_installed() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise MtlError('serving needs Starlette and uvicorn: pip install "mtlstruct[serve]"')


def _token(path: Path | None) -> str | None:
    """The token of a file or of the environment; never of the command line, which others can see."""
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(path, None, f"cannot be read: {error}") from None


def _examples(path: Path | None, encoding: str) -> tuple[str, ...]:
    """The first sentences of a file, as they stand there: paragraphs, or lines where there is no blank one."""
    from mtlstruct.formats import text

    if path is None:
        return ()
    lines = text.load(path, encoding).split("\n")
    paragraphs = [part.strip("\n") for part in "\n".join(line.rstrip() for line in lines).split("\n\n")]
    found = [part for part in paragraphs if part] if len(paragraphs) > 1 else [line for line in lines if line]
    return tuple(found[:EXAMPLES])
