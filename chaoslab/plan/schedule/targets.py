"""Targets of a fault: from a selection such as `50% of the learners` to names.

roster ─ role, labels ─► matching ─ exclude, protected, last victims ─► free ─ pick ─► names
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chaoslab.core.errors import PlanError
from chaoslab.core.protocol import SYNCER_PHASES
from chaoslab.plan.model import LAUNCHER, SYNCER, FaultPlan, Pick, Target, Trigger
from chaoslab.plan.schedule.chance import some

LEARNER = "learner"
RESERVE = "reserve"
"""Role of a learner that is not there at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterEntry:
    """A node that a fault can hit."""

    name: str
    role: str
    """syncer, launcher, learner, or reserve for a learner that may join later."""
    labels: Mapping[str, str] = field(default_factory=dict)
    speed: float = 1.0
    """Speed of a learner, as a share of the fastest that the machine allows."""


Roster = Sequence[RosterEntry]


def roster_of(plan: FaultPlan) -> tuple[RosterEntry, ...]:
    """Nodes of a plan with their labels: the syncer, its learners and its reserve."""
    script = plan.training.script
    roles = {} if script else {SYNCER: SYNCER}
    if script is not None and script.is_launched:
        roles[LAUNCHER] = LAUNCHER
    roles |= dict.fromkeys(plan.training.learner_names, LEARNER)
    roles |= dict.fromkeys(plan.training.reserve_names, RESERVE)
    labels, speeds = plan.labels, plan.training.speeds
    roster = tuple(
        RosterEntry(name=name, role=role, labels=labels.get(name, {}), speed=speeds.get(name, 1.0))
        for name, role in roles.items()
    )
    known_names(roster, plan.fleet.labels, "fleet.labels")
    known_names(roster, list(labels), "fleet.regions")
    return roster


def choose(
    target: Target,
    roster: Roster,
    rng: Random,
    *,
    protected: Collection[str] = (),
    victims: Sequence[str] = (),
    busy: Collection[str] = (),
) -> tuple[str, ...]:
    """Names that a target selects, in roster order. PlanError says what exists if there are none.

    `victims` are the targets of the fault before this one, for `pick: last_victim`; `busy` nodes
    are drawn only if the others are too few.
    """
    known_names(roster, target.exclude, "exclude")
    if target.pick is Pick.AT_PHASE:
        return ()  # known when the phase is announced
    pool = _matching(target, roster)
    free = [name for name in pool if name not in target.exclude]
    if target.pick is Pick.LAST_VICTIM:
        if not victims:
            raise PlanError("`pick: last_victim` needs an earlier fault with `at`; there is none")
        free = [name for name in free if name in victims]
    if target.share is None and target.count is None:
        return _open_to_faults(free, protected)
    number = target.count or max(1, math.floor(len(pool) * (target.share or 0) + 0.5 + 1e-9))
    free = [name for name in free if name not in protected]
    if number > len(free):
        left = ", ".join(free) or "none"
        raise PlanError(f"{number} learners are to be hit, but only {left} can be")
    idle = [name for name in free if name not in busy]
    free = idle if len(idle) >= number else free
    if target.pick is Pick.RANDOM:
        return some(free, number, rng)
    if target.pick in (Pick.SLOWEST, Pick.FASTEST):
        free = _by_speed(free, roster, target.pick, rng)[:number]
        return tuple(entry.name for entry in roster if entry.name in free)
    return tuple(free[:number])


def _by_speed(names: Sequence[str], roster: Roster, pick: Pick, rng: Random) -> list[str]:
    """The names from the slowest, or the fastest, on; chance orders those of equal speed."""
    speeds = {entry.name: entry.speed for entry in roster if entry.name in names}
    if len(set(speeds.values())) == 1 < len(speeds):
        raise PlanError(
            f"`pick: {pick}` needs learners of different speeds, and {', '.join(names)} are "
            "equally fast: give speeds under `training`, as in "
            "learners: [{count: 2}, {count: 2, speed: 50%}]"
        )
    ranks = {name: rng.random() for name in names}
    sign = 1 if pick is Pick.SLOWEST else -1
    return sorted(names, key=lambda name: (sign * speeds[name], ranks[name]))


def watched(
    trigger: Trigger, target: Target, roster: Roster, *, protected: Collection[str] = ()
) -> tuple[str, ...]:
    """Nodes that are asked to announce the phase of a trigger; empty if it has none.

    If the announcing node is the target, only those that the target allows and no limit protects.
    """
    if trigger.phase is None:
        return ()
    if trigger.phase in SYNCER_PHASES:
        return tuple(entry.name for entry in roster if entry.role == SYNCER)
    learners = [entry.name for entry in roster if entry.role in (LEARNER, RESERVE)]
    if target.pick is Pick.AT_PHASE:
        pool = _matching(target, roster)
        learners = [n for n in pool if n not in target.exclude and n not in protected]
    if trigger.of is not None:
        learners = [name for name in learners if name == trigger.of]
    if not learners:
        raise PlanError(f"no node is left that can announce {trigger.phase}")
    return tuple(learners)


def known_names(roster: Roster, names: Collection[str], key: str) -> None:
    """PlanError if one of the names under `key` is not a node."""
    existing = [entry.name for entry in roster]
    for name in names:
        if name not in existing:
            where = f"{key}.{name}" if isinstance(names, Mapping) else key
            raise PlanError(
                f"`{key}` names {name}, but there are only {', '.join(existing)}", key=where
            )


def _matching(target: Target, roster: Roster) -> list[str]:
    """Every node that the target could select."""
    has_role_of_its_own = not target.labels or target.share or target.count or target.everyone
    roles = {LEARNER} if has_role_of_its_own else {LEARNER, SYNCER}
    if target.syncer or target.reserve or target.launcher:
        roles = {SYNCER if target.syncer else RESERVE if target.reserve else LAUNCHER}
    if target.names:
        roles = {RESERVE} if target.reserve else {LEARNER, RESERVE}
    nodes = [entry for entry in roster if entry.role in roles]
    if target.launcher and not nodes:
        raise PlanError(
            "there is no launcher: it is the command of `training.script` without {rank}, with "
            "several workers"
        )
    if target.reserve and not nodes:
        raise PlanError("there is no reserve: say how many under `training`, as in reserve: 2")
    if target.names:
        known_names(nodes, target.names, "reserve" if target.reserve else "learners")
        nodes = [entry for entry in nodes if entry.name in target.names]
    pool = [entry.name for entry in nodes if target.labels.items() <= entry.labels.items()]
    if not pool:
        raise PlanError(f"the target matches nothing; there are {_described(roster)}")
    return pool


def _described(roster: Roster) -> str:
    return ", ".join(
        f"{entry.name} ({', '.join(f'{key}: {value}' for key, value in entry.labels.items())})"
        if entry.labels
        else f"{entry.name} (no labels)"
        for entry in roster
    )


def _open_to_faults(names: Sequence[str], protected: Collection[str]) -> tuple[str, ...]:
    """The names; PlanError if there are none or one of them is protected."""
    if not names:
        raise PlanError("the target matches nothing once `exclude` and `pick` have spoken")
    guarded = [name for name in names if name in protected]
    if guarded:
        hit = ", ".join(guarded)
        raise PlanError(f"it would hit {hit}, which `limits.protected` guards: exclude it here")
    return tuple(names)
