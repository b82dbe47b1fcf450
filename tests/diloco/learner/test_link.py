"""A learner's end of its link: it dials, listens, tells what it measures, and dials again."""

import math
import random
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.learner import link
from chaoslab.diloco.learner.link import Ambient, Backoff, Link, LinkHandlers
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.diloco.wire.streams import Limits
from tests.diloco.hand_learner import Told
from tests.diloco.hand_syncer import PATIENCE_S, HandSyncer
from tests.diloco.known import TOKENS, WHOSE

NOBODY = "127.0.0.1:1"


class Caller:
    """A link and whoever talks on it."""

    def __init__(self, address: str, *, limits: Limits | None = None) -> None:
        self.address, self.limits = address, limits
        self.told = Told()
        self.of = self.told.of
        self.heard: list[str] = []
        self.ends: list[str] = []
        self.repeats = 0
        self.dials_s: list[float] = []
        self.link = Link(
            self.connect,
            LinkHandlers(
                hello=self.hello, hear=self.hear, repeat=self.repeat, end=self.ends.append
            ),
            whose=WHOSE,
            emit=self.told.emit,
            ambient=Ambient.of_process(WHOSE, self.told.emit),
        )
        self.link.backoff = Backoff(random.Random(1), first_s=0.02, cap_s=0.04)

    def connect(self) -> Connection:
        self.dials_s.append(time.monotonic())
        return Connection(self.address, token=TOKENS.of("learner-0"), limits=self.limits)

    def hello(self, connection: Connection) -> None:
        connection.send(pb.FromLearner(hello=pb.Hello(learner="learner-0", incarnation=1)))

    def hear(self, received: Received[pb.ToLearner]) -> str | None:
        body = str(received.message.WhichOneof("body"))
        self.heard.append(body)
        return "told to go" if body == "fenced" else None

    def repeat(self) -> None:
        self.repeats += 1

    def wait(self, is_so: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline_s, f"never; told: {self.told._said}"
            self.link.allow_reconnect()
            time.sleep(0.005)


@pytest.fixture
def caller(syncer: HandSyncer) -> Iterator[Caller]:
    caller = Caller(syncer.address)
    caller.link.start()
    yield caller
    caller.link.close(pb.FromLearner(goodbye=pb.Goodbye()))


def test_both_ends_measure_round_trips_and_what_arrives(syncer: HandSyncer, caller: Caller) -> None:
    syncer.admit()
    syncer.publish(0, 1)
    pings = syncer.hub.pings(syncer.session)
    assert pings is not None
    caller.wait(lambda: pings.ping() or any(m["rtt_s"] for m in caller.of(Kind.LINK_MEASURED)))
    measured = caller.of(Kind.LINK_MEASURED)[-1]
    assert measured["direction"] == "down"
    assert 0 < measured["rtt_s_min"] <= measured["rtt_s"] < PATIENCE_S
    assert 1 <= measured["pings_answered"] <= measured["pings_sent"]
    assert measured["bytes"] > 48
    mine = pings.meter.read()
    assert mine.rtts_s
    assert mine.bytes > 20


def test_it_says_when_somebody_answers_and_when_the_stream_ends(
    syncer: HandSyncer, caller: Caller
) -> None:
    syncer.hear("hello")
    assert caller.of(Kind.LINK_OPENED) == [], "nobody has answered yet"
    syncer.welcome()
    caller.wait(lambda: caller.of(Kind.LINK_OPENED))
    syncer.fence()
    caller.wait(lambda: caller.of(Kind.LINK_CLOSED))
    (opened,), (closed, *_) = caller.of(Kind.LINK_OPENED), caller.of(Kind.LINK_CLOSED)
    assert opened["attempts"] == 1
    assert (closed["was_open"], closed["attempts"], closed["reason"]) == (True, 1, "told to go")
    assert closed["open_s"] > 0
    assert caller.ends[0] == "told to go"


def test_dials_that_nobody_answers_are_counted_until_somebody_does() -> None:
    caller = Caller(NOBODY)
    caller.link.start()
    caller.wait(lambda: len(caller.of(Kind.LINK_CLOSED)) >= 3)
    with HandSyncer() as syncer:
        caller.address = syncer.address
        caller.wait(lambda: len(syncer.hub.arrivals.items) > 0)
        syncer.admit()
        caller.wait(lambda: caller.of(Kind.LINK_OPENED))
        caller.link.close(pb.FromLearner(goodbye=pb.Goodbye()))
    failed = caller.of(Kind.LINK_CLOSED)
    assert [one["attempts"] for one in failed] == list(range(1, len(failed) + 1))
    assert not any(one["was_open"] for one in failed)
    (opened,) = caller.of(Kind.LINK_OPENED)
    assert opened["attempts"] == len(failed) + 1
    assert "unavailable" in failed[0]["reason"]


def test_a_dial_after_one_that_was_refused_is_given_up_sooner(
    syncer: HandSyncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []

    def opened(connection: Connection, within_s: float | None = None) -> None:
        waits.append(within_s)
        open_it(connection, within_s)

    open_it = Connection.open
    monkeypatch.setattr(Connection, "open", opened)
    monkeypatch.setattr(link, "_AT_ONCE_S", math.inf)  # however busy the machine is
    monkeypatch.setattr(link, "_BRIEF_S", 59.0)
    caller = Caller(NOBODY)
    caller.link.start()
    caller.wait(lambda: len(waits) >= 3)
    caller.address = syncer.address
    caller.wait(lambda: len(syncer.hub.arrivals.items) > 0)
    syncer.admit()
    syncer.fence()
    dialled = len(waits)
    caller.wait(lambda: len(waits) > dialled)
    caller.link.close(pb.FromLearner(goodbye=pb.Goodbye()))
    assert waits[:3] == [None, 59.0, 59.0]
    assert waits[dialled] is None, "the last one was answered"


def test_every_dial_after_the_first_waits_its_turn() -> None:
    pauses = []

    class Counted(Backoff):
        def next_s(self) -> float:
            pauses.append(super().next_s())
            return pauses[-1]

    caller = Caller(NOBODY)
    caller.link.backoff = Counted(random.Random(3), first_s=0.05, cap_s=0.1)
    caller.link.start()
    caller.wait(lambda: len(caller.dials_s) >= 6)
    caller.link.close(pb.FromLearner(goodbye=pb.Goodbye()))
    for number, pause_s in enumerate(pauses[:5]):
        assert caller.dials_s[number + 1] - caller.dials_s[number] >= pause_s


def test_a_stream_that_breaks_at_once_does_not_shorten_the_next_pause(
    syncer: HandSyncer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_SOUND_S", math.inf)
    backoff = caller.link.backoff
    for _ in range(4):
        caller.wait(lambda: len(syncer.hub.arrivals.items) > 0)
        syncer.admit()
        syncer.fence()
        syncer.hear_end()
    assert backoff._next_s == 0.04, "it has grown to its longest"


def test_many_dials_leave_no_threads_behind() -> None:
    caller = Caller(NOBODY)
    before = threading.active_count()
    caller.link.start()
    caller.wait(lambda: len(caller.dials_s) >= 40)
    caller.link.close(pb.FromLearner(goodbye=pb.Goodbye()))
    caller.wait(lambda: threading.active_count() <= before + 5)


# ---------------------------------------------------------------- many at once


@pytest.mark.parametrize("learners", [4, 40, 1000])
def test_a_crowd_that_loses_the_syncer_at_one_instant_spreads_out(learners: int) -> None:
    each = [dials(name, learners, 60.0) for name in range(learners)]
    assert max(map(len, each)) <= 40, "of one learner in a minute"
    dials_s = np.sort(np.concatenate(each))
    starts_s = 0.05 * np.arange(1200)
    in_tenths = np.searchsorted(dials_s, starts_s + 0.1) - np.searchsorted(dials_s, starts_s)
    assert in_tenths.max() <= 35, "of 0.1 s, whatever the size of the crowd"


def dials(name: int, learners: int, until_s: float) -> list[float]:
    """When one of many dials after the syncer has gone at 0 and nobody answers."""
    backoff = Backoff(random.Random(f"learner-{name}/1"))
    backoff.spread(learners)
    times_s: list[float] = []
    at_s = backoff.next_s()
    while at_s < until_s:
        times_s.append(at_s)
        at_s += backoff.next_s()
    return times_s


def test_a_small_crowd_is_back_soon() -> None:
    assert all(dials(name, 8, 60.0)[0] <= 0.2 for name in range(8))
