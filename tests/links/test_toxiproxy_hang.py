"""Heals through the real Toxiproxy server while its links cannot drain, which holds its calls."""

import select
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest

from chaoslab.links.base import Remade
from chaoslab.links.effects import Bandwidth, Direction, Effect, Freeze, Latency, Refuse, Reset
from chaoslab.links.toxiproxy.links import ToxiproxyLinks
from tests.contracts.link_stage import Pair, Upstream, dial, fastest_delay_s, how_it_ends, is_open

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.toxiproxy]
_BOTH = Direction.BOTH
_HEALED: tuple[Effect, ...] = (Latency(mean_s=0.05), Bandwidth(rate_bytes_per_s=80e3))
_BESIDE: tuple[Effect, ...] = (Refuse(), Reset(), Freeze(), Refuse(), Reset())
_BLOCK = bytes(1 << 18)


@pytest.fixture
def links(tmp_path: Path) -> Iterator[ToxiproxyLinks]:
    with ToxiproxyLinks(tmp_path) as links:
        yield links


def fill(pair: Pair) -> None:
    """Each end sends until nothing more goes in, and neither reads."""
    for end in (pair.learner, pair.syncer):
        end.setblocking(False)
        while select.select([], [end], [], 0.1)[1]:
            end.send(_BLOCK)


def test_a_hundred_heals_beside_what_breaks_a_full_link(
    links: ToxiproxyLinks, upstream: Upstream
) -> None:
    link = links.create("learner-0", upstream.address)
    untouched = upstream.connect(links.create("learner-1", upstream.address))
    remade: list[Remade] = []
    for effect, beside in [*product(_HEALED, _BESIDE)] * 10:
        with closing(upstream.connect(link)) as pair:
            link.shape("injection-0", _BOTH, effect)
            fill(pair)
            link.shape("injection-1", _BOTH, beside)
            link.clear("injection-0")
            link.clear("injection-1")
            assert not links.troubles()
            remade += (new := links.remade())
            assert isinstance(beside, Freeze) or not new, "nothing waits for streams that ended"
            with closing(upstream.connect(link)) as later:
                assert is_open(later)
    assert is_open(untouched)
    assert {one.link for one in remade} == {"learner-0"}
    assert all(one.streams for one in remade)


def test_a_server_that_cannot_even_delete_a_proxy_is_restarted(
    links: ToxiproxyLinks, upstream: Upstream
) -> None:
    """A connection that comes while a proxy's calls wait keeps the proxy from ending."""
    with closing(Upstream()) as elsewhere:
        stuck = links.create("learner-0", upstream.address)
        other = links.create("learner-1", elsewhere.address)
        other.shape("injection-1", _BOTH, Latency(mean_s=0.05))
        stuck.shape("injection-0", _BOTH, Latency(mean_s=0.05))
        pair, broken = upstream.connect(stuck), elsewhere.connect(other)
        fill(pair)
        with dialling(stuck.address):
            stuck.clear("injection-0")
        remade = links.remade()
        assert {one.link for one in remade} == {"learner-0", "learner-1"}
        assert all(one.streams for one in remade)
        assert not links.remade()
        assert how_it_ends(broken.learner) in ("reset", "closed")
        assert not links.troubles()
        assert fastest_delay_s(elsewhere.connect(other), Direction.UP) > 0.04
        dial(stuck.address).close()


@contextmanager
def dialling(address: str) -> Iterator[None]:
    """Somebody dials again and again."""
    is_over = threading.Event()

    def go_on() -> None:
        with ExitStack() as dialled:
            while not is_over.wait(0.05):
                with suppress(OSError):
                    dialled.enter_context(closing(dial(address)))

    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(go_on)
        try:
            yield
        finally:
            is_over.set()
        going_on.result()
