"""Doubtful parts of a plan: UNKNOWN for certain, unused, or bounds that bind nothing.

    plan, schedule, document ─► doubtful ─► warnings of `chaoslab plan` and at the start of a run

What can never pass is an error instead, in `impossible`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from math import inf

from chaoslab.checks.answer_checks import TrainingContinues
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.recovery import Recovery
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.succession import Succession
from chaoslab.checks.survivors import Survivors
from chaoslab.core.binding import Range, ranges
from chaoslab.core.units import Pacing, plural, show_duration
from chaoslab.faults.base import Fault
from chaoslab.plan.file import Document
from chaoslab.plan.file.conventions import keys_in
from chaoslab.plan.file.document import Branch
from chaoslab.plan.model import FaultPlan, FleetSpec
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.impossible import brings_in, takes_learners
from chaoslab.prepare.kinds import fleet_of, kinds
from chaoslab.prepare.scripts import doubtful_of_script
from chaoslab.record.provenance import cores

_OF_ITS_OWN = frozenset(
    {
        "fragments", "overlap", "quorum", "contribute", "grace", "merge", "blend",
        "compression", "suspect_after", "drop_after", "norm_limit", "save_every",
    }
)  # fmt: skip
_LOOSE_SLOWDOWN = 2.0
"""Bound of `survivors` that is meant for learners that share cores."""


def doubtful(plan: FaultPlan, schedule: Schedule, document: Document) -> tuple[str, ...]:
    """What will be UNKNOWN for certain, is unused, or says next to nothing, a sentence each."""
    return (
        *_unused(plan, document),
        *_other_model(plan, document),
        *_not_for_others(plan, document),
        *_without_injections(plan, schedule),
        *_without_subject(plan),
        *_without_pace(plan),
        *_impatient(plan),
        *stalled(plan, schedule, document),
        *_greedy(plan),
        *_bind_nothing(plan, document),
        *doubtful_of_script(plan),
    )


def _unused(plan: FaultPlan, document: Document) -> Iterator[str]:
    """Settings of other fleets than the plan's; they apply when `--fleet` selects one of those."""
    given, known = document.tree.get("fleet"), kinds()
    used = keys_in(known.fleets[plan.fleet.kind]) | keys_in(FleetSpec)
    if plan.fleet.links is not None:
        used |= keys_in(known.links[plan.fleet.links])
    for key in (key for key in given if key not in used) if isinstance(given, dict) else ():
        if owners := [name for name, kind in known.fleets.items() if key in keys_in(kind)]:
            yield (
                f"{document.where(('fleet', key), is_key=True)}: fleet.{key}: a setting of "
                f"{', '.join(owners)}, unused with kind {plan.fleet.kind}"
            )


def _other_model(plan: FaultPlan, document: Document) -> Iterator[str]:
    """A learner's program of the plan's own, and an evaluator that loads the built-in model."""
    programs = plan.fleet.programs
    is_known = "evaluator" in programs or plan.training.task is not None
    if "learner" in programs and not is_known and plan.is_evaluated:
        yield (
            f"{document.where(('fleet', 'programs', 'learner'), is_key=True)}: "
            f"fleet.programs.learner: the evaluator measures the built-in model "
            f"{plan.training.model!r}, whatever {programs['learner']!r} trains: write "
            "`fleet.programs.evaluator`, or a `training.task` that both load"
        )


def _not_for_others(plan: FaultPlan, document: Document) -> Iterator[str]:
    """Settings of chaoslab's own syncer and learners, where a system of others trains."""
    system, given = plan.training.system, document.tree.get("training")
    if system not in SYSTEMS or not isinstance(given, dict):
        return
    if unused := [key for key in given if key in _OF_ITS_OWN]:
        where = document.where(("training", unused[0]), is_key=True)
        yield f"{where}: {', '.join(unused)}: of chaoslab's own programs, unused by {system}"


def _without_injections(plan: FaultPlan, schedule: Schedule) -> Iterator[str]:
    """Entries of `faults` that will do nothing."""
    scheduled = Counter(one.spec for one in schedule.injections)
    dropped = Counter(one.spec for one in schedule.dropped)
    for fault in plan.faults:
        if scheduled[fault.id]:
            continue
        why = f"no injection of it is drawn with seed {schedule.seed}"
        if dropped[fault.id]:
            why = f"the limits leave out all its injections ({dropped[fault.id]})"
        yield (
            f"faults: {fault.id!r} never happens, so the verdict will be UNKNOWN: {why}; use a "
            "shorter `mtbf`, a later `until`, wider limits or another seed"
        )


def _without_subject(plan: FaultPlan) -> Iterator[str]:
    """Checks of something that the plan does not do."""
    needs = {
        Rejoin: (
            any(takes_learners(fault) or brings_in(fault) for fault in plan.faults),
            "no fault takes a learner away or brings one in",
        ),
        Succession: (any(f.target.syncer for f in plan.faults), "no fault hits the syncer"),
    }
    for spec in plan.expect:
        is_there, why = needs.get(type(spec.settings), (True, ""))
        if not is_there:
            yield (
                f"expect: {spec.check} will be UNKNOWN, because {why}: add such a fault, or take "
                f"{spec.check} out"
            )


def _without_pace(plan: FaultPlan) -> Iterator[str]:
    """Checks of speeds where learners keep no step time, and could."""
    if plan.training.step_time is not Pacing.OFF or plan.training.script is not None:
        return
    learners = plan.training.learner_count
    speeds = [spec.check for spec in plan.expect if _is_of_speed(spec.settings)]
    if fleet_of(plan).runs_here and speeds and learners > cores():
        yield (
            f"expect: {' and '.join(speeds)}: {learners} learners share {plural(cores(), 'core')}, "
            "so that those that are left get faster; write `training.step_time: auto`"
        )


def _impatient(plan: FaultPlan) -> Iterator[str]:
    """Times to come back that are longer than the run waits for a learner."""
    for spec in plan.expect:
        if isinstance(spec.settings, Rejoin) and spec.settings.within_s > plan.settle_s:
            within, settle = map(show_duration, (spec.settings.within_s, plan.settle_s))
            yield (
                f"expect: {spec.check}.within: {within} is longer than `settle: {settle}`, so that "
                "one that never takes part again can be UNKNOWN in the place of FAIL: write "
                f"`settle: {within}`"
            )


def _is_of_speed(check: object) -> bool:
    is_tight = isinstance(check, Survivors) and check.max_slowdown < _LOOSE_SLOWDOWN
    return is_tight or isinstance(check, Goodput)


def _greedy(plan: FaultPlan) -> Iterator[str]:
    for spec in plan.expect:
        if isinstance(spec.settings, Goodput | Recovery) and spec.settings.min_share > 1:
            yield f"expect: {spec.check}.min_share asks for more than the pace without faults"


def _bind_nothing(plan: FaultPlan, document: Document) -> Iterator[str]:
    """Bounds of checks and of the baseline that no run comes near to."""
    bounded: list[tuple[str, Branch, object]] = [("baseline", ("baseline",), plan.baseline)]
    bounded += [
        (spec.check, ("expect", number), spec.settings) for number, spec in enumerate(plan.expect)
    ]
    for name, branch, settings in bounded:
        for key, value, allowed in ranges(settings):
            if advice := allowed.advice(value):
                where = document.where((*branch, key))
                yield f"{where}: {name}.{key}: {_shown(value, allowed)} binds nothing: {advice}"


def _shown(value: object, allowed: Range) -> str:
    return allowed.show(value) if isinstance(value, int | float) else str(value)


def stalled(plan: FaultPlan, schedule: Schedule, document: Document) -> Iterator[str]:
    """Faults after which no round can begin: too few learners are left for it, or no syncer.

        needed   `training.quorum`; with `streaming`, `diloco` and `data_parallel` all of the start
        left     learners of the start, and of the reserve that join, not away until the end

    With these algorithms the others then wait and make no step ("Waiting" in docs/protocol.md);
    with `decoupled` they train on, and nothing of it is merged.

    A warning for each fault that takes the syncer away until the end, and for each that takes
    learners away, if too few are left.
    """
    yield from _without_syncer(plan, document)
    training, gone = plan.training, _gone(plan, schedule)
    joining = {
        name
        for one in schedule.injections
        if isinstance(one.settings, Fault) and one.settings.brings_in
        for name in one.targets
    }
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
    """Learners that each fault takes away until the run ends, as far as is known beforehand."""
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
