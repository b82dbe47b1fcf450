"""Base of the mechanisms that put a stressor on a local node.

    Wish ─► LocalDriver: whom it is for, and how to undo what it makes, written down beforehand

The mechanisms are `slowdown` and `neighbours`; `stress.registry` decides when and for whom.
"""

import os
from dataclasses import dataclass

from chaoslab.core import process_tree
from chaoslab.core.errors import FleetError
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Cgroup, Controller
from chaoslab.fleet.local.incarnation import LocalIncarnation
from chaoslab.fleet.stress.keepers import Keeper
from chaoslab.undo.base import UndoLog


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDriver:
    """Whom a burden is for, under which injection, and where to write down how to undo it."""

    life: LocalIncarnation
    injection: str
    undo_log: UndoLog
    calm_cores: float
    """CPU seconds per second that the node used while nothing was upon it."""
    promised_bytes: int = 0
    """Memory that other burdens are still to take."""

    def keeper(self, program: str, *facts: object, for_s: float | None) -> Keeper:
        """One process that keeps it."""
        mark = f"{self.life.mark}/{self.injection}"
        who = self.life.spec.name
        return Keeper(program, *facts, for_s=for_s, mark=mark, node=who, undo_log=self.undo_log)

    @property
    def pids(self) -> tuple[int, ...]:
        """All processes of the node."""
        return process_tree.living(self.life.identity, self.life.mark)


class OwnCgroup:
    """A cgroup for one burden, from its obligation to its removal."""

    def __init__(self, bearing: LocalDriver, controller: Controller) -> None:
        """FleetError where this machine has none. Nothing is made yet."""
        home = cgroups.where(controller)
        if home is None:
            raise FleetError(f"no cgroup of {controller} can be made here: see `chaoslab doctor`")
        who = bearing.life
        name = f"{os.getpid()}-{who.spec.name}-{who.incarnation}-{bearing.injection}"
        self.home, self.group = home, Cgroup(home, name)
        self._bearing = bearing
        self._owed: int | None = None

    def make(self) -> Cgroup:
        """Write down how to remove it, then make it."""
        facts = {"path": str(self.group.path), "back": str(self.home.back)}
        who = self._bearing.life.spec.name
        self._owed = self._bearing.undo_log.open(cgroups.UNDO_CGROUP, node=who, **facts)
        self.group.make()
        return self.group

    @property
    def is_gone(self) -> bool:
        """Whether somebody else removed it."""
        return self._owed is not None and not self.group.path.is_dir()

    @property
    def is_there(self) -> bool:
        """Whether it was made, and nobody has removed it since."""
        return self._owed is not None and self.group.path.is_dir()

    def remove(self) -> None:
        """Its processes go back to where they were, if it was made at all."""
        if self._owed is not None:
            cgroups.remove(self.group.path, self.home.back)
            self._bearing.undo_log.close(self._owed)
            self._owed = None
