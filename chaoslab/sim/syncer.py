"""Simulated syncer: the real one (`diloco.syncer.syncer`), with a virtual clock, network and disk.

Stream ─► SyncerStreams ─► Syncer, Policy, … ─► SyncerStreams ─► Stream
                             └─► Jobs: each stage at its cost ─► ModelledState: SyncerDisk
"""

from typing import Any

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import syncer
from chaoslab.diloco.syncer.disk_writes import retry_while_disk_full
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.sim.modelled_state import ModelledState
from chaoslab.sim.process import Process, need
from chaoslab.sim.syncer_streams import SyncerStreams
from chaoslab.sim.waits import Jobs, Points, drive
from chaoslab.sim.wires import Stream

ADDRESS = "syncer.sim:1"


class Syncer(Process):
    """One life of the syncer."""

    def begin(self) -> None:
        """Start, and continue from its disk if there is something on it."""
        self._streams = SyncerStreams(self)
        self._syncer: syncer.Syncer | None = None
        costs, has_begun = self.world.costs, bool(self.world.syncer_disk.commit_log)
        start_s = costs.syncer_resume_s if has_begun else costs.syncer_start_s
        self.work(start_s, lambda: drive(self._live()))

    async def _live(self) -> None:
        rules = Settings.from_json(need(self.flags, "settings-json"))
        jobs = Jobs(self, self._streams.wake)

        def made() -> syncer.Syncer:
            return syncer.Syncer(
                self._streams, ModelledState(rules, self.world), jobs,
                emit=self.say, now=lambda: self.node_s, phases=Points(self),
            )  # fmt: skip

        self._syncer = await retry_while_disk_full(made, self.say, jobs.sleep)
        self._syncer.policy.keeps_training = "keep-training" in self.flags
        self.world.syncer = self
        await self._syncer.run(ADDRESS)
        self.world.syncer = None
        self.later(self.world.costs.syncer_leave_s, self.exit)

    def end(self) -> None:
        """End it and its streams."""
        super().end()
        if self.world.syncer is self:
            self.world.syncer = None
        self._streams.close_all("unavailable: Socket closed")

    def ask_to_end(self) -> bool:
        """Training ends once the open rounds are closed; before it listens it is just ended."""
        running = self._syncer
        if running is None or self.world.syncer is not self:
            return False
        self.do(lambda: running.end(syncer.ASKED))
        return True

    # ---------------------------------------------------------------- its end of streams

    def accept(self, stream: Stream) -> None:
        """Accept a stream, whose hello follows."""
        self._streams.accept(stream)

    def hear(self, stream: Stream, message: Received[Any]) -> None:
        """A message of a learner."""
        self._streams.hear(stream, message)

    def lose(self, stream: Stream, reason: str) -> None:
        """A stream has ended."""
        self._streams.lose(stream, reason)
