"""Requests a second of a server under many connections: PORT TEXT CONNECTIONS SECONDS.

Each connection stays open and sends its next request when it has the answer to the last. Prints counts of
status codes, requests a second, and the median and the 99th percentile of the time of an answer, as JSON.
`python -m qa.soak.connections constant` serves a plain starlette handler that returns a constant, as the limit.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import Counter

from qa.soak.load import Requests


async def connection(port: int, asked: Requests, end: float, times: list[float], found: Counter[str]) -> None:
    """Send one request after the other until the time is up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    while time.monotonic() < end:
        request, _ = asked.right()
        began = time.monotonic()
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            await reader.readexactly(int(fields[b"content-length"]))
        except (OSError, asyncio.IncompleteReadError):
            found["LOST"] += 1
            break
        times.append(time.monotonic() - began)
        found[head[9:12].decode()] += 1
    writer.close()


async def main(port: int, path: str, connections: int, seconds: float) -> dict[str, object]:
    """Return the figures."""
    times, found, end = list[float](), Counter[str](), time.monotonic() + seconds
    asked = [Requests(path, seed) for seed in range(connections)]
    await asyncio.gather(*(connection(port, one, end, times, found) for one in asked))
    cuts = statistics.quantiles(times, n=100)
    return {
        "answers": dict(found),
        "requests_per_second": round(len(times) / seconds, 1),
        "median_ms": round(1000 * cuts[49], 1),
        "p99_ms": round(1000 * cuts[98], 1),
    }


def constant() -> None:
    """Serve a constant answer on a free port, with the server of `mtlstruct serve`."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from mtlstruct.serve.server import address, bound, make_server

    async def answer(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({"sentences": []})

    with bound("127.0.0.1", 0) as listening:
        print(address(listening), file=sys.stderr, flush=True)
        app = Starlette(routes=[Route("/v1/tag", answer, methods=["POST"])])
        make_server(app).run(sockets=[listening])


if __name__ == "__main__":
    given = sys.argv[1:]
    if given == ["constant"]:
        constant()
    else:
        port, path, connections, seconds = given
        print(json.dumps(asyncio.run(main(int(port), path, int(connections), float(seconds)))))
