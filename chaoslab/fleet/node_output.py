"""Output of a node as observations; a node cannot crash the harness or speak for another.

    stdout ──► log (raw, bounded) ──► lines (bounded) ──► observation_in ──► Observation
                                                           └─► refused, counted

Ordinary output is no event and stays in the log. A line that claims to be an event is refused when
it is malformed, when the journal could not take it, or when it says what the node may not say: a
learner reports its own steps, not the syncer's rounds, another learner's steps or a verdict.
"""

import json
import logging
import math
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from chaoslab.core.events import (
    Json,
    Kind,
    MalformedEvent,
    Observation,
    read_node_line,
)
from chaoslab.core.payloads import (
    ClockRead,
    LearnerStep,
    MemberRefused,
    Membership,
    OfLearner,
    Payload,
    PhaseReached,
    RoundMerged,
)
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.trainers.reading import Reader, TrainerLine

LINE_BYTES_MOST = 1 << 20
"""A longer line is ordinary output, whatever it begins with."""
LOG_BYTES_MOST = 256 << 20
"""Most bytes of one incarnation in stdout.log; the rest is counted."""
_DEPTH_MOST = 12
_INTEGER_MOST = 1 << 63

MAY_SAY: Mapping[Role, frozenset[Kind]] = {
    Role.SYNCER: frozenset(
        kind
        for kind in Kind
        if kind.split(".")[0] in ("syncer", "stream", "member", "communicator", "round", "push")
    )
    | {Kind.LINK_MEASURED, Kind.PHASE_REACHED, Kind.CLOCK_READ},
    Role.LEARNER: frozenset(
        kind for kind in Kind if kind.split(".")[0] in ("learner", "host", "update", "checkpoint")
    )
    | {
        Kind.LINK_MEASURED,
        Kind.LINK_OPENED,
        Kind.LINK_CLOSED,
        Kind.PHASE_REACHED,
        Kind.CLOCK_READ,
    },
    Role.EVALUATOR: frozenset({Kind.EVALUATION_MEASURED}),
}
"""Events that a node of each role reports; the harness writes all others."""
_OF_LEARNER = (OfLearner, Membership, MemberRefused)


class NodeOutput:
    """The standard output of one incarnation."""

    def __init__(self, spec: NodeSpec, incarnation: int, log: BinaryIO) -> None:
        self.refused_lines = 0
        self.lost_log_bytes = 0
        self._node = spec.name
        self._role = spec.role
        self._incarnation = incarnation
        self._reader = None if spec.reads is None else Reader(spec.reads)
        """Reader of the lines of a trainer that prints no events."""
        self._log = log
        self._logged_bytes = 0
        self._tail = b""
        self._is_skipping = False

    def take(self, chunk: bytes) -> list[Observation]:
        """The observations in the lines that end within `chunk`."""
        self._keep(chunk)
        if self._reader is not None:
            return self._trainer_said(self._reader.feed(chunk))
        *whole, tail = (self._tail + chunk).split(b"\n")
        if self._is_skipping and whole:
            whole, self._is_skipping = whole[1:], False
        if self._is_skipping or len(tail) > LINE_BYTES_MOST:
            tail, self._is_skipping = b"", True
        self._tail = tail
        heard = (self._hear(line) for line in whole)
        return [observation for observation in heard if observation is not None]

    def end(self) -> list[Observation]:
        """The observation in a last line without a newline.

        One that is no JSON was torn by the end of the node, and is not counted as refused.
        """
        if self._reader is not None:
            return self._trainer_said(self._reader.end())
        tail, self._tail = self._tail, b""
        try:
            json.loads(tail)
        except (ValueError, RecursionError):
            return []
        observation = self._hear(tail)
        return [] if observation is None else [observation]

    def _trainer_said(self, lines: Iterable[TrainerLine]) -> list[Observation]:
        return [Observation.of(self._node, one.by(self._node, self._incarnation)) for one in lines]

    def _hear(self, line: bytes) -> Observation | None:
        if len(line) > LINE_BYTES_MOST:
            return None
        try:
            return observation_in(line.decode(errors="replace"), node=self._node, role=self._role)
        except MalformedEvent as error:
            if not self.refused_lines:
                logging.getLogger(__name__).warning("%s: line refused: %s", self._node, error)
            self.refused_lines += 1
            return None

    def _keep(self, chunk: bytes) -> None:
        kept = chunk[: LOG_BYTES_MOST - self._logged_bytes]
        try:
            self._log.write(kept)
            self._logged_bytes += len(kept)
        except OSError:  # a full disk: the run goes on, and exit.json says what is missing
            kept = b""
        self.lost_log_bytes += len(chunk) - len(kept)


def observation_in(line: str, *, node: str, role: Role) -> Observation | None:
    """The observation in one line of a node's output; None for ordinary output.

    MalformedEvent, and nothing else, for a line that claims to be an event and is refused.
    """
    try:
        report = read_node_line(line, node)
        if report is None:
            return None
        _require_sound(report.data, depth=0)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise MalformedEvent(f"{error} in {line[:200]!r}") from error
    if report.kind not in MAY_SAY[role]:
        raise MalformedEvent(f"a {role} does not report {report.kind}: {line[:200]!r}")
    if report.node_s is not None and not math.isfinite(report.node_s):
        raise MalformedEvent(f"node_s is {report.node_s}: {line[:200]!r}")
    _require_fields(report, role)
    return report


def _require_fields(report: Observation, role: Role) -> None:
    """MalformedEvent if it lacks a field by which the harness steers, or is about another node."""
    said = report.payload
    if isinstance(said, RoundMerged):
        _ = (said.round, said.contributors, said.committed_tokens)
    elif isinstance(said, LearnerStep):
        _ = (said.step, said.steps, said.step_s, said.loss)
    if isinstance(said, _OF_LEARNER):
        _ = (said.learner, said.incarnation)
    if role is Role.LEARNER and (name := _learner(said)) != report.source:
        raise MalformedEvent(f"{report.source} spoke as {name}")


def _learner(said: Payload) -> str:
    return said.learner if isinstance(said, (*_OF_LEARNER, PhaseReached, ClockRead)) else ""


def _require_sound(value: Json, *, depth: int) -> None:
    """ValueError for what JSON allows and the record does not: deep nests, endless integers."""
    if depth > _DEPTH_MOST:
        raise ValueError(f"nested deeper than {_DEPTH_MOST}")
    if isinstance(value, int) and not -_INTEGER_MOST <= value < _INTEGER_MOST:
        raise ValueError("an integer beyond 64 bits")
    if isinstance(value, dict):
        for item in value.values():
            _require_sound(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            _require_sound(item, depth=depth + 1)
