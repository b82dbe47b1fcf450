"""Texts about nodes and links, for the table of `sentences`: one function for each kind of event.

What is said in one expression stands in the table itself.
"""

from collections.abc import Mapping

from chaoslab.core import payloads
from chaoslab.core.units import elapsed as seconds
from chaoslab.core.units import plural


def learner_of(said: payloads.OfLearner) -> str:
    """A learner and its life."""
    return f"{said.learner} (incarnation {said.incarnation})"


def node_started(said: payloads.NodeStarted) -> str:
    labels = [f"{name} {value}" for name, value in said.labels.items()]
    more = "".join(f", {one}" for one in (*labels, said.container, said.image) if one)
    by = f" again by the {said.started_by}" if said.started_by else ""
    return f"{said.node} started{by}: incarnation {said.incarnation}, pid {said.pid}{more}"


def slice_condition(said: payloads.ProviderReported) -> str:
    slice_ = f"the slice {said.resource}".rstrip()
    by_us = "as chaoslab asked" if said.is_by_us else ""
    words = ", ".join(filter(None, (said.state, said.health, said.request, said.detail, by_us)))
    return f"{slice_} of {said.node} is {said.condition}{f' ({words})' if words else ''}"


def repair(said: payloads.RepairMoved) -> str:
    why = f": {said.detail}" if said.detail else ""
    which = f", slice {said.attempt}" if said.attempt > 1 else ""
    change = f" ({said.lost or 'none'} -> {said.resource or 'none'})"
    counts = f", {plural(said.preemptions, 'preemption')}, {plural(said.failures, 'failure')}"
    stage = said.stage.replace("_", " ")
    return f"repair of the slice of {said.node}{change}: {stage}{which}{counts}{why}"


def node_exited(said: payloads.NodeExited) -> str:
    code = "exit code unknown" if said.exit_code is None else f"exit code {said.exit_code}"
    with_host = ", as its host was lost" if said.host_lost else ""
    return f"{said.node} exited: {said.signal or code}{with_host}"


def stressed(said: payloads.NodeStressed) -> str:
    settings = said.settings
    asked = ", ".join(
        f"{key} {value}" for key, value in settings.items() if key not in {"mechanism", "for_s"}
    )
    node = f"{said.node} (incarnation {said.incarnation})"
    return f"{node} is stressed by {said.stressor} ({asked}): {said.mechanism}"


def ready(said: payloads.SyncerReady) -> str:
    text = f"the syncer listens on {said.address}"
    if said.is_recovered:
        text += f", resumed from disk after {plural(said.rounds, 'round')} with "
        text += f"{said.committed_tokens:,.0f} committed tokens"
    return text


def blocked(said: payloads.SyncerBlocked) -> str:
    if said.is_snapshot:
        return f"the syncer's disk refuses a snapshot, training continues: {said.reason}"
    waiting = plural(said.waiting, "merge")
    return f"the syncer's disk refuses writes, {waiting} not published: {said.reason}"


def freed(said: payloads.SyncerFreed) -> str:
    what = "snapshots" if said.is_snapshot else "writes"
    left = f", {plural(said.waiting, 'merge')} left" if said.waiting else ""
    return f"the syncer's disk accepts {what} again, after {seconds(said.blocked_s)}{left}"


def reached(said: payloads.PhaseReached) -> str:
    waits = ", and waits" if said.is_waiting else ""
    known = {"round": said.round, "fragment": said.fragment, "version": said.version}
    where = ", ".join(f"{key} {value}" for key, value in known.items() if value is not None)
    return f"{said.node or said.learner} is at {said.phase}{f' ({where})' if where else ''}{waits}"


def joined(said: payloads.MemberJoined) -> str:
    where = said.donor or said.source
    return f"{learner_of(said)} joined, state from {where}, {plural(said.members, 'member')}"


def turned_away(said: payloads.StreamRefused) -> str:
    known = f", authenticated as {said.known_as}" if said.known_as else ""
    claimed = f", which called itself {said.claimed}" if said.claimed else ""
    return f"{said.count} turned away ({said.reason}), the last from {said.peer}{claimed}{known}"


def settings_of(said: payloads.LinkShaped) -> str:
    told = ", ".join(f"{key} {value}" for key, value in said.settings.items())
    return f" ({told})" if told else ""


def round_of(said: payloads.Round) -> str:
    return f"round {said.round} of fragment {said.fragment}"


def push(said: payloads.Pushed) -> str:
    return f"{round_of(said)}, {plural(said.c_steps, 'step')} on version {said.base_version}"


def merged(said: payloads.RoundMerged) -> str:
    again = " once more" if said.is_restated else ""
    by = ", ".join(one.learner for one in said.contributors) or "no learner"
    missed = f"; without {', '.join(said.missed)}" if said.missed else ""
    return f"{round_of(said)} is merged{again} as version {said.version}, by {by}{missed}"


def waiting(said: payloads.LearnerWaiting) -> str:
    where = f"at step {said.step:,}, {plural(said.c_steps, 'step')} after adopting it"
    awaited = f"fragment {said.fragment}"
    if said.is_for_learners:
        awaited, where = "other learners", f"at step {said.step:,}"
    return f"{learner_of(said)} waits for {awaited} {where}, {seconds(said.waited_s)} so far"


def has_state(said: payloads.LearnerJoined) -> str:
    return (
        f"{learner_of(said)} has its state, from {said.donor or said.source}, at step {said.step}"
    )


def at_step(said: payloads.LearnerStep) -> str:
    pace = seconds(said.step_s)
    loss = "no loss" if said.loss is None else f"loss {said.loss:.3f}"
    return f"{learner_of(said)} is at step {said.step:,}, {pace} for each, {loss}"


def adopted(said: payloads.LearnerAdopted) -> str:
    what = f"version {said.version} of fragment {said.fragment}"
    return f"{learner_of(said)} adopted {what} at step {said.step:,}"


def checkpoint(said: payloads.CheckpointFound) -> str:
    found = f"{said.file}, step {said.step}" if said.file else "no checkpoint"
    refused = "".join(f", refused {one.file} ({one.reason})" for one in said.refused)
    return f"{learner_of(said)} found {found}{refused}"


def measured(said: payloads.LinkMeasured) -> str:
    trip = f"round trip {said.rtt_s * 1000:.0f} ms" if said.rtt_s is not None else "no round trip"
    answered = f"{said.pings_answered} of {plural(said.pings_sent, 'ping')} answered"
    return (
        f"link of {learner_of(said)}, {said.direction}: {trip}, {answered}, "
        f"{plural(said.payload_bytes, 'byte')} of payload, silent for {seconds(said.silent_s)}, "
        f"{plural(said.queued, 'message')} of {plural(said.queued_bytes, 'byte')} to be sent"
    )


def closed(said: payloads.LinkClosed) -> str:
    if not said.was_open:
        attempts = plural(said.attempts, "attempt")
        return f"{learner_of(said)} did not connect after {attempts}: {said.reason}"
    return f"{learner_of(said)} lost its stream, open for {seconds(said.open_s)}: {said.reason}"


def link_counted(said: payloads.LinkCounted) -> str:
    counts = {
        "bytes up": said.up_bytes,
        "bytes down": said.down_bytes,
        "open connections": said.connections,
        "connections in all": said.opened,
        "packets": said.packets,
        "packets dropped": said.dropped,
    }
    return f"the link of {said.link} has counted {listed(counts)}"


def stress_counted(said: payloads.NodeCounted) -> str:
    counts = {
        "cores left": said.cores,
        "s throttled": said.throttled_s,
        "s of CPU time used beside it": said.cpu_s,
        "bytes occupied beside it": said.rss_bytes,
        "bytes available": said.available_bytes,
        "out-of-memory kills": said.oom_kills,
    }
    return f"{said.node} under {said.stressor}: {listed(counts)}"


def listed(counts: Mapping[str, float | None]) -> str:
    known = (f"{count:,.6g} {what}" for what, count in counts.items() if count is not None)
    return ", ".join(known) or "nothing"


def engine(said: payloads.EngineReported) -> str:
    code = f"exit code {said.exit_code}" if said.exit_code is not None else None
    more = ", ".join(filter(None, (said.signal, code, said.health, said.reason, said.machine)))
    return f"the engine says {said.action} of {said.node}{f' ({more})' if more else ''}"


def damaged(said: payloads.StorageDamaged) -> str:
    size = "gone" if said.bytes_after is None else plural(said.bytes_after, "byte")
    was = "was not there" if said.bytes_before is None else plural(said.bytes_before, "byte")
    return f"{said.file} of {said.node} is damaged ({said.how}): {was} before, {size} now"


def power(said: payloads.StoragePowerLost) -> str:
    lost = f"{len(said.lost)} of {plural(said.files, 'file')}"
    return f"the disk of {said.node} lost its power, and with it {lost}"


def bounded(said: payloads.PushBounded) -> str:
    return (
        f"the syncer shortened a push of {learner_of(said)}, {round_of(said)}: "
        f"norm {said.norm:.3g}, usual is {said.usual:.3g}, at most {said.limit:.3g} times that"
    )


def rejected(said: payloads.PushRejected) -> str:
    detail = f" ({said.detail})" if said.detail else ""
    whose = learner_of(said) if said.learner else "a stranger"
    tokens = f" with {said.c_tokens:,.0f} tokens" if said.c_tokens else ""
    return f"the syncer refused a push of {whose}, {round_of(said)}{tokens}: {said.reason}{detail}"


def final(said: payloads.LearnerFinal) -> str:
    return f"final account of {learner_of(said)}: step {said.step:,}, {said.tokens:,.0f} tokens"


def synced(said: payloads.SyncerFinal) -> str:
    rounds = plural(said.rounds, "round")
    counts = "".join(f", {n} refused as {why}" for why, n in said.rejected.items())
    counts += "".join(f", {n} turned away as {why}" for why, n in said.turned_away.items())
    committed = f"{said.committed_tokens:,.0f} tokens committed"
    return f"final account of the syncer: {rounds}, {committed}{counts}"


def compiled(said: payloads.LearnerCompiled) -> str:
    refused = f"; files not used: {'; '.join(said.refused)}" if said.refused else ""
    return (
        f"{learner_of(said)} has its functions after {seconds(said.took_s)}: {said.loaded} loaded, "
        f"{said.compiled} compiled{refused}"
    )


def tampered(said: payloads.UpdateTampered) -> str:
    factor = f" by {said.factor:g}" if said.factor is not None else ""
    return f"the push of {learner_of(said)} for {round_of(said)} was corrupted: {said.how}{factor}"
