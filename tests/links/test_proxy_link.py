"""One link of the embedded proxy, in this process: how many connections it carries."""

import asyncio
from contextlib import suppress

import pytest

from chaoslab.links.proxy import link as proxy_link
from chaoslab.links.proxy.link import ProxyLink

LIMIT_S = 60.0


def test_one_connection_too_many_is_broken_off_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_link, "CONNECTIONS_MAX", 3)
    asyncio.run(asyncio.wait_for(dial_four(), LIMIT_S))


async def dial_four() -> None:
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as upstream:
        host, port = upstream.sockets[0].getsockname()
        link = ProxyLink("learner-0", ("127.0.0.1", 0), (host, port))
        link.enable()
        open_ones = [await asyncio.open_connection(*link.listen) for _ in range(3)]
        for reader, writer in open_ones:
            writer.write(b"?")
            assert await reader.readexactly(1) == b"?"
        with pytest.raises(ConnectionResetError):  # noqa: PT012 - either may find out
            reader, _ = await asyncio.open_connection(*link.listen)
            await reader.read(1)
        for reader, writer in open_ones:
            writer.write(b"!")
            assert await reader.readexactly(1) == b"!"
        counted = link.counters()
        assert (counted["connections"], counted["opened"]) == (3, 4)
        link.disable()
        for _, writer in open_ones:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the other end is closed or gone."""
    with suppress(ConnectionError):
        while read := await reader.read(100):
            writer.write(read)
            await writer.drain()
    writer.close()
