"""Tally of the present members: their number, their step times, and which are ready for a round.

    a member changed ────────► update ──┐      ready, by fragment; present; waiting
    it has left ─────────────► remove ──┼─► {  step_s, kth_step_s
    a fragment has a version ► renew  ──┘      changed: fragments to look at again

Kept change by change, so that a decision does not go through all members for all fragments. Step
times are summed in whole nanoseconds: a sum of floats would depend on the order of the changes.

Part of the policy: no I/O, no clock, standard library only.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from operator import and_, eq, ge

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Member

_NS = 1e9


@dataclass(slots=True)
class _Counted:
    """Count of a present member."""

    member: Member
    ready: list[bool]
    """Whether the member is ready for the fragment's round, by fragment."""
    step_ns: int = 0
    own_step_s: float = 0.0
    is_waiting: bool = False


class Tally:
    """Counts over the present members; `update` must be called after each change of one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._counted: dict[int, _Counted] = {}
        self.takes_any_work = False
        """Whether one step makes a member ready; `begin` counts anew after a change."""
        self.versions: tuple[int, ...] = ()
        """Version vector; empty until the initial parameters are known."""
        self._needed: tuple[int, ...] = ()
        """Steps that make a member ready, by fragment."""
        self._steps_ns = 0
        self._timed = 0
        self._own_steps_s: list[float] = []
        self.ready: list[int] = []
        """Number of members that are ready for a round, by fragment."""
        self.waiting = 0
        """Number of members that wait for a round, with `blocking`."""
        self.changed: set[int] = set()
        """Fragments whose number of ready members changed; emptied by the reader."""

    @property
    def present(self) -> int:
        """Number of present members."""
        return len(self._counted)

    @property
    def step_s(self) -> float:
        """xi_step: mean step time; 0 before any has stepped."""
        return self._steps_ns / self._timed / _NS if self._timed else 0.0

    def kth_step_s(self, k: int) -> float:
        """Own step time of the k-th fastest; 0 if there are fewer."""
        return self._own_steps_s[k - 1] if len(self._own_steps_s) >= k else 0.0

    # ------------------------------------------------------------ changes

    def update(self, member: Member) -> None:
        """Count a member as it is now."""
        if not member.is_present:
            self.remove(member.epoch)
            return
        counted = self._counted.get(member.epoch)
        if counted is None:
            counted = self._counted[member.epoch] = _Counted(member, self._none_ready)
            insort(self._own_steps_s, 0.0)
        self._count(counted, self._ready(member), member.step_s, member.own_step_s)
        if self._settings.blocking:
            self._count_waiting(counted, is_waiting=self.blocks(member))

    def remove(self, epoch: int) -> None:
        """Count a member no more; it may be unknown."""
        counted = self._counted.get(epoch)
        if counted is not None:
            self._count(counted, self._none_ready, 0.0, 0.0)
            self._count_waiting(counted, is_waiting=False)
            self._own_steps_s.remove(0.0)
            del self._counted[epoch]

    def begin(self, versions: Iterable[int]) -> None:
        """Set the version vector."""
        self.versions = tuple(versions)
        self._needed = tuple(map(self._due_steps, range(len(self.versions)), self.versions))
        self.ready = [0] * len(self.versions)
        for counted in self._counted.values():
            counted.ready = self._none_ready
            self.update(counted.member)

    def renew(self, fragment: int, version: int) -> None:
        """Set the version of one fragment."""
        before, after = fragment, fragment + 1
        needed = self._due_steps(fragment, version)
        self.versions = (*self.versions[:before], version, *self.versions[after:])
        self._needed = (*self._needed[:before], needed, *self._needed[after:])
        for counted in self._counted.values():
            self._count_ready(counted, fragment, self.is_ready(counted.member, fragment))
            if self._settings.blocking:
                self._count_waiting(counted, is_waiting=self.blocks(counted.member))
        self.changed.add(fragment)

    # ------------------------------------------------------------ one member

    def is_ready(self, member: Member, fragment: int) -> bool:
        """Whether it has made the steps on the fragment that its round needs."""
        return (
            member.can_contribute(fragment, self.versions[fragment])
            and member.c_steps[fragment] >= self._needed[fragment]
        )

    def blocks(self, member: Member) -> bool:
        """Whether the member waits for a round before it may step again, with `blocking`."""
        limit = self._settings.steps_before_wait
        return limit is not None and any(
            c_steps >= limit and own == version
            for c_steps, own, version in zip(
                member.c_steps, member.versions, self.versions, strict=False
            )
        )

    @property
    def _none_ready(self) -> list[bool]:
        return [False] * len(self.versions)

    def _ready(self, member: Member) -> list[bool]:
        """`is_ready` of a present member, by fragment."""
        if not member.c_steps:
            return self._none_ready
        ready = map(ge, member.c_steps, self._needed)
        if member.versions != self.versions:
            ready = map(and_, ready, map(eq, member.versions, self.versions))
        return list(ready)

    def _due_steps(self, fragment: int, version: int) -> int:
        """H - tau, at first a staggered share of H instead of H; at least 1, which is any work."""
        every, overlap = self._settings.sync_every, self._settings.overlap
        if self.takes_any_work:
            return 1
        if version == 0:
            every = -(-(fragment + 1) * every // self._settings.fragments)
        return max(1, every - overlap)

    # ------------------------------------------------------------ counting

    def _count(
        self, counted: _Counted, ready: list[bool], step_s: float, own_step_s: float
    ) -> None:
        if ready != counted.ready:
            for fragment, is_ready in enumerate(ready):
                self._count_ready(counted, fragment, is_ready)
        step_ns = int(step_s * _NS)
        if step_ns != counted.step_ns:
            self._steps_ns += step_ns - counted.step_ns
            self._timed += (step_ns > 0) - (counted.step_ns > 0)
            counted.step_ns = step_ns
        if own_step_s != counted.own_step_s:
            del self._own_steps_s[bisect_left(self._own_steps_s, counted.own_step_s)]
            insort(self._own_steps_s, own_step_s)
            counted.own_step_s = own_step_s

    def _count_ready(self, counted: _Counted, fragment: int, is_ready: bool) -> None:
        if is_ready != counted.ready[fragment]:
            counted.ready[fragment] = is_ready
            self.ready[fragment] += 1 if is_ready else -1
            self.changed.add(fragment)

    def _count_waiting(self, counted: _Counted, *, is_waiting: bool) -> None:
        self.waiting += is_waiting - counted.is_waiting
        counted.is_waiting = is_waiting
