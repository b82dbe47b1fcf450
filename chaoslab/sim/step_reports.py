"""Reports of a simulated learner on its steps: a sample each quarter of a second, and its waits."""

from chaoslab.core.payloads import LearnerNoticed, LearnerStep, LearnerWaiting
from chaoslab.sim.counters import Counters
from chaoslab.sim.learner_process import LearnerProcess

_SAMPLE_S = 0.25
"""Intervals as in `diloco.learner.program` and `diloco.learner.round_wait`."""
_TOLD_S = 0.25


class StepReports:
    """Step reports of one life."""

    def __init__(self, learner: LearnerProcess) -> None:
        self._learner = learner
        self._has_told_notice = False
        self._sampled_s, self._sampled_step, self._sampled_overruns = 0.0, 0, 0
        self._unreported_s = 0.0
        self._waited_s = self._told_s = 0.0
        self._waited_step = -1

    def begin(self, counters: Counters) -> None:
        """A membership begins: so does a new window."""
        self._sampled_step, self._sampled_s = counters.step, self._learner.now_s
        self._sampled_overruns = self._learner.pace.overruns

    def sample_if_due(self, counters: Counters) -> None:
        """Report the steps since the last sample, if that was long enough ago."""
        if self._learner.clock.time_s - self._sampled_s >= _SAMPLE_S:
            self.sample(counters)

    def sample(self, counters: Counters) -> None:
        """Report the steps since the last sample."""
        learner = self._learner
        now_s, pace = learner.now_s, learner.pace
        steps = counters.step - self._sampled_step
        learner.say(
            LearnerStep(
                **learner.messenger.membership,
                step=counters.step,
                steps=steps,
                step_s=(now_s - self._sampled_s) / steps if steps else 0.0,
                period_s=pace.period_s,
                overruns=pace.overruns - self._sampled_overruns,
                loss=counters.loss,
                tokens=counters.tokens,
                data_position=counters.data_position,
                waited_s=self._unreported_s,
                learning_rate=learner.learning_rate(counters.step),
            )
        )
        self._unreported_s = 0.0
        self.begin(counters)

    def wait(self, counters: Counters, seconds: float) -> None:
        """Note a wait for a round of this length; reported each quarter of a second of one wait."""
        if counters.step != self._waited_step:
            self._waited_step, self._waited_s, self._told_s = counters.step, 0.0, 0.0
        self._waited_s += seconds
        self._unreported_s += seconds
        if self._waited_s < self._told_s + _TOLD_S:
            return
        self._told_s = self._waited_s
        self._learner.say(
            LearnerWaiting(
                **self._learner.messenger.membership,
                step=counters.step,
                fragment=counters.oldest,
                c_steps=counters.c_steps(counters.oldest),
                waited_s=self._waited_s,
            )
        )

    def notice(self, counters: Counters) -> None:
        """Report once that it was told of a preemption."""
        if self._learner.was_noticed and not self._has_told_notice:
            self._has_told_notice = True
            self._learner.say(LearnerNoticed(**self._learner.whose, step=counters.step))
