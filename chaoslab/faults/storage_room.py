"""Faults on the disk of a learner: no room left, or hardly any speed.

A learner writes its checkpoints beside training: a disk in trouble costs checkpoints, and must cost
no step. A full disk is a real one: the learner's volume ends where its contents end, and the kernel
refuses what comes. A slow one is the learner's own test hook, which holds up each file until as
much time has gone by as its bytes would have taken: no place that we run in can throttle a folder.
"""

from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import CheckpointFailed, CheckpointSaved, StorageFilled
from chaoslab.faults.base import Layer, OneAct
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, evidence_of_each, no_evidence, of
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import HasVolumes, Hookable, able
from chaoslab.plan.model import Injection
from chaoslab.record.journal import History

_HOOK = "disk"
_TOLERANCE = 1.25
"""A file that came up to this factor faster than asked was held up, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDiskFull(OneAct):
    """Leave no room on the volume on which the learner keeps its checkpoints."""

    name: ClassVar[str] = "storage.disk_full"
    summary: ClassVar[str] = "no room is left where the learner keeps its checkpoints"
    layer: ClassVar[Layer] = Layer.VOLUME
    imitates: ClassVar[str] = "a disk that fills up"
    proof: ClassVar[str] = "no byte is free by the kernel's word, and a checkpoint was refused"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.VOLUME})
    takes_away: ClassVar[bool] = False

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Fill every victim's volume."""
        for name in injection.targets:
            able(fleet, HasVolumes).fill_disk(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Give every victim's volume room again."""
        for name in injection.targets:
            able(fleet, HasVolumes).free_disk(name)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Full, and a write was refused meanwhile."""
        return evidence_of_each(injection, history, _look_full, {"free_bytes": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSlowDisk(OneAct):
    """Write the learner's checkpoints no faster than a worn-out disk would, by its test hook."""

    rate_bytes_per_s: float = 200e3
    """How fast a checkpoint is written."""

    name: ClassVar[str] = "storage.slow_disk"
    summary: ClassVar[str] = "checkpoints are written at a crawl"
    layer: ClassVar[Layer] = Layer.PROGRAM
    imitates: ClassVar[str] = (
        "a worn-out or throttled disk; the program waits, the disk itself is untouched"
    )
    proof: ClassVar[str] = "bytes and seconds of the checkpoints that were written meanwhile"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.HOOKS})
    takes_away: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.rate_bytes_per_s > 0:
            raise PlanError("`rate` is above 0; for no writes at all use storage.disk_full")

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask every victim's hook."""
        for name in injection.targets:
            able(fleet, Hookable).tell(
                name, _HOOK, bytes_per_s=self.rate_bytes_per_s, for_s=injection.for_s
            )

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Let go of every victim's hook; a victim that died took it with it."""
        for name in injection.targets:
            if fleet.nodes[name].is_alive:
                able(fleet, Hookable).tell(name, _HOOK)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """The rate of what was written."""
        requested: dict[str, Json] = {"bytes_per_s": self.rate_bytes_per_s}
        return evidence_of_each(injection, history, self._look, requested)

    def _look(self, window: EvidenceWindow) -> Found:
        saved = window.of(CheckpointSaved)
        held_up = [e for e in saved if e.time_s - e.payload.took_s >= window.begin_s]
        before = [_rate(e) for e in of(window.before, CheckpointSaved)]
        measured: dict[str, Json] = {
            "files": len(held_up),
            "bytes_per_s": max(map(_rate, held_up), default=None),
            "bytes_per_s_before": max(before, default=None),
        }
        if not held_up:
            text = "wrote no checkpoint from beginning to end meanwhile"
            return no_evidence(Code.NOT_MEASURED, text, **measured)
        fastest = max(map(_rate, held_up))
        if before and fastest > max(before) / _TOLERANCE:
            text = f"wrote at {fastest:,.0f} bytes/s, as fast as before"
            return no_evidence(Code.NO_EFFECT, text, **measured)
        is_held = fastest <= _TOLERANCE * self.rate_bytes_per_s
        return Found(
            code=Code.AS_ASKED if is_held else Code.OUT_OF_TOLERANCE,
            text=f"wrote {len(held_up)} checkpoints at {fastest:,.0f} bytes/s at most",
            measured=measured,
            proof=tuple(held_up),
        )


def _rate(event: Event[CheckpointSaved]) -> float:
    return event.payload.bytes / max(event.payload.took_s, 1e-6)


def _look_full(window: EvidenceWindow) -> Found:
    filled = window.first(StorageFilled)
    refused = window.of(CheckpointFailed)
    if filled is None or filled.payload.free_bytes > 0:
        text = "has room on its volume, as far as the record shows"
        return no_evidence(Code.NOT_APPLIED, text)
    measured: dict[str, Json] = {
        "free_bytes": filled.payload.free_bytes,
        "total_bytes": filled.payload.total_bytes,
        "refused": len(refused),
    }
    said = (
        f"the disk refused {len(refused)} checkpoints"
        if refused
        else ("nobody tried to write before the fault ended")
    )
    return Found(
        code=Code.AS_ASKED if refused else Code.NOT_USED,
        text=f"had no byte left; {said}",
        measured=measured,
        proof=(filled, *refused[:1]),
    )
