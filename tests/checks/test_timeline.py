"""The frame of every check: when training ended, what was open, which exits nobody asked for."""

from dataclasses import replace

from chaoslab.checks.timeline import (
    fault_windows,
    longest_gap,
    said_exit,
    training_end,
    training_end_s,
    unasked_exits,
)
from chaoslab.events import Kind
from tests.histories import Story, half_killed


def test_training_ends_with_the_first_final_account_not_with_the_stop_phase() -> None:
    story = Story().baseline().enter("stop").train(4).end()
    end = training_end(story.history())
    assert end is not None
    assert (end.kind, end.time_s) == (Kind.LEARNER_FINAL, 9.0)


def test_a_learner_that_was_still_joining_tells_the_end_of_training_too() -> None:
    story = Story().baseline().train(2).say(
        Kind.LEARNER_LEFT, "learner-1", learner="learner-1", incarnation=2, step=0,
        reason="stopped: 240 rounds",
    )  # fmt: skip
    assert training_end(story.train(1).history()) == story.last(Kind.LEARNER_LEFT)


def test_a_record_that_breaks_off_ends_with_its_last_line() -> None:
    history = Story().baseline().train(4).history()
    assert training_end(history) is None
    assert training_end_s(history) == 9.0


def test_a_window_reaches_from_the_injection_to_the_heal_or_to_the_end() -> None:
    story = half_killed().kill("learner-0", for_s=None, spec="rest").train(2).prove().end()
    first, second = fault_windows(story.history())
    assert (first.start_s, first.end_s) == (5.0, 11.0)
    assert (second.start_s, second.end_s) == (46.0, 48.0)
    assert str(first) == "die (process.kill on learner-1, learner-3)"


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


def test_exits_that_the_proof_names_and_regular_ends_were_asked_for() -> None:
    assert unasked_exits(half_killed().end().history()) == ()


def test_every_exit_of_a_crash_loop_was_asked_for() -> None:
    story = Story().baseline().kill("learner-1").train(1).restart("learner-1").train(1)
    story.exit("learner-1", signal="SIGKILL").train(2).heal().train(9).end()
    assert unasked_exits(story.history()) == ()


def test_a_strangers_kill_is_found_and_told() -> None:
    story = half_killed().strike("learner-2").train(2).end()
    (event,) = unasked_exits(story.history())
    assert said_exit(event) == (
        "learner-2 was killed by SIGKILL at 46.0 s, and no injection asked for it"
    )


def test_a_kill_of_another_learner_than_the_victim_is_not_excused_by_the_fault() -> None:
    story = Story().baseline().kill("learner-1").train(1).strike("learner-2").train(5).heal()
    (event,) = unasked_exits(story.train(9).end().history())
    assert event.data["node"] == "learner-2"


def test_a_paused_learner_that_somebody_kills_is_found() -> None:
    story = Story().baseline().pause("learner-1").train(2).strike("learner-1").train(4)
    (event,) = unasked_exits(story.heal(restarts=False).train(9).end().history())
    assert event.data["node"] == "learner-1"


def test_a_victim_that_dies_again_after_it_came_back_is_found() -> None:
    (event,) = unasked_exits(half_killed().strike("learner-1").train(2).end().history())
    assert event.data["incarnation"] == 2


def test_a_crash_of_the_syncer_is_found_with_its_exit_code() -> None:
    story = Story().baseline().exit("syncer", code=1).train(2).end()
    (event,) = unasked_exits(story.history())[:1]
    assert said_exit(event).startswith("syncer exited with code 1 at 5.0 s")


def test_a_death_for_want_of_memory_and_one_that_nobody_saw_are_told_apart() -> None:
    (event,) = unasked_exits(half_killed().strike("learner-2").train(2).end().history())
    starved = replace(event, data={**event.data, "out_of_memory": True})
    assert "was killed by SIGKILL for want of memory at" in said_exit(starved)
    removed = replace(event, data={**event.data, "signal": None, "exit_code": None})
    assert "learner-2 was removed, so that nobody can say how it ended, at" in said_exit(removed)


def test_the_nodes_of_a_run_that_was_cut_short_are_ended_by_the_harness() -> None:
    story = Story().baseline().train(30)
    for name in story.learners:
        story.exit(name, code=0)
    assert unasked_exits(story.finish("interrupted").history()) == ()
