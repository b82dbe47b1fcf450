"""Faults after which no round can begin: too few learners are left for it, or no syncer.

    needed   `training.quorum`; with `streaming`, `diloco` and `data_parallel` all of the start
    left     learners of the start, and of the reserve that join, that are not away until the end

With these algorithms the others then wait and make no step ("Waiting" in docs/protocol.md); with
`decoupled` they train on, and nothing of it is merged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import inf

from chaoslab.checks.answer_checks import TrainingContinues
from chaoslab.faults.base import Fault
from chaoslab.plan.file import Document
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.plan.schedule import Schedule


def stalled(plan: FaultPlan, schedule: Schedule, document: Document) -> Iterator[str]:
    """A warning for each fault that takes the syncer away until the end, and for each that takes
    learners away, if too few are left.
    """
    yield from _without_syncer(plan, document)
    training, gone = plan.training, _gone(plan, schedule)
    joining = {name for one in schedule.injections if _brings_in(one) for name in one.targets}
    left = len({*training.learner_names, *joining}) - len(set[str]().union(*gone.values()))
    if training.waits_for_all:
        needed = training.learner_count
        why = f"`algorithm: {training.algorithm}`"
        effect, instead = "the others stop", "`algorithm: decoupled`"
    elif training.is_blocking:
        needed, why = 1, f"`algorithm: {training.algorithm}`"
        effect, instead = "no learner trains", "other targets"
    else:
        needed, why = training.quorum, "`training.quorum`"
        effect, instead = "what the others train is not merged", f"`quorum: {max(left, 1)}`"
    if left >= needed:
        return
    for number, fault in enumerate(plan.faults):
        if names := gone.get(fault.id):
            yield (
                f"{document.where(('faults', number, 'for'))}: faults[{number}].for: {fault.id!r} "
                f"takes {', '.join(sorted(names))} away until the run ends, and no round begins "
                f"with fewer than {needed} learners ({why}): {effect}; write `for: 20s`, or "
                f"{instead}"
            )


def _without_syncer(plan: FaultPlan, document: Document) -> Iterator[str]:
    is_asked = TrainingContinues(expected=False) in [spec.settings for spec in plan.expect]
    for number, fault in enumerate(plan.faults):
        is_for_good = fault.outage.rest and _keeps_away(fault.settings)
        if fault.target.syncer and is_for_good and not is_asked:
            yield (
                f"{document.where(('faults', number, 'for'))}: faults[{number}].for: {fault.id!r} "
                "takes the syncer away until the run ends, and nothing is merged without it, so "
                "that the verdict will be FAIL: write `for: 20s`, or expect `{check: "
                "training_continues, expected: false}`"
            )


def _gone(plan: FaultPlan, schedule: Schedule) -> Mapping[str, set[str]]:
    """By fault: learners that it takes away until the run ends, as far as is known beforehand."""
    found: dict[str, set[str]] = defaultdict(set)
    on_syncer = {fault.id for fault in plan.faults if fault.target.syncer}
    for one in schedule.injections:
        end_s = inf if one.for_s is None else (one.trigger.time_s or 0.0) + one.for_s
        if (
            one.spec not in on_syncer
            and _keeps_away(one.settings)
            and end_s >= plan.limits.timeout_s
        ):
            found[one.spec].update(one.targets or {"a learner"})
    return found


def _keeps_away(fault: object) -> bool:
    comes_back = getattr(fault, "comes_back", False)
    return isinstance(fault, Fault) and fault.takes_away and not comes_back


def _brings_in(injection: Injection) -> bool:
    return isinstance(injection.settings, Fault) and injection.settings.brings_in
