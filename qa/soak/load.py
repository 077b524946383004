"""Asks a server at a fixed rate, badly more often than not: PORT TEXT RATE SECONDS SEED. Counts what came back.

Bad are bodies (no JSON, JSON of another shape, nested, cut, too large), headers, methods and paths, and manners:
bytes that are no HTTP, a connection closed in the middle of a request or of an answer, bodies in tiny pieces. A right
request must get 200 and all its labels; a bad one any answer below 500, or a closed connection.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

LONGEST = 20.0
"""Seconds to wait for an answer."""

TICK = 0.1
MOST_WAITING = 1.6
"""Times the seconds asked for: pauses of the machine are made up for up to here."""


def http(
    body: bytes, path: str = "/v1/tag", kind: str = "application/json", method: str = "POST", more: str = ""
) -> bytes:
    """A request as bytes."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Requests:
    """Requests made of the rows of a column file."""

    def __init__(self, path: str, seed: int) -> None:
        text = Path(path).read_text("utf-8")
        self.rows = [" ".join(line.split()[:-1]) for line in text.split("\n") if line.strip()]
        self.random = random.Random(seed)

    def right(self) -> tuple[bytes, int]:
        """A request, and how many labels its answer must have."""
        size = self.random.randint(1, 30)
        at = self.random.randrange(len(self.rows) - size)
        more = self.random.choice(({}, {"probabilities": True}, {"explain": 3}))
        asked = {"columns": "\n".join(self.rows[at : at + size]), **more}
        return http(json.dumps(asked).encode()), size

    def bad(self) -> bytes:
        """A request that deserves an error."""
        return self.random.choice(BAD)(self)

    def noise(self, most: int = 300) -> bytes:
        """Bytes."""
        return self.random.randbytes(self.random.randint(1, most))

    def cut(self) -> bytes:
        """A right body with bytes changed, or its end missing; its length is honest."""
        body = bytearray(self.right()[0].partition(b"\r\n\r\n")[2])
        for _ in range(self.random.randint(1, 4)):
            body[self.random.randrange(len(body))] = self.random.randrange(256)
        return http(bytes(body[: self.random.randint(1, len(body))]))

    def strange(self) -> bytes:
        """JSON of the right shape with odd values."""
        asked = {"columns": self.noise().decode("latin-1"), "explain": self.random.choice([-1, 1e9, None])}
        return http(json.dumps(asked).encode())


BAD: tuple[Callable[[Requests], bytes], ...] = (
    Requests.cut,
    lambda r: http(r.noise()),
    lambda r: r.noise() + b"\r\n\r\n",
    lambda r: http(b"[" * r.random.randint(10, 100_000)),
    lambda r: http(b'{"text": "' + b"a " * 400_000 + b'"}'),
    lambda r: http(b"x" * 1_200_000),
    lambda r: http(json.dumps({"rows": [[["a"] * r.random.randint(0, 40)]]}).encode()),
    Requests.strange,
    lambda r: http(b'{"columns": "\\ud800 b c"}'),
    lambda r: http(b"{}", kind="text/plain"),
    lambda r: http(b"{}", path="/" + r.noise(20).hex()),
    lambda r: http(b"{}", method=r.random.choice(["PUT", "DELETE", "GET", "FOO"])),
    lambda r: http(b"{}", more="Origin: http://elsewhere.example\r\n"),
    lambda r: http(b"{}").replace(b"localhost", b"elsewhere.example"),
    lambda r: http(b"{}", more="".join(f"X-{n}: {'y' * 100}\r\n" for n in range(r.random.randint(1, 400)))),
    lambda r: b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    lambda r: b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)  # fmt: skip


async def right(port: int, asked: Requests) -> str:
    """What came of a right request."""
    request, tokens = asked.right()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        body = await reader.readexactly(int(fields[b"content-length"]))
        if not head.startswith(b"HTTP/1.1 200"):
            return f"right: REFUSED {head[9:12].decode()}"
        whole = len(json.loads(body)["sentences"][0]["tokens"]) == tokens
        return "right: answered" if whole else "right: WRONG ANSWER"
    finally:
        writer.close()


async def bad(port: int, asked: Requests) -> str:
    """What came of a bad request, or of one whose sender leaves."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    request, manner = asked.bad(), asked.random.random()
    try:
        if manner < 0.15:  # leaves in the middle of the request
            writer.write(request[: asked.random.randint(1, len(request))])
            await writer.drain()
            return "bad: left while asking"
        if manner < 0.25:  # in tiny pieces
            for at in range(0, min(len(request), 2_000), 50):
                writer.write(request[at : at + 50])
                await asyncio.sleep(0)
            writer.write(request[2_000:])
        else:
            writer.write(request)
        if manner > 0.9:
            return "bad: left before the answer"
        status = (await reader.read(12))[9:12].decode("latin-1")
        return f"bad: {status or 'closed'}"
    except (ConnectionError, asyncio.IncompleteReadError):
        return "bad: closed"
    finally:
        writer.close()


class Clock:
    """Time in which this process ran. One that is stopped for a while (a laptop's lid, a busy machine) has none."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses = 0

    async def run(self) -> None:
        """Ticks until it is cancelled."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            passed, before = time.monotonic() - before, time.monotonic()
            self.now += min(passed, 10 * TICK)
            self.pauses += passed > 10 * TICK

    async def wait(self, seconds: float) -> None:
        """Comes back after so much time."""
        end = self.now + seconds
        while self.now < end:
            await asyncio.sleep(TICK)


async def main(port: int, path: str, rate: float, seconds: float, seed: int) -> dict[str, int]:
    """Counts of what came back."""
    asked, found, clock = Requests(path, seed), Counter[str](), Clock()
    tasks: set[asyncio.Task[None]] = set()
    ticking = asyncio.create_task(clock.run())

    async def one() -> None:
        ask, pauses = right if asked.random.random() < 0.4 else bad, clock.pauses
        answer, limit = asyncio.create_task(ask(port, asked)), asyncio.create_task(clock.wait(LONGEST))
        await asyncio.wait([answer, limit], return_when=asyncio.FIRST_COMPLETED)
        try:
            what = answer.result() if answer.done() else f"{ask.__name__}: NO ANSWER"
        except (OSError, asyncio.IncompleteReadError):
            what = f"{ask.__name__}: NO CONNECTION"
        answer.cancel(), limit.cancel()
        if clock.pauses > pauses and any(word.isupper() for word in what.split()):
            what = f"{ask.__name__}: while the machine paused"
        found[what] += 1

    began = time.monotonic()
    for _ in range(int(rate * seconds)):
        await asyncio.sleep(1 / rate)
        if time.monotonic() > began + MOST_WAITING * seconds:
            break
        if len(tasks) < 100:  # a server that has died must not pile up what asks it
            task = asyncio.create_task(one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        else:
            found["not asked: 100 WAIT"] += 1
    await asyncio.gather(*tasks)
    ticking.cancel()
    return dict(sorted(found.items())) | {
        "pauses of the machine": clock.pauses,
        "seconds without pauses": round(clock.now),
    }


if __name__ == "__main__":
    given = sys.argv[1:]
    print(
        json.dumps(
            asyncio.run(main(int(given[0]), given[1], float(given[2]), float(given[3]), int(given[4])))
        )
    )
