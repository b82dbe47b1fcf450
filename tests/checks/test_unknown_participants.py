"""Strangers: a membership of a life that the harness never started."""

from chaoslab.checks.codes import Code
from chaoslab.checks.rules import always_judged
from chaoslab.checks.unknown_participants import strangers
from chaoslab.core.events import Kind
from tests.histories import half_killed


def test_lives_that_the_harness_started_are_no_strangers() -> None:
    assert list(strangers(half_killed().end().history())) == []


def test_a_life_that_nobody_started_is_found_by_name() -> None:
    story = half_killed()
    joined = story.last(Kind.MEMBER_JOINED)
    story.say(Kind.MEMBER_JOINED, "syncer", **{**joined.data, "incarnation": 99})
    history = story.end().history()
    (violation,) = strangers(history)
    assert violation.culprit == joined.payload.learner
    (finding,) = (f for f in always_judged(history) if f.check == "strangers")
    assert finding.codes == (Code.NEVER_STARTED,)
