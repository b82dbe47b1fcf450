"""One incarnation of a standing node: found, or started again after a fault.

    found ─► Past ─► its state ──┐
    its output, as it grows ─────┴─► NodeOutput ─► observations

Only what it prints from now on has a time: what it had printed before is told without one.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place
from chaoslab.fleet.node_output import NodeOutput
from chaoslab.fleet.nodes.incarnation import Incarnation
from chaoslab.fleet.standing.past import Past
from chaoslab.fleet.standing.restoring import RELEASE, RESTORE
from chaoslab.record.exits import ENDING_SIGNALS

_ENDED = "ended"
"""In the undo log, what was done to a node that was ended, apart from what holds it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Where the recipes of a run's nodes are kept, outside its record."""

    keep: Callable[[NodeSpec], str]
    """Write the recipe of a node, unless it is there; the folder of all of them."""
    kept: Callable[[str], None]
    """Told that folder after somebody owes what needs it."""


class StandingNode(Incarnation):
    """It goes on after the run, whatever was done to it."""

    undo_pause, undo_wedge = RESTORE, RELEASE

    def __init__(
        self,
        spec: NodeSpec,
        incarnation: int,
        place: Place,
        keeping: Keeping,
        past: Past | None = None,
    ) -> None:
        """`past` is what it printed before it was found."""
        super().__init__(spec, incarnation, place)
        self._keeping = keeping
        try:
            self._files = IncarnationFiles(self._directory, place.clock)
            self._files.errors.touch()
            self._files.begun(spec, spec.command, self.facts)
        except OSError as error:
            raise FleetError(f"{spec.name}: {error}") from error
        self._output = NodeOutput(node=spec.name, role=spec.role, log=self._files.log)
        self._past = past

    @property
    def undo_facts(self) -> Mapping[str, Json]:
        return {"node": self.spec.name, "folder": self._keeping.keep(self.spec)}

    def owe(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """Write down what brings it back, and that this is owed, before it is broken."""
        super().owe(do, whose, **facts)
        self._keeping.kept(self._keeping.keep(self.spec))

    @abstractmethod
    def signal_all(self, name: str) -> None:
        """Signal all of its processes; does nothing once it is over."""

    @abstractmethod
    def _printed(self) -> bytes:
        """What it has printed since the last call; nothing waits."""

    @abstractmethod
    def _ending(self) -> dict[str, Json]:
        """Exit code and signal of one that has exited, as far as they are known."""

    @abstractmethod
    def detach(self) -> None:
        """Stop looking at it; it goes on."""

    def read(self) -> list[Observation]:
        """The observations in what it has printed since, and once those of its past."""
        return [*self._told_before(), *self._output.take(self._printed())]

    def _told_before(self) -> list[Observation]:
        past, self._past = self._past, None
        told = [] if past is None else self._output.take(past.lines)
        return [replace(observation, node_s=None) for observation in told]

    def finish(self) -> list[Observation]:
        """Once it has exited: its last lines, then NODE_EXITED."""
        last = [*self.read(), *self._output.end()]
        ending = self._ending()
        self.is_over = True
        self.detach()
        self._files.log.close()
        return self._report_exit(last, ending, self._output.lost_log_bytes)

    def owe_restart(self, signal: str) -> None:
        """Before a signal is sent that may end it."""
        if signal in ENDING_SIGNALS:
            self.owe(RESTORE, _ENDED)
            self.note_sent(signal)

    def _write(self, line: bytes) -> None:
        raise OSError(f"{self.spec.name} has no standard input of ours ({len(line)} bytes)")

    def cpu_used(self) -> tuple[float, float] | None:
        return None
