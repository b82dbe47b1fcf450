"""One sentence for each event that a person wants to hear of; nothing for the others.

    Event ─► describe ─► Sentence(text, tone) ─► the live view, plain lines, the page of a run

Samples (`learner.step`, `push.accepted`, `round.merged`, …) come by the thousand and have no
sentence; `view` adds them up instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.core.events import Event, Kind


class Tone(StrEnum):
    """What a sentence means to the reader; each window chooses its own colours."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What happened, for a person; `time_s` is the run's clock."""

    time_s: float
    text: str
    tone: Tone = Tone.PLAIN


def describe(event: Event) -> Sentence | None:
    """The sentence of a notable event, None for the rest; MalformedEvent if its data is broken."""
    found = _SENTENCES.get(event.kind)
    if found is None:
        return None
    tone, write = found
    is_orderly = event.data.get("exit_code") == 0 or event.data.get("reason") == "said_goodbye"
    if tone is Tone.BAD and is_orderly:
        tone = Tone.PLAIN
    return Sentence(time_s=event.time_s, text=write(event), tone=tone)


def seconds(value: float) -> str:
    """A duration as a reader wants it: 0.31 s, 24.1 s, 412 s."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} s"


def _run_started(event: Event) -> str:
    reserve = len(event.names("reserve")) if "reserve" in event.data else 0
    more = f" and {reserve} in reserve" if reserve else ""
    return (
        f"{event.text('plan')} begins: {len(event.names('learners'))} learners{more}, "
        f"{event.text('algorithm')}, fleet {event.text('fleet')}, seed {event.integer('seed')}"
    )


def _baseline(event: Event) -> str:
    if not event.flag("is_steady"):
        return f"the baseline is not steady: {event.text('reason')}"
    gap = seconds(event.number("gap_s_median"))
    return f"steady baseline: a round every {gap}, {event.number('tokens_per_s'):,.0f} tokens/s"


def _run_settled(event: Event) -> str:
    if event.flag("is_settled"):
        return "settled: everything has converged again"
    return f"not settled, still pending: {', '.join(event.names('pending'))}"


def _run_finished(event: Event) -> str:
    reason = event.data.get("reason")
    return f"the run is {event.text('outcome')}" + (f": {reason}" if reason else "")


def _node_started(event: Event) -> str:
    incarnation = event.integer("incarnation")
    return f"{event.text('node')} started: incarnation {incarnation}, pid {event.integer('pid')}"


def _node_exited(event: Event) -> str:
    signal, code = event.data.get("signal"), event.data.get("exit_code")
    return f"{event.text('node')} exited: {signal or f'exit code {code}'}"


def _stress_registry(event: Event) -> str:
    settings = event.mapping("settings")
    asked = ", ".join(f"{key} {value}" for key, value in settings.items() if key not in _UNSAID)
    return f"{event.text('node')} bears {event.text('burden')} ({asked}): {event.text('mechanism')}"


_UNSAID = frozenset({"mechanism", "for_s"})


def _ready(event: Event) -> str:
    text = f"the syncer listens on {event.text('address')}"
    if event.data.get("is_recovered") is True:
        text += f", going on from its disk after {event.integer('rounds')} rounds"
    return text


def _reached(event: Event) -> str:
    waits = ", and waits" if event.data.get("is_held") is True else ""
    keys = ("round", "fragment", "version")
    where = ", ".join(f"{key} {event.data[key]}" for key in keys if key in event.data)
    return f"{event.source} is at {event.text('phase')}{f' ({where})' if where else ''}{waits}"


def _joined(event: Event) -> str:
    donor = event.data.get("donor")
    return (
        f"{_who(event)} joined, state from {donor or event.text('source')}, "
        f"{event.integer('members')} members"
    )


def _fault(verb: str) -> Callable[[Event], str]:
    def write(event: Event) -> str:
        reason = event.data.get("reason")
        return (
            f"{event.text('injection')} {verb}: {event.text('fault')} on "
            f"{', '.join(event.names('targets'))}" + (f" ({reason})" if reason else "")
        )

    return write


def _who(event: Event) -> str:
    return f"{event.text('learner')} (incarnation {event.integer('incarnation')})"


def _idle(event: Event) -> str:
    return seconds(event.number("idle_s"))


def _settings(event: Event) -> str:
    told = ", ".join(f"{key} {value}" for key, value in event.mapping("settings").items())
    return f" ({told})" if told else ""


def _janitor_died(event: Event) -> str:
    pid = event.data.get("successor")
    then = f"process {pid} took its place" if pid is not None else "and nobody took its place"
    return f"the janitor died ({event.text('how')}): {then}"


_SENTENCES: Mapping[Kind, tuple[Tone, Callable[[Event], str]]] = {
    Kind.RUN_STARTED: (Tone.PLAIN, _run_started),
    Kind.PHASE_ENTERED: (Tone.PLAIN, lambda e: f"phase {e.text('phase')}"),
    Kind.BASELINE_MEASURED: (Tone.PLAIN, _baseline),
    Kind.RUN_SETTLED: (Tone.PLAIN, _run_settled),
    Kind.RUN_FINISHED: (Tone.PLAIN, _run_finished),
    Kind.NODE_STARTED: (Tone.PLAIN, _node_started),
    Kind.NODE_EXITED: (Tone.BAD, _node_exited),
    Kind.NODE_STRESSED: (Tone.PLAIN, _stress_registry),
    Kind.SYNCER_READY: (Tone.PLAIN, _ready),
    Kind.SYNCER_BLOCKED: (
        Tone.BAD,
        lambda e: (
            f"the syncer's disk refuses what it writes, nothing is published: {e.text('reason')}"
        ),
    ),
    Kind.SYNCER_FREED: (
        Tone.GOOD,
        lambda e: (
            f"the syncer's disk takes what it writes again, after {seconds(e.number('blocked_s'))}"
        ),
    ),
    Kind.PHASE_REACHED: (Tone.FAULT, _reached),
    Kind.MEMBER_JOINED: (Tone.GOOD, _joined),
    Kind.STREAM_REFUSED: (
        Tone.BAD,
        lambda e: (
            f"{e.integer('count')} turned away ({e.text('reason')}), the last from {e.text('peer')}"
        ),
    ),
    Kind.MEMBER_REFUSED: (Tone.BAD, lambda e: f"{_who(e)} was refused: {e.text('reason')}"),
    Kind.SYNCER_HELD: (
        Tone.PLAIN,
        lambda e: f"training is at its end ({e.text('reason')}), and goes on for the faults",
    ),
    Kind.SYNCER_STOPPED: (Tone.PLAIN, lambda e: f"training has ended: {e.text('reason')}"),
    Kind.MEMBER_SUSPECTED: (
        Tone.BAD,
        lambda e: f"{_who(e)} is suspected: no step for {_idle(e)}; nobody waits for it",
    ),
    Kind.MEMBER_RECOVERED: (Tone.GOOD, lambda e: f"{_who(e)} steps again after {_idle(e)}"),
    Kind.MEMBER_LEFT: (
        Tone.BAD,
        lambda e: f"{_who(e)} left ({e.text('reason')}), {e.integer('members')} members",
    ),
    Kind.LEARNER_FENCED: (Tone.BAD, lambda e: f"{_who(e)} was fenced: {e.text('reason')}"),
    Kind.LEARNER_NOTICED: (Tone.FAULT, lambda e: f"{_who(e)} has notice of its preemption"),
    Kind.LEARNER_LEFT: (Tone.PLAIN, lambda e: f"{_who(e)} ends: {e.text('reason')}"),
    Kind.EVALUATION_MEASURED: (
        Tone.PLAIN,
        lambda e: (
            f"evaluation loss {e.number('loss'):.4f} "
            f"at {e.number('committed_tokens'):,.0f} committed tokens"
        ),
    ),
    Kind.LINK_STARTED: (
        Tone.PLAIN,
        lambda e: (
            f"{e.text('link')} dials {e.text('upstream')} itself"
            if e.text("kind") == "none"
            else f"{e.text('link')} reaches {e.text('upstream')} by {e.text('address')} "
            f"({e.text('kind')})"
        ),
    ),
    Kind.LINK_OPENED: (
        Tone.PLAIN,
        lambda e: (
            f"{_who(e)} reached the syncer after {seconds(e.number('after_s'))}, "
            f"{e.integer('attempts')} dials"
        ),
    ),
    Kind.LINK_SHAPED: (
        Tone.FAULT,
        lambda e: (
            f"the link of {e.text('link')} is shaped by {e.text('injection')}: "
            f"{e.text('effect')} {e.text('direction')}{_settings(e)}"
        ),
    ),
    Kind.LINK_CLEARED: (
        Tone.FAULT,
        lambda e: f"the link of {e.text('link')} is cleared of {e.text('injection')}",
    ),
    Kind.LINK_LOST: (
        Tone.BAD,
        lambda e: f"the {e.text('kind')} links are lost: {e.text('reason')}",
    ),
    Kind.FAULT_INJECTING: (Tone.FAULT, _fault("begins")),
    Kind.FAULT_INJECTED: (Tone.FAULT, _fault("is in")),
    Kind.FAULT_FAILED: (Tone.BAD, _fault("failed")),
    Kind.FAULT_SKIPPED: (Tone.BAD, _fault("was skipped")),
    Kind.FAULT_HEALING: (Tone.FAULT, _fault("is being healed")),
    Kind.FAULT_HEALED: (Tone.GOOD, _fault("is healed")),
    Kind.FAULT_HEAL_FAILED: (Tone.BAD, _fault("could not be undone")),
    Kind.EVIDENCE_MEASURED: (
        Tone.FAULT,
        lambda e: f"evidence on {e.text('target')}, {e.text('status')}: {e.text('text')}",
    ),
    Kind.HARNESS_STALLED: (
        Tone.BAD,
        lambda e: f"the harness stood still for {seconds(e.number('silent_s'))}",
    ),
    Kind.JANITOR_DIED: (Tone.BAD, _janitor_died),
    Kind.ABORT_FIRED: (
        Tone.BAD,
        lambda e: f"abort rule {e.text('rule')} fired: {e.data.get('observed')}",
    ),
    Kind.RESIDUE_FOUND: (
        Tone.BAD,
        lambda e: f"left over: {e.text('what')} in {e.text('where')}; {e.text('remedy')}",
    ),
}
