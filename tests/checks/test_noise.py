"""A baseline that is noisier than the bound of a check has room makes that check UNKNOWN."""

from collections.abc import Callable, Mapping

import pytest

from chaoslab.checks.bandwidth import Bandwidth
from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.cadence import Cadence
from chaoslab.checks.codes import Code
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.pacing import NOISE
from chaoslab.checks.participation import Participation
from chaoslab.checks.progress import Continuity
from chaoslab.checks.recovery import Recovery
from chaoslab.checks.survivors import Survivors
from chaoslab.checks.verdict import judge
from chaoslab.checks.versions import Versions
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, each, fails
from tests.histories import Story, half_killed

ROUNDS: Mapping[str, Json] = {"variation": 0.5}
"""A mean that is uncertain by 25%."""
STEPS: Mapping[str, Json] = {"step_variation": {"learner-0": 0.5, "learner-2": 0.01}}
TIGHT: tuple[tuple[Check, Mapping[str, Json]], ...] = (
    (Goodput(min_share=0.8), ROUNDS),
    (Goodput(max_share=1.2), ROUNDS),
    (Recovery(min_share=0.8), ROUNDS),
    (Cadence(min_share=0.8), ROUNDS),
    (Bandwidth(max_peak=1.2), ROUNDS),
    (Survivors(max_slowdown=1.2), STEPS),
    (Participation(min_share=0.8), STEPS),
)
WIDE: tuple[tuple[Check, Mapping[str, Json]], ...] = (
    (Goodput(), ROUNDS),
    (Recovery(), ROUNDS),
    (Cadence(), ROUNDS),
    (Survivors(max_slowdown=1.5), STEPS),
    (Participation(), STEPS),
)


def named(checks: tuple[tuple[Check, Mapping[str, Json]], ...]) -> list[str]:
    return [check.name for check, _ in checks]


def noisy(figures: Mapping[str, Json], story: Story) -> Story:
    return story.altered(Kind.BASELINE_MEASURED, lambda _: figures)


@pytest.mark.parametrize(("check", "figures"), TIGHT, ids=named(TIGHT))
def test_a_bound_within_the_noise_tells_nothing(check: Check, figures: Mapping[str, Json]) -> None:
    quiet = check.judge(half_killed().end().history())
    assert Code.BASELINE_NOT_STEADY not in quiet.codes
    found = check.judge(noisy(figures, half_killed().end()).history())
    assert (found.outcome, found.margin) == (Outcome.UNKNOWN, None)
    assert found.codes[-1] is Code.BASELINE_NOT_STEADY
    assert found.numbers[NOISE] == 0.25


@pytest.mark.parametrize(("check", "figures"), WIDE, ids=named(WIDE))
def test_a_bound_beyond_the_noise_tells(check: Check, figures: Mapping[str, Json]) -> None:
    found = check.judge(noisy(figures, half_killed().end()).history())
    assert (found.outcome, found.numbers[NOISE]) == (Outcome.PASS, 0.25)


def muted() -> Story:
    return Story().baseline().train(10).mute("learner-0").train(20).end()


def stopped() -> Story:
    story = Story().baseline().kill("learner-1").freeze("learner-0").train(6).heal()
    return story.train(9).end()


LOUD: Mapping[str, tuple[Check, Callable[[], Story], Code]] = {
    "contributed to no round": (
        Participation(min_share=0.8), muted, Code.WORKED_TOO_LITTLE
    ),
    "stalled": (Survivors(max_slowdown=1.2), stopped, Code.STALLED),
}  # fmt: skip
CASES: Mapping[str, Case] = {
    name: fails(check, lambda tell=tell: noisy(STEPS, tell()), code, of=("learner-0",))
    for name, (check, tell, code) in LOUD.items()
}


@each(CASES)
def test_what_no_speed_shows_stands_however_noisy_the_baseline(case: Case) -> None:
    case.hold()


NOISIER: Mapping[str, Json] = {"variation": 1.2, "step_variation": {"learner-0": 1.2}}
"""Than the rules of every run leave room for; the plan lets it be."""


def test_a_rule_of_every_run_says_nothing_beside_a_noisier_baseline_that_it_holds() -> None:
    verdict = judge(noisy(NOISIER, half_killed().end()).history(), [Continuity()])
    assert verdict.outcome is Outcome.PASS, verdict.explain()
    assert [one.check for one in verdict.findings] == ["continuity"]


def test_a_rule_of_every_run_is_unknown_if_it_is_violated_beside_a_noisier_baseline() -> None:
    story = Story().baseline().train(10)
    for _ in range(20):
        story.train(0.25).stall(1.75)
    verdict = judge(noisy(NOISIER, story.end()).history(), [Versions()])
    (rule,) = [one for one in verdict.findings if one.check == "cadence"]
    assert (verdict.outcome, rule.outcome) == (Outcome.UNKNOWN, Outcome.UNKNOWN), rule.reason
    assert rule.codes == (Code.ROUNDS_TOO_RARE, Code.BASELINE_NOT_STEADY)
