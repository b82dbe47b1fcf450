"""The limits at the last moment: may this injection go ahead, as things stand now?

The schedule was checked against the same limits before the start. But triggers may come closer
together than planned, and nodes may have died by themselves meanwhile. Pure.
"""

from chaoslab.plan import Injection, Limits
from chaoslab.triggers import Progress


def forbidden(
    injection: Injection,
    *,
    takes_away: bool,
    brings_in: bool = False,
    limits: Limits,
    progress: Progress,
    away: frozenset[str],
    affected: frozenset[str],
    held: frozenset[str],
) -> str | None:
    """Why the injection must not be carried out now; None if it may.

    `away` are nodes that open faults have taken from training, `affected` all that are under one,
    and `held` those under one beside which this one cannot be.
    """
    targets, learners = set(injection.targets), progress.learners
    if both := sorted(targets & held):
        return f"{', '.join(both)}: still under an earlier fault"
    alive = {name for name in targets if progress.is_alive(name)}
    if brings_in:
        return f"{', '.join(sorted(alive))}: there already" if alive else None
    if dead := sorted(targets - alive):
        return f"{', '.join(dead)}: not alive"
    if guarded := sorted(targets & set(limits.protected)):
        return f"{', '.join(guarded)}: protected by the limits"
    hit = learners & (targets | affected)
    if len(hit) > limits.max_affected * len(learners) + 1e-9:
        return f"{len(hit)} of {len(learners)} learners would be under a fault at once"
    left = {name for name in learners if progress.is_alive(name)} - targets - away
    if takes_away and targets & learners and len(left) < limits.min_alive:
        return f"{len(left)} learners would be left, and min_alive is {limits.min_alive}"
    return None
