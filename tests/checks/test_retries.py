"""Retries: a link that is gone is dialled again, and not hammered."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.retries import Retries
from chaoslab.core.events import Kind
from tests.checks.cases import Case, doubts, each, passes
from tests.histories import Story, half_killed


def test_a_learner_that_dials_once_a_second_passes() -> None:
    story = Story().baseline().cut("learner-1", for_s=20).train(19).heal().train(9).end()
    finding = Retries().judge(story.history())
    assert (finding.outcome, finding.observed, finding.bound) == (Outcome.PASS, 19, 40)
    assert finding.margin == pytest.approx(21 / 40)
    retries = finding.numbers["retries"]
    assert retries == {"learner-0": 0, "learner-1": 19, "learner-2": 0, "learner-3": 0}
    assert finding.numbers["busiest_second_of_all"] == 2, "the last in vain, and the answered one"


def test_a_learner_that_dials_too_often_in_any_minute_fails_by_name() -> None:
    story = Story().baseline().cut("learner-2", for_s=90).train(90).heal().train(9).end()
    finding = Retries(max_per_minute=40).judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert (finding.codes, finding.margin) == (
        (Code.RECONNECTS_TOO_OFTEN,),
        pytest.approx(-21 / 40),
    )
    assert Retries(max_per_minute=61).judge(story.history()).outcome is Outcome.PASS


def test_the_first_dial_of_a_life_is_no_retry() -> None:
    finding = Retries(max_per_minute=0).judge(half_killed().end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 0)
    assert finding.samples > 0


def test_a_stream_that_ends_is_no_retry_but_the_dial_after_it_is() -> None:
    story = Story().baseline().cut("learner-1").train(3).heal().train(9).end()
    finding = Retries().judge(story.history())
    closed = [e for e in story.events if e.kind is Kind.LINK_CLOSED and e.payload.was_open]
    assert len(closed) == 1
    assert finding.observed == 2, "two in vain; it never was without a stream after that"


def dials_at_the_end() -> Story:
    story = Story().baseline().train(9).end()
    for _ in range(100):
        story.say(
            Kind.LINK_CLOSED, "learner-0", learner="learner-0", incarnation=1, was_open=False,
            open_s=0.0, attempts=1, reason="unavailable",
        )  # fmt: skip
        story.now_s += 0.1
    return story


CASES = {
    "dials after training has ended": passes(Retries(), dials_at_the_end),
    "links of which nobody says anything": doubts(
        Retries(), lambda: Story().baseline().train(9).end().without(Kind.LINK_MEASURED)
    ),
    "a link of which nobody says anything": doubts(
        Retries(),
        lambda: (
            Story()
            .baseline()
            .train(9)
            .end()
            .without(Kind.LINK_MEASURED, lambda e: e.source == "learner-3")
        ),
        Code.RECORD_INCOMPLETE,
    ),
}


@each(CASES)
def test_retries(case: Case) -> None:
    case.hold()
