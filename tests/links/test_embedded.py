"""The embedded links keep the contract, and do what only they can."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from chaoslab.core.errors import FleetError
from chaoslab.links.base import Links
from chaoslab.links.effects import (
    Bandwidth,
    Direction,
    Freeze,
    HalfOpen,
    Latency,
)
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.links.proxied.http_api import call
from tests.contracts.link_kit import MEASURES, LinkKit, assert_soon
from tests.contracts.link_measures import Measure, Stage, stage_of
from tests.contracts.link_stage import (
    Pair,
    Upstream,
    digest_of,
    how_it_ends,
    is_open,
    receive,
    sending,
    transfer,
)
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.deep, pytest.mark.alone]
UP, DOWN, BOTH = Direction.UP, Direction.DOWN, Direction.BOTH


@pytest.fixture
def undo_log() -> Remembered:
    return Remembered()


@pytest.fixture
def links(tmp_path: Path, undo_log: Remembered) -> Iterator[EmbeddedLinks]:
    with EmbeddedLinks(tmp_path, undo_log=undo_log, seed=7) as links:
        yield links


@pytest.fixture
def stage(links: EmbeddedLinks, upstream: Upstream) -> Stage:
    return stage_of(links, upstream)


def kill(links: Links) -> None:
    """As somebody else would."""
    assert isinstance(links, EmbeddedLinks)
    assert links.host.pid is not None
    os.kill(links.host.pid, signal.SIGKILL)


@pytest.mark.gate
class TestEmbeddedLinks(LinkKit):
    @pytest.fixture
    def links(self, links: EmbeddedLinks) -> EmbeddedLinks:
        return links

    @pytest.mark.deep
    @pytest.mark.parametrize("measure", MEASURES, ids=lambda one: f"{one.name}-{one.direction}")
    def test_what_arrives_is_what_was_asked(self, stage: Stage, measure: Measure) -> None:
        super().test_what_arrives_is_what_was_asked(stage, measure)

    def end_the_proxy(self, links: Links) -> None:
        kill(links)


class TestEmbeddedLinksWithoutSplice(LinkKit):
    """Where the kernel or the Python lacks it, bytes pass through the process."""

    @pytest.fixture
    def links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedLinks]:
        (tmp_path / "sitecustomize.py").write_text("import os\ndel os.splice\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        with EmbeddedLinks(tmp_path) as links:
            yield links

    @pytest.mark.skip(reason="what has a strength never splices")
    def test_what_arrives_is_what_was_asked(self) -> None: ...

    @pytest.mark.skip(reason="the kernel drops packets, whoever sends them")
    def test_lost_packets_are_sent_again_and_nothing_is_missing(self) -> None: ...

    def end_the_proxy(self, links: Links) -> None:
        kill(links)


# ---------------------------------------------------------------- bounded


def resident(links: Links) -> int:
    assert isinstance(links, EmbeddedLinks)
    return int(psutil.Process(links.host.pid).memory_info().rss)


def pushed(pair: Pair, seconds: float) -> int:
    """Bytes that a sender gets rid of while nobody reads."""
    sent, end_s = 0, time.monotonic() + seconds
    pair.learner.settimeout(0.2)
    with suppress(TimeoutError):
        while time.monotonic() < end_s:
            sent += pair.learner.send(bytes(1 << 20))
    return sent


@pytest.mark.parametrize("effect", [Freeze(), Latency(mean_s=60.0), None], ids=str)
def test_memory_is_bounded_however_much_is_sent(
    stage: Stage, effect: Freeze | Latency | None
) -> None:
    pair = stage.connect()
    assert is_open(pair)
    if effect is not None:
        stage.link.shape("injection-0", UP, effect)
    before = resident(stage.links)
    sent = pushed(pair, 2.0)
    assert sent < 120e6, "the sender is held back"
    assert resident(stage.links) - before < 64e6


def test_many_tiny_messages_on_their_way_are_bounded_too(stage: Stage) -> None:
    pair = stage.connect()
    stage.link.shape("injection-0", UP, Latency(mean_s=60.0))
    before = resident(stage.links)
    for _ in range(20_000):
        pair.learner.sendall(b"x")
    assert resident(stage.links) - before < 64e6


def test_a_receiver_that_reads_nothing_keeps_nobody_from_healing(stage: Stage) -> None:
    pair, size = stage.connect(), 60_000_000
    stage.link.shape("injection-0", UP, Latency(mean_s=0.05))
    with sending(pair.learner, size):
        time.sleep(0.5)  # until all that lies between them is full
        stage.link.shape("injection-1", UP, Freeze())
        stage.link.clear("injection-0")
        stage.link.clear("injection-1")
        assert receive(pair.syncer, size).digest == digest_of(size)


def test_a_paced_transfer_does_not_hold_up_its_neighbours(
    stage: Stage, links: EmbeddedLinks, upstream: Upstream
) -> None:
    other = links.create("learner-1", upstream.address)
    stage.link.shape("injection-0", BOTH, Bandwidth(rate_bytes_per_s=10_000))
    slow, fast = stage.connect(), upstream.connect(other)
    with sending(slow.learner, 5_000):
        size = 50_000_000
        assert transfer(fast, UP, size).digest == digest_of(size)
        receive(slow.syncer, 5_000)


def test_forty_connections_at_once_lose_nothing(stage: Stage) -> None:
    stage.link.shape("injection-0", BOTH, Latency(mean_s=0.01, jitter_s=0.01))
    pairs = [stage.connect() for _ in range(40)]
    wrong: list[Pair] = []

    def work(pair: Pair) -> None:
        whole = digest_of(300_000)
        wrong.extend(pair for way in (UP, DOWN) if transfer(pair, way, 300_000).digest != whole)

    threads = [threading.Thread(target=work, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---------------------------------------------------------------- broken ends


@pytest.mark.parametrize("way", [UP, DOWN])
def test_a_reset_at_one_end_reaches_the_other(stage: Stage, way: Direction) -> None:
    pair = stage.connect()
    assert is_open(pair)
    broken, told = pair.ends(way)
    broken.setsockopt(1, 13, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # SO_LINGER for no time
    broken.close()
    assert how_it_ends(told) == "reset"


def test_a_half_open_connection_survives_other_effects_and_their_heals(stage: Stage) -> None:
    pair = stage.connect()
    stage.link.shape("injection-0", UP, HalfOpen())
    stage.link.shape("injection-1", BOTH, Latency(mean_s=0.01))
    stage.link.clear("injection-1")
    assert stage.link.counters().connections == 1
    stage.link.clear("injection-0")
    assert how_it_ends(pair.syncer) == "reset"
    assert_soon(lambda: stage.link.counters().connections == 0)


def test_what_a_freeze_hid_is_told_when_it_is_healed(stage: Stage) -> None:
    pair = stage.connect()
    assert is_open(pair)
    stage.link.shape("injection-0", UP, Freeze())
    pair.learner.sendall(b"last words")
    pair.learner.close()
    stage.link.clear("injection-0")
    assert receive(pair.syncer, 10).size == 10
    assert how_it_ends(pair.syncer) == "closed"


# ---------------------------------------------------------------- its process


def test_it_is_written_down_before_it_runs_and_crossed_out_when_it_is_gone(
    tmp_path: Path,
) -> None:
    undo_log = Remembered()
    with EmbeddedLinks(tmp_path, undo_log=undo_log) as links:
        (entry,) = undo_log.opened
        assert (entry["do"], entry["pid"]) == ("end_process", links.host.pid)
        assert not undo_log.closed
        pid = links.host.pid
    assert undo_log.closed == [0]
    assert pid is not None
    assert not psutil.pid_exists(pid)


def test_a_stopped_proxy_is_noticed_and_ended(tmp_path: Path, upstream: Upstream) -> None:
    with EmbeddedLinks(tmp_path) as links:
        links.create("learner-0", upstream.address)
        assert links.host.pid is not None
        os.kill(links.host.pid, signal.SIGSTOP)
        (trouble,) = links.troubles()
        assert "does not answer" in trouble
        pid = links.host.pid
    assert not psutil.pid_exists(pid)


def test_a_link_that_somebody_else_switches_off_or_deletes_is_noticed(
    stage: Stage, links: EmbeddedLinks
) -> None:
    assert not links.troubles()
    call(links.api, "POST", "/proxies/learner-0", {"enabled": False})
    off = links.troubles()
    call(links.api, "DELETE", "/proxies/learner-0")
    gone = links.troubles()
    assert "learner-0" in off[0]
    assert gone != off


def test_a_proxy_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.exit('no loopback today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(FleetError, match="no loopback today"), EmbeddedLinks(tmp_path):
        pass
