"""Absences: who was taken away, and by which clocks it came back."""

import pytest

from chaoslab.checks.absence import absences
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed


def test_each_victim_of_a_kill_has_an_absence_with_three_clocks() -> None:
    first, second = absences(half_killed(rejoin_s=2.0).end().history())
    assert (first.learner, second.learner) == ("learner-1", "learner-3")
    assert (first.gone_s, first.incarnation) == (5.0, 2)
    assert first.clock_s(first.up) == 0.0
    assert first.clock_s(first.stepped) == 2.0
    assert first.clock_s(first.accepted) == 2.0
    assert len(first.merged) > 100


def test_a_paused_learner_comes_back_as_the_same_life_in_a_new_membership() -> None:
    story = Story().baseline().pause("learner-2", for_s=8).train(8).heal().train(9).end()
    (absence,) = absences(story.history())
    assert (absence.incarnation, absence.up.kind) == (1, Kind.FAULT_HEALED)
    assert absence.accepted.payload.epoch == 5


def test_a_pause_too_short_to_be_dropped_needs_no_new_membership() -> None:
    story = Story().baseline().pause("learner-2", for_s=3).train(3).heal().train(9).end()
    (absence,) = absences(story.history())
    assert absence.accepted.payload.epoch == 3


def test_what_is_accepted_from_an_ended_membership_is_an_imposture_and_no_return() -> None:
    story = Story().baseline().pause("learner-2", for_s=8).train(8).heal().train(9).end()
    history = story.altered(
        Kind.PUSH_ACCEPTED, lambda _: {"learner": "learner-2", "incarnation": 1, "epoch": 3}
    ).history()
    (absence,) = absences(history)
    assert [event.kind for event in absence.impostures] == [Kind.PUSH_ACCEPTED]


def test_a_membership_that_ends_twice_was_over_the_first_time() -> None:
    story = Story().baseline().pause("learner-2", for_s=8).train(8).heal().train(9)
    story.altered(
        Kind.PUSH_ACCEPTED, lambda _: {"learner": "learner-2", "incarnation": 1, "epoch": 3}
    )
    story.learners["learner-2"].epoch = 3
    story.drop("learner-2", reason="said_goodbye")
    (absence,) = absences(story.end().history())
    assert len(absence.impostures) == 1


def test_a_victim_that_was_never_started_again_has_no_clocks() -> None:
    story = Story().baseline().kill("learner-1", for_s=None).train(9).prove().end()
    (absence,) = absences(story.history())
    assert absence.since is None
    assert absence.accepted is None
    assert not absence.was_to_be_healed
    assert absence.back_s == absence.until_s == 14.0


def test_a_heal_that_starts_nothing_is_no_return() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False).train(9).end()
    (absence,) = absences(story.history())
    assert absence.since is not None
    assert absence.up is None


def test_a_restart_by_the_fault_itself_starts_the_clocks() -> None:
    story = Story().baseline().kill("learner-1", for_s=9).train(2).restart("learner-1").train(7)
    (absence,) = absences(story.heal(restarts=False).train(9).end().history())
    assert absence.since.kind is Kind.NODE_STARTED
    assert absence.clock_s(absence.accepted) == 1.0


def test_a_crash_loop_is_one_absence_and_its_last_life_counts() -> None:
    story = Story(rejoin_s=0.5).baseline().kill("learner-1", for_s=6).train(1)
    for _ in range(3):
        story.restart("learner-1").train(1)
        story.exit("learner-1", signal="SIGKILL").train(0.5)
    (absence,) = absences(story.heal().train(9).end().history())
    assert absence.incarnation == 5
    assert absence.clock_s(absence.accepted) == 0.5


def test_the_second_absence_of_a_learner_ends_the_first() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(5)
    first, second = absences(
        story.kill("learner-1", spec="again").train(6).heal().train(9).end().history()
    )
    assert (first.is_last, second.is_last) == (False, True)
    assert first.until_s == second.gone_s == 16.0
    assert (first.incarnation, second.incarnation) == (2, 3)


def test_overlapping_injections_on_one_learner_are_one_absence() -> None:
    story = Story().baseline().pause("learner-1", for_s=9).train(2).kill("learner-1").train(4)
    story.heal(restarts=False).train(2).heal().train(9).end()
    (absence,) = absences(story.history())
    assert len(absence.stories) == 2
    assert absence.clock_s(absence.accepted) == pytest.approx(1.0)


def test_faults_that_take_nobody_away_and_faults_on_the_syncer_make_no_absence() -> None:
    story = Story().baseline().touch("learner-1").train(6).heal().kill("syncer").train(1).end()
    assert absences(story.history()) == ()
