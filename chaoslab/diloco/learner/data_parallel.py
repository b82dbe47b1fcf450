"""Data parallelism: a learner averages its gradients with those of others in every step.

    gradients(batch) ─► sum over the communicator ─► update: the same on all of its learners
                              │
                              └─ a learner is lost: CommunicatorLost, and no update

The syncer says which learners belong to a communicator (`syncer.communicators`). The sums are
computed by a process of their own (`all_reduce`): a communicator that has ended costs that process,
and the next one begins with another, which has been started meanwhile.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from chaoslab.diloco.learner.hosts.channel import Order, send
from chaoslab.diloco.learner.hosts.runtime import free_address
from chaoslab.diloco.learner.inner_steps import Inner, LearnerState
from chaoslab.diloco.learner.replica import CommunicatorLost
from chaoslab.diloco.learner.round_wait import TURN_S
from chaoslab.diloco.model.task import Batch
from chaoslab.diloco.wire import wire_pb2 as pb

_END_S = 10.0
_T = TypeVar("_T", np.float32, np.uint32)


class DataParallel:
    """A learner's part in communicators, one at a time. For the training thread alone.

    `may_wait` is called about every 0.1 s while this waits for other learners, and says whether it
    may go on; after a False, CommunicatorLost is raised.
    """

    def __init__(self, inner: Inner, interface: str, *, cache: Path | None = None) -> None:
        """`interface`: own address at which other learners find this one, without a port."""
        self._inner, self._interface = inner, interface
        self._cache = cache
        self.may_wait: Callable[[], bool] = lambda: True
        self.number = 0
        """Number of the latest communicator; 0: there was none."""
        self.is_formed = False
        """Whether it is in a communicator, or about to enter one."""
        self.address = free_address(interface)
        """host:port at which the others would meet, if it was rank 0 of the next one."""
        self._size = 1
        self._process: _Process | None = None
        self._next_process: _Process | None = _Process(cache)
        self.waited_s = 0.0
        """Seconds that the latest step spent with the others."""
        self.received_bytes: int | None = 0
        """What has arrived from the others, of all communicators, as of the latest sum that was
        completed; None if it is not counted."""
        self._process_bytes = 0
        """Share of `received_bytes` that arrived at the present process."""

    @property
    def meeting(self) -> str:
        """`address` while it is in no communicator, else empty."""
        return "" if self.is_formed else self.address

    def join(self, order: pb.Communicator, payload: bytes) -> bytes:
        """Form a communicator; the `payload` of rank 0. Those of all must be of the same length.

        CommunicatorLost if it is not formed.
        """
        self.leave()
        self.number, self._size, self.is_formed = order.number, order.size, True
        if order.size > 1:
            self._process, self._next_process = self._next_process or _Process(self._cache), None
            self._process_bytes = 0
            self._process.expect(self.may_wait)  # its imports are done
            facts = {"at": order.address, "size": order.size, "rank": order.rank}
            self._process.send(Order(do="initialize", facts=facts))
            self._process.expect(self.may_wait)
        words = np.frombuffer(payload + bytes(-len(payload) % 4), np.uint32)
        words = self._sum(words if order.rank == 0 else np.zeros_like(words))
        if self._next_process is None:
            self._next_process = _Process(self._cache)
        return words.tobytes()[: len(payload)]

    def step(self, state: LearnerState, batch: Batch) -> tuple[LearnerState, jax.Array]:
        """As `Inner.step`, with the mean of the gradients, and of the losses, of all learners.

        CommunicatorLost if another one is lost, or this one is called back, before they are there.
        """
        mine = self._inner.gradients(state, batch)
        began_s = time.monotonic()
        total = self._sum(mine)
        self.waited_s = time.monotonic() - began_s
        return self._inner.update(state, total / np.float32(self._size))

    def leave(self) -> None:
        """Leave the communicator, if it is in one; others can do nothing more with it either."""
        if self.is_formed:
            self.address = free_address(self._interface)
        self.is_formed = False
        if self._process is not None:
            self._process.end()
            self._process = None
        if self._next_process is None:
            self._next_process = _Process(self._cache)

    def close(self) -> None:
        """End all processes."""
        for process in (self._process, self._next_process):
            if process is not None:
                process.end()
        self._process = self._next_process = None

    def _sum(self, mine: NDArray[_T]) -> NDArray[_T]:
        if self._process is None:
            return mine
        self._process.send(Order(do="sum", facts={}, arrays=(mine,)))
        total = np.frombuffer(self._process.expect(self.may_wait), mine.dtype)
        self._count(json.loads(self._process.expect(self.may_wait)))
        return total

    def _count(self, process_bytes: int | None) -> None:
        """Note what has arrived at the present process by now."""
        if process_bytes is None or self.received_bytes is None:
            self.received_bytes = None
            return
        more = max(0, process_bytes - self._process_bytes)  # less: a connection was closed
        self.received_bytes += more
        self._process_bytes += more


class _Process:
    """A process of `all_reduce`."""

    def __init__(self, cache: Path | None) -> None:
        mine, other = socket.socketpair()
        with other:
            command = [sys.executable, "-m", "chaoslab.diloco.learner.all_reduce"]
            self._program = subprocess.Popen(
                [*command, str(other.fileno()), str(os.getpid()), *([str(cache)] if cache else [])],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output is for events
            )
        self._connection = Connection(mine.detach())

    def send(self, order: Order) -> None:
        try:
            send(order, [self._connection])
        except OSError as error:
            raise CommunicatorLost(f"its process has ended: {error}") from error

    def expect(self, may_wait: Callable[[], bool]) -> bytes:
        """The next answer."""
        try:
            while not self._connection.poll(TURN_S):
                if not may_wait():
                    raise CommunicatorLost("this learner was called back")
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise CommunicatorLost("its process has lost another one, or ended") from error

    def end(self) -> None:
        self._program.kill()
        self._program.wait(_END_S)
        with suppress(OSError):
            self._connection.close()
