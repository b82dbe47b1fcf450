"""Parts that a run does not have by choice, and what of its plan is therefore not judged.

twin: false ────────────────────► no twin ──────────┐
a training that others started ───► no twin, no whole ┼─► run.started `without` ─► `left_out`
training.step_time: off ──────────► no step time ─────┘
"""

from collections.abc import Iterable, Iterator

from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.left_out import left_out
from chaoslab.core.errors import AbilityError
from chaoslab.core.payloads import Need
from chaoslab.core.units import Pacing
from chaoslab.fleet.attached.found import FindsNodes
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import fleet_of


def lacking(plan: FaultPlan, *, is_gameday: bool = False) -> frozenset[Need]:
    """Requirements of checks that a run of this plan will lack."""
    is_attached = _is_attached(plan)
    found = {
        Need.TWIN: not plan.twin or is_gameday or is_attached,
        Need.WHOLE: is_attached,
        Need.STEP_TIME: plan.training.step_time is Pacing.OFF,
    }
    return frozenset(need for need, is_lacking in found.items() if is_lacking)


def not_judged(plan: FaultPlan) -> Iterator[str]:
    """A sentence for each check, or setting of one, that is left out.

    AbilityError if nothing is left of what is expected of a training that others started.
    """
    without = lacking(plan)
    found = [one for spec in plan.expect for one in left_out(spec.settings, without)]
    if _is_attached(plan) and 0 < len(plan.expect) == sum(not one.setting for one in found):
        names = ", ".join(one.check for one in found)
        raise AbilityError(
            f"{names} cannot be judged on a training that continues after the run: expect other "
            "checks, such as continuity, rejoin or goodput"
        )
    for one in found:
        yield f"expect: {one.name} is not judged: {one.reason}"


def never_judged(plan: FaultPlan, names: Iterable[str]) -> frozenset[str]:
    """The checks that a run of this plan does not judge at all."""
    without = lacking(plan)
    checks = [CHECKS[name]() for name in names if name in CHECKS]
    found = (one for check in checks for one in left_out(check, without))
    return frozenset(one.check for one in found if not one.setting)


def _is_attached(plan: FaultPlan) -> bool:
    return isinstance(fleet_of(plan), FindsNodes)
