"""The process: a socket, a server that ends well on SIGINT and SIGTERM, and the token where one is needed."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtlstruct.errors import MtlError

LEAST_TOKEN = 16
"""Characters of a token: fewer could be guessed."""

GRACE = 5
"""Seconds that open requests have to end when the server is told to stop."""


PATIENCE = 15
"""Seconds that a connection may be silent, or take to say what it wants."""

CONNECTIONS = 500
"""Open connections; more are told that the server is busy, before files run out."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_token(token: str | None, host: str) -> str | None:
    """The token to ask for: the one given, a new one where the network can reach the server, or none."""
    if token is None:
        return None if is_loopback(host) else secrets.token_urlsafe(24)
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise MtlError(f"a token must have at least {LEAST_TOKEN} ASCII characters without blanks")
    return token


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; refuses an address or a port that cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise MtlError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None


def address(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Serves until a signal comes; open requests are answered first."""
    make_server(app).run(sockets=[listening])


def make_server(app: ASGIApp) -> Server:
    """A server for the application, to be run."""
    config = uvicorn.Config(  # which also sets up logging
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=PATIENCE,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=CONNECTIONS,
        http=Protocol,
        ws="none",
    )
    logging.getLogger("uvicorn.error").addFilter(_is_ours)
    return Server(config)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether something that is logged is about the server: what strangers send must not fill anybody's log."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, h11.LocalProtocolError) and "Invalid HTTP request" not in record.getMessage()


class Protocol(H11Protocol):
    """uvicorn's, with an end to its patience: whoever does not say in time what is wanted is hung up on."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Something was said; the clock runs as long as it is no whole head of a request."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody has gone."""
        super().connection_lost(exc)
        self._stop()

    def _wait(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._clock is None:
            self._clock = self.loop.call_later(PATIENCE, self._hang_up)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _hang_up(self) -> None:
        self._clock = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's, for which a signal is a wish to end and no reason to die of it afterwards."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server on SIGINT and SIGTERM. A signal that is ignored, as in a background job, stays ignored.

        Only the main thread can handle signals.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        both = (signal.SIGINT, signal.SIGTERM)
        numbers = [number for number in both if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
