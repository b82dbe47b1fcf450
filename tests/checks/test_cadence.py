"""Cadence: rounds, and those of each fragment, come to the end as often as in the baseline."""

from chaoslab.checks.cadence import Cadence
from chaoslab.checks.codes import Code
from chaoslab.core.events import Kind
from tests.checks.cases import Case, all_slow, doubts, each, fails, passes, rewritten
from tests.histories import Story, half_killed

CHECK = Cadence()
TOO_RARE = Code.ROUNDS_TOO_RARE


def back() -> Story:
    return Story().baseline().kill("learner-1").train(6).heal().train(4)


def rarely(story: Story, *, is_full: bool = False) -> Story:
    """Rounds come at a third of their pace, on a machine that is full or not."""
    for _ in range(20):
        story.train(0.2).stall(0.6)
        if is_full:
            story.say_full_machine()
    return story


def paced() -> Story:
    return Story().baseline(is_paced=True).train(4)


def of_one_fragment(story: Story, from_s: float) -> Story:
    """From then on every round is one of fragment 0."""
    return rewritten(
        story,
        Kind.ROUND_MERGED,
        lambda _: {"fragment": 0},
        lambda event: event.time_s > from_s,
    )


CASES = {
    "a run without faults": passes(CHECK, lambda: Story().baseline().train(20).end()),
    "a victim that is back": passes(CHECK, lambda: back().train(20).end()),
    "half of them, and never back": passes(
        CHECK,
        lambda: Story().baseline().kill("learner-1", "learner-2", for_s=None).train(20).end(),
    ),
    "a victim of several faults": passes(CHECK, lambda: half_killed().train(20).end()),
    "an outage of the syncer": passes(
        CHECK, lambda: Story().baseline().lose_syncer().stall(6).regain_syncer().train(20).end()
    ),
    "rounds that come rarely under a fault": passes(
        CHECK,
        lambda: rarely(Story().baseline().train(10).pause("learner-1")).heal().train(20).end(),
    ),
    "rounds that come rarely after the heal": fails(
        CHECK, lambda: rarely(back()).end(), TOO_RARE, of=("syncer",)
    ),
    "rounds that come rarely in the middle": fails(
        CHECK, lambda: rarely(back()).train(30).end(), TOO_RARE, of=("syncer",)
    ),
    "all slow at once on a machine that is full": passes(
        CHECK, lambda: rarely(all_slow(back()), is_full=True).end()
    ),
    "all slow at once": fails(CHECK, lambda: rarely(all_slow(back())).end(), TOO_RARE),
    "all slower than their step time": fails(
        CHECK, lambda: rarely(all_slow(paced()), is_full=True).end(), TOO_RARE
    ),
    "all slower than their step time, on a machine that could not keep it": doubts(
        CHECK,
        lambda: rarely(all_slow(paced()).overrun(), is_full=True).end(),
        TOO_RARE,
        Code.STEP_TIME_NOT_KEPT,
    ),
    "no round any more": fails(CHECK, lambda: back().train(8).stall(9).end(), TOO_RARE),
    "a fragment that is never merged again": fails(
        CHECK, lambda: of_one_fragment(back().train(20), from_s=20.0).end(), TOO_RARE
    ),
    "a fragment that is never merged again after an outage of the syncer": fails(
        CHECK,
        lambda: of_one_fragment(
            Story().baseline().lose_syncer().stall(6).regain_syncer().train(30), from_s=11.0
        ).end(),
        TOO_RARE,
        of=("syncer",),
    ),
    "no baseline": doubts(CHECK, lambda: Story().start().train(20).end(), Code.NO_BASELINE),
    "too few rounds": doubts(
        CHECK, lambda: Story().baseline().train(1).end(), Code.TOO_FEW_SAMPLES
    ),
}  # fmt: skip


@each(CASES)
def test_cadence(case: Case) -> None:
    case.hold()


def test_the_fragment_and_the_window_are_named() -> None:
    found = CHECK.judge(of_one_fragment(back().train(20), from_s=20.0).end().history())
    assert "fragment 1" in found.reason
    assert found.numbers["least_share"] == 0.0
