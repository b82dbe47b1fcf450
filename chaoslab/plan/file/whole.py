"""The shape of a whole plan: its frame, fleets and links, a variant for each fault and check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from chaoslab.core.errors import HarnessBug, PlanError
from chaoslab.plan.file.conventions import class_doc
from chaoslab.plan.file.frame import ABORT, BASELINE, VARIABLES, VERSION, fleet_shape
from chaoslab.plan.file.groups import TRAINING
from chaoslab.plan.file.shape import (
    Found,
    Shape,
    Variants,
    arguments,
    entry,
    keys_of,
    mapping,
    record,
    text,
)
from chaoslab.plan.file.targets import FOR, OUTAGE, TARGET
from chaoslab.plan.model import (
    AbortRule,
    Arrivals,
    Baseline,
    CheckSpec,
    FaultPlan,
    FaultSpec,
    FleetSpec,
    Target,
    Training,
    Trigger,
)

_SYNCER = "syncer"
"""The role of the one node that a fault which acts on it alone can hit."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_NAMED = "a name: use letters, digits, - and _, beginning with a letter or a digit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """What a plan may name, each by its name with the frozen dataclass of its settings."""

    faults: Mapping[str, type] = field(default_factory=dict)
    checks: Mapping[str, type] = field(default_factory=dict)
    fleets: Mapping[str, type] = field(default_factory=dict)
    links: Mapping[str, type] = field(default_factory=dict)


def plan_shape(kinds: Kinds) -> Shape:
    """The shape of a whole plan; decodes to the arguments of `FaultPlan`."""
    faults, checks = kinds.faults, kinds.checks
    special = {
        Baseline: BASELINE,
        FleetSpec: fleet_shape(kinds.fleets, kinds.links),
        Training: TRAINING,
        FaultSpec: Annotated[Any, Variants("fault", {n: _fault(n, k) for n, k in faults.items()})],
        CheckSpec: Annotated[Any, Variants("check", {n: _check(n, k) for n, k in checks.items()})],
        AbortRule: ABORT,
    }
    keys = {
        "version": entry(VERSION, "Version of the plan format.", example="1", is_required=True),
        **keys_of(FaultPlan, special),
        "name": entry(
            text(_NAME, _NAMED), "Names the plan and its runs.", example="my-plan", is_required=True
        ),
        "vars": entry(VARIABLES, "Variables, used as ${vars.name}; --set vars.name=… sets one."),
    }
    return mapping(
        "FaultPlan", keys, lambda found: arguments(FaultPlan, found), doc=class_doc(FaultPlan)
    )


# ---------------------------------------------------------------- faults and checks


def _fault(name: str, kind: type) -> Shape:
    """The shape of one entry of `faults`: the keys of every fault and the settings of this one."""
    settings = keys_of(kind, {})
    is_syncers = tuple(getattr(kind, "roles", ())) == (_SYNCER,)
    common = {
        "id": entry(text(_NAME, _NAMED), "Names the fault in triggers and in the record."),
        "fault": entry(Literal[name], _summary(kind), is_required=True),
        "target": entry(
            TARGET,
            class_doc(Target),
            default={"syncer": "all"} if is_syncers else None,
            example="{learners: 1}",
            is_required=not is_syncers,
        ),
        "at": entry(record(Trigger), class_doc(Trigger)),
        "arrivals": entry(record(Arrivals), class_doc(Arrivals)),
        "for": entry(FOR, "How long until it is healed; `rest`: not before the run ends."),
        "outage": entry(OUTAGE, "A length that is drawn for each injection, in place of `for`."),
    }
    clash = sorted(set(settings) & set(common))
    if clash:
        raise HarnessBug(f"{name} has a setting {clash[0]!r}, which every fault has already")

    def build(found: Found) -> FaultSpec:
        lengths = [found[key] for key in ("for", "outage") if key in found]
        if len(lengths) != 1:
            raise PlanError("needs either `for: 5s`, `for: rest` or an `outage`")
        return FaultSpec(
            id=found["id"],
            fault=name,
            settings=kind(**arguments(kind, found)),
            target=found.get("target", Target(syncer=True)),
            at=found.get("at"),
            arrivals=found.get("arrivals"),
            outage=lengths[0],
        )

    return mapping(kind.__name__, common | settings, build, doc=class_doc(kind))


def _check(name: str, kind: type) -> Shape:
    """The shape of one entry of `expect`."""
    settings = keys_of(kind, {})
    if "check" in settings:
        raise HarnessBug(f"the check {name} has a setting 'check', which names every check")
    keys = {"check": entry(Literal[name], _summary(kind), is_required=True)}

    def build(found: Found) -> CheckSpec:
        return CheckSpec(check=name, settings=kind(**arguments(kind, found)))

    return mapping(kind.__name__, keys | settings, build, doc=class_doc(kind))


def _summary(kind: type) -> str | None:
    summary = getattr(kind, "summary", None)
    return summary if isinstance(summary, str) else None
