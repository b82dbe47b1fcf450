"""What is judged whatever the plan expects: may this run be believed at all?

    baseline steady? ─► every fault proved? ─► links whole? ─► run and training finished by
          │ no                │ no, or not undone  │ no        themselves? ─► clean?
          │                   │                    │                │ no         │ no
          └───────────────────┴──► UNKNOWN at best ┴────────────────┴────────────┘
    a node ended, or left, that nobody asked to; somebody took part whom nobody started ─► FAIL

Each rule that is not kept becomes a finding of its own; a rule that is kept says nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.moments import phase_over
from chaoslab.checks.moot import moot
from chaoslab.checks.timeline import says_stopped, training_end
from chaoslab.checks.unknown_participants import strangers
from chaoslab.checks.unrequested_exits import unasked
from chaoslab.checks.violations import conclude, unknown
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.journal import FaultStory, History


def always_judged(history: History) -> Iterator[Finding]:
    """The findings of the rules that were not kept, in the order in which they count."""
    yield from _unasked(history)
    yield from _strangers(history)
    yield from _baseline(history)
    yield from _evidence(history)
    yield from _entries(history)
    yield from _late(history)
    yield from _heals(history)
    yield from _links(history)
    yield from _unguarded(history)
    yield from _refused(history)
    yield from _ending(history)
    yield from _stop(history)
    yield from _residue(history)


def _unasked(history: History) -> Iterator[Finding]:
    violations = list(unasked(history))
    if violations:
        yield conclude("unasked", violations, passed="", samples=len(violations))


def _strangers(history: History) -> Iterator[Finding]:
    violations = list(strangers(history))
    if violations:
        yield conclude("strangers", violations, passed="", samples=len(violations))


def _baseline(history: History) -> Iterator[Finding]:
    measured = history.last(Kind.BASELINE_MEASURED)
    if measured is None:
        yield unknown("baseline", "the baseline was never measured")
    elif not measured.flag("is_steady"):
        yield unknown("baseline", f"the baseline was not steady: {measured.text('reason')}")


def _evidence(history: History) -> Iterator[Finding]:
    """One finding for all injections that are not proved on every target."""
    doubts = _doubts(history)
    if doubts:
        yield Finding(
            check="evidence",
            outcome=Outcome.UNKNOWN,
            reason="; ".join(text for _, text in doubts),
            observed=len(doubts),
            bound=0,
            samples=len(history.faults) + len(history.of(Kind.FAULT_SKIPPED)),
            culprits=tuple(event.text("injection") for event, _ in doubts),
            evidence=tuple(event.seq for event, _ in doubts),
        )


def _doubts(history: History) -> list[tuple[Event, str]]:
    """The beginning or the skipping of every injection in doubt, and what is missing of it."""
    doubts: list[tuple[Event, str]]
    doubts = [(s.injecting, _unproved(s)) for s in history.faults if s.status != "proved"]
    doubts += [(s.injecting, _too_late(s)) for s in _after_the_end(history)]
    doubts += [(event, _skipped(event)) for event in history.of(Kind.FAULT_SKIPPED)]
    excused = moot(history)
    return [(event, said) for event, said in doubts if event.text("injection") not in excused]


def _unproved(story: FaultStory) -> str:
    name = f"{story.spec} ({story.injection}, {story.fault})"
    if story.failed:
        return f"{name} could not be carried out: {story.failed.text('reason')}"
    silent = set(story.targets) - {event.text("target") for event in story.evidence}
    if silent:
        return f"{name} has no evidence on {', '.join(sorted(silent))}"
    doubted = [e for e in story.evidence if e.text("status") != "proved"]
    said = "; ".join(f"{e.text('status')} on {e.text('target')}: {e.text('text')}" for e in doubted)
    return f"{name} is {said}"


def _after_the_end(history: History) -> Iterator[FaultStory]:
    """Proved injections that began when there was no training left to break."""
    end = training_end(history)
    for story in history.faults:
        if story.status == "proved" and end is not None and story.injecting.seq > end.seq:
            yield story


def _too_late(story: FaultStory) -> str:
    return f"{story.spec} ({story.injection}, {story.fault}) began when training had ended"


def _skipped(event: Event) -> str:
    name = f"{event.data.get('spec', event.text('injection'))} ({event.text('fault')})"
    return f"{name} was never injected: {event.text('reason')}"


def _entries(history: History) -> Iterator[Finding]:
    """Entries of the plan's `faults` of which no injection took place; old records list none.

    Those of which an injection is in doubt already are left to `evidence`.
    """
    entries = _listed(history)
    seen = {story.spec for story in history.faults if story.status == "proved"}
    seen |= {event.text("spec") for event, _ in _doubts(history) if "spec" in event.data}
    missing = [entry for entry in entries if entry.text("spec") not in seen]
    if missing:
        yield replace(
            unknown("entries", "; ".join(map(_never, missing)), samples=len(entries)),
            culprits=tuple(entry.text("spec") for entry in missing),
        )


def _listed(history: History) -> list[Event]:
    """The entries of the plan's `faults`, each with its keys as data; old records list none."""
    started = history.last(Kind.RUN_STARTED)
    if started is None or "entries" not in started.data:
        return []
    found = started.items("entries")
    return [replace(started, data=one) for one in found if isinstance(one, Mapping)]


def _never(entry: Event) -> str:
    name = f"{entry.text('spec')} ({entry.text('fault')})"
    if entry.integer("injections"):
        return f"none of the {entry.integer('injections')} injections of {name} took place"
    return f"no injection of {name} was scheduled: chance drew none that the limits allow"


def _late(history: History) -> Iterator[Finding]:
    """Faults that were to come at a point of the protocol, and came when it was over."""
    late = [(story, over) for story in history.faults if (over := phase_over(story, history))]
    if late:
        names = ", ".join(f"{story.spec} ({story.injection})" for story, _ in late)
        yield replace(
            unknown(
                "phase",
                f"{names} came when the phase that it was to hit was over: let the node wait there "
                "with `hold: 5s` in its trigger",
                samples=len(late),
            ),
            culprits=tuple(story.injection for story, _ in late),
            evidence=tuple(over.seq for _, over in late),
        )


def _heals(history: History) -> Iterator[Finding]:
    """Faults that were there for longer than anybody can say."""
    for story in history.faults:
        tried = [e for e in history.of(Kind.FAULT_HEAL_FAILED)
                 if e.text("injection") == story.injection]  # fmt: skip
        if tried and not story.healed:
            name = f"{story.spec} ({story.injection}, {story.fault})"
            yield replace(
                unknown("heal", f"{name} could not be undone: {tried[-1].text('reason')}"),
                culprits=(story.injection,),
                evidence=tuple(event.seq for event in tried),
            )


def _unguarded(history: History) -> Iterator[Finding]:
    """From a moment on nobody would have undone what a dead harness leaves, nor looked after it."""
    for died in history.of(Kind.JANITOR_DIED):
        if died.data.get("successor") is None:
            yield replace(
                unknown(
                    "unguarded",
                    f"the janitor died at {died.time_s:.1f} s ({died.text('how')}) and none could "
                    f"be started in its place ({died.text('reason')}): from then on nobody stood "
                    "behind the harness, and that all was undone is the harness's word alone",
                ),
                culprits=("janitor",),
                evidence=(died.seq,),
            )


def _links(history: History) -> Iterator[Finding]:
    """Whatever happened after their loss was nobody's injection."""
    for lost in history.of(Kind.LINK_LOST):
        what = f"the {lost.text('kind')} links broke at {lost.time_s:.1f} s"
        yield replace(
            unknown("links", f"{what}, and nobody had asked for that: {lost.text('reason')}"),
            evidence=(lost.seq,),
        )


def _refused(history: History) -> Iterator[Finding]:
    """What a node said and the journal does not hold: nobody knows what else was the case."""
    ends = [e for e in history.of(Kind.NODE_EXITED) if _refused_lines(e)]
    if ends:
        named = ", ".join(f"{_refused_lines(e):,} of {e.text('node')}" for e in ends)
        yield Finding(
            check="refused",
            outcome=Outcome.UNKNOWN,
            reason=f"lines that claimed to be events were refused, so the record lacks what they "
            f"were to say: {named}; its stdout.log holds them",
            observed=sum(map(_refused_lines, ends)),
            bound=0,
            samples=len(history.of(Kind.NODE_EXITED)),
            culprits=tuple(dict.fromkeys(event.text("node") for event in ends)),
            evidence=tuple(event.seq for event in ends),
        )


def _refused_lines(exited: Event) -> int:
    """A record from before they were counted says nothing of them."""
    return exited.integer("refused_lines") if "refused_lines" in exited.data else 0


def _ending(history: History) -> Iterator[Finding]:
    finished = history.last(Kind.RUN_FINISHED)
    if finished is None:
        yield unknown("run", "the record breaks off: the harness did not live to finish the run")
    elif finished.text("outcome") != "completed" or finished.text("reason"):
        yield unknown("run", f"the run was {finished.text('outcome')}: {finished.text('reason')}")


def _stop(history: History) -> Iterator[Finding]:
    """Training must end by its stop rule; only a run that was cut short may ask for the end.

    While faults are to come the syncer goes on beyond the rule, says that it is met, and waits.
    """
    final, finished = history.last(Kind.SYNCER_FINAL), history.last(Kind.RUN_FINISHED)
    if finished is not None and finished.text("outcome") != "completed":
        return
    if finished and says_stopped(history) and history.last(Kind.SYNCER_STOPPED) is None:
        yield unknown("stop", "the syncer never said that training had ended")
    elif final and _waits_to_be_asked(history) and history.last(Kind.SYNCER_HELD) is None:
        yield unknown(
            "stop",
            f"{final.source} ended training at {final.time_s:.1f} s by itself, and never said that "
            "its stop rule was met",
        )
    if final and final.data.get("was_asked") is True:
        yield unknown(
            "stop",
            f"{final.source} ended training at {final.time_s:.1f} s because somebody asked it to "
            f"({final.data.get('reason')}), not because its stop rule was met",
        )


def _waits_to_be_asked(history: History) -> bool:
    """Whether faults were scheduled; a record that lists no entries does not say."""
    return any(entry.integer("injections") for entry in _listed(history))


def _residue(history: History) -> Iterator[Finding]:
    found = residue(history)
    if found:
        left = ", ".join(f"{one['what']} in {one['where']}" for one in found)
        yield unknown("residue", f"the run left something behind: {left}", samples=len(found))


def residue(history: History) -> Sequence[Mapping[str, Json]]:
    """What, where and remedy of all that a run left: by its journal, and by its book of undos.

    While a run goes on, and when it was cut off, undos are open as they should be.
    """
    found = [
        {key: event.text(key) for key in ("what", "where", "remedy")}
        for event in history.of(Kind.RESIDUE_FOUND)
    ]
    is_over = history.last(Kind.RUN_FINISHED) is not None
    return [*found, *(history.left_open if is_over else ())]
