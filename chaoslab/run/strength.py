"""A milder or stronger form of an injection that has not begun, within the limits of the plan.

4 targets, 6 s ─ milder ─► 2 targets ─► 1 target ─► 1 target, 3 s
1 target, 6 s ─ stronger ─► 2 targets … as many as the limits allow ─► 12 s
"""

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from random import Random
from typing import Final

from chaoslab.plan.model import FaultPlan, Injection

_LEAST_S: Final = 0.1
"""Shortest outage that an injection is halved to."""


def milder(injection: Injection) -> Injection | None:
    """Half of its targets, the first of them; with one, half of its time. None: less is nothing."""
    if len(injection.targets) > 1:
        return replace(injection, targets=injection.targets[: (len(injection.targets) + 1) // 2])
    shorter = _for_s(injection, 0.5)
    return shorter if shorter and (shorter.for_s or 0.0) >= _LEAST_S else None


def stronger(injection: Injection, plan: FaultPlan, *, takes_away: bool) -> Injection | None:
    """Twice as many targets, drawn from the plan's seed, or as many as the limits allow; twice the
    time if no target can be added. None: the limits allow neither.
    """
    free = _free(injection, plan)
    most = _most(plan, takes_away=takes_away) - len(injection.targets)
    more = min(len(injection.targets), most, len(free))
    if more > 0:
        drawn = Random(f"{plan.seed} {injection.id} {len(injection.targets)}").sample(free, more)
        return replace(injection, targets=(*injection.targets, *sorted(drawn)))
    longer = _for_s(injection, 2.0)
    fits = longer is not None and (longer.for_s or 0.0) < plan.limits.timeout_s
    return longer if fits else None


def _for_s(injection: Injection, factor: float) -> Injection | None:
    return None if injection.for_s is None else replace(injection, for_s=factor * injection.for_s)


def _free(injection: Injection, plan: FaultPlan) -> Sequence[str]:
    """Learners that could be targets, too; none if its targets are no learners of the start."""
    learners = plan.training.learner_names
    if not set(injection.targets) <= set(learners):
        return ()
    excluded = {*injection.targets, *plan.limits.protected}
    return [name for name in learners if name not in excluded]


def _most(plan: FaultPlan, *, takes_away: bool) -> int:
    """Targets that the limits allow at once."""
    learners, limits = len(plan.training.learner_names), plan.limits
    affected = floor(limits.max_affected * learners + 1e-9)
    return min(affected, learners - limits.min_alive) if takes_away else affected
