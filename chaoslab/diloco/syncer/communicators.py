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
it is formed of those that are present. Members begin at the same version, without work of their
own, with the state of one that was in the latest communicator; a round takes work from all of them,
since they hold the same parameters.

Part of the policy: no I/O, no clock, standard library only.
"""

from collections.abc import Sequence

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Dissolve, Form, Member
from chaoslab.diloco.syncer.membership import Membership


class Communicators:
    """The present communicator, if any. Deterministic; changed by `advance` alone."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        self._is_elastic = settings.data_parallel == "elastic"
        self._quorum = settings.quorum
        self._membership = membership
        self._patience_s = settings.start_patience_s
        self._number = 0
        self._epochs: frozenset[int] = frozenset()
        """Epochs of the members of the present communicator; empty if there is none."""
        self._may_be_small = False
        """Whether an elastic communicator needs no quorum, as one was formed before."""

    @property
    def quorum(self) -> int:
        """Contributions that a round needs: of all members; of any that is left, with `elastic`."""
        return len(self._epochs) or (1 if self._is_elastic else self._quorum)

    @property
    def merges_at_once(self) -> bool:
        """Whether a round takes any work, as its communicator has ended (`elastic`)."""
        return self._is_elastic and not self._epochs

    def restart(self) -> None:
        """Continue a training in which there was a communicator."""
        self._may_be_small = self._is_elastic

    def advance(
        self, now_s: float, versions: tuple[int, ...], *, has_round: bool
    ) -> list[Form | Dissolve]:
        """End the communicator if it has lost a member or can grow; form one if it is time.

        None is formed while a round is open (`has_round`): all must begin with the same version.
        """
        actions: list[Form | Dissolve] = []
        ready = self._ready(versions)
        if self._epochs and (reason := self._broken(now_s, ready, has_round=has_round)):
            left = tuple(m for m in self._membership.members if m.epoch in self._epochs)
            actions.append(Dissolve(number=self._number, members=left, reason=reason))
            self._epochs = frozenset()
        if not self._epochs and not has_round and self._is_complete(ready):
            members = tuple(sorted(ready, key=_seniority))
            self._number = 1 + max(self._number, *(member.communicator for member in members))
            self._epochs = frozenset(member.epoch for member in members)
            self._may_be_small = self._is_elastic
            address = members[0].meeting  # forgotten below, as those of all members
            actions.append(Form(number=self._number, members=members, address=address))
            for member in members:
                member.communicator, member.meeting, member.stepped_s = self._number, "", now_s
        return actions

    def _ready(self, versions: tuple[int, ...]) -> list[Member]:
        """Members that are in no communicator, and hold the last version and no work beyond it."""
        return [
            member
            for member in self._membership.members
            if member.meeting
            and member.versions == versions
            and not any(member.c_steps)
            and not member.is_suspected
        ]

    def _broken(self, now_s: float, ready: Sequence[Member], *, has_round: bool) -> str:
        """Why the present communicator must end; empty if it may go on."""
        members = [self._membership.find(epoch) for epoch in sorted(self._epochs)]
        for member in members:
            if member is None:
                return "a member has left"
            if self._is_elastic and member.is_suspected:
                return f"{member.learner} does not answer"
            if member.meeting:
                return f"{member.learner} has lost its connections to the others"
        if self._is_elastic and ready:
            return f"{ready[0].learner} joins"
        idle_s = now_s - max(member.stepped_s for member in members if member)
        longest_s = max(self._patience_s, *(20 * member.step_s for member in members if member))
        return "" if has_round or idle_s < longest_s else f"no step for {idle_s:.0f} s"

    def _is_complete(self, ready: Sequence[Member]) -> bool:
        """Whether these are enough, and no other one that has trained will be ready soon."""
        least = 1 if self._may_be_small else self._quorum
        return len(ready) >= least and all(
            member in ready or member.is_suspected or not _is_awaited(member)
            for member in self._membership.members
        )


def _is_awaited(member: Member) -> bool:
    """Whether it has trained, or waits to do so: one that still starts is not waited for."""
    return bool(member.communicator) or member.is_present or bool(member.meeting and member.waits)


def _seniority(member: Member) -> tuple[int, int, str]:
    """Order of ranks: first those of the latest communicator that trained for longest."""
    return -member.communicator, -member.tokens, member.learner
