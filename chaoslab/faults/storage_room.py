"""Faults on the disk of a node: no room left, or hardly any speed.

A learner writes its checkpoints beside training: a disk in trouble costs checkpoints, and must cost
no step. A full disk is a real one: the learner's volume ends where its contents end, and the kernel
refuses what comes. A slow one is the learner's own test hook, which holds up each file until as
much time has gone by as its bytes would have taken: no place that we run in can throttle a folder.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    CheckpointFailed,
    CheckpointSaved,
    LineKind,
    NodeExited,
    RoundMerged,
    StorageFilled,
    SyncerBlocked,
    SyncerFreed,
    TrainerSaid,
)
from chaoslab.core.units import BytesPerSecond, plural
from chaoslab.faults.actions import AsksHook
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.fleet.protocols import HasVolumes, able
from chaoslab.plan.model import Injection

_FEW = 2
_TOLERANCE = 1.25
"""A file that came up to this factor faster than asked was slowed, too."""


class FillsVolume(BaseFault):
    """A fault that leaves no room on the volumes of its targets."""

    __slots__ = ()

    layer = Layer.VOLUME
    needs = frozenset({Ability.VOLUME})
    takes_away = False
    may_silence = False

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Fill every target's volume."""
        for name in injection.targets:
            able(fleet, HasVolumes).fill_disk(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Give every target's volume room again."""
        for name in injection.targets:
            able(fleet, HasVolumes).free_disk(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDiskFull(FillsVolume):
    """Leave no room on the volume on which the learner keeps its checkpoints."""

    name = "storage.disk_full"
    summary = "no space is left on the volume with the learner's checkpoints"
    imitates = "a disk that fills up"
    proof = "the kernel reports no free byte, and a checkpoint was refused"

    def requested(self) -> Mapping[str, Json]:
        return {"free_bytes": 0}

    def look(self, window: EvidenceWindow) -> Found:
        """Full, and a write was refused meanwhile."""
        filled = window.first(StorageFilled)
        if filled is None or filled.payload.free_bytes > 0:
            text = "has room on its volume, as far as the record shows"
            return no_evidence(Code.NOT_APPLIED, text)
        since_s = filled.time_s
        refused = (
            window.of(CheckpointFailed) if window.has_syncer else _failed_saves(window, since_s)
        )
        measured: dict[str, Json] = {
            "free_bytes": filled.payload.free_bytes,
            "total_bytes": filled.payload.total_bytes,
            "refused": len(refused),
        }
        said = "no write was tried before the fault ended"
        if refused and window.has_syncer:
            said = f"the disk refused {plural(len(refused), 'checkpoint')}"
        elif refused:
            ended = isinstance(refused[0].payload, NodeExited)
            said = "it ended" if ended else "it saved no checkpoint when one was due"
        elif saved := _saves(window, since_s)[1]:
            said = (
                f"files of {plural(len(saved), 'checkpoint')} were written all the same, in the "
                "space of those that it removes or overwrites, or cut off"
            )
        return Found(
            code=Code.AS_ASKED if refused else Code.NOT_USED,
            text=f"had no byte left; {said}",
            measured=measured,
            proof=(filled, *(refused[:1] if window.has_syncer else ())),  # no exit was asked for
        )


def _failed_saves(window: EvidenceWindow, since_s: float) -> Sequence[Event]:
    """Evidence of a script: it ended by itself, or saved nothing for longer than between its last
    two checkpoints before; the newest of these is its proof.
    """
    if ended := [e for e in window.of(NodeExited) if not e.payload.sent]:
        return ended
    before, during = _saves(window, since_s)
    if len(before) < _FEW or during:
        return ()
    usual_s = before[-1].time_s - before[-2].time_s
    return before[-1:] if window.end_s - since_s > usual_s else ()


def _saves(
    window: EvidenceWindow, since_s: float
) -> tuple[Sequence[Event[TrainerSaid]], Sequence[Event]]:
    """Checkpoints of a script before the fault, and since its disk was full."""
    before, during = (
        [e for e in of(events, TrainerSaid) if e.payload.what is LineKind.SAVED]
        for events in (window.before, window.during)
    )
    return before, [e for e in during if e.time_s - e.payload.age_s > since_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerDiskFull(FillsVolume):
    """Leave no room on the volume of the syncer's state: what it merges cannot be written.

    Learners overwrite what they trained between a push and its version, so that most of the work of
    that time is lost, and `goodput` is lower than after a pause.
    """

    name = "syncer.disk_full"
    summary = "no space is left for the syncer's state: no merge can be committed"
    imitates = "a disk that fills up under the state of the run"
    proof = "the syncer reports that its disk refuses writes, and merges no round from then on"
    roles = frozenset({Role.SYNCER})
    takes_away = True
    duration_key = "full_s"

    def look(self, window: EvidenceWindow) -> Found:
        """Report of the disk's refusal, without rounds from then on."""
        blocked = window.first(SyncerBlocked, lambda e: not e.payload.is_snapshot)
        if blocked is None:
            return no_evidence(Code.NO_EFFECT, "never reported that its disk refuses writes")
        freed = window.first(
            SyncerFreed, lambda e: e.seq > blocked.seq and not e.payload.is_snapshot
        )
        merged = window.first(RoundMerged, lambda e: e.seq > blocked.seq)
        blocked_s = (freed.time_s if freed else window.end_s) - blocked.time_s
        broke = merged is not None and (freed is None or merged.seq < freed.seq)
        if broke:
            code = Code.WORKED_MEANWHILE
        elif freed:
            code = Code.TOO_SHORT
        else:
            code = window.lasted(window.end_s - window.begin_s)
        text = f"could not write for {blocked_s:.1f} s ({blocked.payload.reason})"
        return Found(
            code=code,
            text=text + (", and published a round all the same" if broke else ""),
            measured={"blocked_s": blocked_s, "blocked_after_s": blocked.time_s - window.begin_s},
            proof=(blocked, freed, merged if broke else None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSlowDisk(AsksHook):
    """Write the learner's checkpoints no faster than a worn-out disk would, by its test hook."""

    rate_bytes_per_s: BytesPerSecond = 200e3
    """Rate at which a checkpoint is written."""

    name = "storage.slow_disk"
    summary = "checkpoints are written slowly"
    strength: ClassVar[Mapping[str, float]] = {"rate_bytes_per_s": math.inf}
    may_silence = False
    imitates = "a worn-out or throttled disk; the program waits, the disk itself is untouched"
    proof = "bytes and seconds of the checkpoints that were written meanwhile"
    hook = "disk"

    def __post_init__(self) -> None:
        if not self.rate_bytes_per_s > 0:
            raise PlanError("`rate` is above 0; for no writes at all use storage.disk_full")

    def asked(self) -> Mapping[str, Json]:
        return {"bytes_per_s": self.rate_bytes_per_s}

    def look(self, window: EvidenceWindow) -> Found:
        """The rate of what was written."""
        saved = window.of(CheckpointSaved)
        slowed = [e for e in saved if e.time_s - e.payload.took_s >= window.begin_s]
        before = [_rate(e) for e in of(window.before, CheckpointSaved)]
        measured: dict[str, Json] = {
            "files": len(slowed),
            "bytes_per_s": max(map(_rate, slowed), default=None),
            "bytes_per_s_before": max(before, default=None),
        }
        if not slowed:
            text = "wrote no checkpoint from beginning to end meanwhile"
            return no_evidence(Code.NOT_MEASURED, text, **measured)
        fastest = max(map(_rate, slowed))
        if before and fastest > max(before) / _TOLERANCE:
            text = f"wrote at {fastest:,.0f} bytes/s, as fast as before"
            return no_evidence(Code.NO_EFFECT, text, **measured)
        is_limited = fastest <= _TOLERANCE * self.rate_bytes_per_s
        return Found(
            code=Code.AS_ASKED if is_limited else Code.OUT_OF_TOLERANCE,
            text=f"wrote {plural(len(slowed), 'checkpoint')} at {fastest:,.0f} bytes/s at most",
            measured=measured,
            proof=tuple(slowed),
        )


def _rate(event: Event[CheckpointSaved]) -> float:
    return event.payload.bytes / max(event.payload.took_s, 1e-6)
