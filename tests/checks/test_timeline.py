"""The frame of every check: when training ended, what was open, the gaps between rounds."""

import pytest

from chaoslab.checks.timeline import (
    fault_windows,
    longest_gap,
    training_end,
    training_end_s,
)
from chaoslab.core.events import Kind
from tests.checks.cases import Tell
from tests.histories import Story, half_killed


def one_finishes() -> Story:
    story = Story().baseline().train(2)
    story.finish_learner(story.learners["learner-1"])
    return story.train(4)


@pytest.mark.parametrize(
    ("tell", "kind", "time_s"),
    [
        (lambda: Story().baseline().enter("stop").train(4).end(), Kind.SYNCER_STOPPED, 9.0),
        (one_finishes, None, 11.0),
        (
            lambda: Story().baseline().lose_syncer(for_s=None).stall(6).prove().finish("aborted"),
            Kind.RUN_FINISHED,
            11.0,
        ),
        (
            lambda: (
                Story().baseline().train(4).enter("interrupted").stall(40).finish("interrupted")
            ),
            Kind.PHASE_ENTERED,
            9.0,
        ),
        (
            lambda: Story().baseline().train(4).say(Kind.RUN_LEFT, nodes=[]).stall(40).finish(),
            Kind.RUN_LEFT,
            9.0,
        ),
        (lambda: Story().baseline().train(4), None, 9.0),
    ],
    ids=[
        "the syncer's word",
        "a learner's word",
        "no syncer",
        "an interrupt",
        "the last look",
        "breaks off",
    ],
)
def test_training_ends_with(tell: Tell, kind: Kind | None, time_s: float) -> None:
    history = tell().history()
    end = training_end(history)
    assert (end.kind if end else None) is kind
    assert training_end_s(history) == time_s


def test_a_window_reaches_from_the_injection_to_the_heal_or_to_the_end() -> None:
    story = half_killed().kill("learner-0", for_s=None, spec="rest").train(2).prove().end()
    first, second = fault_windows(story.history())
    assert (first.start_s, first.end_s) == (5.0, 11.0)
    assert (second.start_s, second.end_s) == (46.0, 48.0)
    assert str(first) == "`die` (process.kill on learner-1, learner-3)"


def test_a_fault_that_could_not_be_carried_out_has_no_window() -> None:
    story = Story().baseline().kill("learner-1").train(1)
    story.say(
        Kind.FAULT_FAILED, injection="injection-0", fault="process.kill", targets=["learner-1"],
        spec="die", reason="no such process",
    )  # fmt: skip
    assert fault_windows(story.history()) == ()


def test_the_longest_gap_may_begin_before_the_stretch_and_end_with_it() -> None:
    history = Story().start().train(2).stall(3).train(2).stall(1).history()
    gap = longest_gap(history, 3.0, 8.0)
    assert (gap.start_s, gap.end_s, gap.is_tail) == (2.0, 5.25, False)
    tail = longest_gap(history, 6.0, 8.0)
    assert (tail.start_s, tail.end_s, tail.is_tail) == (7.0, 8.0, True)


def test_without_any_round_the_gap_is_the_whole_stretch() -> None:
    gap = longest_gap(Story().start().stall(5).history(), 1.0, 5.0)
    assert (gap.start_s, gap.end_s, gap.evidence) == (1.0, 5.0, ())
