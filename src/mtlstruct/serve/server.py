"""The process: a socket, a server that ends on SIGINT and SIGTERM, and the token, if needed."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import signal
import socket
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtlstruct.errors import MtlError

MIN_TOKEN_LENGTH = 16
"""The smallest number of characters of a token; shorter ones could be guessed."""

SHUTDOWN_SECONDS = 5
"""Seconds that open requests have to end when the server stops."""

HEAD_SECONDS = 15
"""Seconds that a connection may be silent, or take to send the head of a request."""

MAX_CONNECTIONS = 500
"""The largest number of open connections; further ones are answered with 503."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_token(token: str | None, host: str) -> str | None:
    """Return the token: the one given, a new one if the network can reach the server, or None."""
    if token is None:
        return None if is_loopback(host) else secrets.token_urlsafe(24)
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise MtlError(f"a token must have at least {MIN_TOKEN_LENGTH} ASCII characters without blanks")
    return token


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise if the address or port is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
        reason = getattr(error, "strerror", None) or error
        raise MtlError(f"cannot listen on {host}, port {port}: {reason}") from None


def address(listening: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def make_server(app: ASGIApp) -> Server:
    """Return a server whose `run` serves until a signal comes; open requests are answered first."""
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=HEAD_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
        http=TimedProtocol,
        ws="none",
    )
    return Server(config)


class TimedProtocol(H11Protocol):
    """HTTP protocol of uvicorn with a timeout for idle connections and for heads of requests."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer; send small packets at once (asyncio does so only if proto is set)."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Let the timer run as long as the head is incomplete."""
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self.conn.their_state is h11.IDLE and self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def _close(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class Server(uvicorn.Server):
    """Server of uvicorn that ends with exit code 0 on a signal, which uvicorn would raise again.

    A signal that is ignored when the server is made stays ignored: a shell without job control
    starts background jobs with SIGINT ignored.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        both = (signal.SIGINT, signal.SIGTERM)
        self.ignored = [number for number in both if signal.getsignal(number) == signal.SIG_IGN]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after open requests, or at once on a second SIGINT."""
        if sig not in self.ignored:
            self.force_exit = self.should_exit and sig == signal.SIGINT
            self.should_exit = True
