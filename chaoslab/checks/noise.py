"""How uncertain a baseline is, for every check that compares with it: a bound within that is none.

rate of rounds   its variation over the four quarters of the window ┐  / 2: the noise of the
steps            likewise, of the median step time of a learner     ┴─► mean of four quarters

noise < |bound - 100%|: the check tells; else it is UNKNOWN, whether it passed or failed
"""

from collections.abc import Collection
from dataclasses import replace
from math import sqrt

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.pacing import OF_SPEED
from chaoslab.checks.timeline import baseline_figure
from chaoslab.core.payloads import BaselineMeasured
from chaoslab.record.journal import History

_QUARTERS = 4
NOISE = "baseline_noise"
"""Of the numbers of a finding: the noise of what it compares with, as a share of it."""


def noise_of_rounds(history: History) -> float:
    """Of the baseline's rate of rounds; 0 if nothing is known of it."""
    variation = baseline_figure(history, lambda said: said.variation)
    return 0.0 if variation is None else variation / sqrt(_QUARTERS)


def noise_of_steps(history: History, learners: Collection[str]) -> float:
    """Of the step time of the noisiest of these learners in the baseline."""
    measured = history.last(BaselineMeasured)
    found = measured.payload.step_variation if measured else {}
    return max((found.get(who, 0.0) for who in learners), default=0.0) / sqrt(_QUARTERS)


def unless_noisy(finding: Finding, noise: float, *bounds: float | None) -> Finding:
    """The finding; UNKNOWN if a bound leaves less room than the noise of the baseline takes.

    `bounds` are multiples of the baseline's figure. A FAIL for anything but a speed stands.
    """
    room = min((abs(1 - bound) for bound in bounds if bound is not None), default=0.0)
    told = replace(finding, numbers={**finding.numbers, NOISE: round(noise, 4)})
    if finding.outcome is Outcome.UNKNOWN or not set(finding.codes) <= OF_SPEED:
        return told
    if not noise > room > 0:
        return told
    return replace(
        told,
        outcome=Outcome.UNKNOWN,
        codes=(*finding.codes, Code.BASELINE_NOT_STEADY),
        reason=f"the baseline is uncertain by {noise:.0%}, and the bound leaves {room:.0%}: use a "
        f"longer `baseline.window` or a wider bound ({finding.reason})",
        margin=None,
    )
