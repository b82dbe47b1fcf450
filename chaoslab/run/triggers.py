"""Progress of a run, folded from its events; triggers and abort rules, decided by it.

    Event ─► Progress.see ─┬─► due_s(trigger)     since when, or from when on, it is met
                           ├─► fired(abort rule)  what was observed, or None
                           └─► counts             alive, members, stepping, contributing

Pure: time comes in with the events or as an argument. It decides nothing and starts nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    CountsSampled,
    FaultHealed,
    LearnerStep,
    LinkLost,
    MemberJoined,
    MemberLeft,
    NodeExited,
    NodeStarted,
    RoundMerged,
    SyncerFinal,
    SyncerReady,
    SyncerStopped,
    SyncerStopRuleMet,
    kind_of,
)
from chaoslab.core.units import plural
from chaoslab.fleet.base import Role
from chaoslab.plan.model import AbortRule, Trigger

_FOLDED = frozenset(
    map(
        kind_of,
        (
            *(LearnerStep, RoundMerged, MemberJoined, MemberLeft, FaultHealed, LinkLost),
            *(NodeStarted, NodeExited, SyncerReady, SyncerStopRuleMet, SyncerStopped, SyncerFinal),
        ),
    )
)
"""Kinds of the events that change it."""
_NEAR_ROUNDS = 3
"""This many rounds take long enough to prepare an injection, even where two come at once."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a run has come. All times are seconds on the harness clock."""

    rounds_s: list[float] = field(default_factory=list)
    """When each merged round was seen; its length is the number of merged rounds."""
    committed_tokens: float = 0.0
    roles: dict[str, Role] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    exits: dict[str, Event[NodeExited]] = field(default_factory=dict)
    """The last exit of each node that is not alive now."""
    address: str | None = None
    """Where the syncer is ready."""
    members: set[str] = field(default_factory=set)
    """Members by the syncer's word."""
    joined: dict[str, int] = field(default_factory=dict)
    """The latest incarnation of each learner that became a member."""
    steps: dict[str, int] = field(default_factory=dict)
    stepped_s: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    periods_s: dict[str, float | None] = field(default_factory=dict)
    """By learner: the duration of a step that it keeps, as its latest life reported."""
    contributed_s: dict[str, dict[int, float]] = field(default_factory=dict)
    """When work of each learner was last merged, by incarnation."""
    healed_s: dict[str, float] = field(default_factory=dict)
    """When an injection of each fault of the plan was first healed, by the fault's id."""
    is_stopping: bool = False
    """Whether the syncer said that training has ended; learners end from now on."""
    is_training_over: bool = False
    """Whether the syncer gave its final account."""
    is_stop_rule_met: bool = False
    """Whether the stop rule of training is met and training goes on for the harness."""
    links_lost: str | None = None
    """Why nothing carries the links any more."""
    _alive: dict[Role | None, tuple[str, ...]] = field(default_factory=dict)
    """What `alive` has found since the last start or exit."""
    _merged: set[int] = field(default_factory=set)
    """The numbers of the merged rounds: one that is said once more does not count."""

    def see(self, event: Event) -> None:
        """Take one event in. Raises MalformedEvent when a node broke the contract of its kind."""
        if event.kind not in _FOLDED:  # most events are of these kinds
            return
        match event.payload:
            case LearnerStep() as said:
                self._step(said, event.time_s)
            case RoundMerged() as said:
                self._merge(said, event.time_s)
            case NodeStarted() as said:
                self._start(said)
            case NodeExited():
                self._exit(cast("Event[NodeExited]", event))
            case SyncerReady(address=address):
                self.address = address
            case MemberJoined() as said:
                self.members.add(said.learner)
                self.joined[said.learner] = said.incarnation
            case MemberLeft(learner=learner):
                self.members.discard(learner)
            case FaultHealed(spec=spec):
                self.healed_s.setdefault(spec, event.time_s)
            case SyncerStopRuleMet() | SyncerStopped() | SyncerFinal() as said:
                self._end(said)
            case LinkLost(reason=reason):
                self.links_lost = reason

    # ---------------------------------------------------------------- what phases ask

    @property
    def rounds(self) -> int:
        """Merged rounds so far."""
        return len(self.rounds_s)

    @property
    def last_round_s(self) -> float:
        """When the last merged round was seen; -infinity before the first."""
        return self.rounds_s[-1] if self.rounds_s else -math.inf

    def has_merged(self, rounds: int) -> bool:
        """Whether this many rounds are merged."""
        return self.rounds >= rounds

    @property
    def learners(self) -> frozenset[str]:
        """Every learner that was ever started."""
        return frozenset(name for name, role in self.roles.items() if role is Role.LEARNER)

    def is_alive(self, node: str) -> bool:
        """Whether a process of this node runs, as far as the fleet reported."""
        return node in self.incarnations and node not in self.exits

    def alive(self, role: Role | None = None) -> tuple[str, ...]:
        """The living nodes of a role, or all of them, by name."""
        if role not in self._alive:
            known = (name for name in sorted(self.roles) if self.is_alive(name))
            found = tuple(name for name in known if role is None or self.roles[name] is role)
            self._alive[role] = found
        return self._alive[role]

    def is_outside(self, node: str) -> bool:
        """Whether it is a learner whose current incarnation never became a member."""
        is_learner = self.roles.get(node) is Role.LEARNER
        return is_learner and self.joined.get(node) != self.incarnations[node]

    def has_contributed_since(self, learner: str, time_s: float) -> bool:
        """Whether the current incarnation's work was merged after `time_s`."""
        merged_s = self.contributed_s.get(learner, {}).get(self.incarnations.get(learner, 0))
        return merged_s is not None and merged_s > time_s

    def mean_loss(self) -> float | None:
        """Mean of the learners' latest training losses, in nats; None before the first."""
        return sum(self.losses.values()) / len(self.losses) if self.losses else None

    def counts(self, now_s: float, *, stepping_within_s: float) -> CountsSampled:
        """Four different numbers of learners: alive, members, stepping, contributing.

        Stepping: alive, and a step within `stepping_within_s`. Contributing: merged within that
        time, or three times the longest of the last 24 gaps between rounds if that is longer.
        """
        recent = self.rounds_s[-25:]
        gaps = [later - earlier for earlier, later in pairwise(recent)]
        contributing_within_s = max(stepping_within_s, 3 * max(gaps, default=0.0))
        alive = self.alive(Role.LEARNER)
        return CountsSampled(
            alive=len(alive),
            members=0 if self._is_without_syncer else len(self.members),
            stepping=_later(
                (self.stepped_s.get(name, -math.inf) for name in alive),
                now_s - stepping_within_s,
            ),
            contributing=_later(
                (max(times_s.values()) for times_s in self.contributed_s.values()),
                now_s - contributing_within_s,
            ),
        )

    @property
    def _is_without_syncer(self) -> bool:
        return any(r is Role.SYNCER and not self.is_alive(n) for n, r in self.roles.items())

    # ---------------------------------------------------------------- how it folds

    def _start(self, said: NodeStarted) -> None:
        self._alive.clear()
        self.roles[said.node] = Role(said.role)
        if self.roles[said.node] is Role.SYNCER:
            self.members.clear()  # its last life took all memberships with it
            self.is_stopping = self.is_training_over = False
        self.incarnations[said.node] = said.incarnation
        self.periods_s.pop(said.node, None)
        self.exits.pop(said.node, None)

    def _exit(self, event: Event[NodeExited]) -> None:
        said = event.payload
        if said.incarnation == self.incarnations.get(said.node):
            self._alive.clear()
            self.exits[said.node] = event

    def _end(self, said: SyncerStopRuleMet | SyncerStopped | SyncerFinal) -> None:
        """The syncer alone says how far the end of training is; a learner's word does not count."""
        self.is_stop_rule_met |= isinstance(said, SyncerStopRuleMet)
        self.is_stopping |= isinstance(said, SyncerStopped)
        self.is_training_over |= isinstance(said, SyncerFinal)

    def _step(self, said: LearnerStep, time_s: float) -> None:
        self.steps[said.learner] = said.step
        self.stepped_s[said.learner] = time_s
        if said.loss is not None:
            self.losses[said.learner] = said.loss
        self.periods_s[said.learner] = said.period_s

    def _merge(self, said: RoundMerged, time_s: float) -> None:
        if said.is_restated and said.round in self._merged:
            return
        self._merged.add(said.round)
        self.rounds_s.append(time_s)
        self.committed_tokens = said.committed_tokens
        if said.is_restated:
            return  # its contributions were given before the syncer went away
        for one in said.contributors:
            self.contributed_s.setdefault(one.learner, {})[one.incarnation] = time_s


# ---------------------------------------------------------------- triggers


def due_s(trigger: Trigger, progress: Progress) -> float | None:
    """When the trigger was or will be met; None while that is not known.

    A trigger by step or loss is met at the latest report that shows it.
    """
    if trigger.time_s is not None:
        return trigger.time_s
    if trigger.after is not None:
        healed_s = progress.healed_s.get(trigger.after)
        return None if healed_s is None else healed_s + trigger.offset_s
    if trigger.round is not None:
        if not progress.has_merged(trigger.round):
            return None
        return progress.rounds_s[trigger.round - 1] if trigger.round else 0.0
    if trigger.step is not None:
        learners = [trigger.of] if trigger.of is not None else list(progress.steps)
        reached = [name for name in learners if progress.steps.get(name, -1) >= trigger.step]
        return min((progress.stepped_s[name] for name in reached), default=None)
    loss = progress.mean_loss()
    if trigger.loss is None or loss is None or not loss <= trigger.loss:
        return None
    return max(progress.stepped_s.values())


def is_near(trigger: Trigger, progress: Progress) -> bool:
    """Whether a trigger by round is met by one of the next `_NEAR_ROUNDS` rounds."""
    left = 0 if trigger.round is None else trigger.round - progress.rounds
    return 0 < left <= _NEAR_ROUNDS


# ---------------------------------------------------------------- abort rules


def fired(rule: AbortRule, progress: Progress, now_s: float, *, since_s: float) -> str | None:
    """What breaks the rule now, in words; None while it holds. Gaps count from `since_s` on."""
    if rule.no_round_for_s is not None:
        gap_s = now_s - max(since_s, progress.last_round_s)
        return f"no round for {gap_s:.1f} s" if gap_s >= rule.no_round_for_s else None
    if rule.loss_above is not None:
        loss = progress.mean_loss()
        is_above = loss is not None and not (math.isfinite(loss) and loss <= rule.loss_above)
        return f"a mean training loss of {loss:.4g}" if is_above else None
    if progress.is_stopping:
        return None  # learners end before the syncer does
    alive = len(progress.alive(Role.LEARNER))
    is_below = rule.alive_below is not None and alive < rule.alive_below
    return f"{plural(alive, 'learner')} alive" if is_below else None


def fires_s(rule: AbortRule, progress: Progress, *, since_s: float) -> float:
    """When silence alone would break the rule; infinity for rules that need an event."""
    if rule.no_round_for_s is None:
        return math.inf
    return max(since_s, progress.last_round_s) + rule.no_round_for_s


def rule_text(rule: AbortRule) -> str:
    """The rule as it stands in a plan."""
    if rule.no_round_for_s is not None:
        return f"no_round_for: {rule.no_round_for_s:g}s"
    if rule.loss_above is not None:
        return f"loss_above: {rule.loss_above:g}"
    return f"alive_below: {rule.alive_below}"


def _later(times_s: Iterable[float], bound_s: float) -> int:
    return sum(time_s >= bound_s for time_s in times_s)
