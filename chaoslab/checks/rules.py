"""Rules of every run, whatever its plan expects: may its record be believed at all?

    baseline steady? ─► every fault proved? ─► links whole? ─► run and training finished by
          │ no                │ no, or not undone  │ no        themselves? ─► clean?
          │                   │                    │                │ no         │ no
          └───────────────────┴──► UNKNOWN at best ┴────────────────┴────────────┘
    a node ended, or left, that was not asked to; a life took part that was never started ─► FAIL

Each rule that is not kept becomes a finding of its own; a rule that is kept says nothing, but for
`contact`, which tells of what came late.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.lasting_effects import lasting
from chaoslab.checks.mixed_lines import RULE, mixed, said_of_mixed
from chaoslab.checks.moot import moot, phase_over
from chaoslab.checks.node_clocks import stalls
from chaoslab.checks.stop_rule import stop_rule
from chaoslab.checks.timeline import training_end
from chaoslab.checks.unrequested_exits import by_lease, left_early, orphans, strangers, unrequested
from chaoslab.checks.violations import Doubt, Violation, conclude, unknown
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    BaselineMeasured,
    DiskBlocked,
    EvidenceMeasured,
    FaultHealFailed,
    FaultInjecting,
    FaultSkipped,
    JanitorDied,
    LinkLost,
    NodeExited,
    PlanEntry,
    ResidueFound,
    RunFinished,
    RunLeft,
    RunOutcome,
    RunStarted,
    Status,
)
from chaoslab.record.history import FaultStory, History

_Injection: TypeAlias = Event[FaultInjecting | FaultSkipped]


def always_judged(history: History) -> Iterator[Finding]:
    """The findings of the rules that were not kept, in the order in which they count."""
    always: Mapping[str, Sequence[Violation | Doubt]] = {
        "unasked": (*unrequested(history), *left_early(history), *by_lease(history)),
        "strangers": tuple(strangers(history)),
        "orphans": tuple(orphans(history)),
    }
    for rule, found in always.items():
        if found:
            yield conclude(rule, found, passed="", samples=len(found))
    for kept in (
        _baseline,
        _evidence,
        _entries,
        _late,
        _heals,
        _links,
        _disks,
        _contact,
        _unguarded,
        _refused,
        _lines,
        _ending,
        stop_rule,
        _residue,
    ):
        yield from kept(history)


def _baseline(history: History) -> Iterator[Finding]:
    measured = history.last(BaselineMeasured)
    if measured is None:
        yield unknown("baseline", Code.NO_BASELINE, "the baseline was never measured")
    elif not measured.payload.is_steady:
        text = f"the baseline was not steady: {measured.payload.reason}"
        yield unknown("baseline", Code.BASELINE_NOT_STEADY, text)


def _evidence(history: History) -> Iterator[Finding]:
    """One finding for all injections that are not proved on every target."""
    doubts = _doubts(history)
    if doubts:
        yield Finding(
            check="evidence",
            outcome=Outcome.UNKNOWN,
            reason="; ".join(doubt.text for _, doubt in doubts),
            codes=tuple(
                dict.fromkeys([*(d.code for _, d in doubts), *_evidence_codes(doubts, history)])
            ),
            observed=len(doubts),
            bound=0,
            unit=Unit.INJECTIONS,
            samples=len(history.faults) + len(history.of(FaultSkipped)),
            culprits=tuple(event.payload.injection for event, _ in doubts),
            evidence=tuple(event.seq for event, _ in doubts),
        )


def _doubts(history: History) -> list[tuple[_Injection, Doubt]]:
    """The beginning or the skipping of every injection in doubt, and what is missing of it."""
    doubts: list[tuple[_Injection, Doubt]]
    doubts = [(s.injecting, _unproved(s)) for s in history.faults if s.status is not Status.PROVED]
    end = training_end(history)
    for story in history.faults:
        if story.status is Status.PROVED and end is not None and story.injecting.seq > end.seq:
            text = f"{_name(story)} began when training had ended"
            doubts += [(story.injecting, Doubt(Code.INJECTED_TOO_LATE, text))]
    doubts += [(event, _skipped(event.payload)) for event in history.of(FaultSkipped)]
    excused = moot(history)
    return [(event, said) for event, said in doubts if event.payload.injection not in excused]


def _evidence_codes(doubts: Sequence[tuple[_Injection, Doubt]], history: History) -> Iterator[str]:
    """Codes of the weak or failed evidence on each target of the injections in doubt."""
    doubted = {event.payload.injection for event, _ in doubts}
    for said in (event.payload for event in history.of(EvidenceMeasured)):
        if said.injection in doubted and said.status is not Status.PROVED and said.code:
            yield said.code


def _unproved(story: FaultStory) -> Doubt:
    name = _name(story)
    if story.failed:
        text = f"{name} could not be carried out: {story.failed.payload.reason}"
        return Doubt(Code.NOT_INJECTED, text)
    silent = set(story.targets) - {event.payload.target for event in story.evidence}
    if silent:
        text = f"{name} has no evidence on {', '.join(sorted(silent))}"
        return Doubt(Code.NOT_PROVED, text)
    measured = [event.payload for event in story.evidence]
    said = [(one.status, one.target, one.text) for one in measured if one.status != Status.PROVED]
    said += [(Status.WEAK, target, why) for target, why in story.doubts.items()]
    told = "; ".join(f"{status} on {target}: {why}" for status, target, why in said)
    return Doubt(Code.NOT_PROVED, f"{name} is {told}")


def _name(story: FaultStory) -> str:
    return f"`{story.spec}` ({story.injection}, {story.fault})"


def _skipped(said: FaultSkipped) -> Doubt:
    name = f"`{said.spec or said.injection}` ({said.fault})"
    return Doubt(Code.NOT_INJECTED, f"{name} was never injected: {said.reason}")


def _entries(history: History) -> Iterator[Finding]:
    """Entries of the plan's `faults` without any injection.

    Those with an injection in doubt already are left to `evidence`.
    """
    started = history.last(RunStarted)
    entries = started.payload.entries if started else ()
    seen = {story.spec for story in history.faults if story.status is Status.PROVED}
    seen |= {event.payload.spec for event, _ in _doubts(history)}
    missing = [entry for entry in entries if entry.spec not in seen]
    if missing:
        yield unknown(
            "entries",
            Code.NOT_INJECTED,
            "; ".join(map(_never, missing)),
            samples=len(entries),
            culprits=[entry.spec for entry in missing],
        )


def _never(entry: PlanEntry) -> str:
    name = f"`{entry.spec}` ({entry.fault})"
    if entry.injections:
        if entry.injections == 1:
            return f"the injection of {name} did not take place"
        return f"none of the {entry.injections} injections of {name} took place"
    return f"no injection of {name} was scheduled: chance drew none that the limits allow"


def _late(history: History) -> Iterator[Finding]:
    """Faults that were to come at a point of the protocol, and came when it was over."""
    late = [(story, over) for story in history.faults if (over := phase_over(story, history))]
    if late:
        names = ", ".join(f"`{story.spec}` ({story.injection})" for story, _ in late)
        yield unknown(
            "phase",
            Code.INJECTED_TOO_LATE,
            f"{names} came when the phase that it was to hit was over: let the node wait there "
            "with `wait: 5s` in its trigger",
            samples=len(late),
            culprits=[story.injection for story, _ in late],
            evidence=[over for _, over in late],
        )


def _heals(history: History) -> Iterator[Finding]:
    """Faults with an end that were not seen to be healed in a run that is over, and those whose
    effect goes on after that.
    """
    is_over = history.last(RunFinished) is not None
    for story in history.faults:
        tried = [e for e in history.of(FaultHealFailed)
                 if e.payload.injection == story.injection]  # fmt: skip
        has_end = is_over and story.injecting.payload.for_s is not None
        if story.healed or not (tried or (has_end and story.failed is None)):
            continue
        how = f"could not be undone: {tried[-1].payload.reason}" if tried else "was never healed"
        yield unknown(
            "heal", Code.HEAL_FAILED, f"{_name(story)} {how}", culprits=[story.injection],
            evidence=tried or [story.injecting],
        )  # fmt: skip
    for one in lasting(history):
        yield unknown(
            "heal", Code.EFFECT_GOES_ON,
            f"{_name(one.story)} was healed, and its effect goes on: {one.text}",
            culprits=[one.story.injection], evidence=[one.last],
        )  # fmt: skip


def _unguarded(history: History) -> Iterator[Finding]:
    """Finding for a time in which no janitor would have undone what a dead harness leaves."""
    for died in history.of(JanitorDied):
        if died.payload.successor is None:
            yield unknown(
                "unguarded",
                Code.NO_JANITOR,
                f"the janitor died at {died.time_s:.1f} s ({died.payload.how}) and none could "
                f"be started in its place ({died.payload.reason}): from then on no janitor was "
                "running, and only the harness itself reports that everything was undone",
                culprits=["janitor"],
                evidence=[died],
            )


def _links(history: History) -> Iterator[Finding]:
    """Links that were lost: later effects are not those of an injection."""
    for lost in history.of(LinkLost):
        what = f"the {lost.payload.kind} links broke at {lost.time_s:.1f} s"
        text = f"{what}, which neither a fault nor a command requested: {lost.payload.reason}"
        yield unknown("links", Code.LINKS_LOST, text, evidence=[lost])


def _disks(history: History) -> Iterator[Finding]:
    """A host that beats while its disk is full: what went wrong there may be due to that."""
    blocked = history.of(DiskBlocked)
    if blocked:
        told = "; ".join(
            f"the disk of {e.payload.host} refused what was written from {e.time_s:.1f} s on "
            f"({e.payload.reason})"
            for e in blocked
        )
        yield unknown(
            "disks",
            Code.DISK_BLOCKED,
            f"{told}, and no fault had asked for that: records of its nodes are incomplete",
            culprits=tuple(dict.fromkeys(e.payload.host for e in blocked)),
            evidence=blocked,
        )


def _contact(history: History) -> Iterator[Finding]:
    """Hosts, or a cluster's API server, that did not answer: nothing is wrong with the training."""
    away = [stall for stall in stalls(history) if stall.event.payload.host]
    if away:
        told = "; ".join(stall.text for stall in away)
        yield Finding(
            check="contact",
            outcome=Outcome.PASS,
            reason=f"{told}: events of that time arrived late and are judged by the clocks of the "
            "nodes",
            observed=max(stall.event.payload.silent_s for stall in away),
            unit=Unit.SECONDS,
            samples=len(away),
            evidence=tuple(stall.event.seq for stall in away),
        )


def _refused(history: History) -> Iterator[Finding]:
    """What a node said and the journal does not hold: what else was the case is not known."""
    exits, left = history.of(NodeExited), history.last(RunLeft)
    found: list[tuple[Event, str, int]] = [
        (one, one.payload.node, one.payload.refused_lines) for one in exits
    ]
    if left:
        found += [(left, node, lines) for node, lines in left.payload.refused_lines.items()]
    if found := [one for one in found if one[2]]:
        named = ", ".join(f"{lines:,} of {node}" for _, node, lines in found)
        yield Finding(
            check="refused",
            outcome=Outcome.UNKNOWN,
            codes=(Code.LINES_REFUSED,),
            reason=f"lines that claimed to be events were refused, so the record lacks what they "
            f"were to say: {named}; its stdout.log holds them",
            observed=sum(lines for _, _, lines in found),
            bound=0,
            unit=Unit.LINES,
            samples=len(exits) + len(left.payload.nodes if left else ()),
            culprits=tuple(dict.fromkeys(node for _, node, _ in found)),
            evidence=tuple(dict.fromkeys(event.seq for event, _, _ in found)),
        )


def _lines(history: History) -> Iterator[Finding]:
    """Lines of a script's workers that nothing tells apart."""
    if shown := mixed(history):
        yield unknown(
            RULE, Code.LINES_MIXED, said_of_mixed(shown.payload), culprits=shown.payload.workers,
            evidence=[shown],
        )  # fmt: skip


def _ending(history: History) -> Iterator[Finding]:
    finished = history.last(RunFinished)
    if finished is None:
        text = "the record breaks off: the harness did not live to finish the run"
        yield unknown("run", Code.RECORD_INCOMPLETE, text)
    elif finished.payload.outcome is not RunOutcome.COMPLETED or finished.payload.reason:
        text = f"the run was {finished.payload.outcome}: {finished.payload.reason}"
        yield unknown("run", Code.RUN_CUT_SHORT, text)


def _residue(history: History) -> Iterator[Finding]:
    found = residue(history)
    if found:
        left = ", ".join(f"{one['what']} in {one['where']}" for one in found)
        yield unknown(
            "residue", Code.LEFT_OVER, f"the run left something behind: {left}", samples=len(found)
        )


def residue(history: History) -> Sequence[Mapping[str, Json]]:
    """What, where and remedy of all that a run left: by its journal, and by its book of undos.

    While a run goes on, and when it was cut off, undos are open as they should be.
    """
    found = [
        {"what": said.what, "where": said.where, "remedy": said.remedy}
        for said in (event.payload for event in history.of(ResidueFound))
    ]
    is_over = history.last(RunFinished) is not None
    return [*found, *(history.left_open if is_over else ())]
