"""The one sentence structure of a run: an `Event`, and the closed list of its kinds.

A node prints events on standard output, one JSON object per line (the node contract):

    {"kind": "learner.step", "node_s": 12.031, "data": {"learner": "learner-1", "step": 310, ...}}

The harness stamps each with a sequence number and its own time and appends it to the journal:

    {"seq": 412, "time_s": 14.2, "wall": "...", "source": "learner-1", "kind": "learner.step", ...}

`node_s` is the node's own monotonic time; it is never compared across nodes. What each kind carries
in `data` is written beside it in `Kind`. Lines of other shapes are a node's ordinary output.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


class Kind(StrEnum):
    """Every kind of event, with the keys of its data."""

    # -- the run, written by the harness
    RUN_STARTED = "run.started"
    """plan, seed, fleet, algorithm, learners [name] (that are there from the start), reserve [name]
    (that may join later), entries [{spec, fault, injections}] (of the plan's `faults`, and how many
    injections of each were scheduled), schedule_hash, version, record (the format of the journal,
    see docs/record.md; 1 if it is missing), plan_digest (SHA-256 of plan.resolved.yaml as it was
    carried out), is_twin, provenance {part: digest} (what decides how it trains: a run and its twin
    have the same)"""
    PHASE_ENTERED = "phase.entered"
    """phase: start | baseline | inject | settle | stop | evaluate"""
    BASELINE_MEASURED = "baseline.measured"
    """is_steady, reason, gap_s_median, gap_s_max, tokens_per_s, variation, step_s {learner: s}"""
    COUNTS_SAMPLED = "counts.sampled"
    """alive, believed, stepping, contributing: four different numbers, once a second"""
    MACHINE_SAMPLED = "machine.sampled"
    """window_s (since the last sample: for so long the machine of the harness was as busy as this),
    cores, load_1m, own_cores (CPU time per second of the harness, the nodes and all below them),
    others_cores (of everybody else), stolen_cores (by other guests of the host), idle_cores,
    waited_s | null (the harness, ready and without a core), throttled_s | null (by the cgroup's
    quota), cpu_pressure, io_pressure and memory_pressure | null (share of the time in which some
    process waited for it, PSI)"""
    RUN_SETTLED = "run.settled"
    """is_settled, pending [text]: what had not converged when settling ended"""
    RUN_FINISHED = "run.finished"
    """outcome: completed | aborted | interrupted | broken, reason"""

    # -- nodes, written by the fleet
    NODE_STARTED = "node.started"
    """node, role, incarnation, pid, start_ticks (when the process started, in clock ticks since the
    boot), boot_id, namespaces (in which the pid and the ticks count), labels {} (of a container
    container, image, image_id and start_time, by its engine in s since the epoch, in place of the
    ticks, the boot and the namespaces)"""
    NODE_EXITED = "node.exited"
    """node, incarnation, pid, exit_code | null, signal | null (name), refused_lines (that claimed
    to be events and were none it may report), sent [name] (signals that the harness had sent it to
    end it, SIGHUP as a notice included; of a node that failed by itself also last_words, the end of
    its standard error; of a container also out_of_memory: the kernel killed it for want of memory,
    by the engine's word)"""
    ENGINE_REPORTED = "engine.reported"
    """node, incarnation, action (start | die | oom | kill | pause | unpause | update | connect |
    disconnect | health_status | destroy …), at_s (by the engine's clock, s since the epoch),
    exit_code | null, signal | null, health (healthy | unhealthy) | null: the container engine's own
    word, beside what the fleet did"""
    NODE_PROBED = "node.probed"
    """node, incarnation, pid, state (R S D T Z gone), rss_bytes, cpu_s"""
    NODE_STRESSED = "node.burdened"
    """node, incarnation, injection, burden: slowness | neighbours | held_memory | memory_limit,
    mechanism (in words), settings {}: and it stood from then on, in this strength"""
    NODE_COUNTED = "node.counted"
    """node, incarnation, injection, burden, and what the burden measures itself: cores (CPU time
    per second that is left to the node) and throttled_s (of all its threads), or cpu_s, rss_bytes
    (of the processes beside the node) and available_bytes (of the machine), or oom_kills"""
    NODE_RELIEVED = "node.relieved"
    """node, incarnation, injection, burden, because: "", or why nobody had asked for it"""
    STORAGE_DAMAGED = "storage.damaged"
    """node, file, how: corrupt | truncate | lose, bytes_before, digest_before, bytes_after | null,
    digest_after | null (both null: the file is gone), all read back from the disk"""
    STORAGE_FILLED = "storage.filled"
    """node, total_bytes, free_bytes: what the kernel says of the volume on which it keeps files"""
    STORAGE_FREED = "storage.freed"
    """the same, when it has room again"""
    STORAGE_POWER_LOST = "storage.power_lost"
    """node, refused (what the kernel said to a write after the cut; null if it took it), files (how
    many there were), lost [{file, bytes_before, bytes_after}] (those that were not as before when
    the power was back; null bytes: there was none), all read back from the disk"""

    # -- the syncer, printed by it
    SYNCER_READY = "syncer.ready"
    """address, rounds, committed_tokens, is_recovered (it goes on from its disk), last_epoch (none
    up to this one is given again), lives {learner: n} (the newest ones known), versions {fragment:
    n}, digests {fragment: hex} and momentum_digests {}: what it holds"""
    SYNCER_BLOCKED = "syncer.blocked"
    """waiting (merges that are not on disk), reason: the disk refuses; nothing is published that is
    not on disk, and it is tried again"""
    SYNCER_FREED = "syncer.freed"
    """waiting, blocked_s: the disk takes what is written again"""
    MEMBER_JOINED = "member.joined"
    """learner, incarnation, epoch, source: initial | donor | syncer | resumed, donor, members"""
    MEMBER_REFUSED = "member.refused"
    """learner and incarnation as it called itself, reason: it was not let in, nothing changed"""
    STREAM_REFUSED = "stream.refused"
    """reason (`identity.RefusalReason`: wrong_token, untrusted_certificate, other_name …), peer
    (its address), claimed (the learner that it called itself, or ""), known_as (the learner that
    its token or certificate is good for, or ""), count (of this reason since the last such line;
    the rest is the last one's): turned away before it could change anything"""
    MEMBER_SUSPECTED = "member.suspected"
    """learner, incarnation, epoch, idle_s: no step for idle_s; nobody waits for it any more"""
    MEMBER_RECOVERED = "member.recovered"
    """learner, incarnation, epoch, idle_s: it stepped again before it was dropped"""
    MEMBER_LEFT = "member.left"
    """learner, incarnation, epoch, members, reason: closed | no_progress | said_goodbye | fenced"""
    ROUND_MERGED = "round.merged"
    """round, fragment, version, base_version, contributors [{learner, incarnation, epoch, step,
    c_steps, c_tokens, weight, tokens_from, tokens_to}], committed_tokens (of the run so far),
    digest (of what was published), momentum_digest, members, missed [learner], quorum_s, grace_s,
    sync_s (a syncer that came back says its last merge once more, because nobody can know whether
    it was heard: with is_restated true, without members, missed and the times)"""
    ROUND_STORED = "round.stored"
    """round, fragment, version, took_s (until the merge was on the syncer's disk)"""
    ROUND_ABANDONED = "round.abandoned"
    """round, fragment, reason"""
    PUSH_ACCEPTED = "push.accepted"
    """learner, incarnation, epoch, round, fragment, base_version, step, c_steps, c_tokens,
    tokens_from, tokens_to, norm (of its outer gradient, L2 over the fragment)"""
    PUSH_REJECTED = "push.rejected"
    """learner, incarnation (whoever was let in on the stream; "" and 0: nobody), epoch (under which
    it was pushed), round, fragment, reason (a `decisions.Refusal`), c_tokens, detail"""
    PUSH_BOUNDED = "push.bounded"
    """learner, incarnation, epoch, round, fragment, norm, usual (the norm that it was shortened to:
    that of other pushes of so many steps), limit (times the usual that a push may have)"""
    SYNCER_HELD = "syncer.held"
    """reason: this stop rule is met, and training goes on until the syncer is asked to end"""
    SYNCER_STOPPED = "syncer.stopped"
    """reason: training has ended; said before any learner is told, so nobody may end before it"""
    SYNCER_FINAL = "syncer.final"
    """rounds, versions {fragment: n}, digests {fragment: hex}, momentum_digests {},
    stored_digests {} and stored_momentum_digests {} (read back from disk), committed_tokens,
    rejected {reason: n}, turned_away {reason: n} (streams that were refused), reason, was_asked (it
    ended before a stop rule was met)"""

    # -- learners, printed by them
    LEARNER_STARTED = "learner.started"
    """learner, incarnation, devices, platform (cpu, gpu, tpu), parameters"""
    LEARNER_JOINED = "learner.joined"
    """learner, incarnation, epoch, source, donor, step, data_position, versions {fragment: n},
    digests {fragment: hex} (read from the device; empty if it kept its own, with work on top)"""
    LEARNER_STEP = "learner.step"
    """learner, incarnation, epoch, step, steps (since the last sample), step_s (their mean), loss,
    tokens (raw, of this incarnation), data_position"""
    LEARNER_PUSHED = "learner.pushed"
    """learner, incarnation, epoch, round, fragment, base_version, step, c_steps, c_tokens,
    tokens_from, tokens_to: where in its own raw tokens the contribution lies"""
    UPDATE_TAMPERED = "update.tampered"
    """learner, incarnation, round, fragment, how (a `tampering.How`), factor | null: its test hook
    spoilt this push on its way out"""
    CHECKPOINT_SAVED = "checkpoint.saved"
    """learner, incarnation, file, step, bytes, took_s (on its own disk, whole)"""
    CHECKPOINT_FAILED = "checkpoint.failed"
    """learner, incarnation, step, reason: the disk refused; training goes on, older ones stay"""
    CHECKPOINT_FOUND = "checkpoint.found"
    """learner, incarnation, file | null (its own newest whole one), step | null, refused [{file,
    reason}] (newer ones that were passed over): when it started, whether it needs one or not"""
    LEARNER_ADOPTED = "learner.adopted"
    """learner, incarnation, epoch, fragment, version, step, digest, discarded_tokens (its own work
    that this overwrote), committed_tokens (its own work that this version contains)"""
    LEARNER_FENCED = "learner.fenced"
    """learner, incarnation, epoch, reason: told that it is no longer a member; registers again"""
    LEARNER_NOTICED = "learner.noticed"
    """learner, incarnation, step: a preemption notice arrived"""
    LEARNER_FINAL = "learner.final"
    """learner, incarnation, step, tokens, versions {fragment: n}, digests {fragment: hex} (read
    from the device), committed {fragment: tokens}, discarded {}, in_flight {}"""
    LEARNER_LEFT = "learner.left"
    """learner, incarnation, step, reason: stopped… | preempted | asked"""

    # -- nodes that were asked to watch a point of the protocol (`diloco.node.phases`)
    PHASE_REACHED = "phase.reached"
    """node or learner, incarnation, phase (a `diloco.node.phases.Phase`), is_held (it waits there
    for the harness), and where: round, fragment, version, as far as they are known"""

    # -- nodes whose clocks are set, or run too fast or too slow (`diloco.node.clocks`)
    CLOCK_READ = "clock.read"
    """node or learner, incarnation, wall_s (since the epoch) and monotonic_s, as its code reads
    them: before they are touched, at once, twice a second, and when they are let go"""

    # -- links, as their two ends see them. Each end reports about once a second: a learner as long
    #    as it lives, the syncer for every learner that ever attached, those that are silent or gone
    #    included. Opened and closed are the learner's.
    LINK_MEASURED = "link.measured"
    """learner, incarnation, direction: up | down (which way it came: up is the syncer's word, down
    the learner's), window_s (since the last report), silent_s (since anything arrived; without a
    stream it goes on growing), rtt_s | null (median of the pings answered in the window), rtt_s_min
    | null, rtt_s_max | null, pings_sent, pings_answered (both in the window), probe_rtt_s | null
    (median of the pings answered in the window on a connection of their own, where no payload is
    ahead of them; the learner's alone, in older records nobody's), probe_rtt_s_min | null,
    probes_answered, bytes (of everything that arrived by this link in the reporter's life, payloads
    and headers), payload_bytes (of the payloads completed in the window), bytes_per_s | null (how
    fast payloads arrived while they did: timed_bytes over timed_s), timed_bytes (of payloads, those
    that arrived in the window), timed_s (for how long they were awaited; in older records both are
    missing, and bytes_per_s tells of what followed the first chunk of each payload), queued
    (messages and payloads that wait at the reporter to be sent), queued_bytes"""
    LINK_OPENED = "link.opened"
    """learner, incarnation, attempts (dials since the last stream ended, this one included),
    after_s (since then, or since the start): the syncer answered"""
    LINK_CLOSED = "link.closed"
    """learner, incarnation, was_open (false: this dial failed), open_s, attempts, reason"""

    # -- links, written by the harness; a link is called like its learner
    LINK_STARTED = "link.started"
    """link, kind, address, upstream"""
    LINK_SHAPED = "link.shaped"
    """link, injection, direction, effect, settings {}: and it held from then on"""
    LINK_CLEARED = "link.cleared"
    """link, injection"""
    LINK_COUNTED = "link.counted"
    """link, up_bytes, down_bytes, connections (open now), opened (ever), packets, dropped: what
    carries the link has counted; null for what it cannot count"""
    LINK_LOST = "link.lost"
    """kind, links [name], reason: what carried them is broken, and nobody had asked for that"""

    # -- evaluation after the run, printed by the evaluator
    EVALUATION_MEASURED = "evaluation.measured"
    """committed_tokens, round, loss"""

    # -- faults, written by the harness; every one carries injection, spec, fault, targets [node]
    FAULT_INJECTING = "fault.injecting"
    """+ settings {}, trigger, asked_s (when the trigger was met), for_s | null, takes_away (victims
    must rejoin), brings_in (the targets were not there: they join; of a trigger by phase also
    reached: the seq of the announcement that met it)"""
    FAULT_INJECTED = "fault.injected"
    FAULT_STEPPED = "fault.stepped"
    """+ beat: a later beat of the same fault was carried out"""
    FAULT_FAILED = "fault.failed"
    """+ reason: it could not be carried out"""
    FAULT_SKIPPED = "fault.skipped"
    """+ reason: its trigger never came, or the limits forbade it; obstacle: held (an open fault has
    a target) | not_alive | there_already | protected | limits | no_trigger"""
    FAULT_HEALING = "fault.healing"
    FAULT_HEALED = "fault.healed"
    """both + because, when it was healed for another reason than its time; healed is written when
    a look at the world shows that nothing of the fault is left"""
    FAULT_HEAL_FAILED = "fault.heal_failed"
    """+ reason: what is still there, or who refused; it is tried again until the run ends"""
    EVIDENCE_MEASURED = "evidence.measured"
    """injection, fault, target, status: proved | weak | failed, code (why it has that status: a
    `faults.evidence.codes.Code`, see docs/faults.md; missing in older records), requested,
    measured, text, proof [seq], lack: at_start | throughout | null (what the fault breaks was not
    there)"""

    # -- people, limits and the end
    HARNESS_STALLED = "harness.stalled"
    """silent_s (so long the harness stood still), since_s (from when on, on its clock; what nodes
    said meanwhile is stamped late, at most with the time of this line), undone [what its janitor
    undid meanwhile]"""
    JANITOR_DIED = "janitor.died"
    """pid, how, successor (the pid of the janitor that was started in its place) | null, reason
    (why there is none: from then on nothing is undone should the harness die)"""
    ABORT_FIRED = "abort.fired"
    """rule, observed"""
    VERDICT_REACHED = "verdict.reached"
    """not in a journal: a verdict is made from the record, and read back from verdict.json"""
    RESIDUE_FOUND = "residue.found"
    """what, where, remedy"""


class MalformedEvent(ValueError):
    """A line that claims to be an event and is not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. `time_s` is the harness clock; `node_s` the node's own, if any."""

    seq: int
    time_s: float
    source: str
    kind: Kind
    data: Mapping[str, Json] = field(default_factory=dict)
    wall: str = ""
    node_s: float | None = None

    def text(self, key: str) -> str:
        """The string under `key`; MalformedEvent if it is missing or something else."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return value

    def number(self, key: str) -> float:
        """The number under `key`, which may be NaN or infinite; MalformedEvent otherwise."""
        value = self._value(key)
        if isinstance(value, str) and value in _NOT_FINITE.values():
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        try:
            return float(value)
        except OverflowError as error:  # JSON knows integers that no float can hold
            raise self._wrong(key, "a number") from error

    def integer(self, key: str) -> int:
        """The int under `key`; MalformedEvent if it is missing or something else."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "an integer")
        return value

    def flag(self, key: str) -> bool:
        """The boolean under `key`; MalformedEvent if it is missing or something else."""
        value = self._value(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def items(self, key: str) -> Sequence[Json]:
        """The list under `key`; MalformedEvent if it is missing or something else."""
        value = self._value(key)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self._wrong(key, "a list")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """The list of strings under `key`."""
        return tuple(str(item) for item in self.items(key))

    def mapping(self, key: str) -> Mapping[str, Json]:
        """The object under `key`; MalformedEvent if it is missing or something else."""
        value = self._value(key)
        if not isinstance(value, Mapping):
            raise self._wrong(key, "an object")
        return value

    def to_line(self) -> str:
        """One JSON line without the newline; keys in a fixed order, so equal events are equal."""
        head: dict[str, Json] = {"seq": self.seq, "time_s": round(self.time_s, 6)}
        if self.wall:
            head["wall"] = self.wall
        head |= {"source": self.source, "kind": self.kind.value}
        if self.node_s is not None:
            head["node_s"] = round(self.node_s, 6)
        return encode({**head, "data": self.data})

    @classmethod
    def from_line(cls, line: str) -> "Event":
        """Read one journal line; MalformedEvent says what is wrong with it."""
        fields = _object(line)
        try:
            return cls(
                seq=int(_scalar(fields["seq"])),
                time_s=_finite_time(fields["time_s"]),
                source=str(fields["source"]),
                kind=Kind(str(fields["kind"])),
                data=_mapping(fields["data"]),
                wall=str(fields.get("wall", "")),
                node_s=None if fields.get("node_s") is None else float(_scalar(fields["node_s"])),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise MalformedEvent(f"not an event: {line[:200]!r} ({error})") from error

    def _value(self, key: str) -> Json:
        if key not in self.data:
            raise MalformedEvent(f"event {self.seq} ({self.kind}) has no {key!r}")
        return self.data[key]

    def _wrong(self, key: str, wanted: str) -> MalformedEvent:
        return MalformedEvent(
            f"event {self.seq} ({self.kind}): {key!r} is {self.data[key]!r}, not {wanted}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one line of a node says, before the harness stamps it."""

    kind: Kind
    node_s: float | None
    data: Mapping[str, Json]


def node_line(kind: Kind, *, node_s: float, data: Mapping[str, Json]) -> str:
    """The line a node prints for an event, without the newline."""
    return encode({"kind": kind.value, "node_s": round(node_s, 6), "data": data})


def read_node_line(line: str) -> Report | None:
    """The report in a line of a node's output; None for ordinary output.

    A line that starts like an event but is not one raises MalformedEvent.
    """
    if not line.startswith('{"kind":'):
        return None
    fields = _object(line)
    try:
        node_s = fields.get("node_s")
        return Report(
            kind=Kind(str(fields["kind"])),
            node_s=None if node_s is None else float(_scalar(node_s)),
            data=_mapping(fields["data"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedEvent(f"not a node's event: {line[:200]!r} ({error})") from error


def encode(value: Json) -> str:
    """Compact JSON; NaN and infinity become the strings "NaN", "Infinity", "-Infinity"."""
    return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def decode(text: str) -> Json:
    """The value of a JSON text. ValueError if it is none, or if nobody could write it again: it is
    nested deeper than `DEPTH_MOST`, or a character in it is half of one (a lone surrogate).
    """
    try:
        value: Json = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested deeper than {DEPTH_MOST}") from error
    if text.count("[") + text.count("{") > DEPTH_MOST and _depth(value) > DEPTH_MOST:
        raise ValueError(f"nested deeper than {DEPTH_MOST}")
    if _SURROGATE.search(text):
        encode(value).encode()
    return value


def _depth(value: Json) -> int:
    """How many lists and objects are around the innermost one; stops beyond `DEPTH_MOST`."""
    depth, level = 0, [value]
    while level and depth <= DEPTH_MOST:
        nests = [one for one in level if isinstance(one, dict | list)]
        level = [part for one in nests for part in (one.values() if isinstance(one, dict) else one)]
        depth += bool(nests)
    return depth


DEPTH_MOST = 100
_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value


def _object(line: str) -> Mapping[str, Json]:
    try:
        value = decode(line)
    except ValueError as error:
        raise MalformedEvent(f"not JSON: {line[:200]!r} ({error})") from error
    if not isinstance(value, dict):
        raise MalformedEvent(f"not a JSON object: {line[:200]!r}")
    return value


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError(f"data is {value!r}, not an object")
    return value


def _finite_time(value: Json) -> float:
    time_s = float(_scalar(value))
    if not math.isfinite(time_s):
        raise ValueError(f"{time_s} is no time")
    return time_s


def _scalar(value: Json) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Something a node said or that happened to it; `run` stamps it into the journal."""

    source: str
    kind: Kind
    data: Mapping[str, Json]
    node_s: float | None = None
