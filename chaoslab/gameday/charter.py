"""Charter of a game-day: one page to sign before anything starts.

    plan, schedule ─► who, what is broken, what is expected, who can stop it ─► Markdown
                  └─► who is hit by name: in the last section, which responders do not get
    sealed faults ──► how many, of which kinds, within what; not which

The same plan and schedule give the same page. It holds the words of the plan as they are: code
that shows or writes it hides what is secret.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from chaoslab.checks.base import Check
from chaoslab.core.units import plural, show_duration, show_share
from chaoslab.faults.base import Fault
from chaoslab.gameday.markdown import BLANK, page, safe, table
from chaoslab.plan.file.writing import listed, written
from chaoslab.plan.model import (
    SYNCER,
    AbortRule,
    Arrivals,
    Distribution,
    FaultPlan,
    FaultSpec,
    Injection,
    Outage,
)
from chaoslab.plan.schedule import Schedule
from chaoslab.run.triggers import rule_text

_STOPS = (
    ("abort WHY", "any operator", "all faults are healed, the run ends"),
    ("Ctrl-C", "the person at its terminal", "the same"),
    (
        "chaoslab halt",
        "its user, in any terminal of that machine",
        "the same for all of their runs",
    ),
)


_FACILITATOR: Final = "## For the facilitator"


def without_victims(charter: str) -> str:
    """The page for all participants: all but its last section."""
    return charter.partition(f"\n{_FACILITATOR}")[0]


def charter_page(
    plan: FaultPlan,
    schedule: Schedule,
    *,
    seed: int | None = None,
    kinds: Sequence[str] = (),
) -> str:
    """The page as Markdown. `seed`: what the schedule was drawn with, by default what it says;
    `kinds`: what sealed faults are drawn from.
    """
    return page(
        f"# Charter of a game-day: {safe(plan.name)}",
        "## Who",
        table(("role", "name"), _people(plan)),
        "Responders are not told which nodes are hit, nor when: keep the last section from them.",
        "## What is hit",
        table(("what", ""), _training(plan)),
        *_faults(plan, schedule),
        *_sealed(plan, kinds),
        "## Limits",
        table(("limit", "value"), _limits(plan)),
        "Operators may skip a fault, make it milder or stronger, repeat it, and heal it before its "
        "time, within these limits.",
        "## When it is stopped",
        "The harness heals all faults and ends the run as soon as:",
        _listed(_abort_rules(plan)),
        "People stop it:",
        table(("how", "who", "what it does"), _STOPS),
        "## What is judged",
        _listed(_checks(plan)) or "Nothing: the plan has no checks.",
        "## Signatures",
        table(("role", "name", "date", "signature"), _signatures(plan)),
        _FACILITATOR,
        f"With seed {schedule.seed if seed is None else seed} these are hit:",
        table(("injection", "fault", "targets", "trigger"), _victims(schedule)),
        _left_out(schedule),
    )


def _sealed(plan: FaultPlan, kinds: Sequence[str]) -> Iterator[str]:
    """Number and kinds of sealed faults, known before they come; nothing for a plan without any."""
    sealed = plan.charter.sealed
    if sealed is None:
        return
    within = show_duration(sealed.within_s)
    yield "## Sealed faults"
    yield table(
        ("what", ""),
        (
            ("sealed faults", str(sealed.faults)),
            ("drawn from", ", ".join(kinds)),
            ("targets", f"one of {plan.training.learner_count} learners each"),
            ("trigger", f"a random time within {within} from the beginning of faults"),
            ("outage", show_duration(sealed.for_s)),
            ("waits for an operator", "no"),
            ("left out", "if the limits forbid it by then, or an operator asked for the end"),
        ),
    )
    yield "They are drawn from the seed, and none is announced before it comes."


def _people(plan: FaultPlan) -> Sequence[tuple[str, str]]:
    charter = plan.charter
    return (
        ("owner, answers for it", charter.owner or BLANK),
        ("facilitator, leads it and decides what is injected", charter.facilitator or BLANK),
        ("scribe, takes notes", charter.scribe or BLANK),
        ("responders, watch and predict", ", ".join(charter.responders) or BLANK),
    )


def _training(plan: FaultPlan) -> Sequence[tuple[str, str]]:
    training = plan.training
    reserve = len(training.reserve_names)
    more = f" and {reserve} in reserve" if reserve else ""
    stop = ", or ".join(f"{key} {value}" for key, value in written(training.stop).items())
    return (
        ("plan", f"{plan.name}: {plan.description}" if plan.description else plan.name),
        ("training", f"{training.described}, started for the game-day and ended with it"),
        ("learners", f"{training.learner_count}{more}"),
        ("model", training.task or training.model),
        ("data", training.data),
        ("ends", f"{stop}; later while a fault waits or its victims are not back"),
        ("fleet", plan.fleet.kind),
    )


# ---------------------------------------------------------------- faults


def _faults(plan: FaultPlan, schedule: Schedule) -> Iterator[str]:
    yield "## Faults"
    if not plan.faults:
        yield "None."
    for spec in plan.faults:
        drawn = [one for one in schedule.injections if one.spec == spec.id]
        yield f"### {safe(spec.id)}"
        yield table(("what", ""), _fault(plan, spec, drawn))


def _fault(
    plan: FaultPlan, spec: FaultSpec, drawn: Sequence[Injection]
) -> Sequence[tuple[str, str]]:
    settings = listed(written(spec.settings))
    what = f": {spec.settings.summary}" if isinstance(spec.settings, Fault) else ""
    return (
        ("fault", f"{spec.fault}{what}{f' ({settings})' if settings else ''}"),
        ("targets", _targets(plan, spec, drawn)),
        ("trigger", _trigger(spec)),
        ("outage", _outage(spec.outage)),
        ("hypothesis", plan.charter.hypotheses.get(spec.id, "not written")),
        ("waits for an operator", _waits(plan, spec)),
    )


def _targets(plan: FaultPlan, spec: FaultSpec, drawn: Sequence[Injection]) -> str:
    """Number of targets, without names."""
    names = {name for one in drawn for name in one.targets}
    if not drawn:
        return "none: chance or the limits leave it out"
    if not names:
        return "the node that announces the phase of the trigger"
    times = f" each time, {plural(len(drawn), 'time')}" if len(drawn) > 1 else ""
    if names == {SYNCER}:
        return f"the syncer{times}"
    counts = sorted({len(one.targets) for one in drawn})
    number = " to ".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))
    if SYNCER in names:
        return f"{number} nodes, the syncer among them{times}"
    whose = "the reserve" if spec.target.reserve else f"{plan.training.learner_count} learners"
    return f"{number} of {whose}{times}"


def _trigger(spec: FaultSpec) -> str:
    """Trigger without a learner's name, which may be the target."""
    if spec.at is None:
        return _arrivals(spec.arrivals) if spec.arrivals else "never"
    of = spec.at.of
    return str(spec.at) if of in (None, SYNCER) else str(spec.at).replace(of, "a learner")


def _arrivals(arrivals: Arrivals) -> str:
    if arrivals.dist is Distribution.TRACE:
        times = ", ".join(map(show_duration, arrivals.trace_s))
        return f"at {times} after the start"
    each = "for each target" if arrivals.per == "target" else "for the fleet"
    mean = show_duration(arrivals.mtbf_s or 0.0)
    return ", ".join(
        filter(
            None,
            (
                f"at random times, one every {mean} on average {each}",
                f"from {show_duration(arrivals.start_s)} on" if arrivals.start_s else "",
                f"until {show_duration(arrivals.until_s)}" if arrivals.until_s else "",
                f"at most {arrivals.most}" if arrivals.most else "",
            ),
        )
    )


def _outage(outage: Outage) -> str:
    if outage.seconds is None:
        return "until the end of the run"
    length = show_duration(outage.seconds)
    if outage.dist is Distribution.FIXED:
        return length
    middle = "median" if outage.dist is Distribution.LOGNORMAL else "mean"
    most = f", at most {show_duration(outage.at_most_s)}" if outage.at_most_s else ""
    return f"random ({outage.dist}), {middle} {length}{most}"


def _waits(plan: FaultPlan, spec: FaultSpec) -> str:
    if spec.id in plan.held:
        return "yes, when its trigger has come"
    return "no" if spec.can_be_held else "no: its trigger is a moment of the protocol"


# ---------------------------------------------------------------- limits, stops, checks


def _limits(plan: FaultPlan) -> Sequence[tuple[str, str]]:
    limits = plan.limits
    return (
        ("learners that no fault has taken away, at least", str(limits.min_alive)),
        ("learners under faults at once, at most", show_share(limits.max_affected)),
        ("learners that are never hit", ", ".join(limits.protected) or "none"),
        ("longest duration", show_duration(plan.charter.length_s)),
    )


def _abort_rules(plan: FaultPlan) -> Iterator[str]:
    for rule in plan.abort:
        yield f"`{rule_text(rule)}`: {_rule(rule)}"
    yield f"the run has taken {show_duration(plan.charter.length_s)}"


def _rule(rule: AbortRule) -> str:
    if rule.no_round_for_s is not None:
        return f"no round was merged for {show_duration(rule.no_round_for_s)}"
    if rule.loss_above is not None:
        return f"the mean training loss is above {rule.loss_above:g}, or no number"
    return f"fewer than {plural(rule.alive_below or 0, 'learner')} alive"


def _checks(plan: FaultPlan) -> Iterator[str]:
    for spec in plan.expect:
        settings = spec.settings
        what = f": {safe(settings.summary)}" if isinstance(settings, Check) else ""
        yield f"`{spec.check}`{what}"


def _signatures(plan: FaultPlan) -> Iterator[tuple[str, str, str, str]]:
    charter = plan.charter
    for role, name in (
        ("owner", charter.owner),
        ("facilitator", charter.facilitator),
        ("scribe", charter.scribe),
        *(("responder", name) for name in charter.responders or ("",)),
    ):
        yield role, name or BLANK, BLANK, BLANK


# ---------------------------------------------------------------- who is hit


def _victims(schedule: Schedule) -> Iterator[tuple[str, str, str, str]]:
    for one in schedule.injections:
        targets = ", ".join(one.targets) or "the node that announces it"
        yield one.id, f"{one.spec} ({one.fault})", targets, str(one.trigger)


def _left_out(schedule: Schedule) -> str:
    return _listed(
        f"left out: {safe(one.spec)} on {safe(', '.join(one.targets))} at "
        f"{show_duration(one.time_s)}, because {safe(one.reason)}"
        for one in schedule.dropped
    )


def _listed(items: Iterator[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
