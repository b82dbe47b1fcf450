"""Simulated learner: steps, pushes when asked, adopts what is published; nothing is computed.

    start ─► compile ─► Joining ─► Training: step ─► boundary ─► step ─► … ─► Leaving
                           ▲                 │ ▲
                       Messenger ◄═══════════╧═╧═══ pulls, fragments, checkpoint, stop

It does and reports what `diloco.learner.program` does, each piece of work at its cost. `Counters`
has its numbers, `Messenger` its messages, `Pace` the length of its steps, `Saving` its checkpoints.
"""

from chaoslab.core.payloads import LearnerStarted
from chaoslab.sim.joining import Joining
from chaoslab.sim.learner_process import LearnerProcess
from chaoslab.sim.leaving import Leaving
from chaoslab.sim.step_reports import StepReports
from chaoslab.sim.training import Training


class Learner(LearnerProcess):
    """One life of a learner."""

    def begin(self) -> None:
        """Its process is started."""
        self.prepare()
        costs = self.world.costs
        reports = StepReports(self)
        self._leaving = Leaving(self, reports)
        self._joining = Joining(self, reports, self._leaving, then=self._train)
        self._training = Training(
            self, reports, self._leaving, self._joining,
            step_s=costs.step_takes_s(self.parameters, self.tokens, chips=self.hosts),
        )  # fmt: skip
        self._is_started = self._is_compiled = False
        self.on("pace", self.pace.apply_pace_hook)
        self.on("slow", self.pace.apply_slow_hook)
        self.on("disk", self.saving.apply_hook)
        self.work(self.takes(costs.start_s), self._start)

    def _start(self) -> None:
        self._is_started = True
        self.tell_of_itself(
            LearnerStarted, devices=self.hosts, platform="sim", parameters=self.parameters
        )
        self.messenger.connection.start()
        self._joining.own = self.saving.find()
        self._joining.compile_s = self.takes(self.world.costs.compile_s)
        self.work(self._joining.compile_s, self._compiled)

    def _compiled(self) -> None:
        self._is_compiled = True
        self.on_training_thread(self._joining.go_on)

    def _train(self) -> None:
        self._training.loop()

    def look(self) -> None:
        """See `LearnerProcess.look`."""
        if not self._is_compiled or self.is_ending:
            return
        if self._leaving.is_finishing:
            self._leaving.finish()
        elif not self.is_training:
            self._joining.go_on()
        else:
            self._training.wake()

    def ask_to_end(self) -> bool:
        """It leaves after the current step; before it handles signals it is just ended."""
        if not self._is_started:
            return False
        self._leaving.ask()
        self.do(lambda: self.on_training_thread(self.look))
        return True

    def note_preemption(self) -> bool:
        """SIGHUP: whether it handles that; the training thread reports it after its step."""
        self.was_noticed = self._is_started
        return self._is_started
