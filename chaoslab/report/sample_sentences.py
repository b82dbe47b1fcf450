"""Sentences for samples: events that come by the thousand, told where a finding rests on one.

    Event ─► tell_sample ─► Sentence ─► the marked lines of a timeline

What is notable by itself has its sentence in `sentences`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind
from chaoslab.core.units import delay, plural
from chaoslab.report.sentences import Sentence, seconds

_P = TypeVar("_P", bound=payloads.Payload)


def tell_sample(event: Event) -> Sentence:
    """The sentence of an event that has none of its own; MalformedEvent if its data is broken."""
    return Sentence(time_s=event.time_s, text=_SENTENCES[event.kind](event.payload))


def tells(kind: Kind) -> bool:
    """Whether events of this kind are samples, and have a sentence here."""
    return kind in _SENTENCES


def _awaited(said: payloads.LearnerWaiting) -> str:
    return "other learners" if said.is_for_learners else f"fragment {said.fragment}"


def _who(said: payloads.OfLearner) -> str:
    return f"{said.learner} (incarnation {said.incarnation})"


def _round(said: payloads.Round) -> str:
    return f"round {said.round} of fragment {said.fragment}"


def _push(said: payloads.Pushed) -> str:
    return f"{_round(said)}, {plural(said.c_steps, 'step')} on version {said.base_version}"


def _merged(said: payloads.RoundMerged) -> str:
    again = " once more" if said.is_restated else ""
    by = ", ".join(one.learner for one in said.contributors) or "nobody"
    missed = f"; without {', '.join(said.missed)}" if said.missed else ""
    return f"{_round(said)} is merged{again} as version {said.version}, by {by}{missed}"


def _waiting(said: payloads.LearnerWaiting) -> str:
    where = f"at step {said.step:,}, {plural(said.c_steps, 'step')} after adopting it"
    if said.is_for_learners:
        where = f"at step {said.step:,}"
    return f"{_who(said)} waits for {_awaited(said)} {where}, {seconds(said.waited_s)} so far"


def _joined(said: payloads.LearnerJoined) -> str:
    return f"{_who(said)} has its state, from {said.donor or said.source}, at step {said.step}"


def _step(said: payloads.LearnerStep) -> str:
    pace = seconds(said.step_s)
    return f"{_who(said)} is at step {said.step:,}, {pace} for each, loss {said.loss:.3f}"


def _adopted(said: payloads.LearnerAdopted) -> str:
    what = f"version {said.version} of fragment {said.fragment}"
    return f"{_who(said)} adopted {what} at step {said.step:,}"


def _checkpoint(said: payloads.CheckpointFound) -> str:
    found = f"{said.file}, step {said.step}" if said.file else "no checkpoint"
    refused = "".join(f", refused {one.file} ({one.reason})" for one in said.refused)
    return f"{_who(said)} found {found}{refused}"


def _measured(said: payloads.LinkMeasured) -> str:
    trip = f"round trip {said.rtt_s * 1000:.0f} ms" if said.rtt_s is not None else "no round trip"
    answered = f"{said.pings_answered} of {plural(said.pings_sent, 'ping')} answered"
    return (
        f"link of {_who(said)}, {said.direction}: {trip}, {answered}, "
        f"{plural(said.payload_bytes, 'byte')} of payload, silent for {seconds(said.silent_s)}, "
        f"{plural(said.queued, 'message')} of {plural(said.queued_bytes, 'byte')} to be sent"
    )


def _closed(said: payloads.LinkClosed) -> str:
    if not said.was_open:
        dials = plural(said.attempts, "dial")
        return f"{_who(said)} did not reach the syncer after {dials}: {said.reason}"
    return f"{_who(said)} lost its stream, open for {seconds(said.open_s)}: {said.reason}"


def _counted(said: payloads.LinkCounted) -> str:
    counts = {
        "bytes up": said.up_bytes,
        "bytes down": said.down_bytes,
        "open connections": said.connections,
        "connections in all": said.opened,
        "packets": said.packets,
        "packets dropped": said.dropped,
    }
    return f"the link of {said.link} has counted {_listed(counts)}"


def _stress(said: payloads.NodeCounted) -> str:
    counts = {
        "cores left": said.cores,
        "s throttled": said.throttled_s,
        "s of CPU time used beside it": said.cpu_s,
        "bytes held beside it": said.rss_bytes,
        "bytes available": said.available_bytes,
        "kills for want of memory": said.oom_kills,
    }
    return f"{said.node} under {said.stressor}: {_listed(counts)}"


def _listed(counts: Mapping[str, float | None]) -> str:
    known = (f"{count:,.6g} {what}" for what, count in counts.items() if count is not None)
    return ", ".join(known) or "nothing"


def _machine(said: payloads.MachineSampled) -> str:
    return (
        f"the machine: {said.idle_cores:.1f} of {plural(said.cores, 'core')} idle, "
        f"{said.others_cores:.1f} used by others, load {said.load_1m:.1f}"
    )


def _counts(said: payloads.CountsSampled) -> str:
    return (
        f"learners: {said.alive} alive, {said.believed} believed, {said.stepping} stepping, "
        f"{said.contributing} contributing"
    )


def _engine(said: payloads.EngineReported) -> str:
    code = f"exit code {said.exit_code}" if said.exit_code is not None else None
    more = ", ".join(filter(None, (said.signal, code, said.health, said.reason, said.machine)))
    return f"the engine says {said.action} of {said.node}{f' ({more})' if more else ''}"


def _damaged(said: payloads.StorageDamaged) -> str:
    size = "gone" if said.bytes_after is None else plural(said.bytes_after, "byte")
    was = "was not there" if said.bytes_before is None else plural(said.bytes_before, "byte")
    return f"{said.file} of {said.node} is damaged ({said.how}): {was} before, {size} now"


def _power(said: payloads.StoragePowerLost) -> str:
    lost = f"{len(said.lost)} of {plural(said.files, 'file')}"
    return f"the disk of {said.node} lost its power, and with it {lost}"


def _bounded(said: payloads.PushBounded) -> str:
    return (
        f"the syncer shortened a push of {_who(said)}, {_round(said)}: "
        f"norm {said.norm:.3g}, usual is {said.usual:.3g}, at most {said.limit:.3g} times that"
    )


def _rejected(said: payloads.PushRejected) -> str:
    detail = f" ({said.detail})" if said.detail else ""
    who = _who(said) if said.learner else "a stranger"
    tokens = f" with {said.c_tokens:,.0f} tokens" if said.c_tokens else ""
    return f"the syncer refused a push of {who}, {_round(said)}{tokens}: {said.reason}{detail}"


def _final(said: payloads.LearnerFinal) -> str:
    return f"final account of {_who(said)}: step {said.step:,}, {said.tokens:,.0f} tokens"


def _synced(said: payloads.SyncerFinal) -> str:
    rounds = plural(said.rounds, "round")
    counts = "".join(f", {n} refused as {why}" for why, n in said.rejected.items())
    counts += "".join(f", {n} turned away as {why}" for why, n in said.turned_away.items())
    committed = f"{said.committed_tokens:,.0f} tokens committed"
    return f"final account of the syncer: {rounds}, {committed}{counts}"


def _compiled(said: payloads.LearnerCompiled) -> str:
    refused = f"; files not used: {'; '.join(said.refused)}" if said.refused else ""
    return (
        f"{_who(said)} has its functions after {seconds(said.took_s)}: {said.loaded} loaded, "
        f"{said.compiled} compiled{refused}"
    )


def _tampered(said: payloads.UpdateTampered) -> str:
    factor = f" by {said.factor:g}" if said.factor is not None else ""
    return f"the push of {_who(said)} for {_round(said)} was corrupted: {said.how}{factor}"


def _of(payload: type[_P], write: Callable[[_P], str]) -> tuple[Kind, Callable[[Any], str]]:
    return payloads.kind_of(payload), write


_SENTENCES: Mapping[Kind, Callable[[Any], str]] = dict(
    [
        _of(payloads.CountsSampled, _counts),
        _of(payloads.MachineSampled, _machine),
        _of(payloads.EngineReported, _engine),
        _of(
            payloads.NodeProbed,
            lambda e: (
                f"{e.node} (incarnation {e.incarnation}) has process state {e.state}, pid {e.pid}, "
                f"{plural(e.rss_bytes, 'byte')} of memory"
            ),
        ),
        _of(payloads.NodeCounted, _stress),
        _of(
            payloads.NodeRelieved,
            lambda e: f"{e.node} is relieved of {e.stressor}{f': {e.because}' * bool(e.because)}",
        ),
        _of(payloads.StorageDamaged, _damaged),
        _of(
            payloads.StorageFilled,
            lambda e: f"the disk of {e.node} is filled: {plural(e.free_bytes, 'byte')} free",
        ),
        _of(
            payloads.StorageFreed,
            lambda e: f"the disk of {e.node} has room again: {plural(e.free_bytes, 'byte')} free",
        ),
        _of(payloads.StoragePowerLost, _power),
        _of(payloads.RoundMerged, _merged),
        _of(
            payloads.RoundStored,
            lambda e: f"{_round(e)} is on disk as version {e.version}, {delay(e.took_s)}",
        ),
        _of(payloads.RoundAbandoned, lambda e: f"{_round(e)} is abandoned: {e.reason}"),
        _of(payloads.PushAccepted, lambda e: f"the syncer took a push of {_who(e)}, {_push(e)}"),
        _of(payloads.PushRejected, _rejected),
        _of(payloads.PushBounded, _bounded),
        _of(payloads.SyncerFinal, _synced),
        _of(
            payloads.LearnerStarted,
            lambda e: f"{_who(e)} runs on {plural(e.devices, f'{e.platform} device')}",
        ),
        _of(payloads.LearnerCompiled, _compiled),
        _of(payloads.LearnerJoined, _joined),
        _of(payloads.LearnerStep, _step),
        _of(payloads.LearnerWaiting, _waiting),
        _of(payloads.LearnerPushed, lambda e: f"{_who(e)} pushed for {_push(e)}"),
        _of(payloads.UpdateTampered, _tampered),
        _of(
            payloads.CheckpointSaved,
            lambda e: f"{_who(e)} saved {e.file}, step {e.step:,}, {delay(e.took_s)}",
        ),
        _of(
            payloads.CheckpointFailed,
            lambda e: f"{_who(e)} could not save step {e.step:,}: {e.reason}",
        ),
        _of(payloads.CheckpointFound, _checkpoint),
        _of(
            payloads.CheckpointGiven,
            lambda e: f"{_who(e)} sends its state at step {e.step:,} to a learner that rejoins",
        ),
        _of(payloads.LearnerAdopted, _adopted),
        _of(payloads.LearnerFinal, _final),
        _of(payloads.HostStarted, lambda e: f"host {e.host} of {_who(e)} started, pid {e.pid}"),
        _of(
            payloads.ClockRead,
            lambda e: f"the clock of {e.node or e.learner} shows {e.monotonic_s:.3f} s",
        ),
        _of(payloads.LinkMeasured, _measured),
        _of(payloads.LinkClosed, _closed),
        _of(payloads.LinkCounted, _counted),
        _of(
            payloads.FaultStepped,
            lambda e: f"{e.injection} takes step {e.beat}: {e.fault} on {', '.join(e.targets)}",
        ),
        _of(payloads.VerdictReached, lambda e: f"the verdict is {e.outcome}"),
    ]
)
