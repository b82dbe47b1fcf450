"""Random plans: training, faults, targets, times and durations, all settled by one seed.

    seed ─► training ─► one to five faults of the catalogue, which may overlap ─► FaultPlan
                             └─ those that the sim fleet can carry out, in each variant

Most injections have a time, a duration and named targets, so that `minimise` can take them away one
by one. One in four comes at a protocol point, where a fault at a random time hardly ever hits: in
the middle of a push, of a merge, or of a checkpoint that a donor sends. A fault that the plan
refuses (a limit, or another fault on the same target) is drawn again.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from random import Random

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.handover import Handover
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.quorum import QuorumProgress
from chaoslab.checks.succession import Succession
from chaoslab.checks.versions import Versions
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.protocol import SYNCER_PHASES, Phase
from chaoslab.faults.base import Fault, ShapesLinks, variants
from chaoslab.faults.catalogue import FAULTS
from chaoslab.faults.process import ProcessKill
from chaoslab.fleet.base import Role
from chaoslab.fleet.protocols import abilities_of
from chaoslab.plan.file.conventions import is_required
from chaoslab.plan.model import (
    Baseline,
    CheckSpec,
    FaultPlan,
    FaultSpec,
    FleetSpec,
    Limits,
    Outage,
    Pick,
    Stop,
    Target,
    Training,
    Trigger,
)
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.plan.schedule.chance import stream
from chaoslab.prepare.impossible import impossible
from chaoslab.prepare.links import link_setup
from chaoslab.prepare.plans import fleet_setup
from chaoslab.prepare.preflight import refuse_impossible, require_all
from chaoslab.sim.fleet import SimFleet
from chaoslab.sim.links import SimLinks
from chaoslab.sim.settings import Sim

STEP_S = 0.1
"""Step time of each learner at full speed; the longest for which suspicion is not delayed."""
_BASELINE = Baseline(warmup=1, window=4, max_variation=5.0)
"""Short: nothing happens in it."""
_TRAINING_S = 20.0
"""Length of a training without faults; while a fault is open, training continues."""
_FIRST_S, _LAST_S = 5.0, 20.0
"""Faults begin between these, after the baseline."""
_SHORTEST_S, _LONGEST_S = 0.5, 8.0
_FAULTS_MOST = 5
_AT_PHASE = 0.25
"""Share of the faults that come at a protocol point."""
_WAIT_S = 5.0
"""The node waits there for the fault, at most for this long."""
_TRIES = 4
"""Most draws of a fault until the plan takes it."""
_LEARNERS = (2, 3, 4, 6)
_TIMEOUT_S = 900.0
_SETTLE_S = 60.0
_HEARD_S = 120.0
"""After an outage of the syncer; longer than all faults, which may overlap it."""


def draw(seed: int) -> FaultPlan:
    """The plan of a seed; always the same, with the same version of chaoslab."""
    rng = stream(seed, "fuzz")
    plan = FaultPlan(
        name=f"fuzz-{seed}",
        seed=seed,
        training=_training(rng),
        fleet=FleetSpec(kind="sim", settings=Sim()),
        baseline=_BASELINE,
        settle_s=_SETTLE_S,
        limits=Limits(min_alive=0, max_affected=1.0, timeout_s=_TIMEOUT_S),
    )
    plan = replace(plan, expect=_expected(plan.training))
    for number in range(rng.randint(1, _FAULTS_MOST)):
        for _ in range(_TRIES):
            drawn = _with_cause(rng, _fault(rng, number, plan.training), plan.training)
            candidate = replace(plan, faults=(*plan.faults, *drawn))
            if is_possible(candidate):
                plan = candidate
                break
    return plan


def is_possible(plan: FaultPlan) -> bool:
    """Whether nothing of the plan is refused."""
    try:
        drawn = schedule(plan, roster_of(plan))
        refuse_impossible(plan, drawn, fleet_setup(plan).fleet, link_setup(plan))
    except (PlanError, AbilityError):
        return False
    return not any(True for _ in impossible(plan, drawn))


@cache
def simulated() -> Sequence[Fault]:
    """Faults that the sim fleet can carry out, in all their variants, by name.

    A fault with a setting that has no default is none of them.
    """
    kinds = [kind for _, kind in sorted(FAULTS.items()) if not any(map(is_required, fields(kind)))]  # type: ignore[arg-type]  # all are dataclasses
    return [fault for kind in kinds for fault in variants(kind()) if _can_be_simulated(fault)]


def _can_be_simulated(fault: Fault) -> bool:
    try:
        require_all(SimLinks(), fault.shapings() if isinstance(fault, ShapesLinks) else ())
    except (PlanError, AbilityError):
        return False
    return fault.needs <= abilities_of(SimFleet)


def _training(rng: Random) -> Training:
    """With one fragment all are waited for: a learner that is always the last to be ready adopts
    what the others merged, begins anew, and may never be heard, so that `succession` would not
    hold.
    """
    learners = rng.choice(_LEARNERS)
    fragments, sync_every = rng.choice((1, 2, 5)), rng.choice((10, 20))
    rounds_per_s = fragments / (sync_every * STEP_S)
    return Training(
        learners=learners,
        reserve=rng.choice((0, 1)),
        step_time=STEP_S,
        fragments=fragments,
        sync_every=sync_every,
        overlap=rng.choice((0, 2)),
        quorum=rng.randint(1 if fragments > 1 else learners, learners),
        contribute=rng.choice(("all", "ready")),
        save_every_s=rng.choice((1.0, 5.0)),
        stop=Stop(rounds=round(_TRAINING_S * rounds_per_s)),
    )


def _fault(rng: Random, number: int, training: Training) -> FaultSpec:
    fault = rng.choice(simulated())
    at, target = _when_and_whom(rng, fault, training)
    for_s = _duration_s(rng)
    return FaultSpec(
        id=f"f{number}",
        fault=fault.name,
        settings=fault,
        target=target,
        at=at,
        outage=Outage(seconds=round(for_s + max(fault.steps(), default=0.0), 2)),
    )


def _with_cause(rng: Random, fault: FaultSpec, training: Training) -> tuple[FaultSpec, ...]:
    """The fault; if it comes while a donor sends a checkpoint, also a kill, of the learner that it
    is sent to.
    """
    if fault.at is None or fault.at.phase is not Phase.DONATE:
        return (fault,)
    kill = ProcessKill()
    killed = FaultSpec(
        id=f"{fault.id}k",
        fault=kill.name,
        settings=kill,
        target=Target(names=(rng.choice(training.learner_names),)),
        at=Trigger(time_s=_time_s(rng)),
        outage=Outage(seconds=round(_duration_s(rng), 2)),
    )
    return fault, killed


def _time_s(rng: Random) -> float:
    return round(_FIRST_S + (_LAST_S - _FIRST_S) * rng.random(), 2)


def _duration_s(rng: Random) -> float:
    return _SHORTEST_S + (_LONGEST_S - _SHORTEST_S) * rng.random()


def _when_and_whom(rng: Random, fault: Fault, training: Training) -> tuple[Trigger, Target]:
    """A time and targets; or a protocol point and the node that is there."""
    if fault.brings_in or rng.random() >= _AT_PHASE:
        return Trigger(time_s=_time_s(rng)), _target(rng, fault, training)
    phases = [one for one in Phase if _role(one) in fault.roles]
    phase = rng.choice(phases)
    is_syncer = _role(phase) is Role.SYNCER
    target = Target(syncer=True) if is_syncer else Target(count=1, pick=Pick.AT_PHASE)
    return Trigger(phase=phase, wait_s=_WAIT_S), target


def _role(phase: Phase) -> Role:
    return Role.SYNCER if phase in SYNCER_PHASES else Role.LEARNER


def _target(rng: Random, fault: Fault, training: Training) -> Target:
    """The syncer if it can be hit; a learner of the reserve; or some of the learners."""
    if Role.LEARNER not in fault.roles:
        return Target(syncer=True)
    if fault.brings_in and training.reserve:
        return Target(count=1, reserve=True)
    if Role.SYNCER in fault.roles and not rng.randrange(len(training.learner_names) + 1):
        return Target(syncer=True)
    return Target(names=_some(rng, training.learner_names))


def _some(rng: Random, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(rng.sample(names, rng.randint(1, len(names)))))


def _expected(training: Training) -> tuple[CheckSpec, ...]:
    checks = (
        Versions(), Ledger(), Agreement(), QuorumProgress(quorum=training.quorum),
        Succession(within_s=_HEARD_S), Handover(),
    )  # fmt: skip
    return tuple(CheckSpec(check=check.name, settings=check) for check in checks)
