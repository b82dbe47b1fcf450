"""A syncer that dies and comes back: what it may not lose, and who has to be heard again."""

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
        "held_s": 4.0, "ready_s": 0.0, "heard_s": dict.fromkeys(sorted(Story().learners), 0.25),
    }  # fmt: skip


def test_everything_else_passes_too_with_room_for_the_pause() -> None:
    history = crashed().end().history()
    checks = (Continuity(max_gap=6.0), Survivors(), Ledger(), Versions(), Goodput(min_share=0.5))
    findings = [check.judge(history) for check in checks]
    assert [f.reason for f in findings if f.outcome is not Outcome.PASS] == []


def test_the_time_for_which_the_plan_held_the_syncer_does_not_count_against_training() -> None:
    story = Story().baseline().lose_syncer(for_s=20.0).stall(20).regain_syncer().train(20)
    history = story.settle().end().history()
    assert training_continued(history) is True
    assert longest_gap_s(history) == 20.25


def test_a_pause_that_goes_on_after_the_heal_does_count() -> None:
    story = Story().baseline().lose_syncer(for_s=4.0).stall(4).regain_syncer().stall(9).train(10)
    assert training_continued(story.settle().end().history()) is False


def test_a_version_that_was_published_and_is_lost_fails() -> None:
    story = Story().baseline().lose_syncer().stall(4)
    versions = [story.versions[0], story.versions[1] - 1]
    story.regain_syncer(versions={"0": versions[0], "1": versions[1]}, digests=digests(versions))
    finding = judged(story.train(20).settle())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.VERSION_LOST,))


def test_a_momentum_that_was_forgotten_fails() -> None:
    finding = judged(crashed(momentum_digests={"0": "zeros", "1": "zeros"}))
    assert finding.outcome is Outcome.FAIL
    assert finding.codes == (Code.CAME_BACK_WITH_OTHER_MOMENTUM,)


def test_a_merge_on_disk_that_nobody_had_heard_of_is_said_first_and_passes() -> None:
    story = Story().baseline().lose_syncer().stall(4)
    merged = story.last(Kind.ROUND_MERGED)
    story.without(Kind.ROUND_MERGED, lambda event: event is merged)
    story.regain_syncer()
    story.say(Kind.ROUND_MERGED, "syncer", **{**merged.data, "is_restated": True})
    assert judged(story.train(20).settle()).outcome is Outcome.PASS


def test_a_merge_that_is_said_again_counts_once() -> None:
    story = Story().baseline().lose_syncer().stall(4)
    again = {**story.last(Kind.ROUND_MERGED).data, "is_restated": True}
    story.regain_syncer().say(Kind.ROUND_MERGED, "syncer", **again)
    history = story.train(20).settle().end().history()
    assert Versions().judge(history).outcome is Outcome.PASS
    assert Ledger().judge(history).outcome is Outcome.PASS


@pytest.mark.parametrize("other", [{"contributors": []}, {"digest": "another"}, {"version": 99}])
def test_a_merge_that_is_said_again_and_is_another_one_fails(other: dict[str, Json]) -> None:
    story = Story().baseline().lose_syncer().stall(4)
    again = {**story.last(Kind.ROUND_MERGED).data, "is_restated": True, **other}
    story.regain_syncer().say(Kind.ROUND_MERGED, "syncer", **again)
    finding = judged(story.train(20).settle())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.MERGE_RESTATED_OTHERWISE,))


def test_an_epoch_that_is_given_again_fails() -> None:
    story = Story().baseline().lose_syncer().stall(4)
    story._epochs = 0
    finding = judged(story.regain_syncer().train(20).settle())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.EPOCH_GIVEN_TWICE,))


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


@pytest.mark.parametrize("for_s", [4.0, None])
def test_a_later_fault_of_its_own_excuses_nobody_that_had_its_chance(for_s: float | None) -> None:
    story = Story().baseline().lose_syncer().stall(4).regain_syncer(without=("learner-2",))
    story.train(MOST_S + 1).kill("learner-2", for_s=for_s)
    story = story.train(4).heal() if for_s else story.train(4)
    finding = judged(story.train(20).settle())
    assert (finding.codes, finding.culprits) == ((Code.NOT_HEARD_AGAIN,), ("learner-2",))


def test_who_was_taken_away_before_its_time_was_over_is_not_awaited() -> None:
    story = Story().baseline().lose_syncer().stall(4).regain_syncer(without=("learner-2",))
    finding = judged(story.train(2).kill("learner-2", for_s=4.0).train(4).heal().train(20).settle())
    assert finding.outcome is Outcome.PASS, finding.reason


def test_who_was_brought_in_and_left_meanwhile_is_not_awaited() -> None:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=10.0).train(8)
    story.lose_syncer().stall(2).heal(spec="grow").stall(2)
    story.regain_syncer(without=("learner-4",)).train(20).settle()
    assert judged(story).outcome is Outcome.PASS


def test_a_goodbye_that_a_syncer_hears_when_it_goes_on_is_no_false_alarm() -> None:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=10.0).train(8)
    story.lose_syncer().stall(2).heal(spec="grow")
    left = story.last(Kind.MEMBER_LEFT)
    story.without(Kind.MEMBER_LEFT, lambda event: event is left).stall(4)
    story.regain_syncer(without=("learner-4",)).say(Kind.MEMBER_LEFT, "syncer", **left.data)
    assert "learner-4" not in Detection().judge(story.train(20).settle().end().history()).culprits


def test_too_little_time_to_be_heard_again_is_a_doubt() -> None:
    story = Story().baseline().lose_syncer().stall(4).regain_syncer(without=("learner-1",))
    finding = judged(story.train(3))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_a_run_in_which_the_syncer_was_never_away_is_a_doubt() -> None:
    assert judged(Story().baseline().train(10)).outcome is Outcome.UNKNOWN
