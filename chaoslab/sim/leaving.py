"""End of a simulated learner's life: asked to leave, refused, or training has ended.

asked, preempted ─► last checkpoint ─► last report ─┐
stop ─► adopt the last versions, 15 s at most ──────┴─► learner.left ─► goodbye ─► exit
"""

from chaoslab.core.payloads import LearnerLeft, LeftBecause
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.sim.counters import Counters
from chaoslab.sim.learner_process import LearnerProcess
from chaoslab.sim.step_reports import StepReports
from chaoslab.sim.waits import drive

_DRAIN_S = 15.0
"""Time limit, as in `diloco.learner.program`."""
_REFUSED_CODE = 3


class Leaving:
    """Leaving of one life."""

    def __init__(self, learner: LearnerProcess, reports: StepReports) -> None:
        self._learner, self._reports = learner, reports
        self.reason = ""
        """Reason to leave; empty: none."""
        self._stop: pb.Stop | None = None

    @property
    def is_finishing(self) -> bool:
        """Whether training has ended, and it waits for the last versions."""
        return self._stop is not None

    def ask(self) -> None:
        """Let it leave after its step."""
        self.reason = self.reason or ("preempted" if self._learner.was_noticed else "asked")

    def refuse(self) -> None:
        """The syncer does not let it in: it ends at once."""
        self._learner.is_ending = True
        self._learner.later(0.0, lambda: self._learner.exit(_REFUSED_CODE))

    def leave(self, counters: Counters) -> None:
        """Leave in order: the last checkpoint, the last report, a goodbye."""
        self._learner.is_ending = True

        async def go() -> None:
            learner = self._learner
            await learner.saving.close()  # finish what is being written before the last one
            learner.save(counters)
            await learner.saving.close()
            self._reports.notice(counters)
            self._reports.sample(counters)
            self.go(step=counters.step, reason=LeftBecause(self.reason))

        drive(go())

    def begin_finish(self, counters: Counters, stop: pb.Stop) -> None:
        """Training has ended."""
        self._stop = stop
        self._learner.train_later(_DRAIN_S, lambda: self._account(counters))
        self.finish()

    def finish(self) -> None:
        """Adopt what has arrived; with the last versions, report them and leave."""
        counters, stop = self._learner.counters, self._stop
        if counters is None or stop is None or self._learner.is_ending:
            return
        self._learner.adopt(counters, lambda: self._end_if_whole(counters, stop))

    def _end_if_whole(self, counters: Counters, stop: pb.Stop) -> None:
        if counters.versions == list(stop.versions):
            self._account(counters)

    def _account(self, counters: Counters) -> None:
        if self._learner.is_ending:
            return
        self._learner.is_ending = True
        self._reports.sample(counters)
        self._learner.say(counters.final(self._learner.whose))

        async def go() -> None:
            await self._learner.saving.close()
            self.go(step=counters.step, reason=LeftBecause.STOPPED)

        drive(go())

    def go(self, *, step: int, reason: LeftBecause) -> None:
        """The last report, a goodbye, and the end of its process."""
        learner = self._learner
        learner.is_ending = True
        learner.say(LearnerLeft(**learner.whose, step=step, reason=reason))
        if learner.is_training:
            learner.messenger.leave(reason.value)
        learner.later(learner.takes(learner.world.costs.leave_s), learner.exit)
