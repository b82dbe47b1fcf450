"""One incarnation of a node, as every fleet has it: its state, its files, the report of its end.

    Incarnation ─┬─ a process of this machine (`local.incarnation`)
                 ├─ a container (`docker.container`)
                 └─ a pod (`kubernetes.pod`)

It knows one process; names, verbs and waiting are the fleet's.
"""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from typing import ClassVar

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation, encode, read
from chaoslab.core.payloads import NodeExited, NodeStarted
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place
from chaoslab.fleet.node_output import NodeOutput
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over
from chaoslab.record.exits import ENDING_SIGNALS
from chaoslab.undo.base import PendingUndos

_log = logging.getLogger(__name__)
_FILLED_IN = re.compile(r"\{(incarnation|directory|private)\}")


class Incarnation(ABC):
    """A started process, container or pod. `is_over` once its exit was noticed."""

    undo_pause: ClassVar[str]
    """Undo verb of `Fleet.pause`."""
    undo_wedge: ClassVar[str]
    """Undo verb of `Fleet.wedge`."""
    started_by = ""
    """Who has started it, if neither the harness nor who started all nodes did."""
    _files: IncarnationFiles
    _output: NodeOutput

    def __init__(self, spec: NodeSpec, incarnation: int, place: Place) -> None:
        self.spec, self.incarnation, self.place = spec, incarnation, place
        self.is_ending = False
        """The harness has sent it a signal that ends processes."""
        self.has_outlived_kill = False
        """Whether it did not end in the wait after SIGKILL."""
        self.is_paused = False
        self.is_over = False
        self.mark = f"{place.run_directory}/{spec.name}/{incarnation}"
        """Marks all its processes in their environment."""
        self.pending_undos = PendingUndos(place.undo_log)
        self._directory = place.home(spec.name) / str(incarnation)
        self._sent: list[str] = []
        """Signals it was sent to end it."""

    # ---------------------------------------------------------------- what differs by fleet

    @property
    @abstractmethod
    def where(self) -> str:
        """The process or container, for error messages."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Json]:
        """Facts that NODE_STARTED reports beside name, role and incarnation, `pid` among them."""

    @property
    @abstractmethod
    def undo_facts(self) -> Mapping[str, Json]:
        """Facts that every undo entry about it begins with."""

    @property
    @abstractmethod
    def has_exited(self) -> bool:
        """Whether it ended, noticed or not."""

    @abstractmethod
    def signal(self, name: str) -> None:
        """Signal its main process; does nothing once it is over."""

    @abstractmethod
    def resume(self) -> None:
        """Let all of a paused node go on. FleetError if a part of it does not."""

    @abstractmethod
    def probe(self) -> Observation:
        """NODE_PROBED: its state and what it uses now."""

    @abstractmethod
    def cpu_used(self) -> tuple[float, float] | None:
        """Time of the measurement, and CPU seconds used by then; None if unknown."""

    @abstractmethod
    def _write(self, line: bytes) -> None:
        """Write to its standard input. OSError if that is closed or full."""

    def prepare(self) -> None:  # noqa: B027 - where nothing is found beforehand
        """Find what the next signal to all of it has to reach."""

    def unprepare(self) -> None:  # noqa: B027 - as above
        """Forget that."""

    # ---------------------------------------------------------------- what all have in common

    def started(self) -> Observation:
        facts: dict[str, Json] = {
            "node": self.spec.name,
            "role": self.spec.role.value,
            "incarnation": self.incarnation,
            **self.facts,
            "started_by": self.started_by,
            "labels": dict(self.spec.labels),
        }
        return Observation.of(self.spec.name, read(NodeStarted, facts, self.where))

    def tell(self, facts: Mapping[str, Json]) -> None:
        """Write one line to its standard input. FleetError if it has none or does not read it."""
        if not self.spec.hears:
            raise FleetError(f"{self.spec.name} was started without test hooks")
        try:
            self._write(encode(facts).encode() + b"\n")
        except OSError as error:
            raise FleetError(f"{self.spec.name} does not read its standard input") from error

    def open_undo(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """Write an undo entry before the action; one for each verb and each `whose`."""
        self.pending_undos.open(do, whose, **self.undo_facts, **facts)

    def close_undo(self, do: str) -> None:
        """Close the entry of this verb, once its undo is verified; nothing if none is open."""
        self.pending_undos.close(do)

    def note_sent(self, name: str) -> None:
        """Remember a signal that is sent to end it; others are left out."""
        if name in ENDING_SIGNALS:
            self._sent.append(name)

    @contextmanager
    def being_ended(self, *signals: str, unless: type[FleetError]) -> Iterator[None]:
        """Note that it is ending by these signals, unless this error is raised: then it runs on."""
        before = self.is_ending, list(self._sent)
        self.is_ending = True
        for name in signals:
            self.note_sent(name)
        try:
            yield
        except unless:
            self.is_ending, self._sent[:] = before
            raise

    def _open_files(self, if_it_fails: ExitStack) -> FileIO:
        """Make its folder and the log of its output; returns the log of its complaints."""
        try:
            self._files = IncarnationFiles(self._directory, self.place.clock)
            if_it_fails.callback(self._files.forget)
            errors = self._files.errors.open("wb", buffering=0)
        except OSError as error:
            raise FleetError(f"{self.spec.name} cannot be started: {error}") from error
        if_it_fails.callback(errors.close)
        self._output = NodeOutput(self.spec, self.incarnation, self._files.log)
        return errors

    def _command(self, directory: str, private: str, incarnation: str = "") -> list[str]:
        """Its command line, with incarnation (by default its own) and both folders filled in."""
        values = {
            "{incarnation}": incarnation or str(self.incarnation),
            "{directory}": directory,
            "{private}": private,
        }
        return [_FILLED_IN.sub(lambda found: values[found[0]], word) for word in self.spec.command]

    def _report_exit(
        self, last: Sequence[Observation], ending: dict[str, Json], lost_bytes: int
    ) -> list[Observation]:
        """Report its last observations, then NODE_EXITED; `ending` also goes to exit.json."""
        node = self.spec.name
        ending |= {"refused_lines": self._output.refused_lines, "sent": list(self._sent)}
        try:
            self._files.ended({**ending, "lost_log_bytes": lost_bytes})
        except OSError as error:  # the journal says the same, and the others must end, too
            _log.warning("the end of %s cannot be recorded: %s", node, error)
        pid = self.facts["pid"]
        subject: dict[str, Json] = {"node": node, "incarnation": self.incarnation, "pid": pid}
        facts = {**subject, **ending, **self._files.last_words(ending)}
        return [*last, Observation.of(node, read(NodeExited, facts, self.where))]


class CarriedIncarnation(Incarnation):
    """An incarnation whose output another thread carries to the queue of the fleet."""

    _arrivals: Arrivals
    _errors: FileIO
    """Log of its complaints."""

    @abstractmethod
    def _close(self) -> None:
        """Stop reading what it prints."""

    def _hand_over(self, arrival: Arrival) -> None:
        """While the queue is full the node waits, as at a full pipe."""
        hand_over(self._arrivals, arrival, lambda: not self.is_over)

    def abandon(self) -> None:
        """Stop reading its output, and record no end of it."""
        if not self.is_over:
            self._release()

    def _release(self) -> None:
        self.is_over = True
        self._close()
        self._files.log.close()
        self._errors.close()
        self.pending_undos.close_all()
