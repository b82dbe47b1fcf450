"""Faults on the files that a learner keeps: damaged or lost checkpoints.

    kill ─► damage the newest file, or all ─► start ─► the next life looks for its checkpoint
                └─ hashes, read back from the disk ─┘        └─ says what it found and refused

A checkpoint is damaged while nobody uses it, as a disk does it, and read at the next start. What
proves the fault is the file's hash and what the next life says of it; whether the damage was
believed is judged by the check `checkpoints`. Faults on the disk itself are in `storage_room`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import CheckpointFound, LearnerJoined, StorageDamaged
from chaoslab.faults.base import Layer, OneAct
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import (
    EvidenceWindow,
    Found,
    evidence_of_each,
    no_evidence,
)
from chaoslab.faults.process import start_all
from chaoslab.fleet.base import Ability, Damage, Fleet
from chaoslab.fleet.protocols import StoresFiles, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended, was_ended_by
from chaoslab.record.journal import History

_NEEDS = frozenset({Ability.KILL, Ability.STORAGE})


class Which(StrEnum):
    """Whose turn it is among a learner's checkpoints."""

    NEWEST = "newest"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCorruptCheckpoint(OneAct):
    """Kill the learner, change a byte of its checkpoint, and start it again."""

    which: Which = Which.NEWEST
    """The newest one, so that the one before it can be used, or all of them."""

    name: ClassVar[str] = "storage.corrupt_checkpoint"
    summary: ClassVar[str] = "a byte of the learner's checkpoint changes while it is down"
    layer: ClassVar[Layer] = Layer.FILE
    imitates: ClassVar[str] = "bit rot, or a write that went to the wrong place"
    proof: ClassVar[str] = "the file's hash, and that the next life refused the file"
    needs: ClassVar[frozenset[Ability]] = _NEEDS
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _hold(self.which)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Down, damaged, up again."""
        _strike(injection, fleet, Damage.CORRUPT, self.which)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start a victim that did not stay up; the damage stays, as on a real disk."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Damaged by hash, and read."""
        return evidence_of_each(injection, history, _look(_is_refused), {"which": self.which.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTruncateCheckpoint(OneAct):
    """Kill the learner, cut its checkpoint off in the middle, and start it again."""

    which: Which = Which.NEWEST
    """The newest one, so that the one before it can be used, or all of them."""

    name: ClassVar[str] = "storage.truncate_checkpoint"
    summary: ClassVar[str] = "the second half of the learner's checkpoint is gone"
    layer: ClassVar[Layer] = Layer.FILE
    imitates: ClassVar[str] = "a save that a preemption cut off"
    proof: ClassVar[str] = "the file's length and hash, and that the next life refused the file"
    needs: ClassVar[frozenset[Ability]] = _NEEDS
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _hold(self.which)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Down, damaged, up again."""
        _strike(injection, fleet, Damage.TRUNCATE, self.which)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start a victim that did not stay up."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Shorter than before, and read."""
        return evidence_of_each(injection, history, _look(_is_refused), {"which": self.which.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLoseCheckpoint(OneAct):
    """Kill the learner, remove its checkpoint, and start it again."""

    which: Which = Which.NEWEST
    """The newest one, so that the one before it can be used, or all of them."""

    name: ClassVar[str] = "storage.lose_checkpoint"
    summary: ClassVar[str] = "the learner's checkpoint is gone when it starts again"
    layer: ClassVar[Layer] = Layer.FILE
    imitates: ClassVar[str] = "a lost disk or an expired bucket"
    proof: ClassVar[str] = "the file is gone, and the next life found another or none"
    needs: ClassVar[frozenset[Ability]] = _NEEDS
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _hold(self.which)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Down, lost, up again."""
        _strike(injection, fleet, Damage.LOSE, self.which)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start a victim that did not stay up."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """The file is gone, and the next life did not find it."""
        return evidence_of_each(injection, history, _look(_is_missed), {"which": self.which.value})


# ---------------------------------------------------------------- doing it


def _hold(which: Which) -> None:
    if which not in list(Which):
        raise PlanError(f"`which: {which}` is neither `newest` nor `all`")


def _strike(injection: Injection, fleet: Fleet, how: Damage, which: Which) -> None:
    """All are down before the first is damaged: together they have no healthy peer to ask."""
    fleet.kill(*injection.targets)
    for name in injection.targets:
        able(fleet, StoresFiles).damage(name, how, every=which is Which.ALL)
    for name in injection.targets:
        fleet.restart(name)


# ---------------------------------------------------------------- evidence


def _look(is_met: Callable[[CheckpointFound, str], bool]) -> Callable[[EvidenceWindow], Found]:
    """Look for damage on disk, and for a later life that met each damaged file."""

    def look(window: EvidenceWindow) -> Found:
        damaged = [e for e in window.of(StorageDamaged) if _is_damage(e.payload)]
        exited = window.exited
        if exited is None or not damaged:
            text = "keeps whole files, or was not down while they were damaged"
            return no_evidence(Code.NOT_APPLIED, text)
        if not was_ended_by(exited, "SIGKILL"):
            text = f"ended by itself ({how_it_ended(exited)}), not by SIGKILL"
            return no_evidence(Code.EXITED_INSTEAD, text)
        files = [event.payload.file for event in damaged]
        met = window.first(CheckpointFound, lambda e: e.payload.incarnation != window.incarnation)
        found = met.payload if met else None
        measured: dict[str, Json] = {
            "files": files,
            "bytes_before": damaged[-1].payload.bytes_before,
            "bytes_after": damaged[-1].payload.bytes_after,
            "found": found.file if found else None,
            "is_read": found is not None,
        }
        is_shown = found is not None and all(is_met(found, file) for file in files)
        return Found(
            code=Code.AS_ASKED if is_shown else Code.NOT_USED,
            text=f"was killed, {_done(damaged)}; {_met(met, window)}",
            measured=measured,
            proof=(exited, *damaged, met),
        )

    return look


def _is_damage(said: StorageDamaged) -> bool:
    """By what was read back from the disk."""
    return said.digest_before is not None and said.digest_before != said.digest_after


def _is_refused(found: CheckpointFound, file: str) -> bool:
    refused = [one.file for one in found.refused]
    return file in refused or found.file == file  # believed: read, all the same


def _is_missed(found: CheckpointFound, file: str) -> bool:
    return found.file != file


def _done(damaged: list[Event[StorageDamaged]]) -> str:
    before, after = damaged[-1].payload.bytes_before, damaged[-1].payload.bytes_after
    if after is None:
        left = "gone"
    elif after == before:
        left = "of another hash, as long as before"
    else:
        left = f"{after} of {before} bytes long"
    return f"its {', '.join(e.payload.file for e in damaged)} was then {left}"


def _met(found: Event[CheckpointFound] | None, window: EvidenceWindow) -> str:
    if found is None:
        return "nobody looked at it before the fault ended"
    joined = window.first(LearnerJoined, lambda e: e.seq > found.seq)
    own = found.payload.file
    said = f"the next life found {own or 'none'} whole"
    if joined is None:
        return said
    donor = joined.payload.donor
    return f"{said}, and took its parameters from {donor or joined.payload.source}"
