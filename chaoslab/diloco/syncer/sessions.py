"""Sessions: the stream of each membership, for sending to members.

    hello ─► admit(session, epoch) ─► send(epoch) ══► learner
                 │                └─► close(epoch): the membership ended; send it a last message
                 └─► forget(session): the stream ended

Messages to a member without a stream are dropped. When memberships begin and end is decided
elsewhere. For the syncer's main thread.
"""

from collections.abc import Hashable
from typing import Protocol

from chaoslab.diloco.syncer.decisions import Member
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.identity import Refusals
from chaoslab.diloco.wire.mailbox import Arrival, StreamPings


class Streams(Protocol):
    """The syncer's end of all streams: `wire.hub.Hub`, or that of a simulation."""

    refusals: Refusals

    async def next_arrival(self, wait_s: float) -> Arrival[pb.FromLearner] | None:
        """What has arrived first; None if nothing does so long, or something else is to be done."""
        ...

    def admit(self, session: int, payload_bytes_max: int | None = None) -> None: ...
    def send(self, session: int, message: pb.ToLearner) -> None: ...
    def send_payload(
        self, session: int, message: pb.ToLearner, payload: memoryview, *, key: Hashable
    ) -> None: ...
    def close(self, session: int, final_message: pb.ToLearner | None = None) -> None: ...
    def pings(self, session: int) -> StreamPings | None: ...


class Sessions:
    """Streams whose hello was accepted."""

    def __init__(self, hub: Streams) -> None:
        self._hub = hub
        self._members: dict[int, Member] = {}
        """session -> the membership that began on it, ended or not, until the stream ends"""
        self._sessions: dict[int, int] = {}
        """epoch -> session, of the current memberships"""

    def admit(self, session: int, member: Member) -> None:
        """Register the stream of a new member."""
        self._members[session], self._sessions[member.epoch] = member, session

    def epoch(self, session: int) -> int | None:
        """Epoch of the current membership on a stream; None without one."""
        member = self._members.get(session)
        return member.epoch if member and member.epoch in self._sessions else None

    def member(self, session: int) -> Member | None:
        """Member that was admitted on a stream, even if that membership has ended; else None."""
        return self._members.get(session)

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
        epoch = self.epoch(session)
        self._members.pop(session, None)
        if epoch is not None:
            del self._sessions[epoch]
        return epoch

    def close(self, epoch: int, last_message: pb.ToLearner) -> None:
        """Send a last message to a membership that has ended, and close its stream."""
        session = self._sessions.pop(epoch, None)
        if session is not None:
            self._hub.close(session, last_message)
