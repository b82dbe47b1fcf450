"""Means of the mechanisms that put a stressor on a local node: processes, and a cgroup of its own.

    Wish ─► mechanism (`slowdown`, `neighbours`) ─┬─► stress process: a process
                                                  └─► OwnCgroup: a limit by the kernel

How to undo both is written down before they are made.
"""

import os

from chaoslab.core.errors import FleetError
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Cgroup, Controller
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.fleet.stress.registry import Wish
from chaoslab.fleet.stress.stress_process import StressProcess


def stress_process(
    wish: Wish[LocalProcess], program: str, *facts: object, for_s: float | None
) -> StressProcess:
    """Start a process that keeps the stressor."""
    life = wish.life
    return StressProcess(
        program, *facts, for_s=for_s, mark=f"{life.mark}/{wish.injection}", node=life.spec.name,
        undo_log=life.place.undo_log,
    )  # fmt: skip


class OwnCgroup:
    """A cgroup for one stressor, from its undo entry to its removal."""

    def __init__(self, wish: Wish[LocalProcess], controller: Controller) -> None:
        """FleetError where this machine has none. Nothing is made yet."""
        home = cgroups.where(controller)
        if home is None:
            raise FleetError(f"no cgroup of {controller} can be made here: see `chaoslab doctor`")
        life = wish.life
        name = f"{os.getpid()}-{life.spec.name}-{life.incarnation}-{wish.injection}"
        self.home, self.group = home, Cgroup(home, name)
        self._node, self._undo_log = life.spec.name, life.place.undo_log
        self._entry: int | None = None

    def make(self) -> Cgroup:
        """Write down how to remove it, then make it."""
        facts = {"path": str(self.group.path), "back": str(self.home.back)}
        self._entry = self._undo_log.open(cgroups.UNDO_CGROUP, node=self._node, **facts)
        self.group.make()
        return self.group

    @property
    def is_gone(self) -> bool:
        """Whether it was made, and somebody else removed it."""
        return self._entry is not None and not self.group.path.is_dir()

    @property
    def is_there(self) -> bool:
        """Whether it was made, and nobody has removed it since."""
        return self._entry is not None and self.group.path.is_dir()

    def remove(self) -> None:
        """Move its processes back to where they were, if it was made at all."""
        if self._entry is not None:
            cgroups.remove(self.group.path, self.home.back)
            self._undo_log.close(self._entry)
            self._entry = None
