"""Which stream belongs to which membership, and what goes out to a member by its stream.

    hello ─► admit(session, epoch) ─► send(epoch) ══► learner
                 │                └─► close(epoch): the membership has ended, tell it so
                 └─► forget(session): the stream has ended

A member without a stream hears nothing, and nobody waits for it. Whether a membership begins or
ends is not decided here. For the syncer's one thread.
"""

from collections.abc import Hashable

from chaoslab.diloco.syncer.membership import Member
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.service import Hub


class Sessions:
    """All streams that said hello and were let in."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._epochs: dict[int, int] = {}
        """session -> epoch, for the sessions that said hello"""
        self._sessions: dict[int, int] = {}
        self._members: dict[int, Member] = {}
        """session -> the membership that began on it, ended or not, until the stream ends"""
        self._held: dict[int, tuple[int, ...]] = {}
        """epoch -> versions the learner held when it joined"""

    def admit(self, session: int, member: Member, held: tuple[int, ...]) -> None:
        """A learner that holds these versions was let in on this stream."""
        self._epochs[session], self._sessions[member.epoch] = member.epoch, session
        self._members[session] = member
        self._held[member.epoch] = held

    def epoch(self, session: int) -> int | None:
        """The membership that a stream speaks for."""
        return self._epochs.get(session)

    def member(self, session: int) -> Member | None:
        """Who was let in on a stream, also when that membership has ended; None before."""
        return self._members.get(session)

    def held(self, epoch: int) -> tuple[int, ...]:
        """The versions that the learner held when it joined; empty for none."""
        return self._held.get(epoch, ())

    def send(self, epoch: int, message: pb.ToLearner) -> None:
        """Send to a member, if it has a stream."""
        session = self._sessions.get(epoch)
        if session is not None:
            self._hub.send(session, message)

    def send_payload(
        self, epoch: int, message: pb.ToLearner, payload: memoryview, *, key: Hashable
    ) -> None:
        """Send a message with its payload to a member, if it has a stream."""
        session = self._sessions.get(epoch)
        if session is not None:
            self._hub.send_payload(session, message, payload, key=key)

    def forget(self, session: int) -> int | None:
        """The stream has ended; the membership that it spoke for."""
        self._members.pop(session, None)
        epoch = self._epochs.pop(session, None)
        if epoch is not None:
            self._sessions.pop(epoch, None)
        return epoch

    def close(self, epoch: int, farewell: pb.ToLearner) -> None:
        """The membership has ended: a last word on its stream, if it has one."""
        self._held.pop(epoch, None)
        session = self._sessions.pop(epoch, None)
        if session is not None:
            self._epochs.pop(session, None)
            self._hub.close(session, farewell)
