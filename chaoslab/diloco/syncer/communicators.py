"""Communicators: which learners average their gradients with each other, with `data_parallel`.

                    K idle, all at the last version
    none ───────────────────────────────────────────► formed (number n) ──┐ steps, rounds
     ▲  ▲                                                │    ▲           │
     │  └── rigid: a member is lost; all go back to ─────┤    └───────────┘
     │      the last version                             │
     └───── elastic: a member is lost, or another is ────┘
            idle; what they have trained is merged first

As in MPI and NCCL a communicator has a fixed set of members, and one that loses a member can do
nothing more. The first one needs K members. With `rigid` so does every other one; with `elastic`
it is formed of those that are present. Members begin at the same version, with the state of the
one that has trained for longest, without work of their own; a round takes work from all of them,
since they hold the same parameters.

Part of the policy: no I/O, no clock, standard library only.
"""

from collections.abc import Iterator

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Dissolve, Form, Member
from chaoslab.diloco.syncer.membership import Membership


class Communicators:
    """The present communicator, if any. Deterministic; changed by `advance` alone."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        self._is_elastic = settings.data_parallel == "elastic"
        self._quorum = settings.quorum
        self._membership = membership
        self._number = 0
        self._epochs: frozenset[int] = frozenset()
        """Of the members of the present communicator; empty if there is none."""
        self._may_be_small = False
        """Whether an elastic communicator needs no quorum, as one was formed before."""

    @property
    def quorum(self) -> int:
        """Contributions that a round needs: of all members; of those that are left of them."""
        return len(self._epochs) or (1 if self._is_elastic else self._quorum)

    @property
    def merges_at_once(self) -> bool:
        """Whether a round takes any work, as its communicator has ended (`elastic`)."""
        return self._is_elastic and not self._epochs

    def restart(self) -> None:
        """Continue a training in which there was a communicator."""
        self._may_be_small = self._is_elastic

    def advance(self, versions: tuple[int, ...]) -> Iterator[Form | Dissolve]:
        """End the communicator if it has lost a member or can grow; form one if it is time."""
        if self._epochs and (reason := self._broken()):
            left = tuple(m for m in self._membership.members if m.epoch in self._epochs)
            yield Dissolve(number=self._number, members=left, reason=reason)
            self._epochs = frozenset()
        if not self._epochs and (members := self._next_members(versions)):
            self._number = 1 + max(self._number, *(member.communicator for member in members))
            self._epochs = frozenset(member.epoch for member in members)
            self._may_be_small = self._is_elastic
            yield Form(number=self._number, members=members)

    # ------------------------------------------------------------ ending

    def _broken(self) -> str:
        """Why the present communicator must end; empty if it need not."""
        for epoch in sorted(self._epochs):
            member = self._membership.find(epoch)
            if member is None:
                return "a member has left"
            if self._is_elastic and member.is_suspected:
                return f"{member.learner} does not answer"
            if member.meeting and member.communicator >= self._number:
                return f"{member.learner} has lost its connections to the others"
        if self._is_elastic:
            for member in self._membership.members:
                if member.epoch not in self._epochs and member.meeting:
                    return f"{member.learner} joins"
        return ""

    # ------------------------------------------------------------ forming

    def _next_members(self, versions: tuple[int, ...]) -> tuple[Member, ...]:
        """Members of the next communicator, the one that has trained for longest first.

        Empty while there are too few, or while present ones are not ready yet.
        """
        idle = [member for member in self._membership.members if member.meeting]
        ready = [
            member
            for member in idle
            if member.versions == versions and not any(member.c_steps) and not member.is_suspected
        ]
        is_enough = len(ready) >= (1 if self._may_be_small else self._quorum)
        if not is_enough or any(m.is_present and m not in ready for m in self._membership.members):
            return ()
        return tuple(sorted(ready, key=lambda member: (-member.tokens, member.learner)))
