"""A learner played by hand over the real wire, and a real syncer in a thread, for tests.

The hand learner knows the protocol only from `wire.proto`: it can behave, and it can lie.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from chaoslab.core import events
from chaoslab.core.events import Kind, Payload, data_of, kind_of
from chaoslab.diloco.model.codec import encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import TensorSpec, specs_to_json
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.syncer import Syncer
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.work import Work
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.mailbox import Closed, Received
from chaoslab.diloco.wire.streams import Limits
from chaoslab.diloco.wire.tls import Tls
from tests.diloco.known import NODE, TOKENS
from tests.payload_reading import read_whole

PATIENCE_S = 60.0
SPECS = (
    TensorSpec(name="embed", shape=(4, 3), is_averaged=True),
    TensorSpec(name="head", shape=(5,), is_averaged=False),
)
SIZES = (12, 5)
SUSPECT_S, DROP_S = 100.0, 200.0


class Told:
    """Everything that a node said, each event as a node prints it."""

    def __init__(self) -> None:
        self._said: list[tuple[Kind, dict[str, Any]]] = []
        self._changed = threading.Condition()
        self.when: dict[Kind, Callable[[], None]] = {}
        """What to do on the syncer's own thread when it says something of this kind."""

    def emit(self, said: Payload) -> None:
        kind, data = kind_of(type(said)), events.decode(events.encode(data_of(said)))
        assert isinstance(data, dict)
        with self._changed:
            self._said.append((kind, data))
            self._changed.notify_all()
        self.when.get(kind, lambda: None)()

    def of(self, kind: Kind) -> list[dict[str, Any]]:
        with self._changed:
            found = [data for told, data in self._said if told is kind]
        for data in found:
            read_whole(kind, data)
        return found

    def wait(self, kind: Kind, **wanted: Any) -> dict[str, Any]:
        """The first event of a kind with these values; fails after `PATIENCE_S`."""
        deadline_s = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                for told, data in self._said:
                    if told is kind and all(data.get(k) == v for k, v in wanted.items()):
                        read_whole(kind, data)
                        return data
                left_s = deadline_s - time.monotonic()
                assert left_s > 0, f"no {kind} with {wanted}; told: {self._said[-12:]}"
                self._changed.wait(left_s)


class RunningSyncer:
    def __init__(
        self,
        directory: Path,
        settings: Settings,
        limits: Limits | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.told = Told()
        self.hub = Hub("127.0.0.1:0", tokens=TOKENS, limits=limits, tls=tls)
        store = SyncerStore(directory / "state", durable=False)
        self.syncer_state = SyncerState(settings, store, snapshots=directory / "snapshots")
        self.learners: list[HandLearner] = []
        """Those that dialled; they leave before it ends."""
        self.skipped_s = 0.0
        """How far its clock is ahead of the machine's."""
        self.when_read: Callable[[], None] = lambda: None
        """What to do, on the thread that reads it, before its clock is read."""
        self.syncer = Syncer(
            self.hub,
            self.syncer_state,
            Work(self.hub.arrivals.wake),
            emit=self.told.emit,
            now=self._now,
            phases=Phases(self.told.emit, NODE),
        )
        self.address = self.hub.start()
        self.thread = threading.Thread(
            target=lambda: run_now(self.syncer.run(self.address)), daemon=True
        )
        self.thread.start()

    def _now(self) -> float:
        self.when_read()
        return time.monotonic() + self.skipped_s

    def stop(self) -> None:
        for learner in self.learners:
            learner.close()
        self.syncer.end("the test is over")
        self.thread.join(PATIENCE_S)
        self.hub.stop()
        self.syncer_state.close()
        assert not self.thread.is_alive(), "the syncer did not end"


@contextmanager
def running_syncer(
    directory: Path, *, limits: Limits | None = None, tls: Tls | None = None, **rules: Any
) -> Iterator[RunningSyncer]:
    """It is slow to suspect: a busy machine may hold up a learner of a test for seconds."""
    settings = Settings(**{
        "learners": ("learner-0", "learner-1", "learner-2"), "fragments": 2, "sync_every": 4,
        "overlap": 1, "compression": "f32", "suspect_after_s": SUSPECT_S, "drop_after_s": DROP_S,
        **rules,
    })  # fmt: skip
    running = RunningSyncer(directory, settings, limits, tls)
    try:
        yield running
    finally:
        running.stop()


class HandLearner:
    def __init__(
        self, syncer: RunningSyncer, name: str, incarnation: int = 1, tls: Tls | None = None
    ) -> None:
        self.syncer = syncer
        self.name, self.incarnation = name, incarnation
        self.epoch = 0
        self.step = 0
        self.since = [0, 0]
        self.versions = [-1, -1]
        self.connection = Connection(syncer.address, token=TOKENS.of(name), tls=tls)
        self.connection.open()
        syncer.learners.append(self)

    def hello(self, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "learner": self.name, "incarnation": self.incarnation,
            "specs_json": specs_to_json(SPECS), "process": hash(self.name) & 0xFFFF,
        }  # fmt: skip
        self.connection.send(pb.FromLearner(hello=pb.Hello(**{**fields, **changes})))

    def hear(self, body: str) -> tuple[Any, memoryview | None]:
        """The next message with this body; others are taken in or passed over."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{self.name} never heard {body}"
            what = self.connection.arrivals.get(timeout=left_s).event
            if isinstance(what, Closed):
                assert body == "closed", f"{self.name} was cut off: {what.reason}"
                return what, None
            if not isinstance(what, Received) or not isinstance(what.message, pb.ToLearner):
                continue
            kind = what.message.WhichOneof("body")
            if kind == "welcome":
                self.epoch = what.message.epoch
            if kind == "fragment":
                self.versions[what.message.fragment.fragment] = what.message.fragment.version
                self.since[what.message.fragment.fragment] = self.step
            if kind == body:
                return getattr(what.message, kind), what.payload

    def join(self) -> None:
        """Say hello and come to hold every fragment, handing in zeros if asked to."""
        self.hello()
        welcome, _ = self.hear("welcome")
        if welcome.source == "initial":
            for index, size in enumerate(SIZES):
                self.push(pb.Push(fragment=index, base_version=-1), np.zeros(size, np.float32))
        while min(self.versions) < 0:
            self.hear("fragment")
        self.report()

    def train(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.step += 1
            self.report()

    def report(self, **lies: Any) -> None:
        counts = [self.step - since for since in self.since]
        fields: dict[str, Any] = {
            "step": self.step, "tokens": 10 * self.step, "c_steps": counts,
            "c_tokens": [10 * count for count in counts], "versions": self.versions, "loss": 1.0,
            "step_s": 0.01, "data_position": self.step,
        }  # fmt: skip
        progress = pb.Progress(**{**fields, **lies})
        self.connection.send(pb.FromLearner(epoch=self.epoch, progress=progress))

    def pulled(self, train: Callable[[], None] | None = None) -> pb.Pull:
        """Train until the syncer asks for a fragment."""
        (train or (lambda: self.train(8)))()
        pull, _ = self.hear("pull")
        assert isinstance(pull, pb.Pull)
        return pull

    def answer(self, pull: pb.Pull, **lies: Any) -> pb.Push:
        """The honest push for a pull, changed by `lies`."""
        since = self.since[pull.fragment]
        fields: dict[str, Any] = {
            "round": pull.round, "fragment": pull.fragment, "base_version": pull.base_version,
            "step": self.step, "c_steps": self.step - since, "c_tokens": 10 * (self.step - since),
            "tokens_from": 10 * since, "tokens_to": 10 * self.step, "codec": "f32",
        }  # fmt: skip
        return pb.Push(**{**fields, **lies})

    def push(self, push: pb.Push, delta: np.ndarray[Any, Any], codec: Codec = Codec.F32) -> None:
        self.push_bytes(push, bytes(encode(delta.astype(np.float32), codec)))

    def push_bytes(self, push: pb.Push, payload: bytes) -> None:
        message = pb.FromLearner(epoch=self.epoch, push=push)
        self.connection.send_payload(message, payload, key=object())

    def close(self) -> None:
        self.connection.close()


def joined(syncer: RunningSyncer, name: str = "learner-0", **more: Any) -> HandLearner:
    """One that holds every fragment."""
    learner = HandLearner(syncer, name, **more)
    learner.join()
    return learner
