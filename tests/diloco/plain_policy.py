"""The policy's counting done by hand: every decision goes through all members and all fragments.

    recorded inputs ─► Policy ─► actions ─┐
                  └──► PlainPolicy ───────┴─► must be equal

What `Tally`, and the cached times of `Membership` and `Rounds`, are held against.
"""

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Drop, Member, Pull, SuspicionChange
from chaoslab.diloco.syncer.membership import Membership
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.rounds import Rounds, _Wait
from chaoslab.diloco.syncer.tally import Tally


class PlainTally(Tally):
    """Keeps no counts: each is taken when it is asked for."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        super().__init__(settings)
        self._membership = membership

    @property
    def _present(self) -> list[Member]:
        return [member for member in self._membership.members if member.is_present]

    @property
    def present(self) -> int:
        return len(self._present)

    @property
    def step_s(self) -> float:
        times = [int(m.step_s * 1e9) for m in self._present if int(m.step_s * 1e9) > 0]
        return sum(times) / len(times) / 1e9 if times else 0.0

    def kth_step_s(self, k: int) -> float:
        times = sorted(member.own_step_s for member in self._present)
        return times[k - 1] if len(times) >= k else 0.0

    def update(self, member: Member) -> None:
        pass

    def remove(self, epoch: int) -> None:
        pass

    def count(self) -> None:
        """Take all counts anew."""
        self.ready = [
            sum(self.is_ready(member, fragment) for member in self._membership.members)
            for fragment in range(len(self.versions))
        ]
        self.waiting = sum(self.blocks(member) for member in self._present)
        self.changed = set(range(len(self.versions)))


class PlainMembership(Membership):
    """Looks at all members whenever it is asked."""

    def age(self, now_s: float) -> list[SuspicionChange | Drop]:
        self._unchanged_until_s = now_s
        return super().age(now_s)

    def next_change_s(self) -> float:
        limits = [
            member.last_step_s + self._limits_s(member)[member.is_suspected]
            for member in self.members
        ]
        return min(limits, default=float("inf"))


class PlainRounds(Rounds):
    """Looks at all fragments whenever it is asked."""

    _tally: PlainTally

    def begin(self, now_s: float) -> list[Pull]:
        self._tally.count()
        return super().begin(now_s)

    def next_beginning_s(self) -> float:
        self._tally.count()
        waits = self._waits.values() if self._free() > 0 else ()
        return min(map(self._may_begin_s, waits), default=float("inf"))

    def _may_begin_s(self, wait: _Wait) -> float:
        return max(self._spaced_s(), wait.due_s(self._grace_s()))


class PlainPolicy(Policy):
    """The policy with the parts above."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.membership = PlainMembership(settings)
        self.tally = PlainTally(settings, self.membership)
        self.rounds = PlainRounds(settings, self.membership, self.tally)
        self.transfers = type(self.transfers)(settings, self.membership)
