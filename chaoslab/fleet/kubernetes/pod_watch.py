"""Watch of all pods of a run: what the cluster says of them, whoever caused it.

    list ─► watch, until it ends or is silent ─► list … ─► changes ─► queue ─► ENGINE_REPORTED

    start    its container runs            die    its container ended: exit code, reason
    oom      the kernel killed it          evict  the cluster takes it away, and why
    delete   somebody deleted it           gone   there is no such pod any more

Every watch begins with a fresh list, so that a watch that hung or was cut off loses no end of a
pod; what came and went within such a gap is not seen.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.incarnation_files import end_by_code
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import PODS, pod_of
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.nodes.arrivals import Arrival, hand_over

CLUSTER: Final = "cluster"
"""Source of the reports."""
_WATCH_S: Final = 30
"""The server ends a watch after so long."""
_SILENT_S: Final = 45.0
_AGAIN_S: Final = 1.0
_PATIENCE_S: Final = 3.0


class PodWatch:
    """Watches from its making until it is closed."""

    def __init__(self, run_context: RunContext) -> None:
        self._run_context = run_context
        self._cluster = run_context.run_objects.cluster
        self._selector = f"{names.LABEL_RUN}={run_context.run_objects.run},{names.LABEL_NODE}"
        self._is_closing = threading.Event()
        self._changed = threading.Condition()
        self._states: dict[str, PodState] = {}
        """By name of the pod: as it was seen last, also of those that are gone."""
        self._gone: set[str] = set()
        threading.Thread(target=self._run, name="pods", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._is_closing.set()

    def last_of(self, pod: str) -> PodState | None:
        """A pod that is gone, as it was seen last; waits a moment for the watch to hear of it."""
        with self._changed:
            self._changed.wait_for(lambda: pod in self._gone, _PATIENCE_S)
            return self._states.get(pod)

    # ---------------------------------------------------------------- on its thread

    def _run(self) -> None:
        while not self._is_closing.is_set() and not self._cluster.is_closing:
            try:
                found, version = self._cluster.list(PODS, self._selector)
                states = [state_of(pod_of(one)) for one in found]
                for name in self._states.keys() - self._gone - {one.name for one in states}:
                    self._lose(name)
                for state in states:
                    self._see(state)
                self._watch(version)
            except (FleetError, ValueError):  # the server is away, or cut a line off
                self._is_closing.wait(_AGAIN_S)

    def _watch(self, version: str) -> None:
        params = {
            "watch": "true",
            "labelSelector": self._selector,
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_S),
        }
        for line in self._cluster.lines(PODS, "", params, silent_s=_SILENT_S):
            event = json.loads(line)
            if self._is_closing.is_set() or event.get("type") == "ERROR":
                return
            state = state_of(pod_of(event["object"]))
            self._see(state)
            if event.get("type") == "DELETED":
                self._lose(state.name)

    def _see(self, state: PodState) -> None:
        before = self._states.get(state.name)
        with self._changed:
            self._states[state.name] = state
        self._report(state, tuple(changes(before, state)))

    def _lose(self, name: str) -> None:
        with self._changed:
            self._gone.add(name)
            self._changed.notify_all()
        self._report(self._states[name], ("gone",))

    def _report(self, state: PodState, actions: tuple[str, ...]) -> None:
        for action in actions:
            arrival = Arrival(observe=partial(tuple, (report(state, action),)))
            arrivals = self._run_context.arrivals
            hand_over(arrivals, arrival, lambda: not self._is_closing.is_set())


def changes(before: PodState | None, now: PodState) -> Iterator[str]:
    """What happened to a pod between two looks, in order."""
    before = before or PodState(name=now.name)
    for action, was, is_now in (
        ("start", before.has_started, now.has_started),
        ("evict", bool(before.disruption), bool(now.disruption)),
        ("delete", before.is_deleted, now.is_deleted),
        ("oom", before.was_out_of_memory, now.was_out_of_memory),
        ("die", before.has_ended, now.has_ended),
    ):
        if is_now and not was:
            yield action


def report(state: PodState, action: str) -> Observation:
    """The ENGINE_REPORTED observation of a change; `reason` is the cluster's word for it."""
    code = state.exit_code if action in ("die", "oom") else None
    at_s = {"start": state.started_s, "die": state.finished_s, "oom": state.finished_s}
    reasons = {"evict": state.disruption, "die": state.reason, "oom": state.reason}
    data: Mapping[str, Json] = {
        "node": state.node,
        "incarnation": state.incarnation,
        "action": action,
        "at_s": at_s.get(action) or time.time(),
        "exit_code": code,
        "signal": None if code is None else end_by_code(code)["signal"],
        "reason": reasons.get(action, ""),
    }
    return Observation(source=CLUSTER, kind=Kind.ENGINE_REPORTED, data=data)
