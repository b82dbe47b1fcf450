"""Rounds of all fragments: when one begins, which learners it pulls from, when it ends.

    IDLE ──K members ready──► grace window ──► PULL from all present ──all answered, or K
    answered and the rest is late──► MERGE ──► published, IDLE again (version + 1)

A member is ready when it has made H - tau steps on the fragment since it adopted it (the first
time, a staggered share of H), so rounds of one fragment are at least H steps of the K-th fastest
learner apart. Present members that are not ready contribute what they have. Once K have answered,
the others have the overlap of tau steps, or a few times as long as the K took. A member that misses
the end of a round is not pulled from again until its late answer has arrived.

Part of the policy: no I/O, no clock, standard library only. Formulas: arXiv 2604.21428.
"""

from dataclasses import dataclass, field

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Contribution,
    Member,
    Merge,
    Offer,
    Pull,
    Refusal,
)
from chaoslab.diloco.syncer.membership import Membership

_SMOOTHING = 0.2
"""Weight of the newest value in the moving averages."""
_ANSWER_FACTOR = 4.0
"""Once K have answered, the others have this multiple of the time that those took."""
_ANSWER_LEAST_S = 0.25
"""Least time for the others after K have answered, in s."""


@dataclass(slots=True, kw_only=True)
class Round:
    """A round of one fragment that was pulled and is not merged yet."""

    number: int
    fragment: int
    base_version: int
    pulled_s: float
    quorum_s: float
    grace_s: float
    waiting: dict[int, Member]
    """By epoch: members that were pulled from and have not answered."""
    answered: dict[int, Contribution | None] = field(default_factory=dict)
    """By epoch: contributions; None for an answer that was invalid."""
    lost: list[str] = field(default_factory=list)
    """Learners that left before they answered."""
    deadline_s: float = float("inf")
    """Time at which it ends even if some have not answered; infinite before K have."""

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """The valid answers, in order of arrival."""
        return tuple(c for c in self.answered.values() if c is not None)


@dataclass(slots=True, kw_only=True)
class _Wait:
    """Members are ready for a fragment; its round has not begun."""

    first_ready_s: float
    quorum_at_s: float | None = None


class Rounds:
    """All rounds of one training. Deterministic; time is an argument."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        self._settings = settings
        self._membership = membership
        self.versions: list[int] = []
        """Version vector; empty until the initial parameters are known."""
        self.begun = 0
        """Number of rounds begun; round numbers are never used again."""
        self.merged = 0
        self.fragment_tokens = 0
        """Sum over all merges of the contributors' c_tokens."""
        self.open: dict[int, Round] = {}
        """By number: rounds that were pulled and are neither merged nor abandoned."""
        self._waits: dict[int, _Wait] = {}
        self._quorum_s: float | None = None
        self._sync_s: float | None = None

    # ------------------------------------------------------------ beginning

    def begin(self, now_s: float) -> list[Pull]:
        """Begin the rounds that are due, the one longest ready first; at most tau are open."""
        busy = {round_.fragment for round_ in self.open.values()}
        due = []
        for fragment in range(len(self.versions)):
            wait = self._wait(now_s, fragment) if fragment not in busy else None
            if wait is not None and self._is_due(now_s, fragment, wait):
                due.append((wait.first_ready_s, fragment))
        free = max(1, self._settings.overlap) - len(self.open)
        return [self._begin(now_s, fragment) for _, fragment in sorted(due)[: max(0, free)]]

    def _wait(self, now_s: float, fragment: int) -> _Wait | None:
        """Start, continue or cancel the wait for a fragment, by the members ready now."""
        ready = sum(self._is_ready(member, fragment) for member in self._membership.members)
        if not ready:
            self._waits.pop(fragment, None)
            return None
        wait = self._waits.setdefault(fragment, _Wait(first_ready_s=now_s))
        if ready < self._settings.quorum:
            wait.quorum_at_s = None
        elif wait.quorum_at_s is None:
            wait.quorum_at_s = now_s
        return wait

    def _is_due(self, now_s: float, fragment: int, wait: _Wait) -> bool:
        if wait.quorum_at_s is None:
            return False
        present = [member for member in self._membership.members if member.is_present]
        everybody_is_ready = all(self._is_ready(member, fragment) for member in present)
        return everybody_is_ready or now_s >= wait.quorum_at_s + self._grace_s()

    def _is_ready(self, member: Member, fragment: int) -> bool:
        version = self.versions[fragment]
        return member.can_contribute(fragment, version) and member.c_steps[
            fragment
        ] >= self._due_steps(fragment, version)

    def _due_steps(self, fragment: int, version: int) -> int:
        every, overlap = self._settings.sync_every, self._settings.overlap
        if version == 0:
            every = -(-(fragment + 1) * every // self._settings.fragments)
        return max(1, every - overlap)

    def _begin(self, now_s: float, fragment: int) -> Pull:
        wait = self._waits.pop(fragment)
        quorum_at_s = wait.quorum_at_s if wait.quorum_at_s is not None else now_s
        quorum_s = quorum_at_s - wait.first_ready_s
        self._quorum_s = _smooth(self._quorum_s, quorum_s)
        version = self.versions[fragment]
        pulled = {
            member.epoch: member
            for member in self._membership.members
            if member.can_contribute(fragment, version)
        }
        self.begun += 1
        self.open[self.begun] = Round(
            number=self.begun,
            fragment=fragment,
            base_version=version,
            pulled_s=now_s,
            quorum_s=quorum_s,
            grace_s=now_s - quorum_at_s,
            waiting=pulled,
        )
        return Pull(round=self.begun, fragment=fragment, base_version=version, epochs=tuple(pulled))

    def _grace_s(self) -> float:
        """clamp(gamma (tau xi_step - xi_quorum - xi_sync), 0, max_steps xi_step)."""
        rules, step_s = self._settings, self._membership.step_s()
        slack_s = rules.overlap * step_s - (self._quorum_s or 0.0) - (self._sync_s or 0.0)
        return min(max(rules.gamma * slack_s, 0.0), rules.grace_max_steps * step_s)

    # ------------------------------------------------------------ answers

    def judge(self, member: Member, offer: Offer) -> Refusal | None:
        """Why a push is refused, judged by its header; None if accepted."""
        round_ = self.open.get(offer.round)
        if round_ is None:
            member.is_lagging = False
            return Refusal.LATE if 0 < offer.round <= self.begun else Refusal.UNKNOWN_ROUND
        if member.epoch in round_.answered:
            return Refusal.REPLAY
        if member.epoch not in round_.waiting or offer.fragment != round_.fragment:
            return Refusal.NOT_ASKED
        if offer.base_version != round_.base_version:
            return Refusal.STALE
        if (
            not 1 <= offer.c_steps <= offer.c_tokens  # a step has at least one token
            or offer.tokens_to - offer.tokens_from != offer.c_tokens
            or offer.tokens_to > member.tokens
        ):
            return Refusal.WRONG_COUNTS
        if offer.tokens_from < member.pushed_to.get(offer.fragment, 0):
            return Refusal.REPLAY
        return None

    def answer(
        self, now_s: float, member: Member, number: int, contribution: Contribution | None
    ) -> None:
        """Record a member's answer to its pull; None for an invalid one."""
        round_ = self.open.get(number)
        if round_ is None or round_.waiting.pop(member.epoch, None) is None:
            return
        round_.answered[member.epoch] = contribution
        if contribution is None:
            return
        member.pushed_to[round_.fragment] = contribution.tokens_to
        if len(round_.contributions) == self._settings.quorum:
            took_s = now_s - round_.pulled_s
            overlap_s = self._settings.overlap * self._membership.step_s()
            round_.deadline_s = round_.pulled_s + max(
                took_s + _ANSWER_LEAST_S, _ANSWER_FACTOR * took_s, overlap_s
            )

    def lose(self, member: Member) -> None:
        """Stop waiting for a member that has left."""
        for round_ in self.open.values():
            if round_.waiting.pop(member.epoch, None) is not None:
                round_.lost.append(member.learner)

    # ------------------------------------------------------------ ending

    def close(self, now_s: float) -> list[Merge | Abandon]:
        """Merge or abandon the rounds that are complete or overdue."""
        return [
            self._close(round_)
            for round_ in list(self.open.values())
            if self._is_over(now_s, round_)
        ]

    def _is_over(self, now_s: float, round_: Round) -> bool:
        hopeful = [member for member in round_.waiting.values() if not member.is_suspected]
        return not hopeful or now_s >= round_.deadline_s

    def _close(self, round_: Round) -> Merge | Abandon:
        del self.open[round_.number]
        for member in round_.waiting.values():
            member.is_lagging = True
        given = round_.contributions
        if len(given) < self._settings.quorum:
            return self._abandon(round_)
        self.versions[round_.fragment] += 1
        self.merged += 1
        self.fragment_tokens += sum(c.c_tokens for c in given)
        late = [member.learner for member in round_.waiting.values()]
        return Merge(
            round=round_.number,
            fragment=round_.fragment,
            base_version=round_.base_version,
            contributions=given,
            missed=tuple(late + round_.lost),
            quorum_s=round_.quorum_s,
            grace_s=round_.grace_s,
            pulled_s=round_.pulled_s,
            fragment_tokens=self.fragment_tokens,
        )

    def _abandon(self, round_: Round) -> Abandon:
        """Abandon the round; its contributions may be pushed again."""
        for contribution in round_.contributions:
            pushed_to = self._membership.pushed_to(contribution.learner, contribution.incarnation)
            pushed_to[round_.fragment] = contribution.tokens_from
        return Abandon(
            round=round_.number,
            fragment=round_.fragment,
            reason=f"{len(round_.contributions)} of {self._settings.quorum} contributed",
        )

    def published(self, now_s: float, merge: Merge) -> None:
        """Record that a merge is being published: xi_sync is pull + merge + publish."""
        self._sync_s = _smooth(self._sync_s, now_s - merge.pulled_s)

    def next_s(self) -> float:
        """Time at which `begin` or `close` is next due without arrivals; may be infinite."""
        deadlines = [round_.deadline_s for round_ in self.open.values()]
        if len(self.open) < max(1, self._settings.overlap):
            deadlines += [
                wait.quorum_at_s + self._grace_s()
                for wait in self._waits.values()
                if wait.quorum_at_s is not None
            ]
        return min(deadlines, default=float("inf"))


def _smooth(average: float | None, value: float) -> float:
    return value if average is None else (1 - _SMOOTHING) * average + _SMOOTHING * value
