"""Routes and access rules, which docs/howto/serve.md lists.

Errors are {"error": sentence}: 400 bad request or another host's name, 401 token missing or wrong,
403 another site's page, 408 too slow in sending, 413 too large, 415 not JSON, 503 busy or no answer
in time.

A page of another origin may send JSON only with CORS headers, and none are ever sent; its Origin is
rejected, too. On loopback so is a Host that is not a name of this machine, which stops DNS
rebinding.
"""

import asyncio
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtlstruct import __version__
from mtlstruct._numba.decorators import compile_from_now_on
from mtlstruct.errors import MtlError
from mtlstruct.explain.decomposition import explain
from mtlstruct.explain.records import sentence_record
from mtlstruct.formats import text
from mtlstruct.model.model import Model, nbest_labels
from mtlstruct.report import web
from mtlstruct.report.tree_svg import Tree, tree_svg
from mtlstruct.serve.requests import Limits, RequestReader, TagRequest, TooLarge
from mtlstruct.tasks import task_of

JSON = "application/json"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def make_app(
    model: Model,
    *,
    name: str = "model",
    limits: Limits | None = None,
    token: str | None = None,
    loopback: bool = True,
    examples: tuple[str, ...] = (),
) -> Starlette:
    """Return the application. Requests need the `token`, if any, and on `loopback` a local Host."""
    service = Service(model, limits or Limits(sentence=task_of(model.task).longest_request))
    facts = {"name": name, "examples": list(examples)} | service.facts()
    styles, scripts = ["base.css", "tree.css", "serve.css"], ["base.js", "serve.js"]
    page = web.page("mtlstruct", {"version": __version__}, styles=styles, scripts=scripts, connect="'self'")
    warm_up(model)
    return Starlette(
        routes=[
            Route("/", lambda request: HTMLResponse(page.html)),
            Route("/healthz", lambda request: Response(status_code=204)),
            Route("/v1/model", lambda request: _json(facts)),
            Route("/v1/tag", service.tag, methods=["POST"]),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK_NAMES if loopback else ["*"]),
            Middleware(Access, token=token),
        ],
        exception_handlers={
            HTTPException: lambda request, error: _error(error.status_code, error.detail, error.headers),
            Exception: lambda request, error: _error(500, "internal error: see the log of the server"),
        },
    )


class Service:
    """Handlers of the requests for one model, which are answered one at a time on a thread."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits, self.reader = model, limits, RequestReader(model, limits)
        self.thread = ThreadPoolExecutor(1)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the model that clients need."""
        model, reader = self.model, self.reader
        return {
            "version": __version__,
            "task": model.task,
            **model.kind,
            "labels": list(model.labels),
            "method": model.facts.get("method"),
            "templates": len(model.live),
            "probabilities": hasattr(model.structure, "marginals"),
            "calibrated": model.calibrated,
            "text": reader.takes_text,
            "dicts": model.takes_dicts,
            "width": reader.width,
            "columns": [{"number": n, "name": reader.column_name(n)} for n in reader.used],
            "limits": vars(self.limits),
        }

    async def tag(self, request: Request) -> Response:
        """Answer one request."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HTTPException(415, f"expected Content-Type: {JSON}, got {kind or 'none'}")
        try:
            content = json.loads(await self._body(request))
        except (ValueError, RecursionError):
            raise HTTPException(400, "expected JSON in UTF-8") from None
        try:
            return _json(await self._answer(self.reader.read(content)))
        except MtlError as error:
            raise HTTPException(413 if isinstance(error, TooLarge) else 400, str(error)) from None

    async def _body(self, request: Request) -> bytes:
        """Read a body within the limits of bytes and of time."""
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self.limits.bytes:
                        raise HTTPException(413, f"a request may have {self.limits.bytes:,} bytes")
        except TimeoutError:
            raise HTTPException(408, f"the request did not come within {self.limits.seconds:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request broke off") from None
        return bytes(body)

    async def _answer(self, request: TagRequest) -> dict[str, Any]:
        """Wait for the thread; on a timeout a waiting request is removed, a running one ignored."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self.thread, respond, self.model, request)
        except TimeoutError:
            raise HTTPException(503, f"busy: no answer within {self.limits.seconds:g} s") from None


class Access:
    """A middleware that adds headers and checks origin and token before the body is read."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self.app if scope["type"] != "http" else self._refused(scope) or self.app
        await app(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the answer to a request from another site or without the token."""
        given = Headers(scope=scope)
        origin, public = given.get("origin"), self.token is None or scope["path"] in ("/", "/healthz")
        if origin is not None and origin.partition("://")[2] != given.get("host", ""):
            return _error(403, "pages of other sites may not ask here")
        scheme, _, secret = given.get("authorization", "").partition(" ")
        same = hmac.compare_digest(secret.strip().encode(), str(self.token).encode())
        if public or (scheme.lower() == "bearer" and same):
            return None
        sentence = "expected the server's token: Authorization: Bearer TOKEN"
        return _error(401, sentence, {"WWW-Authenticate": "Bearer"})


def _json(content: Any, status: int = 200, headers: Any = None) -> Response:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, headers, JSON)


def _error(status: int, sentence: str, headers: Any = None) -> Response:
    return _json({"error": sentence}, status, headers)


def respond(model: Model, request: TagRequest) -> dict[str, Any]:
    """Return the response to a request."""
    corpus = request.corpus
    lattice = model.lattice(corpus)
    outputs = lattice.best()
    columns: dict[str, list[Any]] = {}
    if model.relations is not None:
        columns["relation"] = text.named(model.relate(corpus, outputs), model.relations.labels)
    if request.probabilities and lattice.has_marginals:
        columns["probability"] = lattice.marginals(model.temperature).chosen(outputs).round(6).tolist()
    if any(sentence.gold for sentence in request.sentences):
        columns["gold"] = [g for s in request.sentences for g in s.gold or [None] * len(s.rows)]
    if request.explain:
        columns["explanation"] = [
            {key: value for key, value in token.items() if key not in ("token", "cells", "gold")}
            for found in explain(model, corpus)
            for token in sentence_record(model, corpus, found, 1, request.explain)["tokens"]
        ]
    sentences = []
    records = task_of(model.task).records(model, corpus, outputs) if model.characters else None
    for number, (sentence, span) in enumerate(zip(request.sentences, corpus.sentences(), strict=True)):
        heads, words = outputs[span].tolist(), ["ROOT", *(row[0] for row in sentence.rows)]
        kinds = [
            {"head": y, "head_word": words[y]} if model.trees else {"label": model.labels[y]} for y in heads
        ]
        tokens = [{"cells": list(row)} | kind for row, kind in zip(sentence.rows, kinds, strict=True)]
        found: dict[str, Any] = {"tokens": tokens}
        found |= {} if records is None else records[number]
        for name, values in columns.items():
            for token, value in zip(found["tokens"], values[span], strict=True):
                token[name] = value
        if model.trees and request.drawing:
            relations = columns["relation"][span] if "relation" in columns else None
            found["drawing"] = tree_svg(Tree.of(sentence.rows, heads, relations))
        sentences.append(found)
    if request.nbest:
        ranked = nbest_labels(model, corpus, lattice, request.nbest)
        for found, best in zip(sentences, ranked, strict=True):
            found["nbest"] = [{"labels": labels, "probability": round(p, 6)} for labels, p in best]
    state = {"calibrated": model.calibrated} if "probability" in columns or request.nbest else {}
    return {"task": model.task, **state, "sentences": sentences}


def warm_up(model: Model) -> None:
    """Answer a small request of each kind, so that the first client need not wait for kernels."""
    compile_from_now_on()
    reader, row = RequestReader(model, Limits()), ["a"] * model.columns
    given: dict[str, Any] = {"rows": [[row, row]]}
    if model.takes_dicts or model.characters:
        given = {"text": "aa"} if model.characters else {"dicts": [[{}, {}]]}
    for asked in ({"probabilities": True}, {"explain": 1}, {"nbest": 2}):
        with suppress(MtlError):  # a task or structure without this kind of answer
            respond(model, reader.read(given | asked))
