"""Limits of a plan at the last moment: whether an injection may go ahead as things stand now.

The schedule was checked against the same limits before the start. But triggers may come closer
together than planned, and nodes may have died by themselves meanwhile. Pure.
"""

from typing import NamedTuple

from chaoslab.core.payloads import Obstacle
from chaoslab.core.units import plural
from chaoslab.plan.model import Injection, Limits
from chaoslab.run.triggers import Progress


class Forbidden(NamedTuple):
    """Why an injection must not be carried out: as a code, and as a sentence."""

    obstacle: Obstacle
    reason: str


def forbidden(
    injection: Injection,
    *,
    takes_away: bool,
    brings_in: bool = False,
    limits: Limits,
    progress: Progress,
    away: frozenset[str],
    affected: frozenset[str],
    excluded: frozenset[str],
) -> Forbidden | None:
    """Why the injection must not be carried out now; None if it may.

    `away` are nodes that open faults have taken from training, `affected` all that are under one,
    and `excluded` those under one beside which this one cannot be.
    """
    targets, learners = set(injection.targets), progress.learners
    if both := sorted(targets & excluded):
        return Forbidden(Obstacle.UNDER_FAULT, f"{', '.join(both)}: still under an earlier fault")
    alive = {name for name in targets if progress.is_alive(name)}
    if brings_in:
        there = f"{', '.join(sorted(alive))}: there already"
        return Forbidden(Obstacle.THERE_ALREADY, there) if alive else None
    if dead := sorted(targets - alive):
        return Forbidden(Obstacle.NOT_ALIVE, f"{', '.join(dead)}: not alive")
    if guarded := sorted(targets & set(limits.protected)):
        return Forbidden(Obstacle.PROTECTED, f"{', '.join(guarded)}: protected by the limits")
    hit = learners & (targets | affected)
    if len(hit) > limits.max_affected * len(learners) + 1e-9:
        many = f"{len(hit)} of {len(learners)} learners would be under a fault at once"
        return Forbidden(Obstacle.LIMITS, many)
    left = {name for name in learners if progress.is_alive(name)} - targets - away
    if takes_away and targets & learners and len(left) < limits.min_alive:
        few = f"{plural(len(left), 'learner')} would be left, and min_alive is {limits.min_alive}"
        return Forbidden(Obstacle.LIMITS, few)
    return None
