"""Absences: who was taken away, and by which clocks it came back."""

import pytest

from chaoslab.checks.absence import absences
from chaoslab.core.events import Kind
from tests.checks.cases import Tell
from tests.histories import Story, half_killed


def test_each_victim_of_a_kill_has_an_absence_with_three_clocks() -> None:
    first, second = absences(half_killed(rejoin_s=2.0).end().history())
    assert (first.learner, second.learner) == ("learner-1", "learner-3")
    assert (first.gone_s, first.incarnation) == (5.0, 2)
    assert first.clock_s(first.up) == 0.0
    assert first.clock_s(first.stepped) == 2.0
    assert first.clock_s(first.accepted) == 2.0
    assert len(first.merged) > 100


def paused(for_s: float) -> Story:
    return Story().baseline().pause("learner-2", for_s=for_s).train(for_s).heal().train(9)


def accepted_as_before(story: Story) -> Story:
    """The last push is of the membership of learner-2 that ended."""
    former = {"learner": "learner-2", "incarnation": 1, "epoch": 3}
    return story.altered(Kind.PUSH_ACCEPTED, lambda _: former)


@pytest.mark.parametrize(("for_s", "epoch"), [(8, 5), (3, 3)], ids=["dropped", "not dropped"])
def test_a_paused_learner_comes_back_as_the_same_life(for_s: float, epoch: int) -> None:
    (absence,) = absences(paused(for_s).end().history())
    assert (absence.incarnation, absence.up.kind) == (1, Kind.FAULT_HEALED)
    assert absence.accepted.payload.epoch == epoch


@pytest.mark.parametrize("ends_twice", [False, True])
def test_what_is_accepted_from_an_ended_membership_is_an_imposture(ends_twice: bool) -> None:
    story = accepted_as_before(paused(8))
    if ends_twice:  # it was over the first time
        story.learners["learner-2"].epoch = 3
        story.drop("learner-2", reason="said_goodbye")
    (absence,) = absences(story.end().history())
    assert [event.kind for event in absence.fenced_pushes] == [Kind.PUSH_ACCEPTED]


def crash_loop() -> Story:
    story = Story(rejoin_s=0.5).baseline().kill("learner-1", for_s=6).train(1)
    for _ in range(3):
        story.restart("learner-1").train(1)
        story.exit("learner-1", signal="SIGKILL").train(0.5)
    return story.heal()


def paused_and_killed() -> Story:
    story = Story().baseline().pause("learner-1", for_s=9).train(2).kill("learner-1").train(4)
    return story.heal(restarts=False).train(2).heal()


@pytest.mark.parametrize(
    ("tell", "since", "lives", "accepted_s"),
    [
        (
            lambda: Story().baseline().kill("learner-1").train(6).heal(restarts=False),
            Kind.FAULT_HEALING,
            None,
            None,
        ),
        (
            lambda: (
                Story()
                .baseline()
                .kill("learner-1", for_s=9)
                .train(2)
                .restart("learner-1")
                .train(7)
                .heal(restarts=False)
            ),
            Kind.NODE_STARTED,
            2,
            1.0,
        ),
        (crash_loop, Kind.FAULT_HEALING, 5, 0.5),
        (paused_and_killed, Kind.FAULT_HEALING, 2, 1.0),
    ],
    ids=["a heal that starts nothing", "a restart by the fault", "a crash loop", "two faults"],
)
def test_one_absence_is_told_by_its_last_life(
    tell: Tell, since: Kind, lives: int | None, accepted_s: float | None
) -> None:
    (absence,) = absences(tell().train(9).end().history())
    assert absence.since.kind is since
    assert (absence.up is None) is (lives is None)
    assert lives is None or absence.incarnation == lives
    assert absence.clock_s(absence.accepted) == accepted_s


def test_a_victim_that_was_never_started_again_has_no_clocks() -> None:
    story = Story().baseline().kill("learner-1", for_s=None).train(9).prove().end()
    (absence,) = absences(story.history())
    assert absence.since is absence.accepted is None
    assert not absence.was_to_be_healed
    assert absence.back_s == absence.until_s == 14.0


def test_the_second_absence_of_a_learner_ends_the_first() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(5)
    first, second = absences(
        story.kill("learner-1", spec="again").train(6).heal().train(9).end().history()
    )
    assert (first.is_last, second.is_last) == (False, True)
    assert first.until_s == second.gone_s == 16.0
    assert (first.incarnation, second.incarnation) == (2, 3)


def test_faults_that_take_nobody_away_and_faults_on_the_syncer_make_no_absence() -> None:
    story = Story().baseline().touch("learner-1").train(6).heal().kill("syncer").train(1).end()
    assert absences(story.history()) == ()
