"""Chips of local nodes, as their lock files: held by a process beside the node, or asked for.

    hold ─► keeper `lock` ─► takes nodes/NAME/chip.lock as soon as the node is gone, keeps it
    attempt ─► one try to take it, given back at once

A learner takes the lock of its chip before anything else (`diloco.node.chip`); a program that does
not is not kept from its chip, which the evidence shows.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.stress.keepers import Keeper
from chaoslab.undo.base import UndoLog

LOCK: Final = "chip.lock"
_HOLD_S: Final = 5.0
"""How long a node that was killed may keep its chip."""
_AGAIN_S: Final = 0.01


class Chips:
    """The chips of one fleet's nodes."""

    def __init__(self, run_directory: Path, undo_log: UndoLog) -> None:
        self._run_directory, self._undo_log = run_directory, undo_log
        self._keepers: dict[str, Keeper] = {}

    def hold(self, name: str) -> list[Observation]:
        """Take the chip of a node that is ending; FleetError if it does not let go of it."""
        if name in self._keepers:
            return []
        keeper = Keeper(
            "lock", self._lock(name), for_s=None, mark=f"{self._run_directory}/{name}/chip",
            node=name, undo_log=self._undo_log,
        )  # fmt: skip
        self._keepers[name] = keeper
        keeper.ask(1.0)
        until_s = time.monotonic() + _HOLD_S
        while self._holder(name) != keeper.identity.pid:
            if time.monotonic() >= until_s:
                self.free(name)
                holder = self._holder(name)
                raise FleetError(f"the chip of {name} is still held by process {holder}")
            time.sleep(_AGAIN_S)
        return [_told(Kind.CHIP_HELD, name, keeper.identity.pid)]

    def free(self, name: str) -> list[Observation]:
        """Give the chip back, if it is held."""
        keeper = self._keepers.pop(name, None)
        if keeper is None:
            return []
        keeper.end()
        return [_told(Kind.CHIP_FREED, name, keeper.identity.pid)]

    def attempt(self, name: str) -> Observation:
        """Ask for the chip as a second task would, once."""
        holder = self._holder(name)
        return Observation(
            source=name,
            kind=Kind.CHIP_TRIED,
            data={"node": name, "holder": holder, "is_granted": holder is None},
        )

    def free_all(self) -> None:
        """Give all back."""
        for name in tuple(self._keepers):
            self.free(name)

    def _lock(self, name: str) -> Path:
        return self._run_directory / "nodes" / name / LOCK

    def _holder(self, name: str) -> int | None:
        """The process that has the chip, by the kernel's word that somebody has it; None: nobody.

        0 for one that did not write down which it is.
        """
        try:
            lock = os.open(self._lock(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            words = os.read(lock, 32).decode(errors="replace").strip()
            return int(words) if words.isdecimal() else 0
        else:
            return None
        finally:
            os.close(lock)


def _told(kind: Kind, name: str, holder: int) -> Observation:
    return Observation(source=name, kind=kind, data={"node": name, "holder": holder})
