"""The link of a script's worker: what its ends count, time and report, through a real proxy."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from chaoslab.core.payloads import LinkClosed, LinkMeasured, LinkOpened
from chaoslab.links import worker_link
from chaoslab.links.proxy.link import ProxyLink
from chaoslab.links.proxy.toxics import UP, Bandwidth, Toxic
from chaoslab.links.worker_link import WorkerLink

LIMIT_S = 60.0
SIZE = 300_000


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_link, "PAUSE_S", 0.01)


class Stage:
    """A service that returns what it gets, the proxy before it, and the link through that."""

    def __init__(self, proxy: ProxyLink, link: WorkerLink, ports: Mapping[str, int]) -> None:
        self.proxy, self.link, self.ports = proxy, link, ports
        self.said: list[LinkOpened | LinkClosed | LinkMeasured] = []

    async def ask(self, port: str, size: int) -> None:
        """Send so many bytes to a service, and read them back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[port])
        writer.write(size.to_bytes(4, "big") + bytes(size))
        assert len(await reader.readexactly(size)) == size
        writer.close()

    def measured(self) -> Mapping[str, LinkMeasured]:
        """By direction, since the last call."""
        found = self.link.measured()
        return {one.direction: one for one in found if isinstance(one, LinkMeasured)}

    async def hear(self, *kinds: type[Any]) -> None:
        """Until the near end has reported these, in this order and first of all."""
        while len(self.said) < len(kinds):
            reports = self.link.reports()
            self.said += reports
            await asyncio.sleep(0 if reports else 0.005)
        assert [type(one) for one in self.said[: len(kinds)]] == [*kinds]


def on_stage(play: Callable[[Stage], Awaitable[None]]) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        writer.write(await reader.readexactly(size))
        writer.close()

    async def played() -> None:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as service:
            where = service.sockets[0].getsockname()
            link = WorkerLink("worker-0", {"absent": ("127.0.0.1", 1), "store": where})
            host, _, port = link.upstream.partition(":")
            proxy = ProxyLink("worker-0", ("127.0.0.1", 0), (host, int(port)))
            proxy.enable()
            ports = link.open(f"127.0.0.1:{proxy.listen[1]}")
            try:
                await play(Stage(proxy, link, ports))
            finally:
                link.close()
                proxy.disable()

    asyncio.run(asyncio.wait_for(played(), LIMIT_S))


def test_what_arrives_is_counted_at_each_end() -> None:
    async def play(stage: Stage) -> None:
        await stage.ask("store", SIZE)
        await stage.hear(LinkOpened)
        found = stage.measured()
        assert SIZE <= found["up"].bytes <= SIZE + 100
        assert SIZE <= found["down"].bytes <= SIZE + 100
        assert found["down"].probes_answered >= 1
        assert found["up"].probes_answered == 0

    on_stage(play)


def test_each_end_knows_how_long_ago_it_was_given_something() -> None:
    """Round trips, which begin with the first use, do not count."""

    async def play(stage: Stage) -> None:
        await stage.ask("store", SIZE)
        await stage.hear(LinkOpened)
        first = stage.measured()
        while stage.measured()["down"].probes_answered == 0:
            await asyncio.sleep(0.005)
        second = stage.measured()
        for way in ("up", "down"):
            before_s, unused_s = first[way].unused_s, second[way].unused_s
            assert before_s is not None
            assert unused_s is not None
            assert unused_s > before_s

    on_stage(play)


def test_a_connection_counts_as_use_before_it_is_through() -> None:
    async def play(stage: Stage) -> None:
        stage.proxy.disable()
        with pytest.raises(ConnectionResetError):
            await stage.ask("store", 1)
        found = stage.measured()
        assert found["down"].unused_s is not None
        assert (found["up"].unused_s, found["down"].connections) == (None, 0)

    on_stage(play)


def test_a_link_that_is_not_used_has_no_round_trips() -> None:
    async def play(stage: Stage) -> None:
        assert stage.link.reports() == []
        found = stage.measured()
        assert {one.bytes for one in found.values()} == {0}
        assert {one.unused_s for one in found.values()} == {None}

    on_stage(play)


def test_a_service_that_does_not_listen_resets_the_connection() -> None:
    async def play(stage: Stage) -> None:
        with pytest.raises(ConnectionResetError):
            await stage.ask("absent", 1)
        await stage.ask("store", 1)

    on_stage(play)


def test_a_payload_is_timed_where_it_arrives() -> None:
    """What is sent back unhindered is faster; a busy machine makes the rate less, and not more."""
    rate = 1e6

    async def play(stage: Stage) -> None:
        kind = Bandwidth(rate=rate / 1e3, per="link")
        stage.proxy.add(Toxic("slow", UP, kind, named=frozenset()))
        await stage.ask("store", SIZE)
        up = stage.measured()["up"]
        assert up.bytes_per_s is not None
        assert 0 < up.bytes_per_s <= 1.4 * rate
        assert SIZE / 2 < up.timed_bytes < SIZE

    on_stage(play)


def test_a_link_that_breaks_is_closed_and_opened_again() -> None:
    async def play(stage: Stage) -> None:
        await stage.ask("store", 1)
        await stage.hear(LinkOpened)
        stage.proxy.reset()
        await stage.hear(LinkOpened, LinkClosed, LinkOpened)
        assert isinstance(stage.said[1], LinkClosed)
        assert stage.said[1].was_open
        await stage.ask("store", 1)

    on_stage(play)


def test_a_link_that_refuses_has_failed_attempts() -> None:
    async def play(stage: Stage) -> None:
        await stage.ask("store", 1)
        await stage.hear(LinkOpened)
        stage.proxy.disable()
        await stage.hear(LinkOpened, LinkClosed, LinkClosed)
        closed = [one for one in stage.said if isinstance(one, LinkClosed)]
        assert [one.was_open for one in closed[:2]] == [True, False]
        with pytest.raises(ConnectionResetError):
            await stage.ask("store", 1)

    on_stage(play)
