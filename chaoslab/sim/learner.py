"""Simulated learner: steps, pushes when asked, adopts what is published; nothing is computed.

    start ─► compile ─► Joining ─► training: step ─► boundary ─► step ─► … ─► Leaving
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
from chaoslab.sim.process import need
from chaoslab.sim.step_reports import StepReports

_TURN_S = 0.1
"""Turn of a wait for a round, as in `diloco.learner.round_wait`."""


_POLL_S = 1.0
"""Turn of a wait for messages, as in `diloco.learner.joining`."""


class _Wait(NamedTuple):
    """A turn of waiting for a round."""

    since_s: float
    timer: Timer


class Learner(LearnerProcess):
    """One life of a learner. Its training is steps, and what it does between two of them:

    boundary ─► left? refused? welcomed anew? ─► adopt ─► stop? ─┬─► step ──► report, save ─┐
        ▲                                                        └─► wait for a round ──────┤
        └───────────────────────────────────────────────────────────────────────────────────┘
    """

    def begin(self) -> None:
        """Begin the life: its process is started."""
        self.prepare()
        costs = self.world.costs
        self._reports = StepReports(self)
        self._leaving = Leaving(self, self._reports)
        self._joining = Joining(self, self._reports, self._leaving, then=self._loop)
        self._step_s = costs.step_takes_s(self.parameters, self.tokens, chips=self.hosts)
        self._save_every_s = float(need(self.flags, "save-every"))
        self._wait: _Wait | None = None
        self._is_started = self._is_compiled = False
        self.on("pace", self.pace.apply_pace_hook)
        self.on("slow", self.pace.apply_slow_hook)
        self.on("disk", self.saving.apply_hook)
        self.work(self.takes(costs.start_s), self._start)

    def _start(self) -> None:
        self._is_started = True
        self._saved_s = self.clock.time_s
        started = LearnerStarted(
            **self.whose, devices=self.hosts, platform="sim", parameters=self.parameters
        )
        self.say(started)
        self.messenger.start()
        self._joining.own = self.saving.load_newest()
        self._joining.compile_s = self.takes(self.world.costs.compile_s)
        self.work(self._joining.compile_s, self._compiled)

    def _compiled(self) -> None:
        self._is_compiled = True
        self.every(_POLL_S, self._wait_for_messages)
        self.on_training_thread(self._joining.go_on)

    def _wait_for_messages(self) -> None:
        """While it joins or adopts the last versions: its thread waits in turns."""
        if not self.is_training or self._leaving.is_finishing:
            self.on_training_thread(self.messenger.allow_reconnect)

    def look(self) -> None:
        """See `LearnerProcess.look`."""
        if not self._is_compiled or self.is_ending:
            return
        if self._leaving.is_finishing:
            self._leaving.finish()
        elif not self.is_training:
            self._joining.go_on()
        elif self._wait is not None:  # for a round: something has arrived
            self._wait.timer.cancel()
            self._end_wait()

    def ask_to_end(self) -> bool:
        """Leave after the current step; before it handles signals its process just ends."""
        if not self._is_started:
            return False
        self._leaving.ask()
        self.do(lambda: self.on_training_thread(self.look))
        return True

    def note_preemption(self) -> bool:
        """SIGHUP: whether it handles that; the training thread reports it after its step."""
        self.was_noticed = self._is_started
        return self._is_started

    # ---------------------------------------------------------------- training

    def _loop(self) -> None:
        """Between two steps."""
        leaving, counters, inbox = self._leaving, self.counters, self.messenger.inbox
        if counters is None or self.is_ending:
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
            self.adopt(counters, partial(self._go_on, counters))
        else:
            self._go_on(counters)

    def _go_on(self, counters: Counters) -> None:
        if self.messenger.inbox.stop is not None:
            self._leaving.begin_finish(counters, self.messenger.inbox.stop)
        elif self._must_wait(counters):
            self.boundary(counters)
            self._wait = _Wait(self.now_s, self.train_later(_TURN_S, self._end_wait))
        else:
            self._begin_step(counters)

    def _begin_step(self, counters: Counters) -> None:
        began_s, takes_s = self.clock.time_s, self.takes(self._step_s)
        if self.world.cores is None:
            self._keep_pace(counters, began_s, takes_s)
            return
        self.work(takes_s, lambda: self._keep_pace(counters, began_s, self.now_s - began_s))

    def _keep_pace(self, counters: Counters, began_s: float, took_s: float) -> None:
        """The step ends when its pace says so."""
        wait_s = self.pace.ends_s(began_s, took_s) - self.clock.time_s
        step = partial(self._step, counters, began_s)
        self.train_later(wait_s if wait_s > 0.0 else 0.0, step)

    def _step(self, counters: Counters, began_s: float) -> None:
        """A step has been made."""
        counters.add_step(self.tokens, self.clock.time_s - began_s)
        self.boundary(counters)
        self._reports.notice(counters)
        self._reports.sample_if_due(counters)
        if self.clock.time_s - self._saved_s >= self._save_every_s:
            self._saved_s = self.clock.time_s
            self.save(counters)
        self._loop()

    def _must_wait(self, counters: Counters) -> bool:
        limit = self._joining.steps_before_wait
        return limit is not None and counters.c_steps(counters.oldest) >= limit

    def _end_wait(self) -> None:
        counters, wait = self.counters, self._wait
        if counters is None or wait is None:
            return
        self._wait = None
        self._reports.wait(counters, self.now_s - wait.since_s)
        self.pace.restart()
        self._reports.notice(counters)
        self._loop()
