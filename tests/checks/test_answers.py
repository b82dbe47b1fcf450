"""The first answers: training continued? all rejoined? what was done?"""

from collections.abc import Mapping

import pytest

from chaoslab.checks import answers
from chaoslab.checks.answers import Return, injections, longest_gap_s, training_continued
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.history import History
from tests.checks.cases import Tell, rewritten
from tests.histories import Story, half_killed

NOT_BACK, OPEN = Return(rejoined=False, after_s=None), Return(rejoined=None, after_s=None)
NOT_ASKED = Return(rejoined=False, after_s=None, was_asked=False)


def returns(history: History, within_s: float = 10.0) -> Mapping[str, Return]:
    return answers.returns(history, within_s=within_s)


def never_back(for_s: float) -> Story:
    """A victim that is healed, and has not contributed `for_s` later."""
    return Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(for_s)


def left_alone(story: Story) -> Story:
    """It goes on, and is no longer looked at."""
    return story.say(Kind.RUN_LEFT, nodes=["syncer"], gone=[], refused_lines={})


def without_syncer(starts_s: float, *, first_s: float = 0.0) -> Story:
    """Its next process takes `starts_s` until it is ready; its first one took `first_s`."""
    story = Story(syncer_starts_s=first_s).baseline().lose_syncer().stall(6)
    return story.regain_syncer(starts_s=starts_s).stall(4).train(9).end()


def found_running(starts_s: float) -> Story:
    """The run did not see its first process start."""
    return without_syncer(starts_s).altered(
        Kind.RUN_STARTED, lambda _: {"without": ["whole_training"]}
    )


def all_killed(*, for_s: float | None = 6.0, starts_s: float = 2.0) -> Story:
    """Nobody is left to merge with, and the next processes take `starts_s` until they step."""
    story = Story(rejoin_s=starts_s).baseline()
    return story.kill(*story.learners, for_s=for_s).train(6)


@pytest.mark.parametrize(
    ("tell", "answer", "gap_s"),
    [
        (lambda: all_killed().heal().train(9).end(), True, 8.0),
        (lambda: all_killed().heal().train(3).stall(6).train(9).end(), False, 8.0),
        (lambda: all_killed(starts_s=12.0).heal().train(20).end(), False, 18.0),
        (lambda: all_killed(for_s=None).prove().end(), False, 6.0),
        (lambda: half_killed().end(), True, 0.25),
        (lambda: half_killed().stall(4).train(2).end(), True, 4.25),
        (lambda: half_killed().stall(6).train(9).end(), False, 6.25),
        (lambda: half_killed().stall(9).end(), False, 9.0),
        (half_killed, None, 0.25),
        (lambda: half_killed().finish("interrupted"), None, 0.25),
        (lambda: half_killed().stall(9).finish("aborted"), False, 9.0),
        (lambda: left_alone(half_killed()).stall(9).finish(), True, 0.25),
        (lambda: Story().start().train(9).end(), None, None),
        (lambda: without_syncer(4.0), True, 14.25),
        (lambda: without_syncer(11.0), False, 21.25),
        (lambda: without_syncer(11.0, first_s=9.0), True, 21.25),
        (lambda: without_syncer(21.0, first_s=9.0), False, 31.25),
        (lambda: found_running(11.0), True, 21.25),
        (
            lambda: Story().baseline().lose_syncer(for_s=None).stall(9).prove().end(), False, 9.0,
        ),
    ],
    ids=[
        "all are back", "a pause after it", "all are late", "nobody comes back", "to its end",
        "a short pause", "a long pause", "no more merges", "breaks off",
        "interrupted", "a long pause before the cut", "left running", "never measured",
        "the next syncer starts", "the next syncer starts late", "no later than the first",
        "later than the first", "the first was not seen", "no next syncer",
    ],
)  # fmt: skip
def test_whether_training_continued(tell: Tell, answer: bool | None, gap_s: float | None) -> None:
    history = tell().history()
    assert (training_continued(history), longest_gap_s(history)) == (answer, gap_s)


def unmerged(story: Story, from_s: float) -> Story:
    """From then on what the syncer accepts of learner-1 is in no round."""

    def others(event: Event) -> dict[str, Json]:
        given = event.data["contributors"]
        assert isinstance(given, list)
        return {"contributors": [one for one in given if one["learner"] != "learner-1"]}

    return rewritten(story, Kind.ROUND_MERGED, others, lambda event: event.time_s > from_s)


@pytest.mark.parametrize(
    "story",
    [
        Story().baseline().kill("learner-1").train(6).heal().train(20).end(),
        Story().baseline().lose_syncer().stall(6).regain_syncer().train(20).end(),
    ],
    ids=["after its own fault", "after one of the syncer"],
)
def test_an_accepted_push_that_no_round_holds_is_no_return(story: Story) -> None:
    history = unmerged(story, from_s=7.0).history()
    assert returns(history)["learner-1"] == NOT_BACK
    assert "learner-1" in answers.overdue(history, within_s=10.0)


def test_a_hiccup_in_the_baseline_hides_no_stop_of_training() -> None:
    story = half_killed().stall(15).train(9).end()
    story.altered(Kind.BASELINE_MEASURED, lambda _: {"gap_s_max": 20.0})
    assert training_continued(story.history()) is False


def test_every_learner_that_was_taken_away_is_answered_for() -> None:
    story = half_killed().kill("learner-0", for_s=None).train(3).prove().end()
    assert returns(story.history()) == {
        "learner-1": Return(rejoined=True, after_s=1.0),
        "learner-3": Return(rejoined=True, after_s=1.0),
        "learner-0": NOT_ASKED,
    }


def test_an_earlier_absence_counts_if_it_left_time() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False).train(12)
    story.kill("learner-1").train(6).heal().train(20).end()
    assert returns(story.history()) == {"learner-1": NOT_BACK}
    assert returns(story.history(), within_s=30.0)["learner-1"].rejoined is True


def test_of_several_returns_the_slowest_is_told() -> None:
    story = Story(rejoin_s=3.0).baseline().kill("learner-1").train(6).heal().train(9)
    story.rejoin_s = 1.0
    story.kill("learner-1").train(6).heal().train(9).end()
    assert returns(story.history()) == {"learner-1": Return(rejoined=True, after_s=3.0)}


# ---------------------------------------------------------------- cut short before it could be seen


def asked_to_end(outcome: str) -> Story:
    story = never_back(4.0).end(outcome=outcome)
    return story.altered(Kind.SYNCER_FINAL, lambda _: {"was_asked": True})


def stopped_under_a_fault() -> Story:
    story = never_back(4.0).end(outcome="interrupted")
    return story.without(Kind.PHASE_ENTERED, lambda event: event.payload.phase == "stop")


def later_fault() -> Story:
    return never_back(12).pause("learner-1", for_s=None, spec="stays").train(4).prove().end()


def never_healed() -> Story:
    return Story().baseline().kill("learner-1", for_s=None).train(2).prove().finish("interrupted")


def before_its_heal() -> Story:
    return Story().baseline().kill("learner-1", for_s=60).train(20).prove().finish("interrupted")


BACK: dict[str, tuple[Tell, Return]] = {
    **{
        f"{outcome} after {for_s:g} s": (
            lambda for_s=for_s, outcome=outcome: never_back(for_s).finish(outcome), OPEN,
        )
        for for_s in (0.0, 9.75)
        for outcome in ("interrupted", "aborted", "broken")
    },
    "a record that breaks off": (lambda: never_back(4.0), OPEN),
    "a cut before the heal": (before_its_heal, OPEN),
    "it had its time before the cut": (lambda: never_back(10.0).finish("interrupted"), NOT_BACK),
    "it had its time before the record breaks off": (lambda: never_back(10.0), NOT_BACK),
    "training ended by its rule": (lambda: never_back(4.0).end(), NOT_BACK),
    "interrupted in its evaluation": (
        lambda: never_back(4.0).end(outcome="interrupted"), NOT_BACK,
    ),
    "breaks off in its evaluation": (
        lambda: never_back(4.0).end(outcome="interrupted").without(Kind.RUN_FINISHED), NOT_BACK,
    ),
    "a syncer that was asked to end": (lambda: asked_to_end("completed"), OPEN),
    "a syncer that an interrupt asked to end": (lambda: asked_to_end("interrupted"), OPEN),
    "a stop rule that was met under a fault": (stopped_under_a_fault, OPEN),
    "one that the plan never heals": (never_healed, NOT_ASKED),
    "a later fault hides no return that failed": (later_fault, NOT_BACK),
}  # fmt: skip


@pytest.mark.parametrize(("tell", "back"), BACK.values(), ids=BACK)
def test_whether_a_victim_is_back(tell: Tell, back: Return) -> None:
    assert returns(tell().history()) == {"learner-1": back}


def test_the_time_that_a_victim_has_is_that_of_the_plan() -> None:
    assert returns(never_back(10.0).history(), within_s=20.0) == {"learner-1": OPEN}


def test_who_was_back_before_the_cut_is_back() -> None:
    back = returns(half_killed().finish("interrupted").history())
    assert [one.rejoined for one in back.values()] == [True, True]


def test_injections_carry_status_request_and_measurement_by_target() -> None:
    story = half_killed().kill("learner-0").train(2).heal(status="weak").skip("learner-2").end()
    proved, weak, skipped = injections(story.history())
    assert (proved.id, proved.status) == ("injection-0", "proved")
    assert set(proved.measured) == {"learner-1", "learner-3"}
    assert (weak.status, skipped.status) == ("weak", "failed")


def test_evidence_that_is_the_same_of_several_targets_is_said_once() -> None:
    story = Story().baseline().kill("learner-1", "learner-3").train(6).heal().train(9).end()
    (one,) = injections(story.history())
    assert one.reason == "learner-1, learner-3 each was seen to suffer"
    other = story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"text": "learner-3 limped"})
    (one,) = injections(other.history())
    assert one.reason == "learner-1 was seen to suffer; learner-3 limped"
