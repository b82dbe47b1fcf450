"""Rounds of all fragments: when one begins, which learners it pulls from, when it ends.

    IDLE ──K members ready──► grace window ──► PULL from the present ──all answered, or K
    answered and the rest is late──► MERGE ──► published, IDLE again (version + 1)

A member is ready when it has made H - tau steps on the fragment since it adopted it (the first
time, a staggered share of H), so rounds of one fragment are at least H steps of the K-th fastest
learner apart. Present members that are not ready contribute what they have, or with `contribute:
ready` nothing: what they adopt next replaces it. Once K have answered, the others have the overlap
of tau steps, or a few times as long as the K took. A member that misses the end of a round is not
pulled from again until its late answer has arrived. With `blocking`, a member that has made H
steps on a fragment makes no further one until the next round of it.

Beginnings are spaced, unless a member waits for them. Otherwise fragments that became due together
while the syncer was away would stay together, and load the links in bursts, for the rest of the
training.

Part of the policy: no I/O, no clock, standard library only. Formulas: arXiv 2604.21428.
"""

from dataclasses import dataclass, field

from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Abandon, Contribution, Member, Merge, Offer, Pull
from chaoslab.diloco.syncer.membership import Membership
from chaoslab.diloco.syncer.tally import Tally

_SMOOTHING = 0.2
"""Weight of the newest value in the moving averages."""
_ANSWER_FACTOR = 4.0
"""Once K have answered, the others have this multiple of the time that those took."""
_ANSWER_LEAST_S = 0.25
"""Least time for the others after K have answered, in s."""
_NEVER_S = float("inf")


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
    """Members that were pulled from and have not answered, by epoch."""
    answered: dict[int, Contribution | None] = field(default_factory=dict)
    """Contributions by epoch; None for an invalid answer."""
    accepted: int = 0
    """Number of valid answers."""
    lost: list[str] = field(default_factory=list)
    """Learners that left before they answered."""
    deadline_s: float = _NEVER_S
    """Time at which it ends even if some have not answered; infinite before K have."""

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """The valid answers, in order of arrival."""
        return tuple(c for c in self.answered.values() if c is not None)


@dataclass(slots=True, kw_only=True)
class _Wait:
    """Members are ready for a fragment; its round has not begun."""

    first_ready_s: float
    quorum_at_s: float = _NEVER_S
    """Time since which K members are ready; infinite without a quorum."""
    all_at_s: float = _NEVER_S
    """Time since which all present members are ready; infinite if they are not, or fewer than K."""

    def due_s(self, grace_s: float) -> float:
        """Time at which its round is due; infinite without a quorum."""
        return min(self.all_at_s, self.quorum_at_s + grace_s)


class Rounds:
    """All rounds of one training. Deterministic; time is an argument."""

    def __init__(self, settings: Settings, membership: Membership, tally: Tally) -> None:
        self._settings = settings
        self._membership = membership
        self._tally = tally
        self.begun = 0
        """Number of rounds begun; round numbers are never used again."""
        self.merged = 0
        self.fragment_tokens = 0
        """Sum over all merges of the contributors' c_tokens."""
        self.open: dict[int, Round] = {}
        """Rounds that were pulled and are neither merged nor abandoned, by number."""
        self.quorum = settings.quorum
        """K: contributions that a round needs."""
        self._most_open = max(1, settings.overlap)
        self._mean_steps = settings.sync_every / settings.fragments
        """Steps between the beginnings of two rounds on average."""
        self._waits: dict[int, _Wait] = {}
        self._present = 0
        """Present members when the waits were last looked at."""
        self._begun_s = float("-inf")
        self._quorum_s: float | None = None
        self._sync_s: float | None = None

    def require(self, quorum: int, *, at_once: bool) -> None:
        """Let rounds need `quorum` contributions from now on, of any work if `at_once`."""
        if (quorum, at_once) != (self.quorum, self._tally.takes_any_work):
            self.quorum, self._tally.takes_any_work = quorum, at_once
            self._tally.begin(self._tally.versions)
            self._tally.changed.update(range(self._settings.fragments))

    # ------------------------------------------------------------ beginning

    def begin(self, now_s: float) -> list[Pull]:
        """Begin the rounds that are due, the one longest ready first: spaced, at most tau open."""
        if self._tally.changed or self._tally.present != self._present:
            self._look_again(now_s)
        begun: list[Pull] = []
        if self._waits and self._free() > 0 and now_s >= self._spaced_s():
            grace_s = self._grace_s()
            due = sorted(
                (wait.first_ready_s, fragment)
                for fragment, wait in self._waits.items()
                if now_s >= wait.due_s(grace_s)
            )
            for _, fragment in due[: self._free()]:
                if now_s >= self._spaced_s():
                    begun.append(self._begin(now_s, fragment))
        return begun

    def _free(self) -> int:
        """Number of rounds that may still begin beside the open ones."""
        return self._most_open - len(self.open)

    def _spaced_s(self) -> float:
        """Earliest time of the next beginning, by the own step time of the K-th fastest member.

        At once while members wait for a round, also to form a communicator: they make no steps over
        which to spread them.
        """
        if self._tally.waiting or self._tally.takes_any_work:
            return self._begun_s
        step_s = self._tally.kth_step_s(self.quorum)
        return self._begun_s + self._settings.spacing * self._mean_steps * step_s

    def _look_again(self, now_s: float) -> None:
        """Start, continue or cancel the waits with a change."""
        changed = self._tally.changed
        if self._tally.present != self._present:
            self._present = self._tally.present
            changed.update(self._waits)
        for fragment in changed.difference(round_.fragment for round_ in self.open.values()):
            self._wait(now_s, fragment)
        changed.clear()

    def _wait(self, now_s: float, fragment: int) -> None:
        """Start, continue or cancel the wait for a fragment, by the members ready now."""
        ready = self._tally.ready[fragment]
        if not ready:
            self._waits.pop(fragment, None)
            return
        wait = self._waits.setdefault(fragment, _Wait(first_ready_s=now_s))
        has_quorum = ready >= self.quorum
        wait.quorum_at_s = min(wait.quorum_at_s, now_s) if has_quorum else _NEVER_S
        has_all = has_quorum and ready == self._present
        wait.all_at_s = min(wait.all_at_s, now_s) if has_all else _NEVER_S

    def _is_pulled(self, member: Member, fragment: int) -> bool:
        if self._settings.contribute == "ready":
            return self._tally.is_ready(member, fragment)
        return member.can_contribute(fragment, self._tally.versions[fragment])

    def _begin(self, now_s: float, fragment: int) -> Pull:
        wait = self._waits.pop(fragment)
        quorum_s = wait.quorum_at_s - wait.first_ready_s
        due_s = wait.due_s(self._grace_s())
        self._quorum_s = _smooth(self._quorum_s, quorum_s)
        version = self._tally.versions[fragment]
        pulled = {
            member.epoch: member
            for member in self._membership.members
            if self._is_pulled(member, fragment)
        }
        self.begun += 1
        self._begun_s = now_s
        self.open[self.begun] = Round(
            number=self.begun,
            fragment=fragment,
            base_version=version,
            pulled_s=now_s,
            quorum_s=quorum_s,
            grace_s=min(due_s, now_s) - wait.quorum_at_s,
            waiting=pulled,
        )
        return Pull(round=self.begun, fragment=fragment, base_version=version, epochs=tuple(pulled))

    def _grace_s(self) -> float:
        """clamp(gamma (tau xi_step - xi_quorum - xi_sync), 0, max_steps xi_step)."""
        rules, step_s = self._settings, self._tally.step_s
        slack_s = rules.overlap * step_s - (self._quorum_s or 0.0) - (self._sync_s or 0.0)
        return min(max(rules.gamma * slack_s, 0.0), rules.grace_max_steps * step_s)

    # ------------------------------------------------------------ answers

    def judge(self, member: Member, offer: Offer) -> PushRefusal | None:
        """Why a push is refused, judged by its header; None if accepted."""
        round_ = self.open.get(offer.round)
        if round_ is None:
            self._mark(member, is_lagging=False)
            return PushRefusal.LATE if 0 < offer.round <= self.begun else PushRefusal.UNKNOWN_ROUND
        if member.epoch in round_.answered:
            return PushRefusal.REPLAY
        if member.epoch not in round_.waiting or offer.fragment != round_.fragment:
            return PushRefusal.NOT_ASKED
        if offer.base_version != round_.base_version:
            return PushRefusal.STALE
        if (
            not 1 <= offer.c_steps <= offer.c_tokens  # a step has at least one token
            or offer.tokens_to - offer.tokens_from != offer.c_tokens
            or offer.tokens_to > member.tokens
        ):
            return PushRefusal.WRONG_COUNTS
        if offer.tokens_from < member.pushed_to.get(offer.fragment, 0):
            return PushRefusal.REPLAY
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
        round_.accepted += 1
        if round_.accepted == self.quorum and not self._tally.takes_any_work:
            took_s = now_s - round_.pulled_s
            overlap_s = self._settings.overlap * self._tally.step_s
            round_.deadline_s = round_.pulled_s + max(
                took_s + _ANSWER_LEAST_S, _ANSWER_FACTOR * took_s, overlap_s
            )

    def lose(self, member: Member) -> None:
        """Stop waiting for a member that has left, and count it no more."""
        self._tally.remove(member.epoch)
        for round_ in self.open.values():
            if round_.waiting.pop(member.epoch, None) is not None:
                round_.lost.append(member.learner)

    # ------------------------------------------------------------ ending

    def close(self, now_s: float) -> list[Merge | Abandon]:
        """Merge or abandon the rounds that are complete or overdue."""
        over = [round_ for round_ in self.open.values() if self._is_over(now_s, round_)]
        return [self._close(round_) for round_ in over]

    def _is_over(self, now_s: float, round_: Round) -> bool:
        return now_s >= round_.deadline_s or all(m.is_suspected for m in round_.waiting.values())

    def _close(self, round_: Round) -> Merge | Abandon:
        del self.open[round_.number]
        for member in round_.waiting.values():
            self._mark(member, is_lagging=True)
        given = round_.contributions
        if len(given) < self.quorum:
            return self._abandon(round_)
        self._tally.renew(round_.fragment, round_.base_version + 1)
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
        self._tally.changed.add(round_.fragment)
        for contribution in round_.contributions:
            pushed_to = self._membership.pushed_to(contribution.learner, contribution.incarnation)
            pushed_to[round_.fragment] = contribution.tokens_from
        return Abandon(
            round=round_.number,
            fragment=round_.fragment,
            reason=f"{len(round_.contributions)} of {self.quorum} contributed",
        )

    def _mark(self, member: Member, *, is_lagging: bool) -> None:
        member.is_lagging = is_lagging
        self._tally.update(member)

    def published(self, now_s: float, merge: Merge) -> None:
        """Record that a merge is being published: xi_sync is pull + merge + publish."""
        self._sync_s = _smooth(self._sync_s, now_s - merge.pulled_s)

    def discount(self, seconds: float) -> None:
        """Give the answers to open rounds this much longer: the syncer was paused."""
        for round_ in self.open.values():
            round_.pulled_s += seconds
            round_.deadline_s += seconds

    def next_end_s(self) -> float:
        """Time at which `close` is next due without arrivals; may be infinite."""
        return min([round_.deadline_s for round_ in self.open.values()], default=_NEVER_S)

    def next_beginning_s(self) -> float:
        """Time at which `begin` is next due without arrivals; may be infinite."""
        if not self._waits or self._free() <= 0:
            return _NEVER_S
        grace_s, after_s, due_s = self._grace_s(), self._spaced_s(), _NEVER_S
        for wait in self._waits.values():
            due_s = min(due_s, wait.due_s(grace_s))
            if due_s <= after_s:  # an earlier one would make no difference
                break
        return max(after_s, due_s)


def _smooth(average: float | None, value: float) -> float:
    return value if average is None else (1 - _SMOOTHING) * average + _SMOOTHING * value
