"""A worker that a launcher of the fleet `local` has started, as a node of its own.

    launcher (node) ─► its worker, found ─► LaunchedProcess
                    └─ one pipe for all ─► trainer.said, of the worker whose rank stands before it

None of them is a child of the harness.
"""

from collections.abc import Mapping

from chaoslab.core.events import Json, Observation
from chaoslab.core.process_identity import Identity
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.fleet.node_output import NodeOutput
from chaoslab.fleet.nodes.process import StrangersProcess
from chaoslab.fleet.nodes.worker_search import command_of


class LaunchedProcess(StrangersProcess, LocalProcess):
    """A worker, from the moment at which it was found."""

    def __init__(
        self, spec: NodeSpec, incarnation: int, place: Place, found: Identity, *, is_again: bool
    ) -> None:
        """`is_again`: whether its launcher had started an earlier life of it, too."""
        super().__init__(spec, incarnation, place)
        self.identity, self._is_again = found, is_again
        self._files = IncarnationFiles(self._directory, place.clock)
        self._files.errors.touch()
        self._files.begun(spec, command_of(found), found.facts)
        self._output = NodeOutput(spec, incarnation, self._files.log)

    @property
    def facts(self) -> Mapping[str, Json]:
        return {**super().facts, "started_by": "launcher"} if self._is_again else super().facts

    def finish(self) -> list[Observation]:
        self.is_over = True
        self.pending_undos.close_all()
        self._files.log.close()
        return self._report_exit([], self._ending(), 0)

    def _write(self, line: bytes) -> None:
        raise BlockingIOError(f"{self.spec.name} has no standard input of the harness: {line!r}")
