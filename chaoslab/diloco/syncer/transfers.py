"""Checkpoints on their way from donors to rejoiners, and who is asked when a donor fails.

    hello of a rejoiner ─► ask(donor) ──► Donate ══► donor ══ checkpoint ══► done: its receiver
                              ▲                        │ gone, suspected, or too slow
                              └──── another donor ◄────┘     nobody left: the syncer's fragments

A request is for one receiver. Who is fit to give, and that many requests at once do not pile on one
donor, is `membership.choose_donor`'s rule; how many each has to give is counted here.

Part of the policy: no input or output, no clock, standard library only.
"""

from dataclasses import dataclass

from chaoslab.diloco.syncer.decisions import Action, Donate, SendAll
from chaoslab.diloco.syncer.membership import Member, Membership

_PATIENCE_S = 20.0
"""A donor that has not given its checkpoint after this long is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transfer:
    request: int
    donor: Member
    receiver: Member
    since_s: float


class Transfers:
    """Every open request. The donor may die while it serves."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._open: dict[int, _Transfer] = {}
        self._requests = 0

    def ask(self, now_s: float, donor: Member, receiver: Member) -> Donate:
        """Ask a donor for a checkpoint."""
        self._requests += 1
        donor.giving += 1
        self._open[self._requests] = _Transfer(
            request=self._requests, donor=donor, receiver=receiver, since_s=now_s
        )
        return Donate(request=self._requests, donor=donor, receiver=receiver)

    def done(self, request: int) -> Member | None:
        """A checkpoint arrived; whose it is, or None when nobody waits for it any more."""
        transfer = self._close(request)
        return transfer.receiver if transfer else None

    def lose(self, now_s: float, member: Member) -> list[Action]:
        """A member is gone, as receiver or as donor."""
        actions: list[Action] = []
        for transfer in list(self._open.values()):
            if transfer.receiver.epoch == member.epoch:
                self._close(transfer.request)
            elif transfer.donor.epoch == member.epoch:
                actions.append(self._another(now_s, transfer))
        return actions

    def late(self, now_s: float) -> list[Action]:
        """Donors that take too long, or stopped stepping, are replaced."""
        return [
            self._another(now_s, transfer)
            for transfer in list(self._open.values())
            if now_s - transfer.since_s >= _PATIENCE_S or transfer.donor.is_suspected
        ]

    def next_s(self) -> float:
        """When the next one is late; may be infinite."""
        starts = (transfer.since_s for transfer in self._open.values())
        return min(starts, default=float("inf")) + _PATIENCE_S

    def _another(self, now_s: float, transfer: _Transfer) -> Action:
        self._close(transfer.request)
        donor = self._membership.choose_donor({transfer.donor.epoch, transfer.receiver.epoch})
        if donor is None:
            return SendAll(receiver=transfer.receiver)
        return self.ask(now_s, donor, transfer.receiver)

    def _close(self, request: int) -> _Transfer | None:
        """It is open no more, and its donor has one less to give; None if it was not open."""
        transfer = self._open.pop(request, None)
        if transfer is not None:
            transfer.donor.giving -= 1
        return transfer
