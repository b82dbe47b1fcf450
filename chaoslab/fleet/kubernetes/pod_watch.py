"""Watch of pods by their labels: what the cluster says of them, whatever caused it.

    start    its container runs            die       its container ended: exit code, reason
    oom      the kernel killed it          evict     the cluster takes it away, and why
    delete   it was deleted                gone      there is no such pod any more
    no_image its image cannot be had, and why

A pod by which the cluster replaced another one of the same Job is the node's next incarnation.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.incarnation_files import end_by_code
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.nodes.arrivals import Arrivals

_PATIENCE_S: Final = 3.0


class PodReader:
    """Reader of a pod's states. Called on the watch's thread."""

    def state(self, pod: Mapping[str, Json]) -> PodState:
        """Present state by the cluster."""
        return state_of(pod_of(pod))

    def whose(self, state: PodState) -> tuple[str, int] | None:
        """Node and incarnation; None: of no interest."""
        return state.node, state.incarnation

    def started(self, state: PodState) -> Callable[[], Sequence[Observation]] | None:
        """Task of the fleet's thread, now that it has started; None: nothing."""
        del state
        return None


class NumberedPods(PodReader):
    """Pods of a run: their incarnation is their Job's, and one more for each that ran there before,
    by its index in the Job.

    `replaced` is called on the fleet's thread, once a pod started that another one ran before.
    """

    def __init__(self, replaced: Callable[[PodState], Sequence[Observation]]) -> None:
        self._replaced = replaced
        self._ran: dict[tuple[str, int], list[str]] = {}
        """Unique ids of the pods that ran, in order, by Job and index."""

    def state(self, pod: Mapping[str, Json]) -> PodState:
        return self.numbered(super().state(pod))

    def numbered(self, state: PodState) -> PodState:
        """The pod, with its own incarnation."""
        ran = self._ran.setdefault((state.job, state.index), [])
        if state.has_started and state.uid not in ran:
            ran.append(state.uid)
        place = ran.index(state.uid) if state.uid in ran else len(ran)
        return replace(state, incarnation=state.incarnation + place)

    def started(self, state: PodState) -> Callable[[], Sequence[Observation]] | None:
        is_first = self._ran[state.job, state.index][0] == state.uid
        return None if is_first else partial(self._replaced, state)


class JobPods:
    """Pods of one Job and index that are there, as the watch saw them last: one thread writes, one
    waits.
    """

    def __init__(self, silent_s: Callable[[], float]) -> None:
        """`silent_s`: how long the watch has heard nothing."""
        self._states: Mapping[str, PodState] = {}
        """States by unique id; replaced as a whole, because other threads read it."""
        self._changed = threading.Event()
        self._silent_s = silent_s

    @property
    def there(self) -> Sequence[PodState]:
        """All of them, in the order in which they were seen first."""
        return tuple(self._states.values())

    @property
    def silent_s(self) -> float:
        """Time since the watch last reported any pod."""
        return self._silent_s()

    def wait(self, limit_s: float) -> None:
        """Wait until one has changed since the last wait, at most this long."""
        self._changed.wait(limit_s)
        self._changed.clear()

    def see(self, state: PodState) -> None:
        """Note the present state of a pod."""
        self._states = {**self._states, state.uid: state}
        self._changed.set()

    def lose(self, uid: str) -> None:
        """Note that a pod is gone."""
        self._states = {key: state for key, state in self._states.items() if key != uid}
        self._changed.set()


class PodWatch(Watch):
    """Watches until it is closed."""

    resource = PODS

    def __init__(
        self, cluster: Cluster, selector: str, arrivals: Arrivals, reader: PodReader
    ) -> None:
        super().__init__(cluster, selector, arrivals)
        self._reader = reader
        self._changed = threading.Condition()
        self._states: dict[str, PodState] = {}
        """Last seen state by unique id of the pod, also of those that are gone."""
        self._gone: set[str] = set()
        self._jobs: dict[tuple[str, int], JobPods] = {}
        """Requested pods by name of the Job and index."""

    def pods_of(self, job: str, index: int = 0) -> JobPods:
        """The pods of a Job with this index, now and later."""
        with self._changed:
            if (job, index) not in self._jobs:
                pods = self._jobs[job, index] = JobPods(lambda: self.silent_s)
                for uid in self._there:
                    if (self._states[uid].job, self._states[uid].index) == (job, index):
                        pods.see(self._states[uid])
            return self._jobs[job, index]

    def last_of(self, pod: str) -> PodState | None:
        """A pod that is gone, as it was seen last; waits a moment for the watch to hear of it."""
        with self._changed:
            self._changed.wait_for(lambda: self._named(pod) & self._gone, _PATIENCE_S)
            return next((self._states[uid] for uid in self._named(pod)), None)

    def _named(self, pod: str) -> set[str]:
        return {uid for uid, state in self._states.items() if state.name == pod}

    # ---------------------------------------------------------------- on its thread

    @property
    def _there(self) -> frozenset[str]:
        return frozenset(self._states.keys() - self._gone)

    def _see(self, found: Mapping[str, Json]) -> None:
        state = self._reader.state(found)
        before = self._states.get(state.uid)
        with self._changed:
            self._states[state.uid] = state
            if pods := self._jobs.get((state.job, state.index)):
                pods.see(state)
        for action in changes(before, state):
            self._tell(state, action)
            if action == "start" and (act := self._reader.started(state)):
                self._hand_over(act)

    def _lose(self, uid: str) -> None:
        with self._changed:
            self._gone.add(uid)
            self._changed.notify_all()
            lost = self._states[uid]
            if pods := self._jobs.get((lost.job, lost.index)):
                pods.lose(uid)
        self._tell(self._states[uid], "gone")

    def _tell(self, state: PodState, action: str) -> None:
        if whose := self._reader.whose(state):
            node, incarnation = whose
            self._report(report(replace(state, node=node, incarnation=incarnation), action))


def changes(before: PodState | None, now: PodState) -> Iterator[str]:
    """Changes of a pod between two looks, in order."""
    before = before or PodState(name=now.name)
    for action, was, is_now in (
        ("no_image", before.lacks_image, now.lacks_image),
        ("start", before.has_started, now.has_started),
        ("evict", bool(before.disruption), bool(now.disruption)),
        ("delete", before.is_deleted, now.is_deleted),
        ("oom", before.was_out_of_memory, now.was_out_of_memory),
        ("die", before.has_ended, now.has_ended),
    ):
        if is_now and not was:
            yield action


def report(state: PodState, action: str) -> EngineReported:
    """Report of a change; `reason` is the cluster's word for it."""
    code = state.exit_code if action in ("die", "oom") else None
    reasons = {
        "evict": state.disruption, "die": state.reason, "oom": state.reason,
        "no_image": state.waiting_for,
    }  # fmt: skip
    signal = None if code is None else end_by_code(code)["signal"]
    return EngineReported(
        node=state.node,
        incarnation=state.incarnation,
        action=action,
        exit_code=code,
        signal=None if signal is None else str(signal),
        reason=reasons.get(action, ""),
        machine=state.machine,
    )
