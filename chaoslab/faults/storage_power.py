"""A power cut: a node dies at once, and its disk loses what it had not flushed.

    kill ─► the kernel shuts the file system down ─► … no power for a while … ─► start
              └─ what was not as before when the power was back, file by file

Nothing need be lost: a node that flushes whatever others rely on loses at most what nobody had
heard of. Whether that held is judged by the checks `checkpoints` and `succession`.
"""

from dataclasses import dataclass

from chaoslab.core.payloads import StoragePowerLost
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.fleet.protocols import LosesPower, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended, was_ended_by


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
            f"{_in_words(cut.payload)}",
            measured={
                "exited_after_s": exited.time_s - window.begin_s,
                "down_s": down_s,
                "files": cut.payload.files,
                "files_lost": len(cut.payload.lost),
                "refused": cut.payload.refused,
            },
            proof=(exited, cut, window.restarted),
        )


def _in_words(cut: StoragePowerLost) -> str:
    said = f"its disk was shut down ({cut.refused})"
    if not cut.lost:
        return f"{said} and lost nothing: all {cut.files} files are as they were"
    changes = ", ".join(
        f"{one.file} {_bytes(one.bytes_before)} -> {_bytes(one.bytes_after)}" for one in cut.lost
    )
    return f"{said}; of {cut.files} files {len(cut.lost)} are not as before: {changes}"


def _bytes(size: int | None) -> str:
    return "none" if size is None else f"{size} bytes"
