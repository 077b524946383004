"""The process: a socket, a server that ends well on SIGINT and SIGTERM, and the token where one is needed."""

from __future__ import annotations

import ipaddress
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from ..errors import MtlError

LEAST_TOKEN = 16
"""Characters of a token: fewer could be guessed."""

GRACE = 5
"""Seconds that open requests have to end when the server is told to stop."""


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
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
        http="h11",
        ws="none",
    )
    return Server(config)


class Server(uvicorn.Server):
    """uvicorn's, for which a signal is a wish to end and no reason to die of it afterwards."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals end the server, and nothing else. Only the main thread can hear them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
