"""Requests to the server's application, in process: any method, path, headers and body, in pieces of any size."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

from mtlstruct.model.model import Model
from mtlstruct.serve.app import make_app
from mtlstruct.serve.requests import Limits
from qa.fuzz import models
from qa.fuzz.inputs import Taking, written

PATHS = (
    "/v1/tag",
    "/v1/tag",
    "/v1/tag",
    "/v1/model",
    "/",
    "/healthz",
    "/v1/../",
    "/x",
)
METHODS = ("POST", "POST", "POST", "GET", "PUT", "OPTIONS")
TYPES = ("", "application/json", "application/json; charset=latin-1", "text/plain")
LIMITS = Limits(bytes=3_000, tokens=200, sentence=60, explained=40, seconds=20)
ALLOWED = {200, 204, 400, 401, 403, 404, 405, 408, 413, 415}
NAMES = (b"origin", b"authorization", b"content-length", b"x")
TOKEN = b"0123456789abcdef"


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all requests."""
    return asyncio.new_event_loop()


@cache
def app(sort: str) -> Any:
    """Return the application of a model."""
    path = written(models.bases()[sort], f"{sort}.mtl")
    token = TOKEN.decode() if sort == "multiclass" else None
    return make_app(Model.load(path), limits=LIMITS, token=token)


def ask(data: bytes) -> None:
    """One request made of bytes. A status that is not one of ALLOWED, or an answer that is no JSON, is a fault."""
    take = Taking(data)
    sort = take.one_of(list(models.SORTS))
    method, path, kind = take.one_of(METHODS), take.one_of(PATHS), _type(take)
    headers = [(b"host", _host(take)), (b"content-type", kind)]
    if take.byte() % 4:
        headers.append((b"authorization", b"Bearer " + TOKEN))
    headers += [(take.one_of(NAMES), take.some(take.byte() % 20)) for _ in range(take.byte() % 3)]
    size = 1 + take.byte() % 64
    body = take.rest()
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    status, answer = loop().run_until_complete(_respond(app(sort), method, path, headers, pieces))
    assert status in ALLOWED, f"status {status} for {method} {path}: {answer[:200]!r}"
    if path.startswith("/v1") and status not in (404, 405) and method != "OPTIONS":
        assert answer == b"Invalid host header" or json.loads(answer)


def _type(take: Taking) -> bytes:
    number = take.byte() % 8
    return TYPES[number].encode() if number < len(TYPES) else b"application/json"


def _host(take: Taking) -> bytes:
    return take.some(12) if take.byte() % 16 == 15 else b"localhost:80"


async def _respond(
    app: Any, method: str, path: str, headers: list[tuple[bytes, bytes]], pieces: list[bytes]
) -> tuple[int, bytes]:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    left = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    left[-1]["more_body"] = False
    status, answer = 0, []

    async def receive() -> Any:
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        answer.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(answer)
