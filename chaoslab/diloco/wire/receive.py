"""Receiving on either end of a stream: frames in, messages and the reason for the end out.

    frames ─► Assembler ─► Pings.handle, or deliver(Received) …  ─► Closed

`METHOD` and `TOKEN_KEY` are the names that both ends use in grpc.
"""

from collections.abc import Callable, Iterable

import grpc

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import Assembler, GarbledFrame, M
from chaoslab.diloco.wire.mailbox import Inbox
from chaoslab.diloco.wire.pings import Pings
from chaoslab.diloco.wire.streams import Arrival, Closed, Limits, Received, StreamEvent

METHOD = "/chaoslab.Syncer/Attach"
TOKEN_KEY = "chaoslab-token-bin"
"""Metadata key of the call that holds the token, as UTF-8."""


def receive(
    frames: Iterable[bytes],
    assembler: Assembler[M],
    pings: Pings[pb.FromLearner] | Pings[pb.ToLearner],
    deliver: Callable[[StreamEvent[M], int], None],
) -> Closed:
    """Deliver every message until the stream ends; return why it ended."""
    try:
        for frame in frames:
            message, payload = assembler.take(frame) or (None, None)
            size = len(payload or b"")
            pings.timer.frame(len(frame), filled=assembler.underway, completed=size)
            if message is not None and not pings.handle(message):
                deliver(Received(message, payload), size)
    except GarbledFrame as error:
        return Closed(str(error), is_garbled=True)
    except grpc.RpcError as error:
        return Closed(_describe_end(error))
    return Closed("the other end closed the stream")


def _describe_end(error: grpc.RpcError) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name.lower()}: {error.details()}"
    return "the connection was lost, or the learner broke the stream off"


def inbox(limits: Limits) -> Inbox[Arrival[M]]:
    return Inbox(items_max=limits.arrivals_max, bytes_max=limits.arrivals_bytes_max)
