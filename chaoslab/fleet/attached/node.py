"""One incarnation of an attached node: found, or started again after a fault.

    found ─► Past ─► its state ──┐
    its output, as it grows ─────┴─► NodeOutput, one for each stream ─► observations

Only what it prints from now on has a time: what it had printed before is told without one.
"""

import math
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.attached.past import Past
from chaoslab.fleet.attached.restoring import RELEASE, RESTORE
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place
from chaoslab.fleet.node_output import NodeOutput
from chaoslab.fleet.nodes.incarnation import Incarnation
from chaoslab.fleet.private_folder import PrivateFolder
from chaoslab.record.exits import ENDING_SIGNALS

_STAYS_S: Final = 10.0
"""Time for which a restarted node has to live until its entry is closed."""
_ENDED = "ended"
"""Key of an ended node in the undo log, apart from what stops it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedPlace(Place):
    """Place of attached nodes, whose recipes lie outside the record."""

    recipes: PrivateFolder

    def keep(self, spec: NodeSpec) -> str:
        """Write the recipe of a node, unless it is there; the folder of all of them."""
        return str(Path(self.recipes.put(spec)).parent)


class AttachedNode(Incarnation):
    """A node that continues after the run in any case."""

    undo_pause, undo_wedge = RESTORE, RELEASE
    past: Past | None = None
    """What it had printed before it was found, until that is told."""

    def __init__(self, spec: NodeSpec, incarnation: int, place: AttachedPlace) -> None:
        super().__init__(spec, incarnation, place)
        self._keep = place.keep
        self._trial_s = math.inf
        """End of the time for which it has to live; infinity: no wait."""
        try:
            self._files = IncarnationFiles(self._directory, place.clock)
            errors = self._files.errors.open("wb", buffering=0)
            self._files.begun(spec, spec.command, self.facts)
        except OSError as error:
            raise FleetError(f"{spec.name}: {error}") from error
        self._output = NodeOutput(spec, incarnation, self._files.log)
        self._errors, self._errors_log = NodeOutput(spec, incarnation, errors), errors

    @property
    def undo_facts(self) -> Mapping[str, Json]:
        return {"node": self.spec.name, "folder": self._keep(self.spec)}

    @property
    def refused_lines(self) -> int:
        """Lines that claimed to be events and were none that it may report."""
        return self._output.refused_lines

    @property
    def key_facts(self) -> Mapping[str, Json]:
        """Identifies the ended process, where an undo has to wait for that."""
        return {}

    @abstractmethod
    def signal_all(self, name: str) -> None:
        """Signal all of its processes; does nothing once it is over."""

    @abstractmethod
    def _printed(self) -> bytes:
        """Output since the last call; does not wait."""

    def _complained(self) -> bytes:
        """The same of a second file, where it prints to two that are read."""
        return b""

    @abstractmethod
    def _ending(self) -> dict[str, Json]:
        """Exit code and signal of one that has exited, as far as they are known."""

    @abstractmethod
    def _detach(self) -> None:
        """Close what it is looked at by."""

    def read(self) -> list[Observation]:
        """The observations in what it has printed since, and once those of its past."""
        printed = self._output.take(self._printed())
        return [*self._told_before(), *printed, *self._errors.take(self._complained())]

    def _told_before(self) -> list[Observation]:
        past, self.past = self.past, None
        told = [] if past is None else self._output.take(past.lines)
        return [_as_of_now(one) for one in told]

    def finish(self) -> list[Observation]:
        """Once it has exited: its last lines, then NODE_EXITED."""
        last = [*self.read(), *self._output.end(), *self._errors.end()]
        lost_bytes = self._output.lost_log_bytes + self._errors.lost_log_bytes
        ending = self._ending()
        self.is_over = True
        self.detach()
        return self._report_exit(last, ending, lost_bytes)

    def detach(self) -> None:
        """Stop observing it; it continues, unless it has ended."""
        self._detach()
        self._files.log.close()
        self._errors_log.close()

    def open_restore(self, signal: str) -> None:
        """Before a signal is sent that may end it."""
        if signal in ENDING_SIGNALS:
            self._trial_s = math.inf
            self.open_undo(RESTORE, _ENDED, **self.key_facts)
            self.note_sent(signal)

    def take_over(self, before: "AttachedNode") -> None:
        """Take the place of an ended node, whose entry is closed once this one stays."""
        before.pending_undos.hand_over(self.pending_undos, RESTORE, _ENDED)
        self._trial_s = time.monotonic() + _STAYS_S

    def close_restore_if_it_stays(self) -> None:
        """Close the entry once it stays: a node that crashes at once would be left dead."""
        if not self.is_over and time.monotonic() >= self._trial_s:
            self._trial_s = math.inf
            self.pending_undos.close(RESTORE, _ENDED)

    def _write(self, line: bytes) -> None:
        raise OSError(f"{self.spec.name} has no standard input of ours ({len(line)} bytes)")

    def cpu_used(self) -> tuple[float, float] | None:
        return None


def _as_of_now(told: Observation) -> Observation:
    """Event without its time, and without the versions that a learner had when it joined."""
    data = {**told.data, "versions": {}} if "versions" in told.data else told.data
    return Observation.read({"source": told.source, "kind": told.kind, "data": data})
