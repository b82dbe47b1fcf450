"""A world of learners around a `Policy`, moved by random histories, that watches its invariants.

It plays both ends of every wire by hand, with no time but the one it is given: learners join,
step, answer pulls late or twice, stop, go on, die and return; and after each move it holds what
must always be true. `settle` then lets everybody behave, and training must go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaoslab.core.protocol import LeaveReason
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Action,
    Contribution,
    Donate,
    Drop,
    Hello,
    Merge,
    Offer,
    Progress,
    Pull,
    SendAll,
    Stop,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Refused
from chaoslab.diloco.syncer.policy import Policy

TOKENS_PER_STEP = 10
STEP_S = 0.05


@dataclass
class FakeLearner:
    """One process: what it holds, what it was asked for, what it has not yet been told."""

    name: str
    incarnation: int
    step: int = 0
    tokens: int = 0
    epoch: int = 0
    versions: list[int] = field(default_factory=list)
    since_steps: list[int] = field(default_factory=list)
    since_tokens: list[int] = field(default_factory=list)
    pulls: list[Pull] = field(default_factory=list)
    published: dict[int, int] = field(default_factory=dict)
    is_stopped: bool = False
    is_fenced: bool = False
    step_s: float = STEP_S
    last_offer: Offer | None = None

    @property
    def trains(self) -> bool:
        return bool(self.versions) and min(self.versions) >= 0 and not self.is_stopped

    def waits(self, limit: int | None) -> bool:
        """Whether it may not step before it adopts a newer version, at so many steps."""
        return limit is not None and max(self.since_steps) >= limit


class World:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.policy: Policy = Policy(settings)
        self.now_s = 0.0
        self.alive: dict[str, FakeLearner] = {}
        self.lives: dict[str, int] = {}
        self.pulled: list[tuple[float, Pull]] = []
        self.merges: list[Merge] = []
        self.abandoned: list[Abandon] = []
        self.met_rules: list[str] = []
        self.stopped: Stop | None = None
        self.taken: dict[tuple[str, int, int], list[tuple[int, int]]] = {}

    @property
    def least_contributions(self) -> int:
        """What a merge needs."""
        return self.settings.quorum

    # ---------------------------------------------------------------- moves

    def join(self, name: str) -> None:
        """A dead learner's next life begins."""
        if name in self.alive:
            return
        self.lives[name] = self.lives.get(name, 0) + 1
        learner = FakeLearner(name=name, incarnation=self.lives[name])
        self.alive[name] = learner
        self.say_hello(learner)

    def say_hello(self, learner: FakeLearner) -> None:
        held = tuple(learner.versions) if learner.trains else ()
        learner.pulls.clear()
        learner.is_fenced = False
        try:
            actions = self.policy.hello(
                self.now_s,
                Hello(learner=learner.name, incarnation=learner.incarnation, versions=held),
            )
        except Refused:
            raise AssertionError(f"{learner} was refused") from None
        learner.epoch = self.policy.membership.last_epoch
        self.follow(actions)

    def die(self, name: str) -> None:
        learner = self.alive.pop(name, None)
        if learner is not None:
            self.follow(self.policy.closed(self.now_s, learner.epoch, LeaveReason.CLOSED))

    def stop(self, name: str) -> None:
        if name in self.alive:
            self.alive[name].is_stopped = True

    def go_on(self, name: str) -> None:
        learner = self.alive.get(name)
        if learner is None:
            return
        learner.is_stopped = False
        if learner.is_fenced:
            self.say_hello(learner)

    def step(self, name: str) -> None:
        learner = self.alive.get(name)
        if learner is not None and learner.trains:
            self.report(learner, self.train(learner))

    def train(self, learner: FakeLearner) -> Progress:
        """Adopt, and step or wait: the report of it, which the policy has not heard yet."""
        self.adopt(learner)
        if not learner.waits(self.settings.steps_before_wait):
            learner.step += 1
            learner.tokens += TOKENS_PER_STEP
            learner.since_steps = [steps + 1 for steps in learner.since_steps]
        return Progress(
            step=learner.step, tokens=learner.tokens, c_steps=tuple(learner.since_steps),
            c_tokens=tuple(learner.tokens - since for since in learner.since_tokens),
            versions=tuple(learner.versions), loss=3.0, step_s=learner.step_s,
            data_position=learner.step,
        )  # fmt: skip

    def report(self, learner: FakeLearner, report: Progress) -> None:
        self.follow(self.policy.progress(self.now_s, learner.epoch, report))

    def hold_reports(self, steps: int) -> None:
        """Everybody trains on while the syncer stalls; then it hears all of it at once."""
        held = []
        for _ in range(steps):
            held += [(learner, self.train(learner)) for learner in self.alive.values()]
        self.now_s += steps * STEP_S
        self.policy.discount(steps * STEP_S)
        for learner, report in held:
            self.report(learner, report)

    def replace_syncer(self, steps: int) -> None:
        """Everybody trains on without a syncer; then they join one that has the same versions."""
        for _ in range(steps):
            for learner in self.alive.values():
                self.train(learner)
        self.now_s += steps * STEP_S
        merged, self.policy = self.policy, Policy(self.settings)
        self.policy.tally.begin(merged.versions)
        self.policy.rounds.begun = merged.rounds.begun
        self.policy.rounds.fragment_tokens = merged.rounds.fragment_tokens
        self.policy.membership.last_epoch = merged.membership.last_epoch
        for learner in self.alive.values():
            self.say_hello(learner)

    def answer(self, name: str) -> None:
        """Answer the oldest pull that this learner has been sent."""
        learner = self.alive.get(name)
        if learner is None or learner.is_stopped or not learner.pulls:
            return
        pull = learner.pulls.pop(0)
        fragment = pull.fragment
        self.push(
            learner,
            Offer(
                round=pull.round, fragment=fragment, base_version=learner.versions[fragment],
                step=learner.step, c_steps=learner.since_steps[fragment],
                c_tokens=learner.tokens - learner.since_tokens[fragment],
                tokens_from=learner.since_tokens[fragment], tokens_to=learner.tokens,
            ),
        )  # fmt: skip

    def repeat(self, name: str) -> None:
        """Send the latest push once more: it must never count."""
        learner = self.alive.get(name)
        if learner is not None and learner.last_offer is not None:
            before = self.policy.rounds.fragment_tokens
            assert self.policy.offer(learner.epoch, learner.last_offer) is not None
            assert self.policy.rounds.fragment_tokens == before

    def push(self, learner: FakeLearner, offer: Offer) -> None:
        learner.last_offer = offer
        refusal = self.policy.offer(learner.epoch, offer)
        if refusal is None:
            self.policy.accept(self.now_s, learner.epoch, offer)
        else:
            self.policy.reject_answer(self.now_s, learner.epoch, offer.round)
        self.follow()

    def pass_time(self, seconds: float) -> None:
        due_s = self.policy.next_s()
        self.now_s += seconds
        actions = self.policy.advance(self.now_s)
        if self.settings.data_parallel == "off":  # communicators end with a report of a learner
            assert not actions or due_s <= self.now_s, "whoever waits until then is too late"
        self.act(actions)

    def adopt(self, learner: FakeLearner) -> None:
        for fragment, version in learner.published.items():
            if version > learner.versions[fragment]:
                learner.versions[fragment] = version
                learner.since_steps[fragment] = 0
                learner.since_tokens[fragment] = learner.tokens
        learner.published.clear()

    def train_until_pulled(self, name: str, *others: str) -> None:
        """Learners step, and time passes with them, until the first one is asked for a fragment."""
        for _ in range(1_000):
            if self.alive[name].pulls:
                return
            for stepping in (name, *others):
                self.step(stepping)
            self.pass_time(STEP_S)
        raise AssertionError(f"{name} was never asked for a fragment")

    def turns(self, count: int, *names: str, pause_s: float = STEP_S) -> None:
        """These behave for a while, and nobody else says anything."""
        for _ in range(count):
            for name in names:
                self.step(name)
                while self.alive[name].pulls:
                    self.answer(name)
            self.pass_time(pause_s)

    def settle(self, rounds: int) -> None:
        """Everybody alive behaves for a while."""
        for name in self.settings.learners:
            self.go_on(name)
        for _ in range(rounds):
            self.turns(1, *self.alive)

    # ---------------------------------------------------------------- what the policy decides

    def follow(self, actions: Sequence[Action] = ()) -> None:
        """Do what an input asks for, then what is due after it."""
        self.act(actions)
        self.act(self.policy.advance(self.now_s))

    def act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Pull):
                self.pulled.append((self.now_s, action))
                for learner in self.alive.values():
                    if learner.epoch in action.epochs:
                        learner.pulls.append(action)
            elif isinstance(action, Merge):
                self.merged(action)
            elif isinstance(action, Abandon):
                self.abandoned.append(action)
            elif isinstance(action, Welcome) and action.source is Source.INITIAL:
                self.act(self.policy.seeded(self.now_s, action.member.epoch))
            elif isinstance(action, Donate):
                transfers, donor = self.policy.transfers, action.donor
                receiver = transfers.done(self.now_s, donor.epoch, action.request)
                if receiver is not None:
                    self.hold_everything(receiver.epoch)
            elif isinstance(action, SendAll):
                self.hold_everything(action.receiver.epoch)
            elif isinstance(action, Drop):
                for learner in self.alive.values():
                    if learner.epoch == action.member.epoch:
                        learner.is_fenced = True
            elif isinstance(action, Stop) and not action.is_over:
                self.met_rules.append(action.reason)
            elif isinstance(action, Stop):
                assert self.stopped is None
                self.stopped = action
        self.hold_invariants()

    def hold_everything(self, epoch: int) -> None:
        for learner in self.alive.values():
            if learner.epoch != epoch:
                continue
            if not learner.versions:
                learner.versions = [-1] * self.settings.fragments
                learner.since_steps = [0] * self.settings.fragments
                learner.since_tokens = [learner.tokens] * self.settings.fragments
            learner.published = dict(enumerate(self.policy.versions))
            self.adopt(learner)

    def merged(self, merge: Merge) -> None:
        epochs = [c.epoch for c in merge.contributions]
        assert len(epochs) == len(set(epochs)), "somebody contributed twice to a round"
        assert len(epochs) >= self.least_contributions
        earlier = [m for m in self.merges if m.fragment == merge.fragment]
        assert merge.base_version == len(earlier), "versions go up one by one"
        assert merge.round not in {m.round for m in self.merges}
        assert all(c.learner not in merge.missed for c in merge.contributions)
        for contribution in merge.contributions:
            self.count(merge.fragment, contribution)
        self.merges.append(merge)
        for learner in self.alive.values():
            if self.policy.membership.find(learner.epoch) is not None:
                learner.published[merge.fragment] = merge.base_version + 1
        self.policy.rounds.published(self.now_s, merge)

    def count(self, fragment: int, contribution: Contribution) -> None:
        assert contribution.weight == contribution.c_tokens**2 / contribution.c_steps
        spans = self.taken.setdefault(
            (contribution.learner, contribution.incarnation, fragment), []
        )
        first, last = contribution.tokens_from, contribution.tokens_to
        assert all(first >= end or last <= start for start, end in spans), (
            "tokens were merged twice"
        )
        spans.append((first, last))

    def hold_invariants(self) -> None:
        policy = self.policy
        members = {member.epoch for member in policy.membership.members}
        rounds = policy.rounds.open.values()
        assert len(rounds) <= max(1, self.settings.overlap)
        assert len({r.fragment for r in rounds}) == len(rounds)
        for round_ in rounds:
            assert set(round_.waiting) <= members, "a round waits for somebody who is gone"
            assert round_.base_version == policy.versions[round_.fragment]
        merged = sum(c.c_tokens for m in self.merges for c in m.contributions)
        assert policy.rounds.fragment_tokens >= merged
        assert sum(policy.versions) >= len(self.merges)
        limit = self.settings.steps_before_wait
        for learner in self.alive.values():
            assert limit is None or max(learner.since_steps, default=0) <= limit
        self.hold_counts()

    def hold_counts(self) -> None:
        """What is kept change by change is what going through all members gives."""
        tally = self.policy.tally
        present = [member for member in self.policy.membership.members if member.is_present]
        assert tally.present == len(present)
        assert tally.waiting == sum(map(tally.blocks, present))
        assert tally.ready == [
            sum(tally.is_ready(member, fragment) for member in present)
            for fragment in range(len(tally.versions))
        ]
        own_s = [tally.kth_step_s(number + 1) for number in range(len(present))]
        assert own_s == sorted(member.own_step_s for member in present)
