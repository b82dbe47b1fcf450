"""Simulated learner: steps, pushes when asked, adopts what is published; nothing is computed.

    start ─► compile ─► Joining ─► Training: step ─► boundary ─► step ─► … ─► Leaving
                           ▲                 │ ▲
                       Messenger ◄═══════════╧═╧═══ pulls, fragments, checkpoint, stop

It does and reports what `diloco.learner.program` does, each piece of work at its cost. `Counters`
has its numbers, `Messenger` its messages, `Pace` the length of its steps, `Saving` its checkpoints.
"""

from functools import partial
from typing import NamedTuple

from chaoslab.core.payloads import LearnerStarted
from chaoslab.sim.clock import Timer
from chaoslab.sim.counters import Counters
from chaoslab.sim.joining import Joining
from chaoslab.sim.learner_process import LearnerProcess
from chaoslab.sim.leaving import Leaving
from chaoslab.sim.step_reports import StepReports


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


_TURN_S = 0.1
"""Of a wait for a round, as `diloco.learner.round_wait` has it."""


class _Wait(NamedTuple):
    """A turn of waiting for a round."""

    since_s: float
    timer: Timer


class Training:
    """Training of a simulated learner: steps, and what it does between two of them.

    boundary ─► left? refused? welcomed anew? ─► adopt ─► stop? ─┬─► step ──► report, save ─┐
        ▲                                                        └─► wait for a round ──────┤
        └───────────────────────────────────────────────────────────────────────────────────┘
    """

    def __init__(
        self,
        learner: LearnerProcess,
        reports: StepReports,
        leaving: Leaving,
        joining: Joining,
        *,
        step_s: float,
    ) -> None:
        """`step_s`: what a step takes on the average."""
        self._learner, self._reports = learner, reports
        self._leaving, self._joining = leaving, joining
        self._step_s = step_s
        self._wait: _Wait | None = None

    def loop(self) -> None:
        """Between two steps."""
        learner, leaving = self._learner, self._leaving
        counters, inbox = learner.counters, learner.messenger.inbox
        if counters is None or learner.is_ending:
            return
        if leaving.reason:
            leaving.leave(counters)
            return
        if inbox.refused is not None:
            leaving.refuse()
            return
        if inbox.joined is not None:
            joined, inbox.joined = inbox.joined, None
            self._joining.rejoin(counters, joined)
        if inbox.adoptions:
            learner.adopt(counters, partial(self._go_on, counters))
        else:
            self._go_on(counters)

    def wake(self) -> None:
        """Something has arrived: a wait for a round is over."""
        if self._wait is not None:
            self._wait.timer.cancel()
            self._end_wait()

    def _go_on(self, counters: Counters) -> None:
        learner = self._learner
        if learner.messenger.inbox.stop is not None:
            self._leaving.begin_finish(counters, learner.messenger.inbox.stop)
        elif self._must_wait(counters):
            learner.messenger.boundary(counters)
            self._wait = _Wait(learner.now_s, learner.train_later(_TURN_S, self._end_wait))
        else:
            self._begin_step(counters)

    def _begin_step(self, counters: Counters) -> None:
        learner = self._learner
        began_s, takes_s = learner.clock.time_s, learner.takes(self._step_s)
        if learner.world.cores is None:
            self._keep_pace(counters, began_s, takes_s)
            return
        learner.work(takes_s, lambda: self._keep_pace(counters, began_s, learner.now_s - began_s))

    def _keep_pace(self, counters: Counters, began_s: float, took_s: float) -> None:
        """The step ends when its pace says so."""
        learner = self._learner
        wait_s = learner.pace.ends_s(began_s, took_s) - learner.clock.time_s
        step = partial(self._step, counters, began_s)
        learner.train_later(wait_s if wait_s > 0.0 else 0.0, step)

    def _step(self, counters: Counters, began_s: float) -> None:
        """A step has been made."""
        learner = self._learner
        counters.add_step(learner.tokens, learner.clock.time_s - began_s)
        learner.messenger.boundary(counters)
        self._reports.notice(counters)
        self._reports.sample_if_due(counters)
        learner.saving.save_if_due(counters)
        self.loop()

    def _must_wait(self, counters: Counters) -> bool:
        limit = self._joining.steps_before_wait
        return limit is not None and counters.c_steps(counters.oldest) >= limit

    def _end_wait(self) -> None:
        counters, wait = self._learner.counters, self._wait
        if counters is None or wait is None:
            return
        self._wait = None
        self._reports.wait(counters, self._learner.now_s - wait.since_s)
        self._learner.pace.restart()
        self._reports.notice(counters)
        self.loop()
