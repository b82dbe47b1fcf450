"""Events of a run: their structure, the closed list of their kinds, and their JSON.

A node prints events on standard output, one JSON object per line (the node contract):

    {"kind": "learner.step", "node_s": 12.031, "data": {"learner": "learner-1", "step": 310, ...}}

The harness stamps each with a sequence number and its own time and appends it to the journal:

    {"seq": 412, "time_s": 14.2, "wall": "...", "source": "learner-1", "kind": "learner.step", ...}

`node_s` is the node's own monotonic time; it is never compared across nodes. What each kind carries
in `data` is a class in `core.payloads`. Lines of other shapes are a node's ordinary output.
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:  # what evaluates annotations in other modules cannot follow the recursion
    Json = Any

_T = TypeVar("_T")


class Kind(StrEnum):
    """Every kind of event; what each carries is its class in `core.payloads`."""

    # -- the run, written by the harness
    RUN_STARTED = "run.started"
    PHASE_ENTERED = "phase.entered"
    PACE_SET = "pace.set"
    BASELINE_MEASURED = "baseline.measured"
    COUNTS_SAMPLED = "counts.sampled"
    MACHINE_SAMPLED = "machine.sampled"
    RUN_SETTLED = "run.settled"
    RUN_LEFT = "run.left"
    RUN_FINISHED = "run.finished"

    # -- nodes, written by the fleet
    NODE_STARTED = "node.started"
    NODE_EXITED = "node.exited"
    ENGINE_REPORTED = "engine.reported"
    PROVIDER_REPORTED = "provider.reported"
    REPAIR_MOVED = "repair.moved"
    NODE_PROBED = "node.probed"
    NODE_STRESSED = "node.stressed"
    NODE_COUNTED = "node.counted"
    NODE_RELIEVED = "node.relieved"
    DISK_BLOCKED = "disk.blocked"
    DISK_FREED = "disk.freed"
    STORAGE_DAMAGED = "storage.damaged"
    STORAGE_FILLED = "storage.filled"
    STORAGE_FREED = "storage.freed"
    STORAGE_POWER_LOST = "storage.power_lost"

    # -- the syncer, printed by it
    SYNCER_READY = "syncer.ready"
    SYNCER_BLOCKED = "syncer.blocked"
    SYNCER_FREED = "syncer.freed"
    MEMBER_JOINED = "member.joined"
    MEMBER_REFUSED = "member.refused"
    STREAM_REFUSED = "stream.refused"
    MEMBER_SUSPECTED = "member.suspected"
    MEMBER_RECOVERED = "member.recovered"
    MEMBER_LEFT = "member.left"
    ROUND_MERGED = "round.merged"
    ROUND_STORED = "round.stored"
    ROUND_ABANDONED = "round.abandoned"
    COMMUNICATOR_FORMED = "communicator.formed"
    COMMUNICATOR_ENDED = "communicator.ended"
    PUSH_ACCEPTED = "push.accepted"
    PUSH_REJECTED = "push.rejected"
    PUSH_BOUNDED = "push.bounded"
    SYNCER_STOP_RULE_MET = "syncer.stop_rule_met"
    SYNCER_STOPPED = "syncer.stopped"
    SYNCER_FINAL = "syncer.final"

    # -- learners, printed by them
    LEARNER_STARTED = "learner.started"
    LEARNER_COMPILED = "learner.compiled"
    LEARNER_JOINED = "learner.joined"
    LEARNER_STEP = "learner.step"
    LEARNER_WAITING = "learner.waiting"
    LEARNER_PUSHED = "learner.pushed"
    UPDATE_TAMPERED = "update.tampered"
    CHECKPOINT_SAVED = "checkpoint.saved"
    CHECKPOINT_FAILED = "checkpoint.failed"
    CHECKPOINT_FOUND = "checkpoint.found"
    CHECKPOINT_GIVEN = "checkpoint.given"
    LEARNER_ADOPTED = "learner.adopted"
    LEARNER_FENCED = "learner.fenced"
    LEARNER_NOTICED = "learner.noticed"
    LEARNER_FINAL = "learner.final"
    LEARNER_LEFT = "learner.left"

    # -- learners of several hosts, printed by their supervisor or by the process of host 0
    HOST_STARTED = "host.started"
    HOST_LOST = "host.lost"

    # -- trainings that are not chaoslab's own, read from their output by the harness
    TRAINER_SAID = "trainer.said"
    TRAINER_MIXED = "trainer.mixed"

    # -- nodes that were asked to watch a point of the protocol (`diloco.node.phases`)
    PHASE_REACHED = "phase.reached"

    # -- nodes whose clocks are set, or run too fast or too slow (`diloco.node.clocks`)
    CLOCK_READ = "clock.read"

    # -- links, as their two ends see them
    LINK_MEASURED = "link.measured"
    LINK_OPENED = "link.opened"
    LINK_CLOSED = "link.closed"

    # -- links, written by the harness; a link is called like its learner
    LINK_STARTED = "link.started"
    LINK_SHAPED = "link.shaped"
    LINK_CLEARED = "link.cleared"
    LINK_COUNTED = "link.counted"
    LINK_REMADE = "link.remade"
    LINK_LOST = "link.lost"

    # -- evaluation after the run, printed by the evaluator
    EVALUATION_MEASURED = "evaluation.measured"

    # -- faults, written by the harness; every one carries injection, spec, fault, targets [node]
    FAULT_INJECTING = "fault.injecting"
    FAULT_INJECTED = "fault.injected"
    FAULT_STEPPED = "fault.stepped"
    FAULT_FAILED = "fault.failed"
    FAULT_SKIPPED = "fault.skipped"
    FAULT_HEALING = "fault.healing"
    FAULT_HEALED = "fault.healed"
    FAULT_HEAL_FAILED = "fault.heal_failed"
    EVIDENCE_MEASURED = "evidence.measured"

    # -- game-days: faults that wait for an operator, and what people do and say
    GAMEDAY_OPENED = "gameday.opened"
    FAULT_HELD = "fault.held"
    OPERATOR_ACTED = "operator.acted"
    OPERATOR_REFUSED = "operator.refused"
    OPERATOR_PREDICTED = "operator.predicted"
    OPERATOR_NOTED = "operator.noted"

    # -- limits and the end
    HARNESS_STALLED = "harness.stalled"
    JANITOR_DIED = "janitor.died"
    SIGNAL_FAILED = "signal.failed"
    ABORT_FIRED = "abort.fired"
    VERDICT_REACHED = "verdict.reached"
    RESIDUE_FOUND = "residue.found"


class MalformedEvent(ValueError):
    """A line that claims to be an event and is not one."""


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
class Payload:
    """The data of an event, or of an item in it, with typed fields: what a writer says and a reader
    gets.

    Each subclass is a frozen, keyword-only dataclass; with `kind`, events of that kind carry it.
    What a line lacks raises MalformedEvent when it is asked for.
    """

    def __init_subclass__(cls, *, kind: Kind | None = None) -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        if kind is not None:
            _PAYLOADS[kind], _KINDS[cls] = cls, kind

    if not TYPE_CHECKING:  # to a type checker, every field is there

        def __getattr__(self, name: str) -> object:
            if name in self.__dataclass_fields__ and "_where" in vars(self):
                raise MalformedEvent(f"{vars(self)['_where']} has no {name!r}")
            raise AttributeError(f"{type(self).__name__} has no {name!r}")


_PAYLOADS: dict[Kind, type[Payload]] = {}
_KINDS: dict[type[Payload], Kind] = {}

if TYPE_CHECKING:
    from typing_extensions import TypeVar as VarWithDefault

    P_co = VarWithDefault("P_co", bound=Payload, covariant=True, default=Payload)
else:  # typing has no defaults before Python 3.13, and a node needs no typing_extensions
    P_co = TypeVar("P_co", covariant=True)


def kind_of(payload: type[Payload]) -> Kind:
    """The kind of events that carry it."""
    return _KINDS[payload]


def payloads() -> Mapping[Kind, type[Payload]]:
    """The payload of every kind."""
    return _PAYLOADS


def data_of(payload: Payload) -> Mapping[str, Json]:
    """The data of an event that carries it: its fields as JSON, every one of them."""
    data: Mapping[str, Json] = msgspec.to_builtins(payload, enc_hook=_builtin)
    return data


def _builtin(value: object) -> object:
    """JSON value of a number of NumPy, or of a mapping that is no dictionary."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"an event cannot carry {value!r}")


def read(kind: type[_T], value: Json, where: object) -> _T:
    """A value of this type from JSON; MalformedEvent names the place, the key and what was wanted.

    Numbers may be NaN or infinite: "NaN", "Infinity", "-Infinity".
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        try:
            return msgspec.convert(_numbers(value), kind)
        except msgspec.ValidationError as error:
            raise MalformedEvent(f"{where}: {error}") from error


def _with_gaps(kind: type[Payload], event: "Event | Observation") -> Payload:
    """The payload of an event that lacks some of its fields."""
    made, data = object.__new__(kind), event.data
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]  # every payload is one
        name, hint = one.name, cast("type[Any]", one.type)
        if name in data:
            vars(made)[name] = read(hint, data[name], f"{event}, {name}")
        elif one.default_factory is not dataclasses.MISSING:
            vars(made)[name] = one.default_factory()
    vars(made)["_where"] = str(event)
    return made


@cache
def _decoder(kind: Kind) -> "msgspec.json.Decoder[Payload]":
    return msgspec.json.Decoder(_PAYLOADS[kind])


def _read_payload(event: "Event | Observation") -> Payload:
    kind = _PAYLOADS[event.kind]
    try:
        return msgspec.convert(event.data, kind)
    except msgspec.ValidationError:
        return _with_gaps(kind, event)


class _OncePayload:
    """`Event.payload`: made when it is first asked for, and from then on an attribute."""

    def __get__(self, event: "Event[P_co]", _: object) -> P_co:
        state = vars(event)
        try:
            payload: Any = _decoder(event.kind).decode(state["unread"])
        except (KeyError, msgspec.DecodeError):  # no line, or a field that is not as it should be
            payload = _read_payload(event)
        state["payload"] = payload
        return cast("P_co", payload)


class _OnceData:
    """`Event.data` of a line that was read: parsed when it is first asked for."""

    def __get__(self, event: "Event[P_co] | None", _: object) -> Mapping[str, Json]:
        if event is None:
            raise AttributeError("data")
        state = vars(event)
        state["data"] = decode(bytes(state["unread"]).decode())
        data: Mapping[str, Json] = state["data"]
        return data


@dataclass(frozen=True, kw_only=True, init=False)
class Event(Generic[P_co]):
    """One thing that happened. `time_s` is the harness clock; `node_s` the node's own, if any.

    Made by the journal and by what reads it: other writers say a `Payload`, as an `Observation`.

    A record has so many of them that all attributes are set at once, and where they are read the
    JSON of `data` stays as it stands in the line. They have no slots for that.
    """

    seq: int
    time_s: float
    source: str
    kind: Kind
    data: Mapping[str, Json] = field(default_factory=dict)
    wall: str = ""
    node_s: float | None = None
    payload = _OncePayload()
    """`data` with typed fields, see `core.payloads`; MalformedEvent if one is of another type."""

    def __init__(
        self,
        *,
        seq: int,
        time_s: float,
        source: str,
        kind: Kind,
        data: Mapping[str, Json] | None = None,
        wall: str = "",
        node_s: float | None = None,
    ) -> None:
        vars(self).update(
            seq=seq,
            time_s=time_s,
            source=source,
            kind=kind,
            data={} if data is None else data,
            wall=wall,
            node_s=node_s,
        )

    def __str__(self) -> str:
        return f"event {self.seq} ({self.kind})"

    def at(self, time_s: float) -> "Event[P_co]":
        """The same event at another time; what was read of its payload serves both."""
        if time_s == self.time_s:
            return self
        moved: Event[P_co] = object.__new__(Event)
        its = vars(moved)
        its.update(vars(self))
        its["time_s"] = time_s
        return moved

    def to_json(self) -> dict[str, Json]:
        """Object as in a line; keys in a fixed order, so equal events are equal."""
        head: dict[str, Json] = {"seq": self.seq, "time_s": round(self.time_s, 6)}
        if self.wall:
            head["wall"] = self.wall
        head["source"], head["kind"] = self.source, self.kind
        if self.node_s is not None:
            head["node_s"] = round(self.node_s, 6)
        head["data"] = self.data
        return head

    def to_line(self) -> str:
        """One JSON line without the newline."""
        return encode(self.to_json())

    @classmethod
    def unparsed(cls, attributes: dict[str, Any]) -> "Event":
        """One whose data are parsed when they are asked for. The attributes become its own: `data`
        is left out, and `unread` is the JSON of an object that was found to be valid.
        """
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", attributes)
        return made

    @classmethod
    def from_line(cls, line: str) -> "Event":
        """Read one journal line; MalformedEvent says what is wrong with it."""
        try:
            found = msgspec.convert(decode(line), _JournalLine)
        except ValueError as error:
            raise MalformedEvent(f"not an event: {line[:200]!r} ({error})") from error
        if not math.isfinite(found.time_s):
            raise MalformedEvent(f"time_s: must be finite, got {found.time_s} in {line[:200]!r}")
        return cls(**msgspec.structs.asdict(found))


class _ObservationLine(msgspec.Struct):
    source: str
    kind: Kind
    data: dict[str, Any]
    node_s: float | None = None


class _JournalLine(_ObservationLine, kw_only=True):
    seq: int
    time_s: float
    wall: str = ""


_ENCODER = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)
Event.data = _OnceData()  # type: ignore[assignment]  # after the dataclass has seen its default


@dataclass(frozen=True, init=False)
class Observation:
    """Something a node said or that happened to it; `run` stamps it into the journal."""

    source: str
    kind: Kind
    data: Mapping[str, Json]
    node_s: float | None

    @classmethod
    def of(cls, source: str, said: Payload, *, node_s: float | None = None) -> "Observation":
        """Event that a node, or an observer of it, says."""
        made = object.__new__(cls)
        vars(made).update(
            source=source, kind=kind_of(type(said)), data=data_of(said), node_s=node_s
        )
        return made

    @classmethod
    def read(cls, value: Json) -> "Observation":
        """Observation in JSON of others; its data may lack fields, or have more than a payload has.

        ValueError if it is no observation.
        """
        made = object.__new__(cls)
        vars(made).update(msgspec.structs.asdict(msgspec.convert(value, _ObservationLine)))
        return made

    @cached_property
    def payload(self) -> Payload:
        """See `Event.payload`."""
        return _read_payload(self)

    def __str__(self) -> str:
        return f"{self.kind} of {self.source}"


def node_line(said: Payload, *, node_s: float) -> str:
    """The line a node prints for an event, without the newline."""
    return encode({"kind": kind_of(type(said)), "node_s": round(node_s, 6), "data": data_of(said)})


def read_node_line(line: str, source: str) -> Observation | None:
    """The observation in a line of the output of node `source`; None for ordinary output.

    A line that starts like an event but is not one raises MalformedEvent.
    """
    if not line.startswith('{"kind":'):
        return None
    try:
        return Observation.read({**cast("Mapping[str, Json]", decode(line)), "source": source})
    except ValueError as error:
        raise MalformedEvent(f"not a node's event: {line[:200]!r} ({error})") from error


def encode(value: Json) -> str:
    """Compact JSON; NaN and infinity become the strings "NaN", "Infinity", "-Infinity"."""
    try:
        return _ENCODER.encode(value)
    except (ValueError, TypeError):  # a number that is not finite, or a mapping that is no dict
        return _ENCODER.encode(_finite(value))


def decode(text: str) -> Json:
    """The value of a JSON text. ValueError if it is none, or if it could not be written again: it
    is nested deeper than `DEPTH_MOST`, or a character in it is half of one (a lone surrogate).
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
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return NOT_FINITE[str(value)]
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value


def _numbers(value: Json) -> Json:
    """The value with what stands for a number that is not finite as that number."""
    if isinstance(value, str):
        return float(value) if value in NOT_FINITE.values() else value
    if isinstance(value, Mapping):
        return {key: _numbers(item) for key, item in value.items()}
    return [_numbers(item) for item in value] if isinstance(value, Sequence) else value
