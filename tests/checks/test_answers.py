"""The first answers: training continued? who rejoined? what was done?"""

from collections.abc import Mapping

import pytest

from chaoslab.checks import answers
from chaoslab.checks.answers import Return, injections, longest_gap_s, training_continued
from chaoslab.core.events import Kind
from chaoslab.record.journal import History
from tests.histories import Story, half_killed

NOT_BACK, OPEN = Return(rejoined=False, after_s=None), Return(rejoined=None, after_s=None)
NOT_ASKED = Return(rejoined=False, after_s=None, was_asked=False)


def returns(history: History, within_s: float = 10.0) -> Mapping[str, Return]:
    return answers.returns(history, within_s=within_s)


def never_back(for_s: float) -> Story:
    """A victim that is healed, and has not contributed `for_s` later."""
    return Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(for_s)


def test_a_run_that_went_on_to_its_end_continued() -> None:
    history = half_killed().end().history()
    assert training_continued(history) is True
    assert longest_gap_s(history) == 0.25


def test_a_short_pause_is_not_the_end_of_training() -> None:
    history = half_killed().stall(4).train(2).end().history()
    assert training_continued(history) is True
    assert longest_gap_s(history) == 4.25


def test_a_long_pause_is_even_if_training_went_on_after_it() -> None:
    assert training_continued(half_killed().stall(6).train(9).end().history()) is False


def test_a_run_that_stops_merging_for_good_did_not_continue() -> None:
    assert training_continued(half_killed().stall(9).end().history()) is False


def test_what_was_cut_short_or_never_measured_is_not_known() -> None:
    assert training_continued(half_killed().history()) is None
    assert training_continued(half_killed().finish("interrupted").history()) is None
    assert training_continued(Story().start().train(9).end().history()) is None
    assert longest_gap_s(Story().start().train(9).end().history()) is None


def test_a_long_pause_before_the_cut_is_known() -> None:
    assert training_continued(half_killed().stall(9).finish("aborted").history()) is False


def test_every_learner_that_was_taken_away_is_answered_for() -> None:
    story = half_killed().kill("learner-0", for_s=None).train(3).prove().end()
    assert returns(story.history()) == {
        "learner-1": Return(rejoined=True, after_s=1.0),
        "learner-3": Return(rejoined=True, after_s=1.0),
        "learner-0": NOT_ASKED,
    }


def test_a_return_as_a_fork_is_told_as_one() -> None:
    story = half_killed().end()
    story.altered(Kind.NODE_STARTED, lambda _: {"imports_cpu_s": 0.48321})
    forked = {who: back.imports_cpu_s for who, back in returns(story.history()).items()}
    assert forked == {"learner-1": None, "learner-3": 0.483}


def test_of_several_returns_the_slowest_is_told() -> None:
    story = Story(rejoin_s=3.0).baseline().kill("learner-1").train(6).heal().train(9)
    story.rejoin_s = 1.0
    story.kill("learner-1").train(6).heal().train(9).end()
    assert returns(story.history()) == {"learner-1": Return(rejoined=True, after_s=3.0)}


def test_a_run_without_victims_has_nobody_to_answer_for() -> None:
    assert returns(Story().baseline().touch("learner-1").train(2).heal().end().history()) == {}


# ---------------------------------------------------------------- cut short before it could be seen


@pytest.mark.parametrize("outcome", ["interrupted", "aborted", "broken"])
def test_a_run_cut_short_before_a_victim_had_its_time_leaves_its_return_open(outcome: str) -> None:
    assert returns(never_back(0.0).finish(outcome).history()) == {"learner-1": OPEN}
    assert returns(never_back(9.75).finish(outcome).history()) == {"learner-1": OPEN}


def test_a_record_that_breaks_off_leaves_it_open_too() -> None:
    assert returns(never_back(4.0).history()) == {"learner-1": OPEN}


def test_a_victim_that_the_cut_came_before_its_heal_is_open() -> None:
    story = Story().baseline().kill("learner-1", for_s=60).train(20).prove()
    assert returns(story.finish("interrupted").history()) == {"learner-1": OPEN}


def test_a_victim_that_had_its_time_is_not_back_however_the_run_ended() -> None:
    assert returns(never_back(10.0).finish("interrupted").history()) == {"learner-1": NOT_BACK}
    assert returns(never_back(10.0).history()) == {"learner-1": NOT_BACK}
    assert returns(never_back(10.0).history(), within_s=20.0) == {"learner-1": OPEN}


def test_training_that_ended_by_its_own_rule_leaves_nothing_open() -> None:
    assert returns(never_back(4.0).end().history()) == {"learner-1": NOT_BACK}
    in_its_evaluation = never_back(4.0).end(outcome="interrupted")
    assert returns(in_its_evaluation.history()) == {"learner-1": NOT_BACK}
    assert returns(in_its_evaluation.without(Kind.RUN_FINISHED).history()) == {
        "learner-1": NOT_BACK
    }


def test_a_syncer_that_was_asked_to_end_did_not_end_by_its_rule() -> None:
    for outcome in ("interrupted", "completed"):
        story = never_back(4.0).end(outcome=outcome)
        story.altered(Kind.SYNCER_FINAL, lambda _: {"was_asked": True})
        assert returns(story.history()) == {"learner-1": OPEN}


def test_a_stop_rule_that_was_met_under_a_fault_is_no_end_before_the_run_lets_it_be() -> None:
    story = never_back(4.0).end(outcome="interrupted")
    story.without(Kind.PHASE_ENTERED, lambda event: event.payload.phase == "stop")
    assert returns(story.history()) == {"learner-1": OPEN}


def test_a_victim_that_the_plan_never_heals_is_not_asked_to_return() -> None:
    story = Story().baseline().kill("learner-1", for_s=None).train(2).prove().finish("interrupted")
    assert returns(story.history()) == {"learner-1": NOT_ASKED}


def test_a_later_fault_that_is_never_healed_hides_no_earlier_return_that_failed() -> None:
    story = Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(12)
    story.pause("learner-1", for_s=None, spec="stays").train(4).prove().end()
    assert returns(story.history()) == {"learner-1": NOT_BACK}


@pytest.mark.parametrize(("starts_s", "answer"), [(4.0, True), (11.0, False)])
def test_the_start_of_the_next_syncer_is_no_pause_of_training_within_reason(
    starts_s: float, *, answer: bool
) -> None:
    story = Story().baseline().lose_syncer().stall(6).regain_syncer(starts_s=starts_s)
    assert training_continued(story.stall(4).train(9).end().history()) is answer


def test_a_syncer_that_the_plan_never_gives_back_ends_training() -> None:
    story = Story().baseline().lose_syncer(for_s=None).stall(9).prove().end()
    assert training_continued(story.history()) is False


def test_who_was_back_before_the_cut_is_back() -> None:
    back = returns(half_killed().finish("interrupted").history())
    assert [one.rejoined for one in back.values()] == [True, True]


def test_injections_carry_status_request_and_measurement_by_target() -> None:
    story = half_killed().kill("learner-0").train(2).heal(status="weak").skip("learner-2").end()
    proved, weak, skipped = injections(story.history())
    assert (proved.id, proved.status) == ("injection-0", "proved")
    assert set(proved.measured) == {"learner-1", "learner-3"}
    assert (weak.status, skipped.status) == ("weak", "failed")
