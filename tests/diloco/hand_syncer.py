"""A syncer played by hand over the real wire, for tests of the learner's side.

It knows the protocol from `wire.proto` alone, decides nothing and merges nothing: the test says
what it sends, and sees what arrives, stream by stream.
"""

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from chaoslab.diloco.model.codec import digest, encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import FloatArray, TensorSpec
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Received
from chaoslab.diloco.wire.streams import Limits
from tests.diloco.known import TOKENS

PATIENCE_S = 60.0
SPECS = (
    TensorSpec(name="embed", shape=(4, 3), is_averaged=True),
    TensorSpec(name="head", shape=(5,), is_averaged=False),
)
SIZES = (12, 5)
"""Of the two fragments of `SPECS`."""
RULES = Settings(learners=("learner-0", "learner-1"), fragments=2, compression="f32")


class HandSyncer:
    """One hub. `session` is the newest stream that said hello; messages go there."""

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        *,
        limits: Limits | None = None,
        rules: Settings = RULES,
        sizes: Sequence[int] = SIZES,
    ) -> None:
        self.hub = Hub(address, tokens=TOKENS, limits=limits)
        self.address = self.hub.start()
        self.rules = rules
        self.sizes = sizes
        self.session = 0
        self.epoch = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hub.stop()

    # ---------------------------------------------------------------- hearing

    def next(self, within_s: float = PATIENCE_S) -> Arrival[pb.FromLearner] | None:
        """The next arrival; None when nothing came in time."""
        try:
            return self.hub.arrivals.get(timeout=within_s)
        except queue.Empty:
            return None

    def hear(
        self, body: str, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[Any, bytes | None]:
        """The next message with this body, and its payload; others are passed over.

        `meanwhile` is called again and again while nothing comes.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            meanwhile()
            arrival = self.next(0.05)
            if arrival is None or not isinstance(arrival.event, Received):
                continue
            if arrival.event.message.WhichOneof("body") == body:
                self.session = arrival.session
                payload = arrival.event.payload
                whole = None if payload is None else bytes(payload)
                return getattr(arrival.event.message, body), whole
        raise AssertionError(f"no {body} within {PATIENCE_S} s")

    def hear_end(self) -> str:
        """Why the stream ended."""
        while (arrival := self.next()) is not None:
            if isinstance(arrival.event, Closed):
                return arrival.event.reason
        raise AssertionError("the stream did not end")

    def opens_within(self, seconds: float) -> bool:
        """Whether anybody connects in that time."""
        deadline_s = time.monotonic() + seconds
        while (left_s := deadline_s - time.monotonic()) > 0:
            event = (arrival := self.next(left_s)) and arrival.event
            if isinstance(event, Received) and event.message.HasField("hello"):
                return True
        return False

    # ---------------------------------------------------------------- saying

    def say(self, **body: Any) -> None:
        """A message without payload, under the present epoch."""
        self.hub.send(self.session, pb.ToLearner(epoch=self.epoch, **body))

    def welcome(self, source: str = "syncer", *, is_again: bool = False, **more: Any) -> None:
        """A new membership, the next epoch; or another source for the present one."""
        self.epoch += not is_again
        self.hub.admit(self.session)
        fields = {"source": source, "settings_json": self.rules.to_json(), **more}
        self.say(welcome=pb.Welcome(**fields))

    def admit(
        self, source: str = "syncer", meanwhile: Callable[[], None] = lambda: None, **more: Any
    ) -> Any:
        """Hear a hello and welcome it; the hello."""
        hello, _ = self.hear("hello", meanwhile)
        self.welcome(source, **more)
        return hello

    def publish(
        self, fragment: int, version: int, values: FloatArray | None = None, *, committed: int = 0
    ) -> FloatArray:
        """Send a version of a fragment; the values that were sent."""
        if values is None:
            values = np.full(self.sizes[fragment], 10 * version + fragment, np.float32)
        header = pb.Fragment(
            fragment=fragment, version=version, round=version, codec="f32",
            committed_tokens=committed, digest=digest(values),
        )  # fmt: skip
        self.hub.send_payload(
            self.session,
            pb.ToLearner(epoch=self.epoch, fragment=header),
            encode(values, Codec.F32),
            key=object(),
        )
        return values

    def pull(self, fragment: int, base_version: int, *, number: int = 1) -> None:
        """Ask for a fragment."""
        self.say(pull=pb.Pull(round=number, fragment=fragment, base_version=base_version))

    def fence(self, reason: str = "no_progress") -> None:
        """End the membership, and with it the stream."""
        fenced = pb.ToLearner(epoch=self.epoch, fenced=pb.Fenced(reason=reason))
        self.hub.close(self.session, fenced)
