"""Asks a server: PORT TEXT TOKENS RATE SECONDS CONNECTIONS. Prints how many answers came, errors, and their times.

With a rate, requests are due at fixed times, and an answer's time counts from then, whether or not a connection was
free: a server that falls behind cannot hide it. With rate 0 every connection asks again as soon as it is answered.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path


def requests(path: str, tokens: int) -> list[bytes]:
    """Requests of one sentence of so many tokens each, made of the rows of a column file."""
    rows = [" ".join(line.split()[:-1]) for line in Path(path).read_text("utf-8").split("\n") if line.strip()]
    sentences = [rows[k : k + tokens] for k in range(0, len(rows) - tokens, tokens // 2)]
    return [_request(json.dumps({"columns": "\n".join(sentence)}).encode()) for sentence in sentences]


def _request(body: bytes) -> bytes:
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST /v1/tag HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, tokens: int
) -> bool:
    """Whether a request was answered, and in full."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    body = await reader.readexactly(int(fields[b"content-length"]))
    return head.startswith(b"HTTP/1.1 200") and body.count(b'"label"') == tokens


async def main(
    port: int, path: str, tokens: int, rate: float, seconds: float, connections: int
) -> dict[str, float]:
    """All figures."""
    texts = requests(path, tokens)
    took: list[float] = []
    errors = number = 0
    began = time.perf_counter() + 0.2

    async def work() -> None:
        nonlocal errors, number
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            mine, number = number, number + 1
            due = began + mine / rate if rate else max(began, time.perf_counter())
            if due >= began + seconds:
                break
            await asyncio.sleep(due - time.perf_counter())
            try:
                errors += not await ask(reader, writer, texts[mine % len(texts)], tokens)
            except (OSError, asyncio.IncompleteReadError):
                errors += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            took.append(time.perf_counter() - due)
        writer.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    whole = time.perf_counter() - began
    took.sort()
    at = {name: took[min(len(took) - 1, int(part * len(took)))] for name, part in PARTS.items()}
    return {"requests": len(took), "errors": errors, "seconds": whole, "per_second": len(took) / whole, **at}


PARTS = {"median": 0.5, "p99": 0.99, "slowest": 1.0}


if __name__ == "__main__":
    port, path, tokens, rate, seconds, connections = sys.argv[1:]
    found = asyncio.run(main(int(port), path, int(tokens), float(rate), float(seconds), int(connections)))
    print(json.dumps(found))
