"""Sessions of a simulated syncer: its end of every stream, and the membership that each serves;
and the end of the training.

accept ─► open ─ hello ─► admit(stream, member) ─► send(epoch, message)
                            └─► end: closed, dropped, or the learner said goodbye
"""

import math

from chaoslab.core.events import Json
from chaoslab.core.payloads import SyncerStopped
from chaoslab.diloco.syncer.decisions import Contribution, Member, Stop
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.messages import StopMessage
from chaoslab.sim.process import Process
from chaoslab.sim.wires import Stream


class Sessions:
    """Sessions of one life of the syncer."""

    def __init__(self) -> None:
        self._open: dict[int, Stream] = {}
        """Every stream that is open at this end, by its number."""
        self._members: dict[int, Member] = {}
        """Admitted learner of each stream, by its number."""
        self._streams: dict[int, Stream] = {}
        """Stream of each membership that has one, by epoch."""

    def accept(self, stream: Stream) -> None:
        """Accept a stream, whose hello follows."""
        self._open[stream.number] = stream

    def admit(self, stream: Stream, member: Member) -> None:
        """A membership is served by this stream from now on."""
        self._members[stream.number], self._streams[member.epoch] = member, stream

    def member(self, stream: Stream) -> Member | None:
        """The learner that was let in on it."""
        return self._members.get(stream.number)

    def epoch(self, stream: Stream) -> int | None:
        """Epoch of the current membership on a stream."""
        member = self._members.get(stream.number)
        return member.epoch if member and member.epoch in self._streams else None

    def send(self, epoch: int, message: object, size_bytes: int = 0) -> None:
        """Send to a member; do nothing if it has no stream."""
        stream = self._streams.get(epoch)
        if stream is not None and size_bytes:
            stream.down(message, size_bytes)
        elif stream is not None:
            stream.down(message)

    def close(self, stream: Stream, reason: str) -> None:
        """Close this end."""
        self._open.pop(stream.number, None)
        stream.close_above(reason)

    def lost(self, stream: Stream) -> None:
        """The other end is gone."""
        self._open.pop(stream.number, None)

    def end(self, stream: Stream) -> int | None:
        """End the membership on a stream; the epoch that it served."""
        epoch = self.epoch(stream)
        self._members.pop(stream.number, None)
        stream.meter_above = None
        if epoch is not None:
            del self._streams[epoch]
        return epoch

    def fence(self, epoch: int) -> Stream | None:
        """A membership is over: the stream that served it."""
        return self._streams.pop(epoch, None)

    def close_all(self, reason: str) -> None:
        """The process is gone."""
        for stream in tuple(self._open.values()):
            stream.close_above(reason)


def identity(member: Member | Contribution) -> dict[str, Json]:
    """A member in the data of events."""
    return {"learner": member.learner, "incarnation": member.incarnation, "epoch": member.epoch}


_DRAIN_S = 20.0
"""Time limit, as in `diloco.syncer.action_executor`."""


class Ending:
    """End of a simulated training: the stop message to every member, and the wait for their
    goodbyes.

    stop rule or SIGTERM ─► merges published ─► syncer.stopped ─► members leave, within 20 s ─► over
    """

    def __init__(self, process: Process, policy: Policy, sessions: Sessions) -> None:
        self._process, self._policy, self._sessions = process, policy, sessions
        self._asked = ""
        self.reason = ""
        self.until_s = math.inf
        """End of the wait for goodbyes; infinite while training continues."""
        self.has_begun = False
        """Whether members were told to stop."""

    @property
    def was_asked(self) -> bool:
        """Whether SIGTERM was the reason."""
        return self.reason == self._asked

    @property
    def is_over(self) -> bool:
        """Whether all members have left, or had their time, once it has begun."""
        is_late = self._process.now_s >= self.until_s
        return is_late or not self._policy.membership.members

    def ask(self) -> None:
        """SIGTERM: training ends once the open rounds are closed."""
        reason = "the syncer was asked to end"
        if self._policy.met_rule is None:
            self._asked = reason
        self._policy.stop(self._policy.met_rule or reason)

    def begin(self, action: Stop) -> None:
        """Tell all members."""
        self.has_begun, self.until_s = True, self._process.now_s + _DRAIN_S
        self.reason = action.reason
        self._process.say(SyncerStopped, reason=action.reason)
        for member in self._policy.membership.members:
            self._sessions.send(member.epoch, self.message)

    @property
    def message(self) -> StopMessage:
        """Message to members."""
        return StopMessage(self.reason, self._policy.versions)
