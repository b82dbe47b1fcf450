"""A learner without a model: the real messenger and wire, and the counting of the real learner.

    step ─► boundary ─► Messenger ══► syncer        ten tokens a step, deltas of ones
      ▲── adopt ◄── take ◄──┘

Its training thread is the test's own, or a thread of its own with `running`.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.learner.counters import Counters, FragmentCounters
from chaoslab.diloco.learner.exchange import Inbox, Snapshot
from chaoslab.diloco.learner.link import Backoff
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.payloads import ArrayPayloads
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.streams import Limits
from tests.diloco import known
from tests.diloco.hand_learner import SPECS, Told

PATIENCE_S = 60.0
TOKENS = 10


class LittleLearner:
    """Joins at `address`. `on_push` is called on the sender's thread when a push is about to go."""

    def __init__(
        self,
        address: str,
        name: str = "learner-0",
        *,
        specs: Any = SPECS,
        limits: Limits | None = None,
        pause_s: float = 0.01,
    ) -> None:
        self.name = name
        self.told = Told()
        self.on_push: Callable[[], None] = lambda: None
        self.connections: list[Connection] = []
        self.messenger = Messenger(
            lambda: self._connect(address, limits),
            whose={"learner": name, "incarnation": 1},
            payloads=ArrayPayloads(specs), emit=self.told.emit,
        )  # fmt: skip
        self.messenger._link.backoff = Backoff(
            random.Random(name), first_s=pause_s, cap_s=2 * pause_s
        )
        self.step_count = self.tokens = 0
        self.sizes: list[int] = []
        self.versions: list[int] = []
        self.steps_from: list[int] = []
        self.since_tokens: list[int] = []
        self.committed: list[int] = []
        self.discarded: list[int] = []
        self.inbox = Inbox()

    def _connect(self, address: str, limits: Limits | None) -> Connection:
        self.connections.append(
            Connection(address, token=known.TOKENS.of(self.name), limits=limits)
        )
        return self.connections[-1]

    def of(self, kind: Kind) -> list[dict[str, Json]]:
        return self.told.of(kind)

    # ---------------------------------------------------------------- joining

    def join(self) -> None:
        """Dial, and come to hold every fragment; hands in zeros if asked to."""
        self.messenger.start()
        self._until(lambda: self.inbox.joined is not None)
        joined = self.inbox.joined
        assert joined is not None
        self.sizes = [fragment.size for fragment in joined.layout.fragments]
        count = len(self.sizes)
        self.versions, self.steps_from, self.since_tokens = [-1] * count, [0] * count, [0] * count
        self.committed, self.discarded = [0] * count, [0] * count
        if joined.source == "initial":
            self.messenger.send_initial([np.zeros(size, np.float32) for size in self.sizes])
        self._until(lambda: self._adopt() or min(self.versions) >= 0)
        self._boundary()

    def _until(self, is_done: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_done():
            assert time.monotonic() < deadline_s, f"{self.name} waits in vain: {self.told._said}"
            run_now(self.messenger.wait(0.05))
            self.inbox.update(self.messenger.take())

    # ---------------------------------------------------------------- training

    def step(self) -> None:
        """Adopt what arrived, make a step, leave a snapshot."""
        self.inbox.update(self.messenger.take())
        self._adopt()
        self.step_count += 1
        self.tokens += TOKENS
        self._boundary()

    @contextmanager
    def running(self, every_s: float = 0.002) -> Iterator[None]:
        """Step on a thread of its own meanwhile."""
        over = threading.Event()

        def train() -> None:
            while not over.wait(every_s):
                self.step()

        thread = threading.Thread(target=train, daemon=True)
        thread.start()
        yield
        over.set()
        thread.join(PATIENCE_S)

    def leave(self) -> None:
        self.messenger.leave("the test is over")

    def _adopt(self) -> None:
        for index, adoption in list(self.inbox.adoptions.items()):
            del self.inbox.adoptions[index]
            if adoption.version <= self.versions[index]:
                continue
            work = self.tokens - self.since_tokens[index]
            committed = adoption.committed_tokens - self.committed[index]
            self.versions[index] = adoption.version
            self.steps_from[index] = self.step_count
            self.since_tokens[index] = self.tokens
            self.committed[index] = adoption.committed_tokens
            self.discarded[index] += work - committed

    def _boundary(self) -> None:
        self.messenger.boundary(
            Snapshot(
                Counters(
                    step=self.step_count,
                    tokens=self.tokens,
                    data_position=self.step_count,
                    loss=1.0,
                    step_s=0.01,
                    fragments=tuple(
                        map(FragmentCounters, self.versions, self.steps_from, self.since_tokens)
                    ),
                ),
                delta=self._delta,
                pack=lambda: b"a checkpoint",
                moments_digest=lambda _: "",
            )
        )

    def _delta(self, fragment: int) -> FloatArray:
        self.on_push()
        return np.ones(self.sizes[fragment], np.float32)


@contextmanager
def training(address: str, name: str = "learner-0", **more: Any) -> Iterator[LittleLearner]:
    """One that has joined, steps meanwhile, and leaves."""
    learner = LittleLearner(address, name, **more)
    learner.join()
    with learner.running():
        yield learner
    learner.leave()
