"""The frame of every check: when training ended, what was open, the gaps between rounds."""

from chaoslab.checks.timeline import (
    fault_windows,
    longest_gap,
    training_end,
    training_end_s,
)
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed


def test_training_ends_when_the_syncer_says_so_not_with_the_stop_phase() -> None:
    end = training_end(Story().baseline().enter("stop").train(4).end().history())
    assert (end.kind, end.time_s) == (Kind.SYNCER_STOPPED, 9.0)


def test_a_learner_that_says_that_training_ended_does_not_end_it() -> None:
    story = Story().baseline().train(2)
    story.finish_learner(story.learners["learner-1"])
    assert training_end(story.train(4).history()) is None
    assert training_end_s(story.history()) == 11.0


def test_a_syncer_that_died_before_it_said_so_leaves_the_end_of_the_run() -> None:
    story = Story().baseline().lose_syncer(for_s=None).stall(6).prove().finish("aborted")
    assert training_end(story.history()) == story.last(Kind.RUN_FINISHED)


def test_a_record_without_the_syncers_word_ends_with_the_first_farewell_after_merging() -> None:
    story = Story().baseline().train(2)
    story.finish_learner(story.learners["learner-1"])
    story.train(4).end().without(Kind.SYNCER_STOPPED)
    story.altered(Kind.RUN_STARTED, lambda _: {"record": 1})
    end = training_end(story.history())
    assert (end.kind, end.time_s) == (Kind.LEARNER_FINAL, 11.0)


def test_a_record_that_breaks_off_ends_with_its_last_line() -> None:
    history = Story().baseline().train(4).history()
    assert training_end(history) is None
    assert training_end_s(history) == 9.0


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
