"""Pings: stamped when they leave, answered at once, and never more than one in the queue."""

from collections import deque

from chaoslab.core.link_meter import Meter
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Outbox
from chaoslab.diloco.wire.pings import Pings
from tests.core.test_link_meter import Time, said


class End:
    """One end of a stream, whose frames the test carries over by hand."""

    def __init__(self, envelope: type[pb.FromLearner] | type[pb.ToLearner], time: Time) -> None:
        self.time = time
        self.outbox = Outbox(controls_max=10)
        self.meter = Meter(time)
        self.envelope = envelope
        self.pings = Pings(envelope, self.outbox, self.meter)
        self._frames = self.outbox.frames()

    def leaves(self) -> pb.FromLearner | pb.ToLearner:
        return self.envelope.FromString(next(self._frames))


def ends() -> tuple[End, End]:
    """Their clocks have nothing in common."""
    learner, syncer = End(pb.FromLearner, Time()), End(pb.ToLearner, Time())
    syncer.time.now_s = 7_000_000.0
    return learner, syncer


def test_a_round_trip_is_what_the_link_took_and_not_what_the_ends_did() -> None:
    learner, syncer = ends()
    learner.pings.ping()
    learner.time.now_s += 9  # it waits behind a payload
    ping = learner.leaves()
    learner.time.now_s += 0.2
    assert syncer.pings.handle(ping)
    syncer.time.now_s += 5  # and so does its answer
    learner.time.now_s += 5
    pong = syncer.leaves()
    learner.time.now_s += 0.1
    assert learner.pings.handle(pong)
    data = said(learner.meter.read())
    assert data.rtt_s == 0.3
    assert (data.pings_sent, data.pings_answered) == (1, 1)
    assert syncer.meter.read().rtts_s == deque()


def test_a_frozen_link_holds_one_ping_and_one_pong() -> None:
    learner, _ = ends()
    for sent_s in range(1000):
        learner.pings.ping()
        learner.pings.handle(pb.ToLearner(ping=pb.Ping(sent_s=sent_s)))
    assert learner.outbox.waiting == (2, 0)
    assert learner.pings.queue == {"queued": 2, "queued_bytes": 0}
    assert learner.leaves().WhichOneof("body") == "ping"
    assert learner.leaves().pong.sent_s == 999
    assert learner.meter.read().pings_sent == 1, "the others never left"


def test_an_answer_without_sense_is_not_counted() -> None:
    learner, _ = ends()
    for sent_s in (float("nan"), float("inf"), float("-inf")):
        assert learner.pings.handle(pb.ToLearner(pong=pb.Pong(sent_s=sent_s)))
    assert learner.meter.read().rtts_s == deque()


def test_another_meter_takes_over_what_has_arrived() -> None:
    learner, _ = ends()
    learner.pings.timer.frame(300, filled=None, completed=0)
    earlier = Meter(learner.time)
    earlier.arrived(0.0, 1000)
    learner.time.now_s += 7
    learner.pings.use_meter(earlier)
    assert earlier.read().silent_s == 7
    learner.pings.timer.frame(5, filled=None, completed=0)
    assert earlier.read().bytes == 1305


def test_a_stream_on_which_nothing_arrived_yet_does_not_end_the_silence() -> None:
    learner, _ = ends()
    meter = Meter(learner.time)
    learner.time.now_s += 30
    fresh = Pings(pb.FromLearner, learner.outbox, Meter(learner.time))
    fresh.use_meter(meter)
    assert meter.read().silent_s == 30
