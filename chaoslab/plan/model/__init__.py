"""Fault plan as frozen data that is validated when it is created.

    YAML ─► plan.file ─► FaultPlan (`whole`) ─┬─ `training`  the run under test
                                              ├─ `faults`    targets, triggers, durations
                                              └─ `frame`     fleet, baseline, limits, abort, checks
                            │ schedule
                            └─► Injections (`faults`), no random choice left

Nothing here reads a file or knows a fault or a check by name. Quantities are in base units:
seconds, bytes, shares of one. Every error is a PlanError.
"""

from chaoslab.plan.model.fault_plan import FaultPlan
from chaoslab.plan.model.faults import (
    LAUNCHER,
    SYNCER,
    Arrivals,
    Distribution,
    FaultSpec,
    Injection,
    Outage,
    Pick,
    Target,
    Trigger,
)
from chaoslab.plan.model.frame import (
    AFTER_S,
    NO_LINKS,
    PROGRAMS,
    REGION,
    ROUNDS_AFTER,
    AbortRule,
    Baseline,
    CheckSpec,
    FleetSpec,
    LabelsNodes,
    Limits,
    with_known_labels,
)
from chaoslab.plan.model.gameday import GameDay, SealedFaults, sealed_ids
from chaoslab.plan.model.optimizers import Inner, Outer
from chaoslab.plan.model.script import Script
from chaoslab.plan.model.training import HEADROOM, Training
from chaoslab.plan.model.training_parts import Algorithm, Grace, LearnerGroup, Stop

__all__ = [
    "AFTER_S",
    "HEADROOM",
    "NO_LINKS",
    "PROGRAMS",
    "REGION",
    "ROUNDS_AFTER",
    "LAUNCHER",
    "SYNCER",
    "AbortRule",
    "Algorithm",
    "Arrivals",
    "Baseline",
    "CheckSpec",
    "Distribution",
    "FaultPlan",
    "FaultSpec",
    "FleetSpec",
    "GameDay",
    "Grace",
    "Injection",
    "Inner",
    "LabelsNodes",
    "LearnerGroup",
    "Limits",
    "Outage",
    "Outer",
    "Pick",
    "Script",
    "SealedFaults",
    "Stop",
    "Target",
    "Training",
    "Trigger",
    "sealed_ids",
    "with_known_labels",
]
