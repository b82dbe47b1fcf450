"""contribution_share: a slow learner weighs what it has trained on; nobody drops it or waits."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.contribution import ContributionShare
from chaoslab.checks.goodput import Goodput
from chaoslab.core.events import Event, Json, Kind
from tests.histories import Story, half_killed


def slowed(for_s: float = 12.0, *, ratio: float = 2.0) -> Story:
    """learner-1 was slow for a time, as its evidence says."""
    story = Story().baseline().touch("learner-1", for_s=for_s, fault="compute.slow")
    story.train(for_s).heal().train(9)
    return story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": {"step_ratio": ratio}})


def reweighed(story: Story, learner: str, factor: float) -> Story:
    """Every merge gives it so much more weight, or less."""

    def change(event: Event) -> dict[str, Json]:
        entries = event.data["contributors"]
        return {
            "contributors": [
                {**one, "weight": float(str(one["weight"])) * factor}
                if one["learner"] == learner
                else one
                for one in entries
            ]
        }

    rounds = sum(event.kind is Kind.ROUND_MERGED for event in story.events)
    for which in range(rounds):
        story.altered(Kind.ROUND_MERGED, change, which=which)
    return story


def test_weights_that_follow_tokens_pass_with_or_without_a_slow_learner() -> None:
    for story in (slowed(), half_killed()):
        finding = ContributionShare().judge(story.end().history())
        assert finding.outcome is Outcome.PASS, finding.reason
        assert finding.margin > 0


def test_a_learner_that_weighs_half_of_its_tokens_fails() -> None:
    finding = ContributionShare().judge(reweighed(slowed(), "learner-1", 0.5).end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.WEIGHT_WRONG,)


def test_a_learner_that_weighs_too_much_fails() -> None:
    finding = ContributionShare().judge(reweighed(slowed(), "learner-2", 2.0).end().history())
    assert finding.outcome is Outcome.FAIL
    assert "learner-2" in finding.culprits


def test_a_syncer_that_drops_a_slow_learner_fails() -> None:
    story = Story().baseline().touch("learner-1", for_s=12, fault="compute.slow").train(6)
    story.say(Kind.MEMBER_LEFT, "syncer", learner="learner-1", incarnation=1, epoch=2, members=3,
              reason="no_progress")  # fmt: skip
    story.train(6).heal().train(9)
    story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": {"step_ratio": 2.0}})
    finding = ContributionShare().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.DROPPED_FOR_SLOWNESS,))


def test_merges_that_wait_for_a_slow_learner_fail() -> None:
    story = Story().baseline().touch("learner-1", for_s=40, fault="compute.slow")
    for _ in range(40):
        story.stall(0.75).train(0.25)
    story.heal().train(9)
    story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": {"step_ratio": 2.0}})
    finding = ContributionShare().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.SLOW_LEARNER_AWAITED,))


def test_who_was_away_for_a_part_of_the_time_is_not_compared() -> None:
    shares = ContributionShare().judge(half_killed().end().history()).numbers["weight_share"]
    assert set(shares) == {"learner-0", "learner-2"}


def test_too_few_merges_are_unknown() -> None:
    assert ContributionShare().judge(slowed(for_s=3.0).end().history()).outcome is Outcome.UNKNOWN


def test_goodput_expects_of_a_slow_learner_what_its_evidence_says() -> None:
    finding = Goodput().judge(slowed(ratio=2.0).end().history())
    assert finding.numbers["alive_share"] == 1 - 0.5 / 4


def test_goodput_counts_an_older_chip_for_less() -> None:
    story = half_killed()
    own_s = {"learner-0": 0.1, "learner-1": 0.2, "learner-2": 0.1, "learner-3": 0.2}
    story.altered(Kind.BASELINE_MEASURED, lambda _: {"step_s": own_s})
    alive = Goodput().judge(story.end().history()).numbers["alive_share"]
    assert alive == 0.6667
