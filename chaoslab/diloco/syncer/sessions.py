"""Sessions: the stream of each membership, for sending to members.

    hello ─► admit(session, epoch) ─► send(epoch) ══► learner
                 │                └─► close(epoch): the membership ended; send it a last message
                 └─► forget(session): the stream ended

Messages to a member without a stream are dropped. When memberships begin and end is decided
elsewhere. For the syncer's main thread.
"""

from collections.abc import Hashable

from chaoslab.diloco.syncer.membership import Member
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.hub import Hub


class Sessions:
    """Streams whose hello was accepted."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._epochs: dict[int, int] = {}
        """session -> epoch, for sessions with a current membership"""
        self._sessions: dict[int, int] = {}
        self._members: dict[int, Member] = {}
        """session -> the membership that began on it, ended or not, until the stream ends"""
        self._held: dict[int, tuple[int, ...]] = {}
        """epoch -> versions that the learner held when it joined"""

    def admit(self, session: int, member: Member, held: tuple[int, ...]) -> None:
        """Register the stream of a new member, which holds the versions `held`."""
        self._epochs[session], self._sessions[member.epoch] = member.epoch, session
        self._members[session] = member
        self._held[member.epoch] = held

    def epoch(self, session: int) -> int | None:
        """Epoch of the membership on a stream; None if there is none."""
        return self._epochs.get(session)

    def member(self, session: int) -> Member | None:
        """Member that was admitted on a stream, even if that membership has ended; else None."""
        return self._members.get(session)

    def held(self, epoch: int) -> tuple[int, ...]:
        """Versions that the learner held when it joined; empty for none."""
        return self._held.get(epoch, ())

    def send(self, epoch: int, message: pb.ToLearner) -> None:
        """Send to a member if it has a stream."""
        session = self._sessions.get(epoch)
        if session is not None:
            self._hub.send(session, message)

    def send_payload(
        self, epoch: int, message: pb.ToLearner, payload: memoryview, *, key: Hashable
    ) -> None:
        """Send a message with its payload to a member if it has a stream."""
        session = self._sessions.get(epoch)
        if session is not None:
            self._hub.send_payload(session, message, payload, key=key)

    def forget(self, session: int) -> int | None:
        """Forget a stream that has ended; return the epoch of its membership, if any."""
        self._members.pop(session, None)
        epoch = self._epochs.pop(session, None)
        if epoch is not None:
            self._sessions.pop(epoch, None)
        return epoch

    def close(self, epoch: int, last_message: pb.ToLearner) -> None:
        """Send a last message to a membership that has ended, and close its stream."""
        self._held.pop(epoch, None)
        session = self._sessions.pop(epoch, None)
        if session is not None:
            self._epochs.pop(session, None)
            self._hub.close(session, last_message)
