"""Just enough HTTP/1.1 for an API on loopback: one JSON body in, one out, keep-alive.

    request bytes ─► serve ─► handle(method, path, body) ─► (status, body) ─► response bytes

Bodies and heads are bounded, clients that dawdle are dropped. No TLS, no chunks, no compression.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias

from chaoslab.links.proxy.toxics import Json, Refused

Handle: TypeAlias = Callable[[str, str, Mapping[str, Json]], tuple[int, Json]]

_BODY_BYTES_MAX = 1 << 20
_PATIENCE_S = 60.0
"""How long a client may take for a request, and keep an idle connection."""


async def serve(handle: Handle, host: str, port: int) -> asyncio.Server:
    """Listen; `handle` returns the status and the body, None for none, or raises Refused."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S) as patience:
                while await _answer(handle, reader, writer):
                    patience.reschedule(asyncio.get_running_loop().time() + _PATIENCE_S)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone, or does not speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(talk, host, port)


async def _answer(
    handle: Handle, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """One request; False when it was the last of its connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {key.lower(): value.strip() for key, _, value in (h.partition(":") for h in head[1:])}
    try:
        method, target, _version = head[0].split()
        body = _decode(await reader.readexactly(_length(headers)))
        status, answer = handle(method, target.partition("?")[0], body)
    except ValueError:
        status, answer = 400, {"error": "this is not HTTP/1.1", "status": 400}
    except Refused as refused:
        status, answer = refused.status, {"error": str(refused), "status": refused.status}
    is_last = headers.get("connection", "").lower() == "close" or status in {400, 413}
    _write(writer, status, answer, is_last=is_last)
    await writer.drain()
    return not is_last


def _length(headers: Mapping[str, str]) -> int:
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _BODY_BYTES_MAX or "transfer-encoding" in headers:
        raise Refused("send a body with a Content-Length of at most 1 MiB", status=413)
    return length


def _decode(body: bytes) -> Mapping[str, Json]:
    if not body:
        return {}
    try:
        value = json.loads(body)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused(f"the body is a JSON object, not {value!r}")
    return value


def _write(writer: asyncio.StreamWriter, status: int, answer: Json, *, is_last: bool) -> None:
    text = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer)
    kind = "text/plain;charset=utf-8" if isinstance(answer, str) else "application/json"
    body = text.encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Length: {len(body)}",
        f"Content-Type: {kind}",
        f"Connection: {'close' if is_last else 'keep-alive'}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
