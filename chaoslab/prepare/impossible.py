"""Impossible parts of a plan: what can never pass, and bounds that can never be violated.

    plan, schedule ─► impossible ─► PlanError at file:line:key, with what to write

Only what is certain whatever the run does; what is likely a mistake is in `doubtful`. Records are
judged without this: an old plan stays readable.
"""

from collections.abc import Iterator
from dataclasses import fields
from math import inf

from chaoslab.checks.answer_checks import Injections, LearnersRejoin
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.core.binding import ranges
from chaoslab.core.units import plural, show_duration
from chaoslab.faults.base import Fault, ShapesLinks
from chaoslab.plan.file import Mistake
from chaoslab.plan.model import Distribution, FaultPlan, FaultSpec, Trigger
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.scripts import impossible_of_script
from chaoslab.prepare.systems import is_installed

_DATA_PARALLEL_FLEETS = ("local",)


def impossible(plan: FaultPlan, schedule: Schedule | None) -> Iterator[Mistake]:
    """Every part of the plan that can never pass, and every bound that can never be violated.

    Without a schedule, because the plan has none, what can be said of the plan alone.
    """
    yield from _no_rejoin(plan)
    yield from _never_come(plan)
    yield from _syncer_away(plan)
    yield from _endless(plan)
    if schedule is not None:
        yield from _too_many(plan, schedule)
    yield from _not_over_links(plan)
    yield from _not_by_others(plan)
    yield from impossible_of_script(plan)


def _no_rejoin(plan: FaultPlan) -> Iterator[Mistake]:
    """`rejoin` wants a learner that is to return, and none that is expected to stay away."""
    is_expected = any(isinstance(spec.settings, Rejoin) for spec in plan.expect)
    if not is_expected or any(map(brings_in, plan.faults)):
        return
    taking = [(n, fault) for n, fault in enumerate(plan.faults) if takes_learners(fault)]
    if all(fault.outage.rest for _, fault in taking):
        for number, fault in taking:
            text = (
                f"{fault.id!r} is never healed, and no other fault gives a learner back that "
                "`rejoin` under `expect` could judge: write `for: 20s`, or take `rejoin` out"
            )
            yield ("faults", number, "for"), text
    for number, spec in enumerate(plan.expect):
        if isinstance(spec.settings, LearnersRejoin) and not spec.settings.expected:
            yield (
                ("expect", number, "expected"),
                "`rejoin` expects that every learner given back returns: take one of the two out",
            )


def _never_come(plan: FaultPlan) -> Iterator[Mistake]:
    """Faults that no run is long enough for."""
    timeout_s, earliest_s = plan.limits.timeout_s, _earliest_s(plan)
    for number, fault in enumerate(plan.faults):
        if fault.at is not None and earliest_s[fault.id] >= timeout_s:
            text = (
                f"{fault.id!r} comes after {show_duration(earliest_s[fault.id])} at the earliest, "
                f"and `limits.timeout` ends the run after {show_duration(timeout_s)}: take an "
                "earlier time or a longer timeout"
            )
            yield ("faults", number, "at"), text
        if fault.arrivals is None:
            continue
        ends = (fault.arrivals.until_s, plan.training.stop.time_s, timeout_s)
        end_s = min(end for end in ends if end is not None)
        if fault.arrivals.start_s >= end_s:
            text = (
                f"no arrival lies between {show_duration(fault.arrivals.start_s)} and "
                f"{show_duration(end_s)}, where arrivals end: write an earlier `start`"
            )
            yield ("faults", number, "arrivals", "start"), text


def _earliest_s(plan: FaultPlan) -> dict[str, float]:
    """Earliest injection of each fault, in seconds after the start of the run."""
    found: dict[str, float] = {}
    ends: dict[str, float] = {}
    for fault in plan.faults:
        at = fault.at or Trigger(time_s=0.0)
        begin_s = ends[at.after] + at.offset_s if at.after is not None else at.time_s or 0.0
        found[fault.id], ends[fault.id] = begin_s, begin_s + _least_s(fault)
    return found


def _least_s(fault: FaultSpec) -> float:
    """Certain least duration; 0 if that is drawn."""
    if fault.outage.rest:
        return inf
    return fault.outage.seconds or 0.0 if fault.outage.dist is Distribution.FIXED else 0.0


def _syncer_away(plan: FaultPlan) -> Iterator[Mistake]:
    """Bounds on pauses that are shorter than a pause that the plan makes itself."""
    lengths = {f.id: _least_s(f) for f in plan.faults if f.target.syncer and _takes_away(f)}
    if not lengths or (longest_s := max(lengths.values())) == inf:
        return
    fault = max(lengths, key=lambda name: lengths[name])
    why = f"nothing is merged while {fault!r} keeps the syncer away ({show_duration(longest_s)})"
    for number, rule in enumerate(plan.abort):
        if rule.no_round_for_s is not None and rule.no_round_for_s < longest_s:
            text = f"{why}, so that this rule ends the run: use more than that"
            yield ("abort", number, "when", "no_round_for"), text
    for number, spec in enumerate(plan.expect):
        check = spec.settings
        bound = check.max_gap if isinstance(check, Continuity) else None
        if isinstance(bound, float | int) and bound < longest_s:
            yield ("expect", number, "max_gap"), f"{why}: use more than that"


def _endless(plan: FaultPlan) -> Iterator[Mistake]:
    """Bounds that no run is long enough to violate."""
    timeout_s = plan.limits.timeout_s
    for number, spec in enumerate(plan.expect):
        for key, bound_s in _durations(spec.settings):
            if bound_s >= timeout_s:
                text = (
                    f"{show_duration(bound_s)} can never be exceeded, because `limits.timeout` "
                    f"ends the run after {show_duration(timeout_s)}: use a shorter time"
                )
                yield ("expect", number, key), text
        for key, value, allowed in ranges(spec.settings):
            rounds = plan.training.stop.rounds
            if allowed.is_of_rounds and rounds and isinstance(value, int) and value >= rounds:
                text = (
                    f"{plural(value, 'round')} can never be exceeded, because training ends after "
                    f"{plural(rounds, 'round')}: {allowed.advice(value) or 'use fewer'}"
                )
                yield ("expect", number, key), text


def _durations(check: object) -> Iterator[tuple[str, float]]:
    """The upper bounds in seconds that a plan has set for a check, by their keys."""
    for field in fields(check):  # type: ignore[arg-type]  # settings are dataclasses
        value = getattr(check, field.name)
        is_bound = field.name.endswith("within_s") or field.name in ("max_gap", "floor_s")
        if is_bound and isinstance(value, float | int) and value != field.default:
            yield field.name.removesuffix("_s"), float(value)


def _too_many(plan: FaultPlan, schedule: Schedule) -> Iterator[Mistake]:
    count = len(schedule.injections)
    for number, spec in enumerate(plan.expect):
        if isinstance(spec.settings, Injections) and spec.settings.min_proved > count:
            text = (
                f"with seed {schedule.seed} there {'is' if count == 1 else 'are'} "
                f"{plural(count, 'injection')}: ask for at most that, or plan more"
            )
            yield ("expect", number, "min_proved"), text


def _not_over_links(plan: FaultPlan) -> Iterator[Mistake]:
    """Faults that do not reach gradients of data parallelism: they go from learner to learner."""
    algorithm = plan.training.algorithm
    if not plan.training.is_data_parallel or plan.training.system in SYSTEMS:
        return
    if plan.fleet.kind not in _DATA_PARALLEL_FLEETS:
        text = (
            f"`{algorithm}` runs on the fleets {', '.join(_DATA_PARALLEL_FLEETS)}, not on "
            f"{plan.fleet.kind}: learners must reach each other there. `chaoslab research "
            "experiment experiments/goodput.yaml` simulates it"
        )
        yield ("training", "algorithm"), text
    if plan.fleet.profiles:
        text = (
            f"profiles shape links to the syncer, and with `algorithm: {algorithm}` gradients do "
            "not go over them: take them out"
        )
        yield ("fleet", "profiles"), text
    for number, fault in enumerate(plan.faults):
        if isinstance(fault.settings, ShapesLinks):
            text = (
                f"{fault.id!r} shapes links to the syncer, and with `algorithm: {algorithm}` "
                "gradients do not go over them: take it out, or train with `decoupled`, "
                "`streaming` or `diloco`"
            )
            yield ("faults", number, "fault"), text


def _not_by_others(plan: FaultPlan) -> Iterator[Mistake]:
    """Mistakes for a system of others: requests that it cannot do, and a missing installation."""
    system = plan.training.system
    if system not in SYSTEMS:
        return
    if plan.fleet.kind != "local":
        text = f"{system} runs on the fleet local, not on {plan.fleet.kind}"
        yield ("training", "system"), text
    elif not is_installed(system):
        text = f"{system} is not installed: `chaoslab doctor systems install {system}`"
        yield ("training", "system"), text
    for role in plan.fleet.programs:
        if role != "evaluator":
            text = f"`training.system` already says what the {role} is: leave one of the two out"
            yield ("fleet", "programs", role), text
    if plan.fleet.profiles:
        text = f"profiles shape links to the syncer, and {system} does not train over them"
        yield ("fleet", "profiles"), f"{text}: take them out"
    for number, fault in enumerate(plan.faults):
        if fault.at is not None and fault.at.phase:
            text = f"{system} announces no protocol points: use another trigger"
            yield ("faults", number, "at", "phase"), text
        if isinstance(fault.settings, ShapesLinks):
            text = (
                f"{fault.id!r} shapes links to the syncer, and {system} does not train over them: "
                "take it out"
            )
            yield ("faults", number, "fault"), text


def _takes_away(fault: FaultSpec) -> bool:
    return isinstance(fault.settings, Fault) and fault.settings.takes_away


def takes_learners(fault: FaultSpec) -> bool:
    return _takes_away(fault) and not fault.target.syncer


def brings_in(fault: FaultSpec) -> bool:
    return isinstance(fault.settings, Fault) and fault.settings.brings_in
