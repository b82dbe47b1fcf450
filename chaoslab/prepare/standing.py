"""What can be judged of a training that runs already, and goes on.

expect ─ without the checks that need a training from its first step to its last ─► expect
"""

from dataclasses import replace
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.standing.found import FindsNodes
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import fleet_of

WHOLE: Final = frozenset({"ledger", "agreement", "loss_parity"})
"""Checks that need the accounts that nodes give when training ends, or a twin."""


def judged_midway(plan: FaultPlan) -> tuple[FaultPlan, tuple[str, ...]]:
    """Without the checks that such a training cannot answer, and a sentence that says so.

    A plan whose training chaoslab starts stays as it is. AbilityError where nothing is left.
    """
    if not isinstance(fleet_of(plan), FindsNodes):
        return plan, ()
    left_out = tuple(spec.check for spec in plan.expect if spec.check in WHOLE)
    expect = tuple(spec for spec in plan.expect if spec.check not in WHOLE)
    if plan.expect and not expect:
        raise AbilityError(
            f"a training that goes on cannot answer {', '.join(left_out)}: expect something else, "
            "such as continuity, rejoin or goodput"
        )
    said = f"not judged, because training goes on and has no twin: {', '.join(left_out)}"
    return replace(plan, expect=expect), (said,) if left_out else ()
