"""The recorder takes in what the fleet reports, and leaves the rest when something is due."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chaoslab.core.events import Event, Observation
from chaoslab.fleet.base import probed
from chaoslab.record.journal import Journal
from chaoslab.run.event_recorder import EventRecorder
from tests.fakes import FakeFleet
from tests.virtual_clock import VirtualClock

BATCH = [probed(f"learner-{n}", incarnation=1, pid=n) for n in range(4)]


class Talkative(FakeFleet):
    """Reports a batch at the first poll, and one more at every further one."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.batches = [BATCH, *([one] for one in BATCH)]

    def poll(self, until_s: float) -> Sequence[Observation]:
        return self.batches.pop(0) if self.batches else []


class Slow:
    """An observer that takes a second for each event."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def see(self, _: Event) -> None:
        self.clock.advance_to(self.clock.now_s() + 1.0)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[EventRecorder]:
    clock = VirtualClock()
    with Journal(tmp_path, clock, observers=[Slow(clock)]) as journal:
        yield EventRecorder(fleet=Talkative(clock), journal=journal)


def sources(recorder: EventRecorder) -> list[str]:
    return [event.source for event in recorder.journal.history.events]


def test_what_is_not_taken_in_when_something_is_due_is_next(recorder: EventRecorder) -> None:
    recorder.read(10.0, leave_s=1.5)
    assert sources(recorder) == ["learner-0", "learner-1"]
    recorder.read(10.0, leave_s=3.0)
    assert sources(recorder) == ["learner-0", "learner-1", "learner-2", "learner-3"]
    recorder.read(10.0)
    assert sources(recorder)[4:] == ["learner-0"], "the fleet is polled again"


def test_a_drain_takes_in_all_that_was_left(recorder: EventRecorder) -> None:
    recorder.read(10.0, leave_s=0.0)
    assert len(sources(recorder)) == 1
    recorder.drain()
    assert len(sources(recorder)) == 8
    assert not recorder.fleet.poll(0.0)
