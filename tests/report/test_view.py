"""The fold over events: what each lane, fault and count says at a moment."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.plan.model import Stop
from chaoslab.report.lanes import LaneState
from chaoslab.report.view import ViewModel

LEARNERS = ("learner-0", "learner-1")


class Story:
    """Feeds a view the events of a short run, one line each."""

    def __init__(self, stop: Stop | None = None) -> None:
        self.view = ViewModel(stop)
        self.seq = 0
        self.said: list[str] = []
        self.tell(0, Kind.RUN_STARTED, plan="kill_one", seed=7, fleet="local",
                  algorithm="decoupled", learners=list(LEARNERS))  # fmt: skip
        for learner in LEARNERS:
            self.start(0, learner)

    def tell(self, time_s: float, kind: Kind, **data: Any) -> None:
        event = Event(seq=self.seq, time_s=time_s, source="test", kind=kind, data=data)
        self.seq += 1
        self.said += [sentence.text for sentence in self.view.see(event)]

    def start(self, time_s: float, learner: str, incarnation: int = 1) -> None:
        self.tell(time_s, Kind.NODE_STARTED, node=learner, incarnation=incarnation, pid=1)

    def step(self, time_s: float, learner: str, step: int = 1, incarnation: int = 1) -> None:
        self.tell(time_s, Kind.LEARNER_STEP, learner=learner, incarnation=incarnation, step=step,
                  step_s=0.05, loss=2.5)  # fmt: skip

    def merge(self, time_s: float, tokens: int, *contributors: str) -> None:
        self.tell(time_s, Kind.ROUND_MERGED, committed_tokens=tokens,
                  contributors=[{"learner": learner} for learner in contributors])  # fmt: skip

    def die(self, time_s: float, learner: str) -> None:
        self.tell(time_s, Kind.NODE_EXITED, node=learner, incarnation=1, signal="SIGKILL")

    def fault(self, time_s: float, kind: Kind, *targets: str, **more: Any) -> None:
        facts = {"takes_away": True, **more} if kind is Kind.FAULT_INJECTING else more
        self.tell(time_s, kind, injection="injection-0", spec="dies", fault="process.kill",
                  targets=list(targets), **facts)  # fmt: skip


LEFT_OUT = {"learner": "learner-1", "incarnation": 1, "members": 1, "reason": "no_progress"}
JOINED = {"learner": "learner-1", "incarnation": 1, "members": 2, "source": "donor"}
SUSPECTED = {"learner": "learner-1", "incarnation": 1, "idle_s": 2.0}


def dead_and_back(story: Story) -> Iterator[LaneState]:
    """Late words of the dead revive nobody, and who is back owes a contribution."""
    yield LaneState.STARTING
    story.step(1, "learner-1")
    yield LaneState.STEPPING
    story.die(2, "learner-1")
    story.step(2.1, "learner-1")
    yield LaneState.DEAD
    story.start(7, "learner-1", incarnation=2)
    story.step(8, "learner-1", incarnation=2)
    yield LaneState.REJOINING
    story.merge(9, 100, "learner-0", "learner-1")
    yield LaneState.STEPPING
    story.tell(9, Kind.PHASE_ENTERED, phase="stop")
    story.die(9.5, "learner-1")
    yield LaneState.ENDED


def wedged_dropped_and_back(story: Story) -> Iterator[LaneState]:
    story.step(1, "learner-1")
    story.tell(2, Kind.NODE_PROBED, node="learner-1", state="T")
    yield LaneState.PAUSED
    story.step(3, "learner-1")
    story.tell(4, Kind.MEMBER_SUSPECTED, **SUSPECTED)
    yield LaneState.SUSPECTED
    story.tell(7, Kind.MEMBER_LEFT, **LEFT_OUT)
    yield LaneState.DROPPED
    story.tell(9, Kind.MEMBER_JOINED, **JOINED)
    story.step(9.5, "learner-1")
    yield LaneState.REJOINING
    story.merge(10, 100, "learner-1")
    yield LaneState.STEPPING


def in_reserve(story: Story) -> Iterator[LaneState]:
    """It is brought in, is welcomed, leaves in order, and comes back."""
    facts = {"plan": "grow", "seed": 7, "fleet": "local", "algorithm": "decoupled"}
    story.tell(0, Kind.RUN_STARTED, **facts, learners=["learner-0"], reserve=["learner-1"])
    yield LaneState.RESERVE
    story.start(5, "learner-1")
    story.step(7, "learner-1")
    yield LaneState.JOINING
    story.merge(8, 100, "learner-1")
    assert story.said[-1].endswith("learner-1 after 3.00 s")
    yield LaneState.STEPPING
    story.tell(9, Kind.MEMBER_LEFT, **{**LEFT_OUT, "reason": "said_goodbye"})
    story.die(9.5, "learner-1")
    yield LaneState.LEFT
    story.start(12, "learner-1", incarnation=2)
    yield LaneState.REJOINING


@pytest.mark.parametrize("life", [dead_and_back, wedged_dropped_and_back, in_reserve])
def test_a_lane_shows_what_a_learner_does(life: Callable[[Story], Iterator[LaneState]]) -> None:
    story = Story()
    for state in life(story):
        assert story.view.lanes["learner-1"].state is state


def settled(story: Story, time_s: float = 12) -> str:
    story.tell(time_s, Kind.RUN_SETTLED, is_settled=True)
    return story.said[-1]


def test_a_settled_run_names_who_stays_away_and_whether_the_plan_asked_for_it() -> None:
    story = Story()
    assert "learner-1" not in settled(story, 9)
    story.fault(10, Kind.FAULT_INJECTING, "learner-1")
    story.die(10, "learner-1")
    by_plan = settled(story)
    assert "learner-1" in by_plan
    story.fault(13, Kind.FAULT_HEALING, "learner-1")
    unplanned = settled(story)
    assert "learner-1" in unplanned
    assert unplanned != by_plan
    for time_s, facts, asked in ((8, {"takes_away": False}, False), (8, {"brings_in": True}, True)):
        story = Story()
        story.fault(time_s, Kind.FAULT_INJECTING, "learner-1", **facts)
        story.fault(9, Kind.FAULT_HEALING, "learner-1")
        story.die(10, "learner-1")
        assert settled(story) == (by_plan if asked else unplanned)


def test_the_way_back_is_counted_from_the_beginning_of_the_heal() -> None:
    story = Story()
    story.fault(2, Kind.FAULT_INJECTING, "learner-1")
    story.die(2, "learner-1")
    story.fault(7, Kind.FAULT_HEALING, "learner-1")
    story.start(8.5, "learner-1", incarnation=2)
    story.fault(8.6, Kind.FAULT_HEALED, "learner-1")
    story.merge(10, 100, "learner-1")
    assert "contributes again: learner-1 after 3.00 s" in story.said
    story.die(20, "learner-1")
    story.start(25, "learner-1", incarnation=3)
    story.merge(26, 200, "learner-1")
    assert "contributes again: learner-1 after 1.00 s" in story.said


def test_the_longest_gap_and_where_it_began_are_kept() -> None:
    story = Story()
    for time_s, tokens in ((1.0, 100), (1.5, 200), (3.0, 300), (3.5, 400)):
        story.merge(time_s, tokens, "learner-0")
    rounds = story.view.rounds
    assert (rounds.merged, rounds.longest_gap_s) == (4, 1.5)
    assert rounds.tokens_per_s == pytest.approx(300 / 2.5)


def test_progress_follows_the_nearest_stop_rule() -> None:
    story = Story(Stop(rounds=10, tokens=1000))
    assert story.view.progress == 0
    story.merge(1, 500, "learner-0")
    assert story.view.progress == 0.5
    assert Story(Stop(loss=1.0)).view.progress is None


def test_a_fault_holds_its_targets_until_it_is_healed() -> None:
    story = Story()
    story.fault(2, Kind.FAULT_INJECTING, "learner-1")
    story.fault(2.1, Kind.FAULT_INJECTED, "learner-1")
    assert [bar.fault for bar in story.view.faults_on("learner-1")] == ["process.kill"]
    assert story.view.faults_on("learner-0") == ()
    story.fault(7, Kind.FAULT_HEALED, "learner-1")
    assert story.view.faults_on("learner-1") == ()
    assert story.view.faults["injection-0"].status == "healed"


def test_an_event_that_breaks_its_contract_is_counted_and_does_not_end_the_view() -> None:
    story = Story()
    story.tell(1, Kind.LEARNER_STEP, learner="learner-1")
    story.step(2, "learner-1")
    assert story.view.unreadable == 1
    assert story.view.lanes["learner-1"].state is LaneState.STEPPING


def test_a_run_that_has_a_twin_announces_it_at_its_end() -> None:
    view = ViewModel(has_twin=True)
    for outcome, announced in (("aborted", False), ("completed", True)):
        data = {"outcome": outcome, "reason": ""}
        end = Event(seq=0, time_s=9.0, source="test", kind=Kind.RUN_FINISHED, data=data)
        assert any("twin" in sentence.text for sentence in view.see(end)) is announced
