"""Minimal HTTP/1.1 server for the API: JSON bodies, keep-alive.

    request bytes ─► converse ─► guard ─► handle(method, path, body) ─► (status, body) ─► bytes

Heads and bodies are bounded, slow clients are disconnected. No TLS, chunks or compression.
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
"""Statuses after which the connection is closed, because the body may not have been read."""
_PATIENCE_S = 60.0
"""Seconds that a client may take for a request, and keep an idle connection."""


async def serve(handle: Handle, guard: Guard, host: str, port: int) -> asyncio.Server:
    """Listen; `handle` returns status and body (None for none), or raises Refused."""

    async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await converse(handle, guard, reader, writer)

    return await asyncio.start_server(serve_connection, host, port)


async def converse(
    handle: Handle, guard: Guard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection until it ends."""
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
    """Handle one request; False if it was the last of its connection."""
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
    """Method and target of a request."""
    parts = line.split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused("request: must be HTTP/1.1")
    return parts[0], parts[1]


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    is_known = text.isascii() and text.isdecimal() and "transfer-encoding" not in headers
    if not is_known or len(text) > _DIGITS_MAX or int(text) > _BODY_BYTES_MAX:
        raise Refused("body: Content-Length must be at most 1 MiB", status=413)
    return int(text)


def _decode(body: bytes) -> Json:
    try:
        value: Json = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise Refused(f"body: must be JSON: {error}") from error
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
