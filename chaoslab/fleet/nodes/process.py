"""An incarnation that is a process of this machine, known by its identity.

ProcessIncarnation ─┬─ one of the fleet's own (`local.incarnation`)
                    └─ StrangersProcess: started by others, found (`local.launched`, `attached`)
"""

import os
from collections.abc import Mapping
from typing import Final

from chaoslab.core import process_tree
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.core.process_identity import (
    Identity,
    is_ending,
    is_running,
    is_same,
    wait_status,
)
from chaoslab.fleet.base import probed
from chaoslab.fleet.incarnation_files import signal_name
from chaoslab.fleet.nodes.incarnation import Incarnation

_GOING_S: Final = 1.0
"""Longest time until all of a resumed tree was seen running."""


class ProcessIncarnation(Incarnation):
    """A process of this machine, with all below it."""

    identity: Identity
    """Identity of the main process."""

    @property
    def where(self) -> str:
        return f"process {self.identity.pid}"

    @property
    def facts(self) -> Mapping[str, Json]:
        """Identity of the main process."""
        return self.identity.facts

    def resume(self) -> None:
        """Let its whole tree go on; FleetError names what does not."""
        left = process_tree.resume_tree(self.identity, self.mark, limit_s=_GOING_S)
        if left:
            raise FleetError(f"{self.spec.name} cannot be resumed: still stopped are {left}")

    def probe(self) -> Observation:
        """State of its main process by the kernel; a stopped one is given time to show it."""
        seen = process_tree.look_until_stopped(self._look) if self.is_paused else self._look()
        return probed(
            self.spec.name,
            incarnation=self.incarnation,
            pid=self.identity.pid,
            state=seen.state,
            rss_bytes=seen.rss_bytes,
            cpu_s=seen.cpu_s,
        )

    def _look(self) -> process_tree.ProcessStatus:
        return process_tree.GONE if self.is_over else process_tree.look(self.identity)


class StrangersProcess(ProcessIncarnation):
    """No child of the harness: how it ended is known if that is read before its parent asks, or if
    it ran when it was sent SIGKILL.
    """

    _status: int | None = None
    """Status as `waitpid` has it."""
    _was_killed: bool = False

    def note_sent(self, name: str) -> None:
        super().note_sent(name)
        is_alive = is_same(self.identity) and not is_ending(self.identity.pid)
        self._was_killed |= name == "SIGKILL" and is_alive

    @property
    def has_exited(self) -> bool:
        if self.is_over:
            return True
        if self._status is None:
            self._status = wait_status(self.identity)
        return not (is_running(self.identity.pid) and is_same(self.identity))

    def _ending(self) -> dict[str, Json]:
        """Exit code and signal; if the end was not seen, the last signal that it was sent."""
        if self._status is None and self._was_killed:
            return {"exit_code": None, "signal": "SIGKILL"}
        if self._status is None:
            return {"exit_code": None, "signal": next(reversed(self._sent), None), "is_seen": False}
        code = os.waitstatus_to_exitcode(self._status)
        by = signal_name(-code) if code < 0 else None
        return {"exit_code": None if by else code, "signal": by}
