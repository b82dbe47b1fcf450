"""End of the nodes of a run: the signals that end them, or word of those that run on.

    NodesEnd.end ─► a verb for each living node ─► their exits, read until all have come

Where a signal cannot be sent, the record says why, and leaving the fleet ends the node.
"""

from dataclasses import dataclass, field
from functools import partial

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import RunLeft, SignalFailed
from chaoslab.fleet.protocols import Attached, HearsLate, able
from chaoslab.run.run_loop import RunLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesEnd:
    """End of the nodes of one run."""

    run_loop: RunLoop
    _not_sent: set[tuple[str, str, str]] = field(default_factory=set)
    """Signals that could not be sent: node, signal and reason."""

    async def signal(self, name: str, signal: str) -> bool:
        """Whether a node could be sent a signal; if not, the record says why, once."""
        recorder, verbs = self.run_loop.recorder, self.run_loop.injector.verbs
        send = partial(recorder.fleet.signal, name, signal=signal)
        try:
            await verbs.call([name], send, what=signal, is_last=True)
        except FleetError as error:
            failure = (name, signal, str(error))
            if failure not in self._not_sent:
                self._not_sent.add(failure)
                recorder.note(SignalFailed(node=name, signal=signal, reason=str(error)))
            return False
        return True

    def leave(self) -> None:
        """Note the nodes that run on, because others started them."""
        self._hear_out()
        recorder = self.run_loop.recorder
        fleet, alive = recorder.fleet, recorder.progress.alive()
        recorder.note(
            RunLeft(
                nodes=alive,
                gone=tuple(name for name in fleet.nodes if name not in alive),
                refused_lines=able(fleet, Attached).refused_lines,
            )
        )

    def end(self, signal: str, *, within_s: float) -> None:
        """Send every living node a signal and wait for their ends, or for a second interrupt."""
        self._hear_out()
        recorder, verbs = self.run_loop.recorder, self.run_loop.injector.verbs
        for name in recorder.progress.alive():
            verbs.begin(self._signal(name, signal))
        until_s = recorder.now_s + within_s
        while recorder.progress.alive() and recorder.now_s < until_s:
            if signal != "SIGKILL" and self.run_loop.interrupts.count > 1:
                return
            recorder.read(min(until_s, recorder.now_s + within_s / 20))
            verbs.turn()

    async def _signal(self, name: str, signal: str) -> None:
        await self.signal(name, signal)

    def _hear_out(self) -> None:
        """Take in all that was said, and whether some of it came late."""
        recorder = self.run_loop.recorder
        if isinstance(recorder.fleet, HearsLate):
            self.run_loop.beside(recorder.fleet.hear_out, "what was said late")
        recorder.drain()
