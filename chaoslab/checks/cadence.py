"""Cadence: rounds, and those of each fragment, as often as in the baseline, to the end of training.

    rounds   | | | | | |▇▇ fault ▇▇| | | |   |    |    |     settled: all train from one state, no
                                   └ settled ┘               learner is under a fault or on its way

Expected of a settled stretch are the baseline's rounds per second; where learners without a step
time share a machine that is full, times the pace at which they step (their median, against the
baseline). In every window in which 12 rounds were to be expected, those of 2 s, and 4 of each
fragment, at least `min_share` of them come. Learners that never came back leave a stretch as
settled as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.duty import Duty, duty, per_s, rounds_of_a_window, settled
from chaoslab.checks.pacing import noise_of_rounds, unless_noisy, unless_overrun
from chaoslab.checks.stretches import Stretches
from chaoslab.checks.timeline import baseline_end_s, by_fragment, rounds_with_work
from chaoslab.checks.violations import Doubt, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import RoundMerged
from chaoslab.core.units import Share, plural, show_share
from chaoslab.record.history import History

_OF_EACH_FRAGMENT = 4
"""Rounds that are to be expected in a window."""
_SYNCER = "syncer"


class _Window(NamedTuple):
    start_s: float
    end_s: float
    fragment: int | None
    """Fragment; None: rounds of all fragments."""
    came: int
    expected: float
    seq: int
    """Sequence number of the round that ends it; of the last one if training ended first."""

    @property
    def share(self) -> float:
        return self.came / self.expected

    def __str__(self) -> str:
        of = "" if self.fragment is None else f" of fragment {self.fragment}"
        return (
            f"{plural(self.came, 'round')}{of} came from {self.start_s:.1f} to {self.end_s:.1f} s, "
            f"{self.share:.0%} of the {self.expected:.0f} to be expected"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """Rounds, and those of each fragment, come as often as before while no learner is disturbed."""

    name: ClassVar[str] = "cadence"
    summary: ClassVar[str] = "rounds of every fragment come to the end as often as before"

    min_share: Share = binding(0.5, least=0.05, show=show_share)
    """Least share of the expected rounds, in each window."""

    def judge(self, history: History) -> Finding:
        """Judge each window of each settled stretch."""
        usual = _usual(history)
        if usual is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        windows = list(_windows(usual))
        low = [window for window in windows if window.share < self.min_share]
        least = min((window.share for window in windows), default=1.0)
        finding = conclude(
            self.name,
            [
                Violation(
                    code=Code.ROUNDS_TOO_RARE,
                    seq=window.seq,
                    text=f"{window}, and the bound is {self.min_share:.0%}",
                    culprit=_SYNCER,
                )
                for window in low
            ],
            passed=f"rounds came as before: at least {min(least, 1.0):.0%} of those to be expected "
            f"in each of {len(windows):,} windows",
            samples=len(windows),
            nothing=Doubt(Code.TOO_FEW_SAMPLES, "no stretch without faults had enough rounds"),
            numbers={"least_share": round(least, 3)},
        )
        if low:
            finding = unless_overrun(finding, history, [(one.start_s, one.end_s) for one in low])
        return unless_noisy(finding, noise_of_rounds(history), self.min_share)


class _Usual(NamedTuple):
    """The rounds of the baseline, and those since."""

    duty: Duty
    settled: Stretches
    rounds: Mapping[int | None, Sequence[Event[RoundMerged]]]
    """Rounds by fragment; None: of all."""
    per_s: float
    """Rounds per second in the baseline."""

    def expected(self, start_s: float, end_s: float) -> float:
        """Rounds that come in a settled stretch, at the pace that the machine leaves learners."""
        return self.per_s * (end_s - start_s) * self.duty.common_pace(start_s, end_s)


def _usual(history: History) -> _Usual | None:
    found, end_s = duty(history), baseline_end_s(history)
    merged = [event for event in rounds_with_work(history) if not event.payload.is_restated]
    if found is None or end_s is None:
        return None
    before = [event.time_s for event in merged if event.time_s <= end_s]
    before = before[-2 * rounds_of_a_window(per_s(before)) :]
    if not per_s(before):
        return None
    rounds = dict[int | None, Sequence[Event[RoundMerged]]](by_fragment(merged).items())
    return _Usual(
        duty=found,
        settled=settled(history),
        rounds={None: merged, **rounds},
        per_s=per_s(before),
    )


def _windows(usual: _Usual) -> Iterator[_Window]:
    """The shortest window that ends with each round, or with a settled stretch."""
    fragments = len(usual.rounds) - 1
    least = max(rounds_of_a_window(usual.per_s), _OF_EACH_FRAGMENT * fragments)
    for fragment, rounds in usual.rounds.items():
        share = 1 if fragment is None else 1 / fragments
        for start_s, end_s in usual.settled:
            within = [event for event in rounds if start_s < event.time_s <= end_s]
            for window in _shortest(usual, within, start_s, end_s, least):
                yield window._replace(fragment=fragment, expected=share * window.expected)


def _shortest(
    usual: _Usual,
    rounds: Sequence[Event[RoundMerged]],
    start_s: float,
    end_s: float,
    least: float,
) -> Iterator[_Window]:
    """Windows of a settled stretch in which this many rounds are to be expected, or few more."""
    bounds = [start_s, *(event.time_s for event in rounds), end_s]
    first = 0
    for last in range(1, len(bounds)):
        while first + 1 < last and usual.expected(bounds[first + 1], bounds[last]) >= least:
            first += 1
        expected = usual.expected(bounds[first], bounds[last])
        if expected >= least:
            yield _Window(
                start_s=bounds[first],
                end_s=bounds[last],
                fragment=None,
                came=last - first - (last == len(bounds) - 1),
                expected=expected,
                seq=rounds[min(last, len(rounds)) - 1].seq if rounds else 0,
            )
