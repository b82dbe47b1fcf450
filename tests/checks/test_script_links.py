"""Workers of a script may wait for a service while a fault is on their link."""

import pytest

from chaoslab.checks.answers import training_continued
from chaoslab.checks.base import Outcome
from chaoslab.checks.participation import Participation
from chaoslab.core.payloads import (
    EvidenceMeasured,
    FaultHealed,
    FaultHealing,
    FaultInjected,
    FaultInjecting,
    LineKind,
    LinkShaped,
    Status,
)
from chaoslab.record.history import History
from tests.trainers.script_story import STEP_S, ScriptStory

_FACTS = {
    "injection": "injection-0", "spec": "far", "fault": "a.fault", "targets": ("worker-0",),
}  # fmt: skip


def under_a_fault(*, shapes_links: bool, others_step: bool) -> History:
    """For 8 s worker-0 makes no step, under a fault that is proved and leaves it at work."""
    story = ScriptStory().train(60).measure().train(5)
    given = {"settings": {}, "trigger": "now", "for_s": 8.0}
    story.say(FaultInjecting(**_FACTS, **given, takes_away=False, may_silence=False))
    if shapes_links:
        story.say(
            LinkShaped(link="worker-0", injection="injection-0", direction="both",
                       effect="latency", settings={})
        )  # fmt: skip
    story.say(FaultInjected(**_FACTS))
    for step in range(66, 146):
        story.now_s += STEP_S
        if others_step:
            story.tell("worker-1", LineKind.PROGRESS, step, 2.0)
    story.say(
        EvidenceMeasured(injection="injection-0", target="worker-0", status=Status.PROVED,
                         code="as_asked", text="was far", requested={}, measured={},
                         proof=(), fault="a.fault")
    )  # fmt: skip
    story.say(FaultHealing(**_FACTS))
    story.say(FaultHealed(**_FACTS))
    if others_step:
        story.workers["worker-1"].step = 145
    return story.train(60).end().history()


@pytest.mark.parametrize("shapes_links", [True, False])
def test_training_may_pause_under_a_fault_on_a_link(shapes_links: bool) -> None:
    history = under_a_fault(shapes_links=shapes_links, others_step=False)
    assert training_continued(history) is shapes_links


@pytest.mark.parametrize(("shapes_links", "outcome"), [(True, Outcome.PASS), (False, Outcome.FAIL)])
def test_a_worker_may_make_fewer_steps_under_a_fault_on_its_link(
    shapes_links: bool, outcome: Outcome
) -> None:
    history = under_a_fault(shapes_links=shapes_links, others_step=True)
    assert Participation().judge(history).outcome is outcome
