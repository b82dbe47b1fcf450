"""Faults on the syncer: kill, pause, disk_full. Nobody else may merge, so training waits for it.

Learners go on stepping meanwhile, and none of their work may be merged twice or published and lost;
whether that held is for checks to say (`succession`, `ledger`, `versions`). Evidence is only that
the fault was there: how the process ended, that it stood still, that its disk refused.
"""

from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.payloads import RoundMerged, SyncerBlocked, SyncerFreed
from chaoslab.faults.base import Layer, OneAct
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import (
    EvidenceWindow,
    Found,
    evidence_of_each,
    no_evidence,
    of,
)
from chaoslab.faults.process import Signal, start_all
from chaoslab.faults.process_pause import look_paused
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.fleet.protocols import HasVolumes, Pausable, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended, was_ended_by
from chaoslab.record.journal import History

_SYNCER = frozenset({Role.SYNCER})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerKill(OneAct):
    """Kill the syncer; heal by starting it again, so that it goes on from its disk."""

    signal: Signal = Signal.SIGKILL
    """SIGKILL ends it at once, whatever it is doing."""

    name: ClassVar[str] = "syncer.kill"
    summary: ClassVar[str] = "end the syncer by a signal; it goes on from its disk"
    layer: ClassVar[Layer] = Layer.PROCESS
    imitates: ClassVar[str] = "the loss or preemption of the machine that merges"
    proof: ClassVar[str] = "exit status with that signal; no round while it was down"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.KILL})
    roles: ClassVar[frozenset[Role]] = _SYNCER
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.signal not in list(Signal):
            raise PlanError(f"`signal: {self.signal}` ends no process: use {', '.join(Signal)}")
        if self.signal in (Signal.SIGTERM, Signal.SIGINT):
            raise PlanError(
                f"`signal: {self.signal}` asks the syncer to end training, which then is over: use "
                "SIGKILL"
            )

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Send the signal to the syncer."""
        fleet.signal(*injection.targets, signal=self.signal)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start its next incarnation in the same directory."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """The exit by the signal, for how long nobody replaced it, and what it had merged."""
        requested: dict[str, Json] = {"signal": str(self.signal), "down_s": injection.for_s}
        return evidence_of_each(injection, history, self._look, requested)

    def _look(self, window: EvidenceWindow) -> Found:
        exited = window.exited
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, f"did not exit on {self.signal}")
        if not was_ended_by(exited, self.signal):
            text = f"ended by itself ({how_it_ended(exited)}), not by {self.signal}"
            return no_evidence(Code.EXITED_INSTEAD, text)
        down_s = window.down_s(exited)
        late = window.first(RoundMerged, lambda e: e.seq > exited.seq)
        versions = _versions(window)
        return Found(
            code=Code.WORKED_MEANWHILE if late else window.lasted(down_s),
            text=f"exited ({how_it_ended(exited)}) and was down for {down_s:.1f} s; it had merged "
            f"{sum(versions.values())} rounds"
            + (", and another one while it was down" if late else ""),
            measured={
                "signal": exited.payload.signal,
                "exited_after_s": exited.time_s - window.begin_s,
                "down_s": down_s,
                "versions": versions,
            },
            proof=(exited, window.restarted, late),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerPause(OneAct):
    """Stop the syncer's process, as SIGSTOP does: alive, silent, all streams open."""

    name: ClassVar[str] = "syncer.pause"
    summary: ClassVar[str] = "stop the syncer without ending it; all streams stay open"
    layer: ClassVar[Layer] = Layer.PROCESS
    imitates: ClassVar[str] = "a machine that stands still: live migration, a hypervisor's pause"
    proof: ClassVar[str] = "process state T, probed from outside, and no report meanwhile"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.PAUSE})
    roles: ClassVar[frozenset[Role]] = _SYNCER
    takes_away: ClassVar[bool] = True

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Stop the process of the syncer."""
        able(fleet, Pausable).pause(*injection.targets)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Let it go on."""
        for name in injection.targets:
            able(fleet, Pausable).resume(name)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """State T from the first probe to the last, and silence."""
        return evidence_of_each(injection, history, look_paused, {"paused_s": injection.for_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerDiskFull(OneAct):
    """Leave no room on the volume of the syncer's state: what it merges cannot be written."""

    name: ClassVar[str] = "syncer.disk_full"
    summary: ClassVar[str] = "no room for the syncer's state: nothing can be merged for good"
    layer: ClassVar[Layer] = Layer.VOLUME
    imitates: ClassVar[str] = "a disk that fills up under the state of the run"
    proof: ClassVar[str] = "the syncer's own word that the disk refuses, and no round from then on"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.VOLUME})
    roles: ClassVar[frozenset[Role]] = _SYNCER
    takes_away: ClassVar[bool] = False

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Fill the volume of the syncer's state."""
        for name in injection.targets:
            able(fleet, HasVolumes).fill_disk(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Give the volume its room back."""
        for name in injection.targets:
            able(fleet, HasVolumes).free_disk(name)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """From its word on the disk refused, and it published nothing."""
        return evidence_of_each(injection, history, _look_blocked, {"full_s": injection.for_s})


# ---------------------------------------------------------------- evidence


def _look_blocked(window: EvidenceWindow) -> Found:
    blocked = window.first(SyncerBlocked)
    if blocked is None:
        return no_evidence(Code.NO_EFFECT, "never said that its disk refuses what it writes")
    freed = window.first(SyncerFreed, lambda e: e.seq > blocked.seq)
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


def _versions(window: EvidenceWindow) -> dict[str, int]:
    """The newest version of each fragment that was published before."""
    merged = (event.payload for event in of(window.before, RoundMerged))
    return {str(said.fragment): said.version for said in merged}
