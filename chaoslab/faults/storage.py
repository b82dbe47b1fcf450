"""Faults on what a node has written: damaged or lost checkpoints, a power cut.

    kill ─► damage the newest file, or all ─► start ─► the next life looks for its checkpoint
                └─ hashes, read back from the disk ─┘        └─ says what it found and refused

    kill ─► the kernel shuts the file system down ─► … no power for a while … ─► start
              └─ what was not as before when the power was back, file by file

A checkpoint is damaged while no process uses it, as a disk does it, and read at the next start.
What proves the fault is the file's hash and what the next life says of it; whether the damage was
believed is judged by the check `checkpoints`. By a power cut nothing need be lost: a node that
flushes whatever others rely on loses at most what was not announced (`checkpoints`, `succession`).
Faults on the disk itself are in `storage_room`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    CheckpointFound,
    LearnerJoined,
    LineKind,
    NodeExited,
    StorageDamaged,
    StoragePowerLost,
    TrainerSaid,
)
from chaoslab.core.units import plural
from chaoslab.faults.actions import EndsProcess
from chaoslab.faults.base import BaseFault, Choices, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.fleet.base import Ability, Damage, Fleet, Role
from chaoslab.fleet.protocols import LosesPower, StoresFiles, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended, was_ended_by


class Which(StrEnum):
    """Which of a learner's checkpoints is damaged."""

    NEWEST = "newest"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDamageCheckpoint(EndsProcess):
    """Kill the learner, damage its checkpoint while it is down, and start it again.

    The heal starts a target that did not stay up; the damage stays, as on a real disk, but that a
    training which runs already gets its checkpoint back when the run ends.
    """

    how: Damage = Damage.CORRUPT
    """corrupt: a byte changes, as by bit rot; truncate: the second half is gone, as of a save that
    was cut off; lose: the file is gone, as with a lost disk or an expired bucket."""
    which: Which = Which.NEWEST
    """The newest one, so that the one before it can be used, or all of them."""

    name = "storage.damage_checkpoint"
    summary = "the learner's checkpoint is damaged or gone when it starts again"
    narrower: ClassVar[Choices] = {"which": {Which.ALL: (Which.NEWEST,)}}
    layer = Layer.FILE
    imitates = "bit rot, a save that a preemption cut off, a lost disk or an expired bucket"
    proof = (
        "the file's length and hash, and that the next life refused it, or found another or none"
    )
    needs = frozenset({Ability.KILL, Ability.STORAGE})

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """All are down before the first is damaged: together they have no healthy peer to ask."""
        able(fleet, StoresFiles).take_down(*injection.targets)
        for name in injection.targets:
            able(fleet, StoresFiles).damage(name, self.how, every=self.which is Which.ALL)
        for name in injection.targets:
            fleet.restart(name)

    def look(self, window: EvidenceWindow) -> Found:
        """Damage on disk by hash, and a later life that met each damaged file."""
        damaged = [e for e in window.of(StorageDamaged) if _is_damage(e.payload)]
        exited = window.exited
        if exited is None or not damaged:
            text = "has no damaged file, or did not end before the damage"
            return no_evidence(Code.NOT_APPLIED, text)
        if not was_ended_by(exited, "SIGKILL"):
            text = f"ended by itself ({how_it_ended(exited)}), not by SIGKILL"
            return no_evidence(Code.EXITED_INSTEAD, text)
        files = [event.payload.file for event in damaged]
        if not window.has_syncer:
            return _met_by_script(window, exited, damaged)
        met = window.first(CheckpointFound, lambda e: e.payload.incarnation != window.incarnation)
        found = met.payload if met else None
        measured: dict[str, Json] = {
            "files": files,
            "bytes_before": damaged[-1].payload.bytes_before,
            "bytes_after": damaged[-1].payload.bytes_after,
            "found": found.file if found else None,
            "is_read": found is not None,
        }
        is_shown = found is not None and all(self._is_met(found, file) for file in files)
        return Found(
            code=Code.AS_ASKED if is_shown else Code.NOT_USED,
            text=f"was killed, {_done(damaged)}; {_met(met, window)}",
            measured=measured,
            proof=(exited, *damaged, met),
        )

    def _is_met(self, found: CheckpointFound, file: str) -> bool:
        """Whether the next life has read this file, refused or believed it; of a lost one, that it
        found another or none.
        """
        if self.how is Damage.LOSE:
            return found.file != file
        return any(one.file == file for one in found.refused) or found.file == file


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePowerLoss(BaseFault):
    """Cut the power of learners or of the syncer; heal by starting them again.

    What they keep (checkpoints, the syncer's state) is on an ext4 of their own while the plan runs.
    """

    name = "storage.power_loss"
    summary = "the node dies, and its disk loses what was not flushed"
    layer = Layer.VOLUME
    imitates = "a power failure; the disk itself loses nothing that was flushed"
    proof = "exit by SIGKILL, a disk that the kernel shut down, and what it lost"
    needs = frozenset({Ability.KILL, Ability.CUT_POWER})
    roles = frozenset({Role.LEARNER, Role.SYNCER})
    takes_away = True
    duration_key = "down_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """All die before the first disk is cut off."""
        fleet.kill(*injection.targets)
        for name in injection.targets:
            able(fleet, LosesPower).cut_power(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start the next incarnation of every victim."""
        for name in injection.targets:
            fleet.restart(name)

    def look(self, window: EvidenceWindow) -> Found:
        """The exit, the kernel's refusal to write, and what was lost, which may be nothing."""
        exited, cut = window.exited, window.first(StoragePowerLost)
        if exited is None:
            text = "was not running when the fault began, or did not end"
            return no_evidence(Code.NOT_KILLED, text)
        if not was_ended_by(exited, "SIGKILL"):
            text = f"ended by itself ({how_it_ended(exited)}), not by SIGKILL"
            return no_evidence(Code.EXITED_INSTEAD, text)
        if cut is None or cut.payload.refused is None:
            text = "was killed, and nothing shows that its disk was cut off"
            return no_evidence(Code.NOT_APPLIED, text)
        down_s = window.down_s(exited)
        return Found(
            code=window.lasted(down_s),
            text=f"exited ({how_it_ended(exited)}) and was down for {down_s:.1f} s; "
            f"{_lost(cut.payload)}",
            measured={
                "exited_after_s": exited.time_s - window.begin_s,
                "down_s": down_s,
                "files": cut.payload.files,
                "files_lost": len(cut.payload.lost),
                "refused": cut.payload.refused,
            },
            proof=(exited, cut, window.restarted),
        )


# ---------------------------------------------------------------- evidence


def _is_damage(said: StorageDamaged) -> bool:
    """Whether it is damage, by what was read back from the disk."""
    return said.digest_before is not None and said.digest_before != said.digest_after


def _met_by_script(
    window: EvidenceWindow, exited: Event[NodeExited], damaged: list[Event[StorageDamaged]]
) -> Found:
    """Whether a script met the damage: once its next life trains, or failed to. One that goes on
    from the checkpoint that is half or gone has read a copy of it, to which nothing was done.
    """
    later = [e for e in (*window.of(LearnerJoined), *window.of(NodeExited)) if e.seq > exited.seq]
    met = min(later, key=lambda e: e.seq, default=None)
    said = "no life started from it before the fault ended"
    is_met = met is not None
    if met is not None and isinstance(met.payload, LearnerJoined):
        said = f"the next life went on from step {met.payload.step:,}"
        if damaged[-1].payload.how != Damage.CORRUPT and _is_newest(met.payload.step, window):
            is_met = False
            said += ", that of this checkpoint: it has a copy that the fault did not touch"
    elif met is not None:
        said = "the next life ended before it trained"
    return Found(
        code=Code.AS_ASKED if is_met else Code.NOT_USED,
        text=f"was killed, {_done(damaged)}; {said}",
        measured={
            "files": [event.payload.file for event in damaged],
            "bytes_before": damaged[-1].payload.bytes_before,
            "bytes_after": damaged[-1].payload.bytes_after,
        },
        proof=(exited, *damaged, met),
    )


def _is_newest(step: int, window: EvidenceWindow) -> bool:
    """Whether a step is nearer to that of the newest checkpoint than to the one before it."""
    said = of((*window.before, *window.during), TrainerSaid)
    saved = sorted({e.payload.step or 0 for e in said if e.payload.what is LineKind.SAVED})[-2:]
    return len(saved) > 1 and 2 * step > sum(saved)


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
        return "it was not read before the fault ended"
    joined = window.first(LearnerJoined, lambda e: e.seq > found.seq)
    own = found.payload.file
    said = f"the next life found {own or 'none'} whole"
    if joined is None:
        return said
    donor = joined.payload.donor
    return f"{said}, and took its parameters from {donor or joined.payload.source}"


def _lost(cut: StoragePowerLost) -> str:
    said = f"its disk was shut down ({cut.refused})"
    if not cut.files:
        return f"{said} and had no files"
    if not cut.lost:
        return f"{said} and lost nothing of {plural(cut.files, 'file')}"
    changes = ", ".join(
        f"{one.file} {_bytes(one.bytes_before)} -> {_bytes(one.bytes_after)}" for one in cut.lost
    )
    return f"{said}; of {plural(cut.files, 'file')} it changed or lost {len(cut.lost)}: {changes}"


def _bytes(size: int | None) -> str:
    return "none" if size is None else f"{size} bytes"
