"""Log of one life of a container in a pod, followed until that life has ended.

    adopt ─► past_of ─► LogPosition ─► a thread: log ─► the bytes that `taken` returns
                                        └ ended, in its pod or with it ─► `has_ended`, `ending`

A log is asked for by pod and container, so it may be that of the next life, which the cluster has
started in the same pod: whose it is, is asked once more before its first line is taken.
"""

import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached.past import Past
from chaoslab.fleet.attached.pod_search import NodePod
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.log_follower import LogPosition, log_lines
from chaoslab.fleet.kubernetes.pod_state import PodState, previous_of, state_of
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.nodes.arrivals import drained

_AGAIN_S: Final = 0.2
_AWAY_S: Final = 1.0
_REST_S: Final = 20.0
"""Time for which the rest of the log of an ended life is requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A life of a container, as the cluster shows it."""

    state: PodState | None = None
    """Final state; None: the container is gone, and its end is not known."""
    is_previous: bool = False
    """Whether the cluster has begun the next one in its pod."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state is None or self.state.has_ended


def look(cluster: Cluster, node: NodePod) -> Life:
    """The life of the container in which a node was found. FleetError: there is no answer."""
    try:
        pod = pod_of(cluster.get(PODS, node.pod))
    except Missing:
        return Life()
    now, previous = state_of(pod, node.container), previous_of(pod, node.container)
    if now.uid != node.state.uid:
        return Life()  # another pod of the same name
    if previous is not None and previous.container == node.state.container:
        return Life(state=previous, is_previous=True)
    return Life(state=now) if now.container == node.state.container else Life()


def past_of(cluster: Cluster, node: NodePod, position: LogPosition) -> Past:
    """Output until now, and its position. FleetError if the container has ended meanwhile."""
    past = Past()
    for line in log_lines(cluster, node.pod, node.container):
        if (text := position.new(line)) is not None:
            past.take(text + b"\n")
    if look(cluster, node).is_over:
        raise FleetError(f"{node.name} (pod {node.pod}) has ended")
    return past


class PodLog:
    """Follows from its making until the life has ended, or `close`."""

    def __init__(self, cluster: Cluster, node: NodePod, position: LogPosition) -> None:
        self._cluster, self._node, self._position = cluster, node, position
        self._chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._guard = threading.RLock()
        """Guards the position: `catch_up` reads the same log a second time."""
        self._is_closing = threading.Event()
        self.has_ended = threading.Event()
        self.ending: PodState | None = None
        """Final state, once it has ended; None if that was not seen."""
        threading.Thread(target=self._follow, name=f"log of {node.pod}", daemon=True).start()

    @property
    def ended_s(self) -> float | None:
        """Time of its end by the clock of its machine, or of its last line if that is not known."""
        ended = self.ending
        known = None if ended is None else ended.ended_s
        return self._position.last_s if known is None else known

    def close(self) -> None:
        """Stop following."""
        self._is_closing.set()

    def taken(self) -> bytes:
        """Output since the last call; does not wait."""
        return drained(self._chunks)

    def catch_up(self) -> None:
        """Have what is written by now, which a busy cluster reports some seconds later."""
        with self._guard, suppress(FleetError):
            self._read(Life(state=self._node.state), follow=False)
            self._position.reopen()  # the thread sees the last lines once more

    # ---------------------------------------------------------------- on its thread

    @property
    def _is_closed(self) -> bool:
        return self._is_closing.is_set() or self._cluster.is_closing

    def _follow(self) -> None:
        while not self._is_closed:
            try:
                life = look(self._cluster, self._node)
                if life.is_over:
                    self._read_rest()
                    self.ending = life.state
                    self.has_ended.set()
                    return
                self._read(life, follow=True)
            except FleetError:  # the server is away, or the log is
                self._is_closing.wait(_AWAY_S)
            self._is_closing.wait(_AGAIN_S)

    def _read_rest(self) -> None:
        """Unless it is not kept any more; not for ever, for its machine may be gone."""
        deadline = time.monotonic() + _REST_S
        while not self._is_closed and time.monotonic() < deadline:
            with suppress(FleetError):
                life = look(self._cluster, self._node)
                if life.state is None or self._read(life, follow=False):
                    return
            self._is_closing.wait(_AGAIN_S)

    def _read(self, life: Life, *, follow: bool) -> bool:
        """Take what is new in the log of a life; whether it was that of this life, and not closed.

        FleetError: it broke off.
        """
        with self._guard:
            self._position.reopen()
            since = self._position.since
        is_its_own = False
        for line in log_lines(
            self._cluster, self._node.pod, self._node.container, since,
            follow=follow, is_previous=life.is_previous,
        ):  # fmt: skip
            is_its_own = is_its_own or self._is_still(life)
            if self._is_closed or not is_its_own:
                return False
            with self._guard:
                if (text := self._position.new(line)) is not None:
                    self._chunks.put(text + b"\n")
        return True

    def _is_still(self, life: Life) -> bool:
        """Whether the log that was asked for is that of this life."""
        now = look(self._cluster, self._node)
        return now.state is not None and now.is_previous == life.is_previous
