"""A baseline that is noisier than the bound of a check has room makes that check UNKNOWN."""

from collections.abc import Callable, Mapping

import pytest

from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.cadence import Cadence
from chaoslab.checks.codes import Code
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.noise import NOISE
from chaoslab.checks.participation import Participation
from chaoslab.checks.recovery import Recovery
from chaoslab.checks.survivors import Survivors
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
    "stood still": (Survivors(max_slowdown=1.2), stopped, Code.STOOD_STILL),
}  # fmt: skip
CASES: Mapping[str, Case] = {
    name: fails(check, lambda tell=tell: noisy(STEPS, tell()), code, of=("learner-0",))
    for name, (check, tell, code) in LOUD.items()
}


@each(CASES)
def test_what_no_speed_shows_stands_however_noisy_the_baseline(case: Case) -> None:
    case.hold()
