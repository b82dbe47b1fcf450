"""A syncer that dies and comes back: what it may not lose, and who has to be heard again."""

from dataclasses import replace

import pytest

from chaoslab.checks.answers import longest_gap_s, returns, training_continued
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.detection import Detection
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.outages import outages
from chaoslab.checks.progress import Continuity
from chaoslab.checks.succession import Succession
from chaoslab.checks.survivors import Survivors
from chaoslab.checks.versions import Versions
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story
from tests.model_training import digests

MOST_S = 10.0


def crashed(*, without: tuple[str, ...] = (), **other: Json) -> Story:
    """Four seconds without a syncer, then training goes on with all but those `without`."""
    story = Story().baseline().lose_syncer(for_s=4.0).stall(4)
    return story.regain_syncer(without=without, **other).train(20).settle()


def judged(story: Story) -> Finding:
    return Succession(within_s=MOST_S).judge(story.end().history())


def test_a_syncer_that_goes_on_from_its_disk_passes() -> None:
    finding = judged(crashed())
    assert finding.outcome is Outcome.PASS, finding.reason
    assert (finding.observed, finding.bound) == (0.25, MOST_S)
    assert finding.numbers["injection-0"] == {
        "away_s": 4.0, "ready_s": 0.0, "heard_s": dict.fromkeys(sorted(Story().learners), 0.25),
    }  # fmt: skip


def test_everything_else_passes_too_with_room_for_the_pause() -> None:
    history = crashed().end().history()
    checks = (Continuity(max_gap=6.0), Survivors(), Ledger(), Versions(), Goodput(min_share=0.5))
    findings = [check.judge(history) for check in checks]
    assert [f.reason for f in findings if f.outcome is not Outcome.PASS] == []


@pytest.mark.parametrize(
    ("away_s", "more_s", "continued"),
    [(20.0, 0.0, True), (4.0, 9.0, False)],
    ids=["while the plan kept the syncer away", "after the heal"],
)
def test_a_pause_counts_against_training_unless_the_plan_held_the_syncer(
    away_s: float, more_s: float, continued: bool
) -> None:
    story = Story().baseline().lose_syncer(for_s=away_s).stall(away_s).regain_syncer()
    history = story.stall(more_s).train(20).settle().end().history()
    assert training_continued(history) is continued
    assert longest_gap_s(history) == away_s + more_s + 0.25


def test_a_merge_that_is_said_again_counts_once() -> None:
    story = Story().baseline().lose_syncer().stall(4)
    again = {**story.last(Kind.ROUND_MERGED).data, "is_restated": True}
    story.regain_syncer().say(Kind.ROUND_MERGED, "syncer", **again)
    history = story.train(20).settle().end().history()
    assert Versions().judge(history).outcome is Outcome.PASS
    assert Ledger().judge(history).outcome is Outcome.PASS


def test_a_learner_that_is_never_heard_again_fails_and_has_not_rejoined() -> None:
    story = crashed(without=("learner-2",))
    finding = judged(story)
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    back = returns(story.history(), within_s=MOST_S)
    assert {name: one.rejoined for name, one in back.items()} == {
        "learner-0": True, "learner-1": True, "learner-2": False, "learner-3": True,
    }  # fmt: skip


def test_who_is_under_a_fault_of_its_own_is_not_the_syncers_to_hear() -> None:
    story = Story().baseline().kill("learner-3", for_s=None).train(3).lose_syncer().stall(4)
    story.regain_syncer(without=("learner-3",)).train(20).settle()
    (outage,) = outages(story.end().history())
    assert set(outage.returns) == {"learner-0", "learner-1", "learner-2"}


def test_a_goodbye_that_a_syncer_hears_when_it_goes_on_is_no_false_alarm() -> None:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=10.0).train(8)
    story.lose_syncer().stall(2).heal(spec="grow")
    left = story.last(Kind.MEMBER_LEFT)
    story.without(Kind.MEMBER_LEFT, lambda event: event is left).stall(4)
    story.regain_syncer(without=("learner-4",)).say(Kind.MEMBER_LEFT, "syncer", **left.data)
    assert "learner-4" not in Detection().judge(story.train(20).settle().end().history()).culprits


# ---------------------------------------------------------------- what may not be lost


def down() -> Story:
    return Story().baseline().lose_syncer().stall(4)


def version_lost() -> Story:
    story = down()
    versions = [story.versions[0], story.versions[1] - 1]
    return story.regain_syncer(
        versions={"0": versions[0], "1": versions[1]}, digests=digests(versions)
    )


def restated(*, is_news: bool = False, **other: Json) -> Story:
    """The last merge is said again, or for the first time."""
    story = down()
    merged = story.last(Kind.ROUND_MERGED)
    if is_news:
        story.without(Kind.ROUND_MERGED, lambda event: event is merged)
    again = {**merged.data, "is_restated": True, **other}
    return story.regain_syncer().say(Kind.ROUND_MERGED, "syncer", **again)


def epochs_again() -> Story:
    story = down()
    story._epochs = 0
    return story.regain_syncer()


def sent_elsewhere(**other: Json) -> Story:
    """A member is said to have joined once more."""
    story = down().regain_syncer().train(4)
    joined = story.last(Kind.MEMBER_JOINED)
    return story.say(Kind.MEMBER_JOINED, "syncer", **{**joined.data, **other}).train(20)


def unheard(trained_s: float, for_s: float | None) -> Story:
    """One that is not back yet has a fault of its own after a while."""
    story = down().regain_syncer(without=("learner-2",)).train(trained_s)
    story.kill("learner-2", for_s=for_s).train(4)
    return story.heal() if for_s else story


def left_meanwhile() -> Story:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=10.0).train(8)
    story.lose_syncer().stall(2).heal(spec="grow").stall(2)
    return story.regain_syncer(without=("learner-4",))


CHECK = Succession(within_s=MOST_S)
OTHERWISE: dict[str, Json] = {"contributors": [], "digest": "another", "version": 99}
CASES = {
    "a version that was published and is lost": fails(CHECK, version_lost, Code.VERSION_LOST),
    "a momentum that was forgotten": fails(
        CHECK,
        lambda: crashed(momentum_digests={"0": "zeros", "1": "zeros"}),
        Code.CAME_BACK_WITH_OTHER_MOMENTUM,
    ),
    "a merge on disk that nobody had heard of": passes(CHECK, lambda: restated(is_news=True)),
    **{
        f"a merge that is said again with another {key}": fails(
            CHECK, lambda key=key: restated(**{key: OTHERWISE[key]}), Code.MERGE_RESTATED_OTHERWISE
        )
        for key in OTHERWISE
    },
    "an epoch that is given again": fails(CHECK, epochs_again, Code.EPOCH_GIVEN_TWICE),
    "an epoch that the syncer had taken out before": fails(
        CHECK, lambda: down().regain_syncer(last_epoch=100), Code.EPOCH_GIVEN_TWICE
    ),
    "a member that is sent to another donor": passes(CHECK, sent_elsewhere),
    "an epoch that is given to another life": fails(
        CHECK, lambda: sent_elsewhere(incarnation=7), Code.EPOCH_GIVEN_TWICE
    ),
    "a later fault of one that had its chance": fails(
        CHECK, lambda: unheard(MOST_S + 1, 4.0), Code.NOT_HEARD_AGAIN, of=("learner-2",)
    ),
    "a later fault for good of one that had its chance": fails(
        CHECK, lambda: unheard(MOST_S + 1, None), Code.NOT_HEARD_AGAIN, of=("learner-2",)
    ),
    "who was taken away before its time was over": passes(CHECK, lambda: unheard(2, 4.0)),
    "who was brought in and left meanwhile": passes(CHECK, left_meanwhile),
    "the syncer was never away": doubts(CHECK, lambda: Story().baseline().train(10)),
}


@each(CASES)
def test_succession(case: Case) -> None:
    replace(case, tell=lambda: case.tell().train(20).settle().end()).hold()


def test_too_little_time_to_be_heard_again_is_a_doubt() -> None:
    finding = judged(down().regain_syncer(without=("learner-1",)).train(3))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))
