"""Transfers: checkpoints sent by donors to rejoining learners, and replacement of failed donors.

    help(rejoiner) ─► Welcome: donor ──► Donate ══► donor ══ checkpoint ══► done: its receiver
                          ▲                           │ gone, suspected, or does not begin
                          └────── another donor ◄─────┤
                                                      └─ none is left, or it took too long in all
    Welcome: syncer ──► SendAll ◄────────────────────────┘

A receiver waits for what its latest Welcome names, so it gets one whenever that changes, and none
once the checkpoint has been passed on to it. A request has one receiver. `membership.choose_donor`
selects donors and spreads requests over them; the number of requests of each donor is kept here.

Part of the policy: no I/O, no clock, standard library only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chaoslab.core.protocol import LeaveReason
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.syncer.decisions import Action, Donate, Member, SendAll, Welcome
from chaoslab.diloco.syncer.membership import Membership

_PATIENCE_S = 20.0
"""Seconds after which a donor that has not begun to send its checkpoint is replaced."""


@dataclass(slots=True, kw_only=True)
class Transfer:
    """A request whose checkpoint has not arrived."""

    request: int
    donor: Member
    receiver: Member
    begun_by_s: float
    """Latest beginning of the donor's sending; infinite once it has begun."""
    until_s: float
    """Time after which the receiver has waited long enough for donors."""


class Transfers:
    """Open requests. The donor may leave while it serves."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        self._wait_s_max = settings.start_patience_s
        self._membership = membership
        self.open: dict[int, Transfer] = {}
        """Open requests by number."""
        self._requests = 0
        self._slow: set[tuple[str, int]] = set()
        """Learners, with their incarnation, that could not begin in time with a checkpoint."""

    def help(self, now_s: float, receiver: Member) -> list[Action]:
        """Let a learner that has just joined get the state of the training."""
        is_slow = (receiver.learner, receiver.incarnation) in self._slow
        donor = None if is_slow else self._membership.choose_donor()
        return self._from(now_s, donor, receiver, until_s=now_s + self._wait_s_max)

    def begun(self, epoch: int, request: int) -> None:
        """Note that a member has begun to send the checkpoint of a request."""
        if (transfer := self._asked(epoch, request)) is not None:
            transfer.begun_by_s = float("inf")

    def done(self, now_s: float, epoch: int, request: int) -> Member | None:
        """Close the request whose checkpoint arrived from a member.

        Returns its receiver; None if the checkpoint is not wanted of that member.
        """
        if (transfer := self._asked(epoch, request)) is None:
            return None
        self._close(request)
        self._membership.begin_anew(now_s, transfer.receiver)
        return transfer.receiver

    def lose(self, now_s: float, member: Member, reason: LeaveReason) -> list[Action]:
        """Handle the end of a membership, as receiver or as donor."""
        self.end(member)
        if reason is LeaveReason.NO_PROGRESS and not member.has_reported:
            self._slow.add((member.learner, member.incarnation))
        return [
            action
            for transfer in tuple(self.open.values())
            if transfer.donor.epoch == member.epoch
            for action in self._another(now_s, transfer)
        ]

    def end(self, receiver: Member) -> None:
        """Close the request for a receiver that needs no checkpoint any more, if there is one."""
        for transfer in tuple(self.open.values()):
            if transfer.receiver.epoch == receiver.epoch:
                self._close(transfer.request)

    def late(self, now_s: float) -> list[Action]:
        """Replace donors that take too long; those that are suspected, if there is another."""
        actions: list[Action] = []
        for transfer in tuple(self.open.values()):
            is_late = now_s >= self._late_s(transfer)
            if is_late or (transfer.donor.is_suspected and self._choose(transfer) is not None):
                actions += self._another(now_s, transfer)
        return actions

    def next_s(self) -> float:
        """Time at which the next of the open requests is overdue."""
        return min(map(self._late_s, self.open.values()))

    def discount(self, seconds: float) -> None:
        """Give all donors this much longer: the syncer was paused."""
        for transfer in self.open.values():
            transfer.begun_by_s += seconds
            transfer.until_s += seconds

    def _asked(self, epoch: int, request: int) -> Transfer | None:
        """The open request if this member is asked to answer it."""
        transfer = self.open.get(request)
        return transfer if transfer is not None and transfer.donor.epoch == epoch else None

    def _late_s(self, transfer: Transfer) -> float:
        return min(transfer.begun_by_s, transfer.until_s)

    def _choose(self, transfer: Transfer) -> Member | None:
        return self._membership.choose_donor({transfer.donor.epoch, transfer.receiver.epoch})

    def _another(self, now_s: float, transfer: Transfer) -> Sequence[Action]:
        """Choose another donor, or the syncer if there is none or time is up."""
        self._close(transfer.request)
        donor = self._choose(transfer) if now_s < transfer.until_s else None
        return self._from(now_s, donor, transfer.receiver, until_s=transfer.until_s)

    def _from(
        self, now_s: float, donor: Member | None, receiver: Member, *, until_s: float
    ) -> list[Action]:
        if donor is None:
            self._membership.begin_anew(now_s, receiver)
            welcome = Welcome(member=receiver, source=Source.SYNCER, donor=None)
            return [welcome, SendAll(receiver=receiver)]
        self._requests += 1
        donor.giving += 1
        self.open[self._requests] = Transfer(
            request=self._requests, donor=donor, receiver=receiver,
            begun_by_s=now_s + _PATIENCE_S, until_s=until_s,
        )  # fmt: skip
        welcome = Welcome(member=receiver, source=Source.DONOR, donor=donor)
        return [welcome, Donate(request=self._requests, donor=donor, receiver=receiver)]

    def _close(self, request: int) -> None:
        """Close a request and uncount it for its donor."""
        self.open.pop(request).donor.giving -= 1
