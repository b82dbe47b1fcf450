"""A fault is proved by what happened in its time, whatever its own evidence says."""

from collections.abc import Callable

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import Status
from tests.histories import Story, half_killed


def proved_by(kind: Kind, *, which: int = -1) -> Callable[[Story], Story]:
    """The evidence of both targets rests on one event of this kind alone."""

    def change(story: Story) -> Story:
        seq = [one.seq for one in story.events if one.kind is kind][which]
        for piece in (-1, -2):
            story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"proof": [seq]}, which=piece)
        return story

    return change


DOUBTFUL: dict[str, Callable[[Story], Story]] = {
    "what was before": proved_by(Kind.BASELINE_MEASURED),
    "what came after": proved_by(Kind.LEARNER_STEP),
    "its own beginning": proved_by(Kind.FAULT_INJECTING),
    "its own word that it was in": proved_by(Kind.FAULT_INJECTED),
    "nothing": lambda story: story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"proof": []}),
}


@pytest.mark.parametrize("tell", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_fault_is_weak_that_is_proved_by(tell: Callable[[Story], Story]) -> None:
    (story,) = tell(half_killed().train(4)).history().faults
    assert story.status is Status.WEAK
    assert "learner-3" in story.doubts


def test_one_event_of_its_time_is_enough() -> None:
    (story,) = proved_by(Kind.NODE_EXITED)(half_killed()).history().faults
    assert (story.status, story.doubts) == (Status.PROVED, {})


def test_a_kill_is_weak_if_the_worker_goes_on() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False)
    worked = story.last(Kind.LEARNER_STEP)
    gone_on = {**worked.data, "learner": "learner-1", "incarnation": 1}
    (found,) = story.say(Kind.LEARNER_STEP, "learner-1", **gone_on).history().faults
    assert (found.status, list(found.doubts)) == (Status.WEAK, ["learner-1"])


def test_what_was_on_its_way_at_the_end_is_no_work_of_the_dead() -> None:
    story = Story().baseline().kill("learner-1")
    pushed = next(one for one in story.events[::-1] if one.kind is Kind.PUSH_ACCEPTED)
    story.say(Kind.PUSH_ACCEPTED, **{**pushed.data, "learner": "learner-1", "incarnation": 1})
    (found,) = story.train(6).heal().history().faults
    assert found.status is Status.PROVED
