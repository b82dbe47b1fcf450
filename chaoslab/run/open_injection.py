"""Open injections of a run: begun and not healed. What may begin beside them, and their evidence.

    forbidden? ─► OpenInjection ─► gather ─► evidence.measured, evidence/injection-0.json ─► healed

The schedule was checked against the same limits before the start. But triggers may come closer
together than planned, and nodes may have died by themselves meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from chaoslab.core.events import Json, data_of
from chaoslab.core.payloads import EvidenceMeasured, NodeProbed, Obstacle
from chaoslab.core.units import plural
from chaoslab.faults.base import Fault, ShapesLinks
from chaoslab.fleet.base import Node, Role
from chaoslab.plan.model import SYNCER, Injection, Limits
from chaoslab.record.run_directory import RunDirectory, plain
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.triggers import Progress
from chaoslab.undo.heartbeat import StillThere

_ENDING_S: Final = 30.0
"""A heal waits at most this long for targets that others are ending."""


@dataclass(slots=True, kw_only=True)
class OpenInjection:
    """An injection that was begun and not healed."""

    injection: Injection
    fault: Fault
    injected_s: float
    steps: list[tuple[float, int]] = field(default_factory=list)
    """What is still to come: when, on the harness clock, and which."""
    is_measured: bool = False
    still_there: list[StillThere] = field(default_factory=list)
    """Tell how much of what was done is still there."""
    unhealed: str = ""
    """Why the last try to heal it failed."""
    again_s: float | None = None
    """When that is tried again."""
    heals_early: str = ""
    """Why it is to be healed now, before its time."""
    postponed_s: float = 0.0
    """Delay of its heal so far, because targets were still ending."""

    @property
    def heals_s(self) -> float | None:
        """When it is due to be healed; None: not before the end."""
        for_s = self.injection.for_s
        return None if for_s is None else self.injected_s + for_s + self.postponed_s

    def postpones_heal(self, nodes: Mapping[str, Node], by_s: float) -> bool:
        """Postpone its heal if a target is ending, as pods do after their deletion; whether it was
        postponed.
        """
        is_ending = any(nodes[name].is_ending for name in self.injection.targets)
        if not (self.fault.takes_away and is_ending and self.postponed_s < _ENDING_S):
            return False
        self.postponed_s += by_s
        return True

    @property
    def is_for_good(self) -> bool:
        """Whether it brought learners in that stay: they are learners like any other now."""
        return self.heals_s is None and self.fault.brings_in


def targets_of(opened: Iterable[OpenInjection]) -> frozenset[str]:
    """Names of all nodes that are targets of these."""
    return frozenset(name for one in opened for name in one.injection.targets)


class Forbidden(NamedTuple):
    """Why an injection must not be carried out: as a code, and as a sentence."""

    obstacle: Obstacle
    reason: str


@dataclass(slots=True, kw_only=True)
class OpenInjections:
    """All open injections of a run, in the order in which they began."""

    limits: Limits
    progress: Progress
    all: list[OpenInjection] = field(default_factory=list)

    def of(self, spec: str) -> list[OpenInjection]:
        """Those of an entry of the plan; all if it is empty."""
        return [one for one in self.all if spec in ("", one.injection.spec)]

    @property
    def will_heal(self) -> bool:
        """Whether one of them heals before the end, as far as that has not failed."""
        return any(one.heals_s is not None and not one.unhealed for one in self.all)

    @property
    def away(self) -> frozenset[str]:
        """Nodes that they have taken away from training."""
        return targets_of(one for one in self.all if one.fault.takes_away)

    @property
    def returning(self) -> frozenset[str]:
        """Those of them that they will give back."""
        returning = (one for one in self.all if one.heals_s is not None)
        return targets_of(one for one in returning if one.fault.takes_away)

    def forbidden(self, injection: Injection, fault: Fault) -> Forbidden | None:
        """Why an injection must not be carried out beside them; None if it may."""
        binding = [one for one in self.all if not one.is_for_good]
        targets, learners = set(injection.targets), self.progress.learners
        excluded = targets_of(one for one in binding if not _go_together(one.fault, fault))
        if both := sorted(targets & excluded):
            still = f"{', '.join(both)}: still under an earlier fault"
            return Forbidden(Obstacle.UNDER_FAULT, still)
        alive = {name for name in targets if self.progress.is_alive(name)}
        if fault.brings_in:
            there = f"{', '.join(sorted(alive))}: there already"
            return Forbidden(Obstacle.THERE_ALREADY, there) if alive else None
        if dead := sorted(targets - alive):
            return Forbidden(Obstacle.NOT_ALIVE, f"{', '.join(dead)}: not alive")
        if guarded := sorted(targets & set(self.limits.protected)):
            return Forbidden(Obstacle.PROTECTED, f"{', '.join(guarded)}: protected by the limits")
        affected = targets_of(one for one in binding if not one.fault.brings_in)
        hit = learners & (targets | affected)
        if len(hit) > self.limits.max_affected * len(learners) + 1e-9:
            many = f"{len(hit)} of {len(learners)} learners would be under a fault at once"
            return Forbidden(Obstacle.LIMITS, many)
        left = {name for name in learners if self.progress.is_alive(name)} - targets - self.away
        if fault.takes_away and targets & learners and len(left) < self.limits.min_alive:
            few = f"{plural(len(left), 'learner')} would be left, and min_alive is "
            return Forbidden(Obstacle.LIMITS, f"{few}{self.limits.min_alive}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """Victims of faults that give them back, and whether they contribute again."""

    opened: OpenInjections
    _healed_s: dict[str, float] = field(default_factory=dict)
    """Learners that a fault took away and gave back: when, the last time."""

    def note_healed(self, one: OpenInjection, healed_s: float) -> None:
        """Learners that it took away must show from now on that they are back."""
        if one.fault.takes_away:
            self._healed_s.update(dict.fromkeys(self._cut_off(one.injection), healed_s))

    def pending(self) -> list[str]:
        """Victims that are not back yet from a fault that gives them back, one sentence each."""
        progress = self.opened.progress
        under = [f"{name} is still under a fault" for name in sorted(self.opened.returning)]
        missed = [
            f"{name} has not contributed since it was healed at {healed_s:.1f} s"
            for name, healed_s in sorted(self._healed_s.items())
            if name not in self.opened.away and not progress.has_contributed_since(name, healed_s)
        ]
        awaited = [
            f"{name} has not contributed since it was brought in at {one.injected_s:.1f} s"
            for one in self.opened.all
            for name in one.injection.targets
            if one.fault.brings_in and not progress.has_contributed_since(name, one.injected_s)
        ]
        lost = (
            [f"{SYNCER} is not given back by the plan"]
            if SYNCER in self.opened.away - self.opened.returning
            else []
        )
        return under + lost + missed + awaited

    def _cut_off(self, injection: Injection) -> frozenset[str]:
        """The learners that must show that they are back: all of them if it was the syncer, or
        their launcher.
        """
        progress, hit = self.opened.progress, frozenset(injection.targets)
        roles = {progress.roles.get(name) for name in hit}
        if Role.LAUNCHER in roles:
            return progress.learners
        hit = frozenset(progress.alive(Role.LEARNER)) if Role.SYNCER in roles else hit
        return progress.learners & hit


def _go_together(one: Fault, other: Fault) -> bool:
    """Whether both may be open on one node: what they do to its link is kept apart."""
    return all(isinstance(each, ShapesLinks) and each.shares_targets for each in (one, other))


def gather(one: OpenInjection, recorder: EventRecorder, directory: RunDirectory) -> None:
    """Write down what the journal shows of it, while it is still in force."""
    injection, history = one.injection, recorder.journal.history
    pieces = [
        EvidenceMeasured(
            injection=injection.id,
            fault=injection.fault,
            target=piece.target,
            status=piece.status,
            code=piece.code,
            requested=piece.requested,
            measured=piece.measured,
            text=piece.text,
            proof=piece.proof,
            idle=piece.code.idle,
        )
        for piece in one.fault.evidence(injection, history)
    ]
    for piece in pieces:
        recorder.note(piece)
    targets = set(injection.targets)
    found: Mapping[str, Json] = {
        "injection": plain(injection),
        "injected_s": one.injected_s,
        "measured_s": recorder.now_s,
        "evidence": [data_of(piece) for piece in pieces],
        "probes": [
            {"time_s": probe.time_s, **probe.data}
            for probe in history.of(NodeProbed)
            if probe.time_s >= one.injected_s and probe.payload.node in targets
        ],
    }
    directory.write_evidence(injection.id, recorder.journal.secrets.data(found))
