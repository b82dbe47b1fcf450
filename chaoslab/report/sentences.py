"""Sentences about events, for people: the one table of all kinds.

    Event ─► describe ─► Sentence(text, tone) ─► terminal, plain lines, pages of a run

Samples (`learner.step`, `push.accepted`, `round.merged`, …) come by the thousand: they have no
tone, and are told only where a finding rests on one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from chaoslab.checks.mixed_lines import said_of_mixed
from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind
from chaoslab.core.protocol import LeaveReason
from chaoslab.core.terminal import one_line
from chaoslab.core.units import delay, plural
from chaoslab.core.units import elapsed as seconds
from chaoslab.report import node_sentences as nodes
from chaoslab.report import run_sentences as run

__all__ = ["Sentence", "Tone", "describe", "is_notable", "seconds"]

_P = TypeVar("_P", bound=payloads.Payload)


class Tone(StrEnum):
    """Meaning of a sentence to the reader; each window chooses its own colours."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Sentence about an event; `time_s` is the run's clock."""

    time_s: float
    text: str
    tone: Tone = Tone.PLAIN


def describe(event: Event, *, also_samples: bool = False) -> Sentence | None:
    """The sentence of a notable event, or of any; MalformedEvent if its data is broken."""
    tone, write = _SENTENCES[event.kind]
    if tone is None and not also_samples:
        return None
    said = event.payload
    is_orderly = (isinstance(said, payloads.NodeExited) and said.exit_code == 0) or (
        isinstance(said, payloads.MemberLeft) and said.reason is LeaveReason.SAID_GOODBYE
    )
    text = one_line(write(said))
    return Sentence(
        time_s=event.time_s, text=text, tone=Tone.PLAIN if is_orderly or not tone else tone
    )


def is_notable(kind: Kind) -> bool:
    """Whether events of this kind are told by themselves."""
    return _SENTENCES[kind][0] is not None


def _of(
    payload: type[_P], tone: Tone | None, write: Callable[[_P], str]
) -> tuple[Kind, tuple[Tone | None, Callable[[Any], str]]]:
    """The tone and the sentence of events with this payload; samples have no tone."""
    return payloads.kind_of(payload), (tone, write)


_SENTENCES: Mapping[Kind, tuple[Tone | None, Callable[[Any], str]]] = dict(
    [
        _of(payloads.RunStarted, Tone.PLAIN, run.started),
        _of(payloads.PhaseEntered, Tone.PLAIN, lambda e: f"phase {e.phase}"),
        _of(payloads.PaceSet, Tone.PLAIN, run.pace),
        _of(payloads.BaselineMeasured, Tone.PLAIN, run.baseline),
        _of(payloads.RunSettled, Tone.PLAIN, run.settled),
        _of(payloads.RunLeft, Tone.PLAIN, run.left),
        _of(payloads.RunFinished, Tone.PLAIN, run.finished),
        _of(payloads.NodeStarted, Tone.PLAIN, nodes.node_started),
        _of(payloads.NodeExited, Tone.BAD, nodes.node_exited),
        _of(payloads.ProviderReported, Tone.PLAIN, nodes.slice_condition),
        _of(payloads.RepairMoved, Tone.PLAIN, nodes.repair),
        _of(payloads.NodeStressed, Tone.PLAIN, nodes.stressed),
        _of(payloads.SyncerReady, Tone.PLAIN, nodes.ready),
        _of(payloads.SyncerBlocked, Tone.BAD, nodes.blocked),
        _of(payloads.SyncerFreed, Tone.GOOD, nodes.freed),
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
            lambda e: f"the disk of {e.host} refuses writes to {e.file}: {e.reason}",
        ),
        _of(
            payloads.DiskFreed,
            Tone.GOOD,
            lambda e: f"the disk of {e.host} accepts writes again, after {seconds(e.blocked_s)}",
        ),
        _of(payloads.PhaseReached, Tone.FAULT, nodes.reached),
        _of(payloads.MemberJoined, Tone.GOOD, nodes.joined),
        _of(
            payloads.StreamRefused,
            Tone.BAD,
            nodes.turned_away,
        ),
        _of(
            payloads.MemberRefused,
            Tone.BAD,
            lambda e: f"{nodes.learner_of(e)} was refused: {e.reason}",
        ),
        _of(payloads.SyncerStopRuleMet, Tone.PLAIN, run.stop_rule_met),
        _of(payloads.SyncerStopped, Tone.PLAIN, lambda e: f"training has ended: {e.reason}"),
        _of(
            payloads.MemberSuspected,
            Tone.BAD,
            lambda e: (
                f"{nodes.learner_of(e)} is suspected: no step for {seconds(e.idle_s)}; "
                "no round waits"
            ),
        ),
        _of(
            payloads.MemberRecovered,
            Tone.GOOD,
            lambda e: f"{nodes.learner_of(e)} steps again after {seconds(e.idle_s)}",
        ),
        _of(
            payloads.MemberLeft,
            Tone.BAD,
            lambda e: f"{nodes.learner_of(e)} left ({e.reason}), {plural(e.members, 'member')}",
        ),
        _of(
            payloads.LearnerFenced,
            Tone.BAD,
            lambda e: f"{nodes.learner_of(e)} was fenced: {e.reason}",
        ),
        _of(
            payloads.LearnerNoticed,
            Tone.FAULT,
            lambda e: f"{nodes.learner_of(e)} has notice of its preemption, at step {e.step:,}",
        ),
        _of(payloads.TrainerSaid, None, lambda e: f"{e.node}: {e.line}"),
        _of(payloads.TrainerMixed, Tone.BAD, said_of_mixed),
        _of(
            payloads.HostLost,
            Tone.BAD,
            lambda e: f"{nodes.learner_of(e)} lost host {e.host}: {e.reason}",
        ),
        _of(
            payloads.LearnerLeft,
            Tone.PLAIN,
            lambda e: f"{nodes.learner_of(e)} ends at step {e.step:,}: {e.reason}",
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
                f"{e.link} connects directly to {e.upstream}"
                if e.kind == "none"
                else f"{e.link} reaches {e.upstream} by {e.address} ({e.kind})"
            ),
        ),
        _of(
            payloads.LinkOpened,
            Tone.PLAIN,
            lambda e: (
                f"{nodes.learner_of(e)} connected {delay(e.after_s)}, "
                f"{plural(e.attempts, 'attempt')}"
            ),
        ),
        _of(
            payloads.LinkShaped,
            Tone.FAULT,
            lambda e: (
                f"the link of {e.link} is shaped by {e.injection}: "
                f"{e.effect} {e.direction}{nodes.settings_of(e)}"
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
        _of(payloads.FaultInjecting, Tone.FAULT, run.fault("begins")),
        _of(payloads.FaultInjected, Tone.FAULT, run.fault("injected")),
        _of(payloads.FaultFailed, Tone.BAD, run.refused("failed")),
        _of(payloads.FaultSkipped, Tone.BAD, run.refused("was skipped")),
        _of(payloads.FaultHealing, Tone.FAULT, run.healed("is being healed")),
        _of(payloads.FaultHealed, Tone.GOOD, run.healed("is healed")),
        _of(payloads.FaultHealFailed, Tone.FAULT, run.refused("is not undone yet")),
        _of(
            payloads.EvidenceMeasured,
            Tone.FAULT,
            lambda e: f"evidence of {e.fault} on {e.target}, {e.status}: {e.text}",
        ),
        _of(
            payloads.HarnessStalled,
            Tone.BAD,
            run.stalled,
        ),
        _of(payloads.JanitorDied, Tone.BAD, run.janitor_died),
        _of(
            payloads.SignalFailed,
            Tone.BAD,
            lambda e: f"{e.signal} could not be sent to {e.node}: {e.reason}",
        ),
        _of(payloads.GamedayOpened, Tone.PLAIN, run.opened),
        _of(payloads.FaultHeld, Tone.FAULT, run.waits),
        _of(payloads.OperatorActed, Tone.PLAIN, run.acted),
        _of(
            payloads.OperatorRefused,
            Tone.BAD,
            lambda e: f"`{e.asked}` of {e.by} is not done: {e.reason}",
        ),
        _of(payloads.OperatorPredicted, Tone.PLAIN, run.predicted),
        _of(payloads.OperatorNoted, Tone.PLAIN, run.noted),
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
        _of(payloads.CountsSampled, None, run.counts),
        _of(payloads.MachineSampled, None, run.machine),
        _of(payloads.EngineReported, None, nodes.engine),
        _of(
            payloads.NodeProbed,
            None,
            lambda e: (
                f"{e.node} (incarnation {e.incarnation}) has process state {e.state}, pid {e.pid}, "
                f"{plural(e.rss_bytes, 'byte')} of memory"
            ),
        ),
        _of(payloads.NodeCounted, None, nodes.stress_counted),
        _of(
            payloads.NodeRelieved,
            None,
            lambda e: f"{e.node} is relieved of {e.stressor}{f': {e.because}' * bool(e.because)}",
        ),
        _of(payloads.StorageDamaged, None, nodes.damaged),
        _of(
            payloads.StorageFilled,
            None,
            lambda e: f"the disk of {e.node} is filled: {plural(e.free_bytes, 'byte')} free",
        ),
        _of(
            payloads.StorageFreed,
            None,
            lambda e: f"the disk of {e.node} has room again: {plural(e.free_bytes, 'byte')} free",
        ),
        _of(payloads.StoragePowerLost, None, nodes.power),
        _of(payloads.RoundMerged, None, nodes.merged),
        _of(
            payloads.RoundStored,
            None,
            lambda e: f"{nodes.round_of(e)} is on disk as version {e.version}, {delay(e.took_s)}",
        ),
        _of(
            payloads.RoundAbandoned, None, lambda e: f"{nodes.round_of(e)} is abandoned: {e.reason}"
        ),
        _of(
            payloads.PushAccepted,
            None,
            lambda e: f"the syncer took a push of {nodes.learner_of(e)}, {nodes.push(e)}",
        ),
        _of(payloads.PushRejected, None, nodes.rejected),
        _of(payloads.PushBounded, None, nodes.bounded),
        _of(payloads.SyncerFinal, None, nodes.synced),
        _of(
            payloads.LearnerStarted,
            None,
            lambda e: f"{nodes.learner_of(e)} runs on {plural(e.devices, f'{e.platform} device')}",
        ),
        _of(payloads.LearnerCompiled, None, nodes.compiled),
        _of(payloads.LearnerJoined, None, nodes.has_state),
        _of(payloads.LearnerStep, None, nodes.at_step),
        _of(payloads.LearnerWaiting, None, nodes.waiting),
        _of(
            payloads.LearnerPushed,
            None,
            lambda e: f"{nodes.learner_of(e)} pushed for {nodes.push(e)}",
        ),
        _of(payloads.UpdateTampered, None, nodes.tampered),
        _of(
            payloads.CheckpointSaved,
            None,
            lambda e: f"{nodes.learner_of(e)} saved {e.file}, step {e.step:,}, {delay(e.took_s)}",
        ),
        _of(
            payloads.CheckpointFailed,
            None,
            lambda e: f"{nodes.learner_of(e)} could not save step {e.step:,}: {e.reason}",
        ),
        _of(payloads.CheckpointFound, None, nodes.checkpoint),
        _of(
            payloads.CheckpointGiven,
            None,
            lambda e: (
                f"{nodes.learner_of(e)} sends its state at step {e.step:,} "
                "to a learner that rejoins"
            ),
        ),
        _of(payloads.LearnerAdopted, None, nodes.adopted),
        _of(payloads.LearnerFinal, None, nodes.final),
        _of(
            payloads.HostStarted,
            None,
            lambda e: f"host {e.host} of {nodes.learner_of(e)} started, pid {e.pid}",
        ),
        _of(
            payloads.ClockRead,
            None,
            lambda e: f"the clock of {e.node or e.learner} shows {e.monotonic_s:.3f} s",
        ),
        _of(payloads.LinkMeasured, None, nodes.measured),
        _of(payloads.LinkClosed, None, nodes.closed),
        _of(payloads.LinkCounted, None, nodes.link_counted),
        _of(
            payloads.FaultStepped,
            None,
            lambda e: f"{e.injection} takes step {e.step}: {e.fault} on {', '.join(e.targets)}",
        ),
        _of(payloads.VerdictReached, None, lambda e: f"the verdict is {e.outcome}"),
    ]
)
