"""Just enough HTTP/1.1 for an API on loopback: one JSON body in, one out, keep-alive.

    request bytes ─► converse ─► guard ─► handle(method, path, body) ─► (status, body) ─► bytes

Bodies and heads are bounded, clients that dawdle are dropped. No TLS, no chunks, no compression.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias

from chaoslab.links.proxy.access import Guard
from chaoslab.links.proxy.toxics import Json, Refused

Handle: TypeAlias = Callable[[str, str, Json], tuple[int, Json]]

_BODY_BYTES_MAX = 1 << 20
_DIGITS_MAX = 20
_LAST = frozenset({400, 401, 403, 413, 415})
"""After these nobody knows where the next request begins: its body may not have been read."""
_PATIENCE_S = 60.0
"""How long a client may take for a request, and keep an idle connection."""


async def serve(handle: Handle, guard: Guard, host: str, port: int) -> asyncio.Server:
    """Listen; `handle` returns the status and the body, None for none, or raises Refused."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await converse(handle, guard, reader, writer)

    return await asyncio.start_server(talk, host, port)


async def converse(
    handle: Handle, guard: Guard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection until its end."""
    try:
        async with asyncio.timeout(_PATIENCE_S) as patience:
            while await _answer(handle, guard, reader, writer):
                patience.reschedule(asyncio.get_running_loop().time() + _PATIENCE_S)
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client is gone, or does not speak HTTP
    finally:
        writer.close()


async def _answer(
    handle: Handle, guard: Guard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """One request; False when it was the last of its connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {key.lower(): value.strip() for key, _, value in (h.partition(":") for h in head[1:])}
    try:
        method, target = _request_line(head[0])
        guard.require(headers, has_body=headers.get("content-length", "0") != "0")
        body = _decode(await reader.readexactly(_length(headers)))
        status, answer = handle(method, target.partition("?")[0], body)
        is_last = headers.get("connection", "").lower() == "close"
    except Refused as refused:
        status, answer = refused.status, {"error": str(refused), "status": refused.status}
        is_last = refused.status in _LAST or headers.get("connection", "").lower() == "close"
    _write(writer, status, answer, is_last=is_last)
    await writer.drain()
    return not is_last


def _request_line(line: str) -> tuple[str, str]:
    """Method and target."""
    parts = line.split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused("this is not HTTP/1.1")
    return parts[0], parts[1]


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    is_known = text.isascii() and text.isdecimal() and "transfer-encoding" not in headers
    if not is_known or len(text) > _DIGITS_MAX or int(text) > _BODY_BYTES_MAX:
        raise Refused("send a body with a Content-Length of at most 1 MiB", status=413)
    return int(text)


def _decode(body: bytes) -> Json:
    try:
        value: Json = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON: {error}") from error
    return value


def _write(writer: asyncio.StreamWriter, status: int, answer: Json, *, is_last: bool) -> None:
    text = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer)
    kind = "text/plain; charset=utf-8" if isinstance(answer, str) else "application/json"
    body = text.encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Length: {len(body)}",
        f"Content-Type: {kind}",
        f"Connection: {'close' if is_last else 'keep-alive'}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
