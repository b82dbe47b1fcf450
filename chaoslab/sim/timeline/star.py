"""Timeline of learners and a syncer, as the real policy of the syncer decides.

    learner   step ─► report ═► Policy: is a fragment due? ═► pull
                                                    push ◄═══════╛
              adopt between two steps ◄═══ publish ◄═ merge ◄═╛

All learners are alike, so one of them stands for all, and a quorum or a grace window changes
nothing. Each has a link of its own to the syncer, with the same rate each way, that carries one
fragment after the other; reports and pulls overtake those (`wire.proto`). The syncer has the
bandwidth of all links together. With `decoupled` no learner waits: where links are too thin, rounds
come late.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial

from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Action, Hello, Merge, Offer, Progress, Pull
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.chance import Chance
from chaoslab.sim.clock import EventQueue, Priority, SimClock, Timer
from chaoslab.sim.pipe import Pipe
from chaoslab.sim.timeline.training import Method, Result, Training

_PERIODS = 3
"""Measured periods, after as many that are not measured."""
_LEAST_STEPS = 144
"""Fewest steps: a count of rounds of short periods is coarse."""
_NEVER_S = 1e15
_NAME, _EPOCH = "learner", 1


def simulate(training: Training, rate_bytes_per_s: float) -> Result:
    """The second half of some periods."""
    half = max(_PERIODS, math.ceil(_LEAST_STEPS / training.period))
    steps = half * training.period
    star = _Star(training, rate_bytes_per_s)
    star.run(steps)
    began_s, began_rounds = star.now_s, star.adopted
    star.run(2 * steps)
    mean_s = (star.now_s - began_s) / steps
    return Result(
        utilisation=min(1.0, training.step_s / mean_s),
        rounds=min(1.0, (star.adopted - began_rounds) / (half * training.parts)),
        step_s=mean_s,
    )


class _Star:
    """A learner, its link and the syncer."""

    def __init__(self, training: Training, rate_bytes_per_s: float) -> None:
        self._training = training
        self._agenda = EventQueue(SimClock())
        self._up, self._down = (
            Pipe(self._agenda, Chance(0), latency_s=training.latency_s,
                 rate_bytes_per_s=rate_bytes_per_s)
            for _ in range(2)
        )  # fmt: skip
        parts = training.parts
        self._push_bytes = max(1, round(training.sent_bytes / parts))
        self._published_bytes = max(1, round(training.merged_bytes / parts))
        fresh = Counters.cut(parts, step=0, data_position=0)
        self._learner = fresh.handed_over(step=0, versions=[0] * parts)
        self._arrived: list[Merge] = []
        self._waits_for = None if training.method is Method.DECOUPLED else training.period
        self._is_waiting = False
        self._policy = Policy(_settings(training))
        self._policy.hello(0.0, Hello(learner=_NAME, incarnation=1))
        self._policy.seeded(0.0, _EPOCH)
        self._wake: Timer | None = None
        self.adopted = 0
        """Rounds that the learner has adopted."""
        self._begin_step()

    @property
    def now_s(self) -> float:
        """Time of what happened last."""
        return self._agenda.now_s

    def run(self, steps: int) -> None:
        """Run until the learner has made this many steps."""
        while self._learner.step < steps:
            self._agenda.run_next()

    def _say(self, hear: Callable[[], None]) -> None:
        """A message without payload: it overtakes payloads that wait."""
        self._agenda.after(self._training.latency_s, hear, Priority.ARRIVAL)

    # ---------------------------------------------------------------- the learner

    def _begin_step(self) -> None:
        """Adopt what has arrived, then make a step or wait for a round."""
        for merge in self._arrived:
            self._learner = self._learner.adopted(
                merge.fragment, version=merge.base_version + 1, committed_tokens=0
            )
        self.adopted += len(self._arrived)
        self._arrived.clear()
        oldest = self._learner.c_steps(self._learner.oldest)
        self._is_waiting = self._waits_for is not None and oldest >= self._waits_for
        if self._is_waiting:
            self._report()
        else:
            self._agenda.after(self._training.step_s, self._end_step)

    def _end_step(self) -> None:
        self._learner = self._learner.stepped(tokens=1, loss=0.0, took_s=self._training.step_s)
        self._report()
        self._begin_step()

    def _report(self) -> None:
        report = _progress(self._learner)
        self._say(lambda: self._hear(self._policy.progress(self.now_s, _EPOCH, report)))

    def _pulled(self, pull: Pull) -> None:
        """Answer at once with the state after the newest step."""
        fragment, learner = pull.fragment, self._learner
        made = learner.c_steps(fragment)
        offer = Offer(
            round=pull.round, fragment=fragment, base_version=pull.base_version,
            step=learner.step, c_steps=made, c_tokens=made,
            tokens_from=learner.tokens - made, tokens_to=learner.tokens,
        )  # fmt: skip
        self._up.send(self._push_bytes, lambda _: self._pushed(offer))

    def _published(self, published: Merge) -> None:
        self._arrived.append(published)
        if self._is_waiting:
            self._begin_step()

    # ---------------------------------------------------------------- the syncer

    def _pushed(self, offer: Offer) -> None:
        self._policy.accept(self.now_s, _EPOCH, offer)
        self._hear(())

    def _hear(self, actions: Iterable[Action]) -> None:
        """Carry out what the policy decides, and come back when the next thing is due."""
        for action in (*actions, *self._policy.advance(self.now_s)):
            if isinstance(action, Pull):
                self._say(partial(self._pulled, action))
            elif isinstance(action, Merge):
                self._merge(action)
        if self._wake is not None:
            self._wake.cancel()
        next_s = self._policy.next_s()
        self._wake = self._agenda.at(next_s, lambda: self._hear(()), Priority.DEADLINE)

    def _merge(self, merge: Merge) -> None:
        self._agenda.after(self._training.merge_s, lambda: self._publish(merge))

    def _publish(self, merge: Merge) -> None:
        self._policy.rounds.published(self.now_s, merge)
        self._down.send(self._published_bytes, lambda _: self._published(merge))


def _progress(counters: Counters) -> Progress:
    """Counters of a learner, as the policy takes them."""
    parts = range(len(counters.fragments))
    return Progress(
        step=counters.step, tokens=counters.tokens,
        c_steps=tuple(map(counters.c_steps, parts)),
        c_tokens=tuple(map(counters.c_tokens, parts)),
        versions=tuple(counters.versions), loss=counters.loss, step_s=counters.step_s,
        data_position=counters.data_position,
    )  # fmt: skip


def _settings(training: Training) -> Settings:
    """Settings of the syncer, which suspects no learner, since nothing fails."""
    return Settings(
        learners=(_NAME,),
        fragments=training.parts,
        sync_every=training.period,
        overlap=training.overlap,
        blocking=training.method is not Method.DECOUPLED,
        suspect_after_s=_NEVER_S,
        drop_after_s=2 * _NEVER_S,
        start_patience_s=_NEVER_S,
    )
