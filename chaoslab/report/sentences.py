"""One sentence for each event that a person wants to hear of; nothing for the others.

    Event ─► describe ─► Sentence(text, tone) ─► the live view, plain lines, the page of a run

Samples (`learner.step`, `push.accepted`, `round.merged`, …) come by the thousand and have no
sentence; `view` adds them up instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any, TypeVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind
from chaoslab.core.terminal import one_line
from chaoslab.core.units import delay, plural
from chaoslab.core.units import elapsed as seconds

__all__ = ["Sentence", "Tone", "describe", "is_notable", "seconds"]

_P = TypeVar("_P", bound=payloads.Payload)


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
    said = event.payload
    is_orderly = (isinstance(said, payloads.NodeExited) and said.exit_code == 0) or (
        isinstance(said, payloads.MemberLeft) and said.reason is payloads.Leaving.SAID_GOODBYE
    )
    if is_orderly:
        tone = Tone.PLAIN
    return Sentence(time_s=event.time_s, text=one_line(write(said)), tone=tone)


def is_notable(kind: Kind) -> bool:
    """Whether events of this kind have a sentence."""
    return kind in _SENTENCES


def _run_started(said: payloads.RunStarted) -> str:
    more = f" and {len(said.reserve)} in reserve" if said.reserve else ""
    return (
        f"{said.plan} begins: {plural(len(said.learners), 'learner')}{more}, "
        f"{said.algorithm}, fleet {said.fleet}, seed {said.seed}"
    )


def _pace(said: payloads.PaceSet) -> str:
    measured_s = said.measured_s.values()
    why = f", because it took {median(measured_s) * 1000:.0f} ms before" if measured_s else ""
    return f"each step takes {said.step_s * 1000:.0f} ms from now on{why}"


def _baseline(said: payloads.BaselineMeasured) -> str:
    if not said.is_steady:
        return f"the baseline is not steady: {said.reason}"
    if said.gap_s_median is None or said.tokens_per_s is None:
        return "steady baseline"
    gap = seconds(said.gap_s_median)
    return f"steady baseline: a round every {gap}, {said.tokens_per_s:,.0f} tokens/s"


def _run_left(said: payloads.RunLeft) -> str:
    gone = f"; nobody has started {', '.join(said.gone)} again" if said.gone else ""
    return f"{', '.join(said.nodes) or 'no nodes'} run on: they were there before{gone}"


def _run_settled(said: payloads.RunSettled) -> str:
    if said.is_settled:
        return "settled: everything has converged again"
    return f"not settled, still pending: {', '.join(said.pending)}"


def _run_finished(said: payloads.RunFinished) -> str:
    reason = said.reason
    return f"the run is {said.outcome}" + (f": {reason}" if reason else "")


def _node_started(said: payloads.NodeStarted) -> str:
    labels = [f"{name} {value}" for name, value in said.labels.items()]
    more = "".join(f", {one}" for one in (*labels, said.container, said.image) if one)
    return f"{said.node} started: incarnation {said.incarnation}, pid {said.pid}{more}"


def _slice(said: payloads.ProviderReported) -> str:
    slice_ = f"the slice {said.resource}".rstrip()
    by_us = "as chaoslab asked" if said.is_by_us else ""
    words = ", ".join(filter(None, (said.state, said.health, said.request, said.detail, by_us)))
    return f"{slice_} of {said.node} is {said.condition}{f' ({words})' if words else ''}"


def _repair(said: payloads.RepairMoved) -> str:
    why = f": {said.detail}" if said.detail else ""
    which = f", slice {said.attempt}" if said.attempt > 1 else ""
    change = f" ({said.lost or 'none'} -> {said.resource or 'none'})"
    counts = f", {plural(said.preemptions, 'preemption')}, {plural(said.failures, 'failure')}"
    stage = said.stage.replace("_", " ")
    return f"repair of the slice of {said.node}{change}: {stage}{which}{counts}{why}"


def _node_exited(said: payloads.NodeExited) -> str:
    code = "nobody saw how" if said.exit_code is None else f"exit code {said.exit_code}"
    with_host = ", as its host was lost" if said.host_lost else ""
    return f"{said.node} exited: {said.signal or code}{with_host}"


def _stress_registry(said: payloads.NodeStressed) -> str:
    settings = said.settings
    asked = ", ".join(f"{key} {value}" for key, value in settings.items() if key not in _UNSAID)
    node = f"{said.node} (incarnation {said.incarnation})"
    return f"{node} bears {said.stressor} ({asked}): {said.mechanism}"


_UNSAID = frozenset({"mechanism", "for_s"})


def _ready(said: payloads.SyncerReady) -> str:
    text = f"the syncer listens on {said.address}"
    if said.is_recovered:
        text += f", going on from its disk after {plural(said.rounds, 'round')} with "
        text += f"{said.committed_tokens:,.0f} committed tokens"
    return text


def _blocked(said: payloads.SyncerBlocked) -> str:
    if said.is_snapshot:
        return f"a snapshot is refused by the syncer's disk, training goes on: {said.reason}"
    waiting = plural(said.waiting, "merge")
    return f"the syncer's disk refuses what it writes, {waiting} not published: {said.reason}"


def _freed(said: payloads.SyncerFreed) -> str:
    what = "snapshots" if said.is_snapshot else "what it writes"
    left = f", {plural(said.waiting, 'merge')} left" if said.waiting else ""
    return f"the syncer's disk takes {what} again, after {seconds(said.blocked_s)}{left}"


def _reached(said: payloads.PhaseReached) -> str:
    waits = ", and waits" if said.is_held else ""
    known = {"round": said.round, "fragment": said.fragment, "version": said.version}
    where = ", ".join(f"{key} {value}" for key, value in known.items() if value is not None)
    return f"{said.node or said.learner} is at {said.phase}{f' ({where})' if where else ''}{waits}"


def _joined(said: payloads.MemberJoined) -> str:
    where = said.donor or said.source
    return f"{_who(said)} joined, state from {where}, {plural(said.members, 'member')}"


def _fault(verb: str) -> Callable[[payloads.OfInjection], str]:
    return lambda said: f"{said.injection} {verb}: {said.fault} on {', '.join(said.targets)}"


def _refused(
    verb: str,
) -> Callable[[payloads.FaultFailed | payloads.FaultSkipped | payloads.FaultHealFailed], str]:
    return lambda said: f"{_fault(verb)(said)}{_because(said.reason)}"


def _healed(verb: str) -> Callable[[payloads.FaultHealing | payloads.FaultHealed], str]:
    return lambda said: f"{_fault(verb)(said)}{_because(said.because)}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _held_open(said: payloads.SyncerHeld) -> str:
    return (
        f"training reached its end ({said.reason}); it goes on until all are back, and as many "
        "rounds have followed as before the faults"
    )


def _who(said: payloads.OfLearner) -> str:
    return f"{said.learner} (incarnation {said.incarnation})"


def _turned_away(said: payloads.StreamRefused) -> str:
    known = f", authenticated as {said.known_as}" if said.known_as else ""
    claimed = f", which called itself {said.claimed}" if said.claimed else ""
    return f"{said.count} turned away ({said.reason}), the last from {said.peer}{claimed}{known}"


def _idle(said: payloads.MemberSuspected | payloads.MemberRecovered) -> str:
    return seconds(said.idle_s)


def _settings(said: payloads.LinkShaped) -> str:
    told = ", ".join(f"{key} {value}" for key, value in said.settings.items())
    return f" ({told})" if told else ""


def _stalled(said: payloads.HarnessStalled) -> str:
    undone = f"; its janitor undid: {'; '.join(said.undone)}" if said.undone else ""
    return f"{said.what} for {seconds(said.silent_s)}{undone}"


def _janitor_died(said: payloads.JanitorDied) -> str:
    pid = said.successor
    then = f"process {pid} took its place" if pid is not None else "and nobody took its place"
    return f"the janitor, process {said.pid}, died ({said.how}): {then}"


def _opened(said: payloads.GamedayOpened) -> str:
    led = f", led by {said.facilitator}" if said.facilitator else ""
    led += f", notes by {said.scribe}" if said.scribe else ""
    led += f", with {', '.join(said.responders)}" if said.responders else ""
    held = ", ".join(said.holds)
    sealed = f"; {plural(said.sealed, 'sealed fault')}" if said.sealed else ""
    return f"a game-day{led}: {f'operators decide of {held}' if held else 'no fault waits'}{sealed}"


def _waits(said: payloads.FaultHeld) -> str:
    """Not on which nodes: whoever is in the room may still predict that."""
    return f"{said.spec} waits for an operator: {said.fault} ({said.trigger})"


def _acted(said: payloads.OperatorActed) -> str:
    what = f"{said.action} {said.spec}".rstrip()
    return f"{said.by}: {what}{_because(said.reason)}"


def _predicted(said: payloads.OperatorPredicted) -> str:
    expected = []
    if said.continues is not None:
        expected.append(f"training {'goes on' if said.continues else 'stops'}")
    if said.gap_s is not None:
        expected.append(f"longest gap {seconds(said.gap_s)}")
    if said.hit is not None:
        expected.append(f"hit: {', '.join(said.hit) or 'nobody'}")
    if said.back_s is not None:
        expected.append(f"back {seconds(said.back_s)} after the heal")
    return f"{said.by} predicts of {said.spec}: {'; '.join(expected) or 'nothing'}"


def _noted(said: payloads.OperatorNoted) -> str:
    about = f" of {said.spec}" if said.spec else ""
    return f"{said.by} notes{about}: {said.text}"


def _of(
    payload: type[_P], tone: Tone, write: Callable[[_P], str]
) -> tuple[Kind, tuple[Tone, Callable[[Any], str]]]:
    """The tone and the sentence of events with this payload."""
    return payloads.kind_of(payload), (tone, write)


_SENTENCES: Mapping[Kind, tuple[Tone, Callable[[Any], str]]] = dict(
    [
        _of(payloads.RunStarted, Tone.PLAIN, _run_started),
        _of(payloads.PhaseEntered, Tone.PLAIN, lambda e: f"phase {e.phase}"),
        _of(payloads.PaceSet, Tone.PLAIN, _pace),
        _of(payloads.BaselineMeasured, Tone.PLAIN, _baseline),
        _of(payloads.RunSettled, Tone.PLAIN, _run_settled),
        _of(payloads.RunLeft, Tone.PLAIN, _run_left),
        _of(payloads.RunFinished, Tone.PLAIN, _run_finished),
        _of(payloads.NodeStarted, Tone.PLAIN, _node_started),
        _of(payloads.NodeExited, Tone.BAD, _node_exited),
        _of(payloads.ProviderReported, Tone.PLAIN, _slice),
        _of(payloads.RepairMoved, Tone.PLAIN, _repair),
        _of(payloads.NodeStressed, Tone.PLAIN, _stress_registry),
        _of(payloads.SyncerReady, Tone.PLAIN, _ready),
        _of(payloads.SyncerBlocked, Tone.BAD, _blocked),
        _of(payloads.SyncerFreed, Tone.GOOD, _freed),
        _of(
            payloads.CommunicatorFormed,
            Tone.PLAIN,
            lambda e: f"communicator {e.communicator}: {', '.join(e.learners)}",
        ),
        _of(
            payloads.CommunicatorEnded,
            Tone.BAD,
            lambda e: (
                f"communicator {e.communicator} of {', '.join(e.learners)} has ended: {e.reason}"
            ),
        ),
        _of(
            payloads.DiskBlocked,
            Tone.BAD,
            lambda e: f"the disk of {e.host} refuses what is written to {e.file}: {e.reason}",
        ),
        _of(
            payloads.DiskFreed,
            Tone.GOOD,
            lambda e: (
                f"the disk of {e.host} takes what is written again, after {seconds(e.blocked_s)}"
            ),
        ),
        _of(payloads.PhaseReached, Tone.FAULT, _reached),
        _of(payloads.MemberJoined, Tone.GOOD, _joined),
        _of(
            payloads.StreamRefused,
            Tone.BAD,
            _turned_away,
        ),
        _of(payloads.MemberRefused, Tone.BAD, lambda e: f"{_who(e)} was refused: {e.reason}"),
        _of(payloads.SyncerHeld, Tone.PLAIN, _held_open),
        _of(payloads.SyncerStopped, Tone.PLAIN, lambda e: f"training has ended: {e.reason}"),
        _of(
            payloads.MemberSuspected,
            Tone.BAD,
            lambda e: f"{_who(e)} is suspected: no step for {_idle(e)}; nobody waits for it",
        ),
        _of(
            payloads.MemberRecovered, Tone.GOOD, lambda e: f"{_who(e)} steps again after {_idle(e)}"
        ),
        _of(
            payloads.MemberLeft,
            Tone.BAD,
            lambda e: f"{_who(e)} left ({e.reason}), {plural(e.members, 'member')}",
        ),
        _of(payloads.LearnerFenced, Tone.BAD, lambda e: f"{_who(e)} was fenced: {e.reason}"),
        _of(
            payloads.LearnerNoticed,
            Tone.FAULT,
            lambda e: f"{_who(e)} has notice of its preemption, at step {e.step:,}",
        ),
        _of(payloads.HostLost, Tone.BAD, lambda e: f"{_who(e)} lost host {e.host}: {e.reason}"),
        _of(
            payloads.LearnerLeft,
            Tone.PLAIN,
            lambda e: f"{_who(e)} ends at step {e.step:,}: {e.reason}",
        ),
        _of(
            payloads.EvaluationMeasured,
            Tone.PLAIN,
            lambda e: (
                f"evaluation loss {e.loss:.4f} at {e.committed_tokens:,.0f} committed tokens, "
                f"round {e.round}"
            ),
        ),
        _of(
            payloads.LinkStarted,
            Tone.PLAIN,
            lambda e: (
                f"{e.link} dials {e.upstream} itself"
                if e.kind == "none"
                else f"{e.link} reaches {e.upstream} by {e.address} ({e.kind})"
            ),
        ),
        _of(
            payloads.LinkOpened,
            Tone.PLAIN,
            lambda e: (
                f"{_who(e)} reached the syncer {delay(e.after_s)}, {plural(e.attempts, 'dial')}"
            ),
        ),
        _of(
            payloads.LinkShaped,
            Tone.FAULT,
            lambda e: (
                f"the link of {e.link} is shaped by {e.injection}: "
                f"{e.effect} {e.direction}{_settings(e)}"
            ),
        ),
        _of(
            payloads.LinkCleared,
            Tone.FAULT,
            lambda e: f"the link of {e.link} is cleared of {e.injection}",
        ),
        _of(
            payloads.LinkRemade,
            Tone.BAD,
            lambda e: (
                f"the link of {e.link} was stuck and is made anew, which ended "
                f"{'its streams' if e.streams is None else plural(e.streams, 'stream')}: {e.reason}"
            ),
        ),
        _of(
            payloads.LinkLost,
            Tone.BAD,
            lambda e: f"the {e.kind} links of {', '.join(e.links)} are lost: {e.reason}",
        ),
        _of(payloads.FaultInjecting, Tone.FAULT, _fault("begins")),
        _of(payloads.FaultInjected, Tone.FAULT, _fault("is in")),
        _of(payloads.FaultFailed, Tone.BAD, _refused("failed")),
        _of(payloads.FaultSkipped, Tone.BAD, _refused("was skipped")),
        _of(payloads.FaultHealing, Tone.FAULT, _healed("is being healed")),
        _of(payloads.FaultHealed, Tone.GOOD, _healed("is healed")),
        _of(payloads.FaultHealFailed, Tone.BAD, _refused("could not be undone")),
        _of(
            payloads.EvidenceMeasured,
            Tone.FAULT,
            lambda e: f"evidence of {e.fault} on {e.target}, {e.status}: {e.text}",
        ),
        _of(
            payloads.HarnessStalled,
            Tone.BAD,
            _stalled,
        ),
        _of(payloads.JanitorDied, Tone.BAD, _janitor_died),
        _of(
            payloads.SignalFailed,
            Tone.BAD,
            lambda e: f"{e.signal} could not be sent to {e.node}: {e.reason}",
        ),
        _of(payloads.GamedayOpened, Tone.PLAIN, _opened),
        _of(payloads.FaultHeld, Tone.FAULT, _waits),
        _of(payloads.OperatorActed, Tone.PLAIN, _acted),
        _of(
            payloads.OperatorRefused,
            Tone.BAD,
            lambda e: f"`{e.asked}` of {e.by} is not done: {e.reason}",
        ),
        _of(payloads.OperatorPredicted, Tone.PLAIN, _predicted),
        _of(payloads.OperatorNoted, Tone.PLAIN, _noted),
        _of(
            payloads.AbortFired,
            Tone.BAD,
            lambda e: f"abort rule {e.rule} fired: {e.observed}",
        ),
        _of(
            payloads.ResidueFound,
            Tone.BAD,
            lambda e: f"left over: {e.what} in {e.where}; {e.remedy}",
        ),
    ]
)
