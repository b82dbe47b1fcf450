"""Share of a slow learner: its weight follows its tokens, and no other learner waits for it.

    tokens trained   learner-0 ▇▇▇▇  learner-1 ▇▇▇▇  learner-2 ▇▇ (slow)
    weight in merges learner-0 ▇▇▇▇  learner-1 ▇▇▇▇  learner-2 ▇▇      within the bound: followed

Judged over the time in which a fault slowed a learner; without such a fault over all of training
since the baseline, because chips may differ from the start. A learner that was away for a part of
it is not compared. While the syncer was away, and until it had heard all learners and merged all
again, weights follow the order of returns: that time is left out.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import ClassVar

from chaoslab.checks.absence import absences
from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.capacity import Slowed, slowed
from chaoslab.checks.codes import Code
from chaoslab.checks.outages import Outage, outages, whole_s
from chaoslab.checks.pacing import noise_of_rounds, unless_noisy
from chaoslab.checks.stretches import Stretches, holds, union, without
from chaoslab.checks.timeline import (
    baseline_end_s,
    baseline_figure,
    before_the_end,
    parts,
    trained,
    training_end_s,
)
from chaoslab.checks.violations import Measured, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import MemberLeft, RoundMerged
from chaoslab.core.units import Factor, Share, plural, show_share
from chaoslab.record.history import History

_ONSET_S = 2.0
"""Delay from the beginning of a fault: earlier merges contain work from before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Account:
    """Account of one learner over the judged time, as shares of all that are compared."""

    learner: str
    tokens_share: float
    weight_share: float

    @property
    def difference(self) -> float:
        """Difference between the shares of weight and of tokens, as a share of the tokens."""
        return abs(self.weight_share / self.tokens_share - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionShare:
    """A slow learner's weight follows its tokens; it is not dropped, and slows no other."""

    name: ClassVar[str] = "contribution_share"
    summary: ClassVar[str] = (
        "each learner's weight in merges matches the tokens it trained on; no learner waits"
    )

    max_difference: Share = binding(0.25, most=0.9, show=show_share)
    """Largest accepted distance between a learner's share of the weight and that of the tokens."""
    max_drag: Factor = binding(2.0, most=10, show="{:g}x".format)
    """Longest accepted time between two merges beside a slow learner, in the middle, by that of the
    baseline."""
    min_rounds: int = binding(20, least=1)
    """Merges that it takes to judge."""

    def judge(self, history: History) -> Finding:
        """Compare shares, then look whether one was dropped or waited for."""
        slow = tuple(slowed(history))
        stretches = without(_stretches(history, slow), _syncer_away(history))
        rounds = [e for e in history.of(RoundMerged) if holds(stretches, e.time_s)]
        if len(rounds) < self.min_rounds:
            reason = f"{plural(len(rounds), 'merge')} to judge by, and it takes {self.min_rounds}"
            return unknown(self.name, Code.TOO_FEW_SAMPLES, reason, samples=len(rounds))
        accounts = _accounts(history, stretches)
        if len(accounts) < 2:
            return unknown(
                self.name, Code.TOO_FEW_SAMPLES, "fewer than two learners were there all the time"
            )
        worst = max(accounts, key=lambda account: account.difference)
        gap_s, usual_s = _gap_s(rounds), baseline_figure(history, lambda usual: usual.gap_s_median)
        drag = gap_s / usual_s if slow and usual_s and gap_s is not None else None
        found = [
            *self._wrong_shares(accounts, rounds[-1]),
            *_dropped(history, slow, stretches),
            *self._drag(drag, slow),
        ]
        concluded = conclude(
            self.name,
            found,
            passed=f"the weight of {plural(len(accounts), 'learner')} followed their tokens: "
            f"at worst {worst.learner} had {worst.weight_share:.0%} of the weight for "
            f"{worst.tokens_share:.0%} of the tokens"
            + (f"; merges came {drag:.2f}x as far apart as before" if drag is not None else ""),
            samples=len(rounds),
            measured=Measured(worst.difference, self.max_difference, Unit.SHARE, digits=4),
            numbers={
                "weight_share": {a.learner: round(a.weight_share, 4) for a in accounts},
                "tokens_share": {a.learner: round(a.tokens_share, 4) for a in accounts},
                "drag_factor": None if drag is None else round(drag, 3),
            },
        )
        if drag is None:
            return concluded
        return unless_noisy(concluded, noise_of_rounds(history), self.max_drag)

    def _wrong_shares(self, accounts: Sequence[_Account], last: Event) -> Iterator[Violation]:
        for account in accounts:
            if account.difference > self.max_difference:
                text = (
                    f"{account.learner} had {account.weight_share:.1%} of the weight for "
                    f"{account.tokens_share:.1%} of the tokens; the bound is a difference of "
                    f"{self.max_difference:.0%}"
                )
                yield Violation.at(last, Code.WEIGHT_WRONG, text, account.learner)

    def _drag(self, drag: float | None, slow: Sequence[Slowed]) -> Iterator[Violation]:
        if drag is not None and drag > self.max_drag:
            names = ", ".join(dict.fromkeys(one.learner for one in slow))
            text = (
                f"beside {names}, which was slow, merges came {drag:.2f}x as far apart as before; "
                f"the bound is {self.max_drag:g}x"
            )
            yield Violation.at(slow[0].evidence, Code.SLOW_LEARNER_AWAITED, text, "")


def _stretches(history: History, slow: Sequence[Slowed]) -> Stretches:
    if slow:
        return union((one.start_s + _ONSET_S, one.end_s) for one in slow)
    return [(baseline_end_s(history) or 0.0, training_end_s(history))]


def _syncer_away(history: History) -> Stretches:
    return union((one.gone_s, _over_s(history, one)) for one in outages(history))


def _over_s(history: History, outage: Outage) -> float:
    """Time at which all learners had been heard again and every fragment merged once more."""
    heard_s = [event.time_s if event else outage.until_s for event in outage.returns.values()]
    merged_s = whole_s(history, outage)
    return max([outage.until_s if merged_s is None else merged_s, *heard_s])


def _accounts(history: History, stretches: Stretches) -> tuple[_Account, ...]:
    """Accounts of all learners that worked all the time, in the order of their names."""
    away = {
        absence.learner
        for absence in absences(history)
        if any(absence.gone_s < end_s and start_s < absence.back_s for start_s, end_s in stretches)
    }
    tokens, weights = _tokens(history, stretches), _weights(history, stretches)
    compared = [name for name in history.founders if name not in away and tokens.get(name)]
    all_tokens = sum(tokens[name] for name in compared)
    all_weight = sum(weights.get(name, 0.0) for name in compared)
    if not all_weight:
        return ()
    return tuple(
        _Account(
            learner=name,
            tokens_share=tokens[name] / all_tokens,
            weight_share=weights.get(name, 0.0) / all_weight,
        )
        for name in compared
    )


def _tokens(history: History, stretches: Stretches) -> Mapping[str, float]:
    """Raw tokens that each learner trained on meanwhile, as far as its samples show."""
    found: dict[str, float] = defaultdict(float)
    for sample, tokens in trained(history):
        if holds(stretches, sample.time_s):
            found[sample.payload.learner] += tokens
    return found


def _weights(history: History, stretches: Stretches) -> Mapping[str, float]:
    """Sum of the weights of each learner in the merges meanwhile."""
    found: dict[str, float] = defaultdict(float)
    for part in parts(history):
        if holds(stretches, part.merged.time_s):
            found[part.learner] += part.contributor.weight
    return found


def _dropped(history: History, slow: Sequence[Slowed], stretches: Stretches) -> Iterator[Violation]:
    """Slow learners that the syncer put out for being slow."""
    names = {one.learner for one in slow}
    for event in before_the_end(history, history.of(MemberLeft)):
        learner = event.payload.learner
        if learner in names and holds(stretches, event.time_s):
            text = f"the syncer dropped {learner} at {event.time_s:.1f} s, and it was only slow"
            yield Violation.at(event, Code.DROPPED_FOR_SLOWNESS, text, learner)


def _gap_s(rounds: Sequence[Event]) -> float | None:
    """The middle time between two merges."""
    times_s = [event.time_s for event in rounds]
    gaps_s = [late - early for early, late in pairwise(times_s)]
    return median(gaps_s) if gaps_s else None
