"""A training in simulated time: the real policy of the syncer, and learners that only count.

    learners ── Progress, answers ──► Policy, the real one ── Pulls, versions ──► learners
                  held in an outage of the syncer

Every message takes `message_s`, every step its time and a jitter. One process, no clock; the same
scenario gives the same training. For `stagger.py` and `policy.py`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import (
    Action,
    Hello,
    Merge,
    Offer,
    Progress,
    Pull,
    SendAll,
)
from chaoslab.diloco.syncer.policy import Policy

TOKENS = 10
"""Tokens of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated, in steps of `step_s`."""

    settings: Settings
    steps: int
    outage: range = range(0)
    """Steps without the syncer; what is sent to it in them arrives together after them."""
    step_s: float = 0.06
    jitter: float = 0.05
    """By how much of itself a step time differs at most."""
    message_s: float = 0.004
    seed: int = 0


@dataclass(slots=True)
class SimulatedLearner:
    """Counters of one learner, which never waits for anything."""

    epoch: int
    versions: list[int]
    tokens_from: list[int]
    """By fragment: tokens at its last adoption."""
    step: int = 0
    inbox: dict[int, int] = field(default_factory=dict)
    """Versions to adopt at the next step boundary, by fragment."""

    def make_step(self, step_s: float) -> Progress:
        """Adopt what has arrived and make a step: the report of it."""
        for fragment, version in self.inbox.items():
            self.versions[fragment] = version
            self.tokens_from[fragment] = self.step * TOKENS
        self.inbox.clear()
        self.step += 1
        tokens = self.step * TOKENS
        c_tokens = tuple(tokens - tokens_from for tokens_from in self.tokens_from)
        return Progress(
            step=self.step, tokens=tokens, c_steps=tuple(c // TOKENS for c in c_tokens),
            c_tokens=c_tokens, versions=tuple(self.versions), loss=None, step_s=step_s,
            data_position=self.step,
        )  # fmt: skip

    def offer(self, pull: Pull) -> Offer:
        """Its answer to a pull, from the counters of its last step."""
        tokens, tokens_from = self.step * TOKENS, self.tokens_from[pull.fragment]
        return Offer(
            round=pull.round, fragment=pull.fragment, base_version=self.versions[pull.fragment],
            step=self.step, c_steps=(tokens - tokens_from) // TOKENS,
            c_tokens=tokens - tokens_from, tokens_from=tokens_from, tokens_to=tokens,
        )  # fmt: skip


class Simulation:
    """One training. Times are seconds from its start."""

    def __init__(self, scenario: Scenario, policy: Policy | None = None) -> None:
        self.pulls: list[int] = []
        """Step in which each round began."""
        self.merges: list[tuple[int, int]] = []
        """Step and number of contributors of each merge."""
        self.policy = policy or Policy(scenario.settings)
        self._scenario = scenario
        self._chance = random.Random(scenario.seed)
        self._learners: dict[int, SimulatedLearner] = {}
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._end_s = scenario.steps * scenario.step_s
        self._out_s = scenario.outage.start * scenario.step_s
        self._back_s = scenario.outage.stop * scenario.step_s
        self._wake_s = float("inf")

    def run(self) -> None:
        """Simulate all steps."""
        for name in self._scenario.settings.learners:
            self._join(name)
        if self._back_s > self._out_s:
            self._at(
                self._back_s,
                lambda _: self.policy.membership.discount(self._back_s - self._out_s),
            )
        while self._events[0][0] < self._end_s:
            now_s, _, call = heappop(self._events)
            call(now_s)

    def _join(self, name: str) -> None:
        actions = self.policy.hello(0.0, Hello(learner=name, incarnation=1))
        fragments = self._scenario.settings.fragments
        epoch = self.policy.membership.last_epoch
        learner = SimulatedLearner(epoch, [0] * fragments, [0] * fragments)
        self._learners[epoch] = learner
        self._carry_out(0.0, actions)
        if epoch == self.policy.seeder:
            self._carry_out(0.0, self.policy.seeded(0.0, epoch))
        first_s = self._scenario.step_s * self._chance.random()
        self._at(first_s, lambda now_s: self._step(now_s, learner))

    # ------------------------------------------------------------ time

    def _at(self, at_s: float, call: Callable[[float], None]) -> None:
        heappush(self._events, (at_s, next(self._order), call))

    def _to_syncer(self, at_s: float, call: Callable[[float], Sequence[Action]]) -> None:
        """Let something reach the syncer then, or in the same order once it is back."""
        is_held = self._out_s <= at_s < self._back_s
        self._at(self._back_s if is_held else at_s, lambda now_s: self._hear(now_s, call))

    def _hear(self, now_s: float, call: Callable[[float], Sequence[Action]]) -> None:
        """The syncer handles an input, then does what is due, as its program does."""
        self._carry_out(now_s, call(now_s))
        self._carry_out(now_s, self.policy.advance(now_s))
        wake_s = max(now_s, self.policy.next_s())
        if wake_s != self._wake_s and wake_s < self._end_s:
            self._wake_s = wake_s
            self._to_syncer(wake_s, lambda _: ())

    # ------------------------------------------------------------ learners

    def _step(self, now_s: float, learner: SimulatedLearner) -> None:
        scenario, report = self._scenario, learner.make_step(self._scenario.step_s)
        self._to_syncer(
            now_s + scenario.message_s,
            lambda at_s: self.policy.progress(at_s, learner.epoch, report),
        )
        took_s = scenario.step_s * (1 + scenario.jitter * self._chance.uniform(-1, 1))
        self._at(now_s + took_s, lambda at_s: self._step(at_s, learner))

    def _answer(self, now_s: float, learner: SimulatedLearner, pull: Pull) -> None:
        offer = learner.offer(pull)
        self._to_syncer(
            now_s + self._scenario.message_s,
            lambda at_s: self._receive(at_s, learner.epoch, offer),
        )

    def _receive(self, now_s: float, epoch: int, offer: Offer) -> Sequence[Action]:
        if self.policy.offer(epoch, offer) is None:
            self.policy.accept(now_s, epoch, offer)
        else:
            self.policy.reject_answer(now_s, epoch, offer.round)
        return ()

    # ------------------------------------------------------------ actions

    def _carry_out(self, now_s: float, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Pull):
                self._pull(now_s, action)
            elif isinstance(action, Merge):
                self._publish(now_s, action)
            elif isinstance(action, SendAll):
                self._learners[action.receiver.epoch].inbox = dict(enumerate(self.policy.versions))

    def _pull(self, now_s: float, pull: Pull) -> None:
        self.pulls.append(int(now_s / self._scenario.step_s))
        for epoch in pull.epochs:
            learner = self._learners[epoch]
            self._at(
                now_s + self._scenario.message_s,
                partial(self._answer, learner=learner, pull=pull),
            )

    def _publish(self, now_s: float, merge: Merge) -> None:
        self.merges.append((int(now_s / self._scenario.step_s), len(merge.contributions)))
        self.policy.rounds.published(now_s, merge)

        def arrive(_: float) -> None:
            for learner in self._learners.values():
                learner.inbox[merge.fragment] = merge.base_version + 1

        self._at(now_s + self._scenario.message_s, arrive)
