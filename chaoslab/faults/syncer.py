"""Faults on the syncer: kill, pause, disk_full. Nobody else may merge, so training waits for it.

Learners go on stepping meanwhile, and none of their work may be merged twice or published and lost;
whether that held is for checks to say (`succession`, `ledger`, `versions`). Evidence is only that
the fault was there: how the process ended, that it stood still, that its disk refused.
"""

import math
from dataclasses import dataclass

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event
from chaoslab.core.payloads import NodeExited, RoundMerged, SyncerBlocked, SyncerFreed
from chaoslab.core.units import plural
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.faults.process import EndsBySignal, Signal
from chaoslab.faults.process_pause import PausesProcess
from chaoslab.faults.storage_room import FillsVolume
from chaoslab.fleet.base import Role
from chaoslab.record.exits import how_it_ended

_SYNCER = frozenset({Role.SYNCER})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerKill(EndsBySignal):
    """Kill the syncer; heal by starting it again, so that it goes on from its disk."""

    signal: Signal = Signal.SIGKILL
    """SIGKILL ends it at once, whatever it is doing."""

    name = "syncer.kill"
    summary = "end the syncer by a signal; it goes on from its disk"
    imitates = "the loss or preemption of the machine that merges"
    proof = "exit status with that signal; no round while it was down"
    roles = _SYNCER

    def __post_init__(self) -> None:
        EndsBySignal.__post_init__(self)
        if self.signal in (Signal.SIGTERM, Signal.SIGINT):
            raise PlanError(
                f"`signal: {self.signal}` asks the syncer to end training, which then is over: use "
                "SIGKILL"
            )

    def look_at_death(self, window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
        """How it ended, for how long it was down, and what it had merged."""
        down_s = window.down_s(exited)
        up_seq = window.restarted.seq if window.restarted else math.inf
        late = window.first(RoundMerged, lambda e: exited.seq < e.seq < up_seq)
        versions = _versions(window)
        return Found(
            code=Code.WORKED_MEANWHILE if late else window.was_away(down_s),
            text=f"exited ({how_it_ended(exited)}) and was down for {down_s:.1f} s; it had merged "
            f"{plural(sum(versions.values()), 'round')}"
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
class SyncerPause(PausesProcess):
    """Stop the syncer's process, as SIGSTOP does: alive, silent, all streams open."""

    name = "syncer.pause"
    summary = "stop the syncer without ending it; all streams stay open"
    imitates = "a machine that stands still: live migration, a hypervisor's pause"
    roles = _SYNCER


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerDiskFull(FillsVolume):
    """Leave no room on the volume of the syncer's state: what it merges cannot be written.

    Learners overwrite what they trained between a push and its version, so that most of the work of
    that time is lost, and `goodput` is lower than after a pause.
    """

    name = "syncer.disk_full"
    summary = "no room for the syncer's state: nothing can be merged for good"
    imitates = "a disk that fills up under the state of the run"
    proof = "the syncer's own word that the disk refuses, and no round from then on"
    roles = _SYNCER
    takes_away = True
    duration_key = "full_s"

    def look(self, window: EvidenceWindow) -> Found:
        """From its word on the disk refused, and it published nothing."""
        blocked = window.first(SyncerBlocked, lambda e: not e.payload.is_snapshot)
        if blocked is None:
            return no_evidence(Code.NO_EFFECT, "never said that its disk refuses what it writes")
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


def _versions(window: EvidenceWindow) -> dict[str, int]:
    """The newest version of each fragment that was published before."""
    merged = (event.payload for event in of(window.before, RoundMerged))
    return {str(said.fragment): said.version for said in merged}
