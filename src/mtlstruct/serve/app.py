"""Routes, and what guards them.

    GET  /            the page
    GET  /v1/model    what the model is, which columns it expects, limits
    POST /v1/tag      one request (see questions.py) -> one response
    POST /v1/batch    a request a line (NDJSON) -> a response a line, in order, as they are ready
    GET  /healthz     204 while the server answers

Errors are {"error": sentence}: 400 bad request, 401 token missing or wrong, 403 another site's page, 408 too slow in
sending, 413 too large, 415 not JSON, 421 another host's name, 503 busy or no answer in time. In a batch they take the
place of the line's response, and the batch goes on.

What keeps other sites' pages out: bodies must be sent as JSON, which a page of another origin may not do without
leave, and no leave is ever given (no CORS headers); an Origin other than the server's is refused; on loopback so is
any Host that is not a name of it, which stops names that were made to point here.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mtlstruct import __version__
from mtlstruct.errors import MtlError
from mtlstruct.model.model import Model
from mtlstruct.report import web
from mtlstruct.serve.limits import Limits, default_limits
from mtlstruct.serve.requests import Reader, TooLarge
from mtlstruct.serve.responses import warm_up
from mtlstruct.serve.worker import Busy, Worker

JSON = "application/json"
NDJSON = "application/x-ndjson"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
AHEAD = 64
"""How many lines of a batch are asked before the first answer is out."""

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
    """The application. A `token` is asked for if there is one; on `loopback` only this machine's names are known."""
    limits = (limits or default_limits(model.task)).checked()
    warm_up(model)
    service = Service(model, name, limits, examples)
    app = Starlette(
        routes=[
            Route("/", service.page),
            Route("/healthz", service.healthz),
            Route("/v1/model", service.model_facts),
            Route("/v1/tag", service.tag, methods=["POST"]),
            Route("/v1/batch", service.batch, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _refused, Exception: _fault},
        lifespan=service.lifespan,
    )
    app.add_middleware(Guard, token=token, loopback=loopback)
    return app


class Service:
    """The handlers of one model."""

    def __init__(self, model: Model, name: str, limits: Limits, examples: tuple[str, ...]) -> None:
        self.model, self.name, self.limits, self.examples = model, name, limits, examples
        self.reader = Reader(model, limits)
        self.worker = Worker(model, limits)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The worker lives as long as the server."""
        self.worker.start()
        yield
        await asyncio.to_thread(self.worker.stop)

    async def page(self, request: Request) -> Response:
        """The page. It holds nothing of the model: that it asks for, with the token."""
        found = web.page(
            "mtlstruct",
            {"version": __version__},
            styles=["base.css", "tree.css", "serve.css"],
            scripts=["base.js", "serve.js"],
            connect="'self'",
        )
        return HTMLResponse(found.html)

    async def healthz(self, request: Request) -> Response:
        """Whether there is anybody."""
        return Response(status_code=204)

    async def model_facts(self, request: Request) -> Response:
        """What somebody who asks must know."""
        reader = self.reader
        return _json(
            {
                "name": self.name,
                "version": __version__,
                "task": self.model.task,
                "labels": list(self.model.labels),
                "method": self.model.facts.get("method"),
                "templates": len(self.model.live),
                "probabilities": hasattr(self.model.structure, "marginals"),
                "calibrated": self.model.calibrated,
                "text": reader.takes_text,
                "width": reader.width,
                "columns": [{"number": n, "name": reader.column_name(n)} for n in reader.needed],
                "limits": vars(self.limits),
                "examples": list(self.examples),
            }
        )

    async def tag(self, request: Request) -> Response:
        """One request, one response."""
        _expect(request, JSON)
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await self._body(request)
        except TimeoutError:
            raise HTTPException(408, f"the request did not come within {self.limits.seconds:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request broke off") from None  # nobody is there to be told
        status, found = await self._answer(body)
        return _json(found, status)

    async def batch(self, request: Request) -> Response:
        """A stream of requests, a stream of responses."""
        _expect(request, NDJSON)
        return _Streaming(self._stream(request))

    async def _stream(self, request: Request) -> AsyncIterator[bytes]:
        """Responses in order. Lines are asked ahead, so that the worker can answer several together."""
        pending: list[asyncio.Task[tuple[int, Any]]] = []
        try:
            async for line in self._lines(request):
                pending.append(asyncio.create_task(self._answer(line)))
                if len(pending) >= AHEAD or pending[0].done():
                    yield _line(await pending.pop(0))
            while pending:
                yield _line(await pending.pop(0))
        except (ClientDisconnect, TimeoutError):
            return  # nobody is there to be told
        except HTTPException as error:
            while pending:
                yield _line(await pending.pop(0))
            yield _line((error.status_code, {"error": error.detail}))
        finally:
            for task in pending:
                task.cancel()

    async def _lines(self, request: Request) -> AsyncIterator[bytes]:
        """The lines of a body that are not blank, as they come in, each within the limits."""
        rest: list[bytes] = []  # joined once: a line that comes byte by byte must not cost its square
        size = 0
        chunks = request.stream()
        while True:
            async with asyncio.timeout(self.limits.seconds):
                chunk = await anext(chunks, None)
            first, *others = (chunk or b"").split(b"\n")
            rest.append(first)
            size += len(first)
            if chunk is None:
                others = [b""]
            for following in others:
                self._check_line(size)
                if (line := b"".join(rest)).strip():
                    yield line
                rest, size = [following], len(following)
            self._check_line(size)
            if chunk is None:
                return

    def _check_line(self, size: int) -> None:
        if size > self.limits.bytes:
            raise HTTPException(413, f"a line may have {self.limits.bytes:,} bytes")

    async def _body(self, request: Request) -> bytes:
        parts, size = [], 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > self.limits.bytes:
                raise HTTPException(413, f"a request may have {self.limits.bytes:,} bytes")
            parts.append(chunk)
        return b"".join(parts)

    async def _answer(self, body: bytes) -> tuple[int, Any]:
        """Status and content of a response."""
        try:
            question = self.reader.read(_parsed(body))
            answer = asyncio.wrap_future(self.worker.ask(question))
            return 200, await asyncio.wait_for(answer, self.limits.seconds)
        except TooLarge as error:
            return 413, {"error": str(error)}
        except MtlError as error:
            return 400, {"error": str(error)}
        except Busy:
            return 503, {"error": f"busy: {self.limits.waiting:,} requests wait already"}
        except TimeoutError:
            return 503, {"error": f"busy: no answer within {self.limits.seconds:g} s"}


class _Streaming(Response):
    """Lines as they come. Starlette's own listens for a hang-up meanwhile, and so eats the rest of the request."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        super().__init__(media_type=NDJSON)
        self.lines = lines
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the lines."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for line in self.lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Guard:
    """Turns away whoever should not be here, before anything of the body is read."""

    def __init__(self, app: ASGIApp, token: str | None, loopback: bool) -> None:
        self.app, self.loopback = app, loopback
        self.expected = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        problem = self._problem(Request(scope))
        if problem is not None:
            status, sentence = problem
            more = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            await _json({"error": sentence}, status, more)(scope, receive, send)
            return
        await self.app(scope, receive, _with_headers(send))

    def _problem(self, request: Request) -> tuple[int, str] | None:
        host = request.headers.get("host", "")
        if self.loopback and _without_port(host) not in LOOPBACK_NAMES:
            return 421, f"this server is for this machine: expected a host such as localhost, got {host!r}"
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "pages of other sites may not ask here"
        if self.expected is not None and request.url.path not in ("/", "/healthz"):
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            right = hmac.compare_digest(given.strip().encode(), self.expected)
            if scheme.lower() != "bearer" or not right:
                return 401, "expected the server's token: Authorization: Bearer TOKEN"
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message.get("headers", ()), *extra]
        await send(message)

    return sending


def _expect(request: Request, kind: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        raise HTTPException(415, f"expected Content-Type: {kind}, got {given or 'none'}")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise MtlError("expected JSON in UTF-8") from None


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_dumped(content), status, headers, JSON)


def _line(found: tuple[int, Any]) -> bytes:
    return _dumped(found[1]) + b"\n"


def _dumped(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code, dict(error.headers or {}))


async def _fault(request: Request, error: Exception) -> Response:
    return _json({"error": "a fault of the server's own; its log says more"}, 500)
