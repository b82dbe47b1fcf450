"""Transfers: checkpoints sent by donors to rejoining learners, and replacement of failed donors.

    hello of a rejoiner ─► ask(donor) ──► Donate ══► donor ══ checkpoint ══► done: its receiver
                              ▲                        │ gone, suspected, or too slow
                              └──── another donor ◄────┘     no donor left: the syncer's fragments

A request has one receiver. `membership.choose_donor` selects donors and spreads requests over them;
the number of requests of each donor is kept here.

Part of the policy: no I/O, no clock, standard library only.
"""

from chaoslab.diloco.syncer.decisions import Action, Donate, Member, SendAll
from chaoslab.diloco.syncer.membership import Membership

_PATIENCE_S = 20.0
"""Seconds after which a donor that has not sent its checkpoint is replaced."""


class Transfers:
    """Open requests. The donor may leave while it serves."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self.open: dict[int, Donate] = {}
        """By number: requests whose checkpoint has not arrived."""
        self._requests = 0

    def ask(self, now_s: float, donor: Member, receiver: Member) -> Donate:
        """Ask a donor to send a checkpoint to the receiver."""
        self._requests += 1
        donor.giving += 1
        asked = Donate(request=self._requests, donor=donor, receiver=receiver, asked_s=now_s)
        self.open[asked.request] = asked
        return asked

    def done(self, request: int) -> Member | None:
        """Close the request of a checkpoint that arrived; its receiver, or None if not wanted."""
        transfer = self._close(request)
        return transfer.receiver if transfer else None

    def lose(self, now_s: float, member: Member) -> list[Action]:
        """Handle the end of a membership, as receiver or as donor."""
        actions: list[Action] = []
        for transfer in list(self.open.values()):
            if transfer.receiver.epoch == member.epoch:
                self._close(transfer.request)
            elif transfer.donor.epoch == member.epoch:
                actions.append(self._another(now_s, transfer))
        return actions

    def late(self, now_s: float) -> list[Action]:
        """Replace donors that take too long or are suspected."""
        return [
            self._another(now_s, transfer)
            for transfer in list(self.open.values())
            if now_s - transfer.asked_s >= _PATIENCE_S or transfer.donor.is_suspected
        ]

    def next_s(self) -> float:
        """Time at which the next of the open requests is overdue."""
        return min(transfer.asked_s for transfer in self.open.values()) + _PATIENCE_S

    def _another(self, now_s: float, transfer: Donate) -> Action:
        self._close(transfer.request)
        donor = self._membership.choose_donor({transfer.donor.epoch, transfer.receiver.epoch})
        if donor is None:
            return SendAll(receiver=transfer.receiver)
        return self.ask(now_s, donor, transfer.receiver)

    def _close(self, request: int) -> Donate | None:
        """Close a request and uncount it for its donor; None if it was not open."""
        transfer = self.open.pop(request, None)
        if transfer is not None:
            transfer.donor.giving -= 1
        return transfer
