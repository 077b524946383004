"""A headless Chromium for tests of pages, driven by the DevTools protocol over a pipe."""

import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"),
)
SECONDS = 60.0
"""The longest time to wait for the browser."""


class Browser:
    """A page of a Chromium of its own."""

    def __init__(self, binary: str, profile: Path) -> None:
        import fcntl  # not on Windows

        commands, replies = os.pipe(), os.pipe()
        ours = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands[0], replies[1])]
        null = os.open(os.devnull, os.O_RDWR)
        # The browser reads commands from file 3 and writes replies to file 4.
        actions = [(os.POSIX_SPAWN_DUP2, a, b) for a, b in ((null, 1), (null, 2), (ours[0], 3), (ours[1], 4))]
        arguments = [binary, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self.pid = os.posix_spawn(binary, arguments, os.environ, file_actions=actions, setpgroup=0)
        for end in (commands[0], replies[1], *ours, null):
            os.close(end)
        self.sending, self.receiving = commands[1], replies[0]
        self.buffer, self.events, self.count = b"", list[dict[str, Any]](), 0
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and its children."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.sending)
        os.close(self.receiving)

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; events that come before it are stored."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.sending, json.dumps(message).encode() + b"\0")
        while (found := self._receive()).get("id") != self.count:
            self.events.append(found)
        assert "error" not in found, found
        return found["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.receiving], [], [], SECONDS)
            assert ready, "the browser does not answer"
            self.buffer += os.read(self.receiving, 1 << 20)
        message, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, url: str) -> None:
        """Load a page."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        self.settle()

    def run(self, body: str, *arguments: Any) -> Any:
        """Return the value of a JavaScript function with this body; a promise is awaited."""
        function = f"(function () {{ {body} }})(...{json.dumps(arguments)})"
        result = self.send("Runtime.evaluate", expression=function, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def value(self, expression: str) -> Any:
        """Return the value of an expression."""
        return self.run(f"return {expression}")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        end = time.monotonic() + SECONDS
        plain = f"(value => value instanceof Node || value)({expression})"
        while not (found := self.value(plain)):
            assert time.monotonic() < end, expression
            time.sleep(0.05)
        return found

    def texts(self, selector: str) -> list[str]:
        """Return the visible texts of elements."""
        return list(
            self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector)
        )

    def click(self, selector: str, number: int = 0) -> None:
        """Click an element."""
        self.run("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, number)

    def type(self, selector: str, text: str) -> None:
        """Type text into an element, and Enter for a line end."""
        self.run("document.querySelector(arguments[0]).focus()", selector)
        self.send("Input.insertText", text=text.rstrip("\n"))
        if text.endswith("\n"):
            for kind in ("keyDown", "keyUp"):
                key = {"key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
                self.send("Input.dispatchKeyEvent", type=kind, **key)

    def settle(self) -> None:
        """Wait until pictures are drawn: two frames."""
        self.run(
            "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
        )

    def resize(self, width: int) -> None:
        """Set the width of the page, also narrower than a window can be."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.settle()

    def scheme(self, name: str, media: str = "") -> None:
        """Prefer light or dark; `media` may be print."""
        preferred = {"name": "prefers-color-scheme", "value": name}
        self.send("Emulation.setEmulatedMedia", media=media, features=[preferred])

    def complaints(self) -> list[str]:
        """Return messages of the console since the page was opened."""
        found = [e["params"] for e in self.events if e.get("method") in MESSAGES]
        return [json.dumps(message) for message in found]

    def requests(self) -> list[str]:
        """Return the addresses that were requested since the page was opened, data of pages aside."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [p["request"]["url"] for p in sent if not p["request"]["url"].startswith(("data:", "chrome"))]

    def check_widths(self, widths: tuple[int, ...] = (400, 320, 1200)) -> None:
        """Raise an error if the page scrolls sideways at one of these widths."""
        root = "document.documentElement"
        for width in widths:
            self.resize(width)
            assert self.value(f"{root}.scrollWidth - {root}.clientWidth") == 0, width


MESSAGES = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """The browser of a test module; without Chromium its tests are skipped."""
    binary = next((path for name in NAMES if (path := shutil.which(name))), None)
    if binary is None or os.name == "nt":
        pytest.skip("NO BROWSER: pages are not tested. Install Chromium")
    found = Browser(binary, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()
