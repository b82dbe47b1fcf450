"""contribution_share: a slow learner weighs what it has trained on; nobody drops it or waits."""

from collections.abc import Callable, Mapping

from chaoslab.checks.codes import Code
from chaoslab.checks.contribution import ContributionShare
from chaoslab.checks.goodput import Goodput
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, doubts, each, fails, passes, rewritten
from tests.histories import Story, half_killed


def slowed(for_s: float = 12.0, *, ratio: float = 2.0) -> Story:
    """learner-1 was slow for a time, as its evidence says."""
    story = Story().baseline().touch("learner-1", for_s=for_s, fault="compute.slow")
    story.train(for_s).heal().train(9)
    return story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": {"step_ratio": ratio}})


def reweighed(story: Story, learner: str, factor: float) -> Story:
    """Every merge gives it so much more weight, or less."""

    def weight(one: Mapping[str, Json]) -> float:
        return float(str(one["weight"])) * (factor if one["learner"] == learner else 1.0)

    def change(event: Event) -> dict[str, Json]:
        entries = event.data["contributors"]
        return {"contributors": [{**one, "weight": weight(one)} for one in entries]}

    return rewritten(story, Kind.ROUND_MERGED, change)


def slow_and(*told: Callable[[Story], object], for_s: float = 12) -> Story:
    """learner-1 is slow while something is told."""
    story = Story().baseline().touch("learner-1", for_s=for_s, fault="compute.slow")
    for tell in told:
        tell(story)
    story.heal().train(9)
    story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": {"step_ratio": 2.0}})
    return story.end()


def is_dropped(story: Story) -> None:
    story.train(6).say(Kind.MEMBER_LEFT, "syncer", learner="learner-1", incarnation=1, epoch=2,
                       members=3, reason="no_progress").train(6)  # fmt: skip


def syncer_was_away() -> Story:
    """The first merge after it weighs a hundred times as much, and learner-1 missed it."""
    story = Story().baseline().train(3).lose_syncer().stall(6).regain_syncer()
    while story.events[-1].kind is not Kind.ROUND_MERGED:
        story.train(0.25)
    merged = [event for event in story.events if event.kind is Kind.ROUND_MERGED]
    weights = {f"learner-{n}": 0.0 if n == 1 else 100.0 for n in range(4)}

    def change(event: Event) -> dict[str, Json]:
        entries = event.data["contributors"]
        factor = {name: weight * float(entries[0]["weight"]) for name, weight in weights.items()}
        return {"contributors": [{**one, "weight": factor[one["learner"]]} for one in entries]}

    return story.altered(Kind.ROUND_MERGED, change, which=len(merged) - 1).train(9).end()


CHECK = ContributionShare()
CASES = {
    "weights that follow tokens": passes(CHECK, lambda: slowed().end()),
    "weights that follow tokens with nobody slow": passes(CHECK, lambda: half_killed().end()),
    "a learner that weighs half of its tokens": fails(
        CHECK,
        lambda: reweighed(slowed(), "learner-1", 0.5).end(),
        Code.WEIGHT_WRONG,
        of=("learner-1",),
    ),
    "a learner that weighs too much": fails(
        CHECK, lambda: reweighed(slowed(), "learner-2", 2.0).end(), Code.WEIGHT_WRONG
    ),
    "a syncer that drops a slow learner": fails(
        CHECK, lambda: slow_and(is_dropped), Code.DROPPED_FOR_SLOWNESS
    ),
    "merges that wait for a slow learner": fails(
        CHECK,
        lambda: slow_and(*[lambda story: story.stall(0.75).train(0.25)] * 40, for_s=40),
        Code.SLOW_LEARNER_AWAITED,
    ),
    "weights of the time in which the syncer came back": passes(CHECK, syncer_was_away),
    "merges beside a slow learner, held to less than the noise of the baseline": doubts(
        ContributionShare(max_drag=1.2),
        lambda: slowed().end().altered(Kind.BASELINE_MEASURED, lambda _: {"variation": 0.5}),
        Code.BASELINE_NOT_STEADY,
    ),
    "too few merges": doubts(CHECK, lambda: slowed(for_s=3.0).end()),
}


@each(CASES)
def test_contribution(case: Case) -> None:
    case.hold()


def test_who_was_away_for_a_part_of_the_time_is_not_compared() -> None:
    shares = ContributionShare().judge(half_killed().end().history()).numbers["weight_share"]
    assert set(shares) == {"learner-0", "learner-2"}


def test_goodput_expects_of_a_slow_learner_what_its_evidence_says() -> None:
    finding = Goodput().judge(slowed(ratio=2.0).end().history())
    assert finding.numbers["alive_share"] == 1 - 0.5 / 4


def test_goodput_counts_an_older_chip_for_less() -> None:
    story = half_killed()
    own_s = {"learner-0": 0.1, "learner-1": 0.2, "learner-2": 0.1, "learner-3": 0.2}
    story.altered(Kind.BASELINE_MEASURED, lambda _: {"step_s": own_s})
    alive = Goodput().judge(story.end().history()).numbers["alive_share"]
    assert alive == 0.6667
