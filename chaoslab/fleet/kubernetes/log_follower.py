"""Follower of one pod: waits until it runs, carries its log, says how it ended.

    watch ─► started ─► log, from the last line that was read ─► took ─┐   again after silence
                                 ▲                                     │   or a lost connection
                                 └──────── look: it still runs ────────┘
                                           it ended or is gone ─► the rest of the log ─► ended

Starts come from the one watch of all pods, so that hundreds that wait ask the server for nothing;
only where the watch hears nothing, which may hang, each asks for its own now and then.
Nothing is lost or repeated where the stream breaks: each line has the time at which it was written,
in nanoseconds, and the log is asked for from the second of the last line on. It decides nothing.
"""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import inf
from typing import Final, NamedTuple, Protocol

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.pod_state import Hope, PodState, state_of
from chaoslab.fleet.kubernetes.pod_watch import JobPods
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import PODS

_SILENT_S: Final = 10.0
"""A stream without a byte for this long is opened again: perhaps it hangs."""
_LOOK_S: Final = 1.0
"""Interval in which a waiting follower checks whether it is still wanted."""
_ASK_S: Final = 10.0
"""A watch that is silent for this long may hang: the pod is asked for, as often as that."""
_AGAIN_S: Final = 1.0
_PAUSE_S: Final = 0.1
"""Between a log that ended and the next: the cluster knows of an end a second or two later."""
_REST_S: Final = 60.0
"""Time for which the rest of the log of an ended pod is requested, if it cannot be read."""
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


class Followed(Protocol):
    """Receiver of a pod's output and states. Called on the follower's thread."""

    def pod_started(self, state: PodState) -> None:
        """Its container runs."""

    def pod_printed(self, lines: bytes) -> None:
        """Whole lines of its log."""

    def pod_ended(self, state: PodState | None) -> None:
        """End of its container, after its last line; None: the pod is gone."""

    def pod_failed(self, error: FleetError) -> None:
        """It does not start, or the cluster refuses to show it."""


class LogPosition:
    """Lines of a log that were read, by the times at which they were written."""

    def __init__(self) -> None:
        self._last: tuple[float, str] | None = None
        """Seconds since the epoch, and the fraction in full length."""
        self._of_last = 0
        """Lines of that very time that were read."""
        self._seen_again = 0
        self.since = ""
        """Time from which more is requested, as the API takes it; empty at first."""

    @property
    def last_s(self) -> float | None:
        """Time of the last line, in s since the epoch; None before the first."""
        return None if self._last is None else self._last[0] + float(f"0.{self._last[1]}")

    def reopen(self) -> None:
        """The log is read again, from `since`."""
        self._seen_again = 0

    def new(self, line: bytes) -> bytes | None:
        """The line without its time; None if it was read before, or has no time."""
        stamp, _, text = line.partition(b" ")
        parts = _STAMP.fullmatch(stamp.decode(errors="replace"))
        if parts is None:
            return None  # the end of a line that was cut off
        seconds, fraction, zone = parts.groups()
        at = (datetime.fromisoformat(seconds + zone).timestamp(), (fraction or "").ljust(9, "0"))
        if self._last is not None and at < self._last:
            return None
        if at == self._last:
            self._seen_again += 1
            if self._seen_again <= self._of_last:
                return None
            self._of_last += 1
            return text
        self._last, self._of_last, self._seen_again = at, 1, 1
        self.since = seconds + zone
        return text


def log_lines(
    cluster: Cluster,
    pod: str,
    container: str,
    since: str = "",
    *,
    follow: bool = False,
    is_previous: bool = False,
) -> Iterator[bytes]:
    """Lines of a container's log with their times; `is_previous`: of its last life. FleetError as
    of `Cluster.lines`.
    """
    params = {"timestamps": "true", "container": container}
    if since:
        params["sinceTime"] = since
    if is_previous:
        params["previous"] = "true"
    if follow:
        params["follow"] = "true"
    return cluster.lines(PODS, pod, params, silent_s=_SILENT_S)


class PodOfJob(NamedTuple):
    """Which pod."""

    job: str
    number: int = 0
    """Its number in the Job."""
    pod: str = ""
    """Its name, if it is known already and may be one of several."""


class LogFollower:
    """Follows a pod of one Job until it ended or `close`, on a thread of its own."""

    def __init__(
        self,
        cluster: Cluster,
        which: PodOfJob,
        followed: Followed,
        pods: JobPods,
        *,
        start_s: float,
    ) -> None:
        """`followed` is told of it; `pods`: those of its Job, as the watch sees them."""
        self._cluster, self._followed, self._pods = cluster, followed, pods
        self._job, self._index, self.pod = which
        """`pod`: its name, once it runs."""
        self._start_s = start_s
        self._asked_s = -inf
        self._last: Sequence[PodState] = ()
        self._position = LogPosition()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=which.job, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, at the next look."""
        self._is_closing.set()

    @property
    def is_closing(self) -> bool:
        """Whether it is not wanted any more."""
        return self._is_closing.is_set() or self._cluster.is_closing

    # ---------------------------------------------------------------- on its thread

    def _follow(self) -> None:
        try:
            state = self._await_start()
            if state is None:
                return
            self.pod = state.name
            self._followed.pod_started(state)
            while not self.is_closing:
                self._read(follow=True)
                ended = self._look()
                if ended is not None:
                    self._read_rest()
                    self._followed.pod_ended(None if ended.name == "" else ended)
                    return
                self._is_closing.wait(_PAUSE_S)
        except FleetError as error:
            if not self.is_closing:
                self._followed.pod_failed(error)

    def _await_start(self) -> PodState | None:
        """The pod once its container runs or ran; None if it is not wanted any more.

        FleetError if it cannot start, or takes too long. A pod that is gone before it ran has
        ended.
        """
        deadline, waiting = time.monotonic() + self._start_s, "no pod yet"
        hope, was_there = Hope(), bool(self.pod)
        while not self.is_closing:
            pods = self._found()
            for state in pods:
                if state.has_started:
                    return state
                was_there, waiting = True, state.waiting
                if hope.is_lost(state):
                    raise FleetError(f"the pod {state.name} cannot start: {state.waiting}")
            if was_there and not pods and not self._asked():
                self._followed.pod_ended(None)
                return None
            if time.monotonic() > deadline:
                raise FleetError(
                    f"no pod of the Job {self._job} has started within {self._start_s:g} s "
                    f"({waiting}): give it more time with fleet.start_within, or free the cluster"
                )
            self._pods.wait(_LOOK_S)
        return None

    def _found(self) -> Sequence[PodState]:
        """The pods of the Job with this index, or the pod of this name."""
        if self._pods.silent_s < _ASK_S:
            return self._named(self._pods.there)
        if time.monotonic() - self._asked_s > _ASK_S:
            self._last, self._asked_s = self._asked(), time.monotonic()
        return self._last

    def _asked(self) -> Sequence[PodState]:
        """The pods that the server lists now."""
        return self._named(state_of(one) for one in self._cluster.pods(f"job-name={self._job}"))

    def _named(self, pods: Iterable[PodState]) -> Sequence[PodState]:
        return [one for one in pods if self.pod in ("", one.name) and one.index == self._index]

    def _read_rest(self) -> None:
        """Read the rest; not for ever, because its machine may be gone."""
        deadline = time.monotonic() + _REST_S
        while not self._read(follow=False):
            if self.is_closing or time.monotonic() > deadline:
                return

    def _read(self, *, follow: bool) -> bool:
        """Carry what is new in the log; returns when the stream ends or is silent.

        Whether the server showed it to its end.
        """
        position, pod = self._position, self.pod
        position.reopen()
        try:
            for line in log_lines(self._cluster, pod, CONTAINER, position.since, follow=follow):
                if self.is_closing:
                    return False
                if (text := position.new(line)) is not None:
                    self._followed.pod_printed(text + b"\n")
        except Missing:
            return True
        except FleetError:  # `_look` tells whether the pod is gone or the server away
            self._is_closing.wait(_AGAIN_S)
            return False
        return True

    def _look(self) -> PodState | None:
        """Its end, without a name if it is gone; None while it runs or is not known."""
        try:
            state = state_of(self._cluster.pod(self.pod))
        except Missing:
            return PodState(name="")
        return state if state.has_ended else None
