"""The first answers: training continued? who rejoined? what was done?"""

from chaoslab.checks.answers import Return, injections, longest_gap_s, returns, training_continued
from tests.histories import Story, half_killed


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
        "learner-0": Return(rejoined=False, after_s=None),
    }


def test_of_several_returns_the_slowest_is_told() -> None:
    story = Story(rejoin_s=3.0).baseline().kill("learner-1").train(6).heal().train(9)
    story.rejoin_s = 1.0
    story.kill("learner-1").train(6).heal().train(9).end()
    assert returns(story.history()) == {"learner-1": Return(rejoined=True, after_s=3.0)}


def test_a_run_without_victims_has_nobody_to_answer_for() -> None:
    assert returns(Story().baseline().touch("learner-1").train(2).heal().end().history()) == {}


def test_injections_carry_status_request_and_measurement_by_target() -> None:
    story = half_killed().kill("learner-0").train(2).heal(status="weak").skip("learner-2").end()
    proved, weak, skipped = injections(story.history())
    assert (proved.id, proved.status) == ("injection-0", "proved")
    assert set(proved.measured) == {"learner-1", "learner-3"}
    assert (weak.status, skipped.status) == ("weak", "failed")
    assert skipped.reason == "never injected: its trigger did not come"
