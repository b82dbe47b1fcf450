"""Sections on sealed faults: what a charter says of them before, and a debrief afterwards.

plan, kinds ─► to_be_sealed ────────► charter, for everybody
draw ────────► for_the_facilitator ─► charter, for who has the key
record ──────► once_sealed ─────────► debrief: what they were, and whether those came
"""

from collections.abc import Iterator, Sequence

from chaoslab.checks.seals import opened_faults, seal_doubts
from chaoslab.core.payloads import FaultSkipped, GamedaySealed
from chaoslab.core.units import elapsed, plural, show_duration
from chaoslab.gameday.markdown import safe, table
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.record.journal import History
from chaoslab.record.sealed import SealedFault


def to_be_sealed(plan: FaultPlan, kinds: Sequence[str]) -> Iterator[str]:
    """What everybody may know of them before; nothing for a plan without sealed faults."""
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
    yield (
        "They are drawn from the seed and a key, and encrypted until they come. When all faults "
        "are over, the record gets the key of the run, so that anybody can check them."
    )


def for_the_facilitator(sealed: Sequence[Injection]) -> Iterator[str]:
    """What they are, before they come; nothing without any."""
    if sealed:
        yield "Sealed, with times from the beginning of faults:"
        yield table(("sealed fault", "fault", "targets", "time"), map(_to_come, sealed))


def once_sealed(history: History) -> Iterator[str]:
    """What they were, and whether what came is what was sealed; nothing if nothing was sealed."""
    said = history.last(GamedaySealed)
    if said is None:
        return
    yield "## Sealed faults"
    doubts = "\n".join(f"- {safe(doubt.text)}" for doubt in seal_doubts(history))
    yield doubts or (
        f"{plural(said.payload.faults, 'fault')} sealed before the baseline. The key that came on "
        "record when all faults were over opens them: what came, or was left out, is what was "
        "sealed."
    )
    if opened := opened_faults(history):
        head = ("sealed fault", "fault", "targets", "drawn for", "came")
        yield table(head, (_opened(history, one) for one in opened.values()))


def _to_come(one: Injection) -> tuple[str, str, str, str]:
    return one.spec, one.fault, ", ".join(one.targets), show_duration(one.trigger.time_s or 0.0)


def _opened(history: History, one: SealedFault) -> tuple[str, str, str, str, str]:
    skipped = [e.payload for e in history.of(FaultSkipped) if e.payload.injection == one.injection]
    came = f"no: {skipped[0].reason}" if skipped else "yes"
    after = f"{elapsed(one.after_s)} after faults began"
    return one.spec, one.fault, ", ".join(one.targets), after, came
