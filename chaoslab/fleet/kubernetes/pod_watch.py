"""Watch of all pods of a run: what the cluster says of them, whoever caused it.

    start    its container runs            die       its container ended: exit code, reason
    oom      the kernel killed it          evict     the cluster takes it away, and why
    delete   somebody deleted it           gone      there is no such pod any more
    no_image its image cannot be had, and why

A pod by which the cluster replaced another one of the same Job is the node's next incarnation.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from chaoslab.core.events import Json, Observation
from chaoslab.fleet.incarnation_files import end_by_code
from chaoslab.fleet.kubernetes.cluster import PODS, pod_of
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.kubernetes.watch import Watch

_PATIENCE_S: Final = 3.0


class PodWatch(Watch):
    """Watches until it is closed; `replaced` is called on the fleet's thread."""

    resource = PODS

    def __init__(
        self, run_context: RunContext, replaced: Callable[[PodState], Sequence[Observation]]
    ) -> None:
        super().__init__(run_context)
        self._replaced = replaced
        self._changed = threading.Condition()
        self._states: dict[str, PodState] = {}
        """By name of the pod: as it was seen last, also of those that are gone."""
        self._gone: set[str] = set()
        self._numbers = PodNumbers()

    def last_of(self, pod: str) -> PodState | None:
        """A pod that is gone, as it was seen last; waits a moment for the watch to hear of it."""
        with self._changed:
            self._changed.wait_for(lambda: pod in self._gone, _PATIENCE_S)
            return self._states.get(pod)

    # ---------------------------------------------------------------- on its thread

    @property
    def _there(self) -> frozenset[str]:
        return frozenset(self._states.keys() - self._gone)

    def _see(self, found: Mapping[str, Json]) -> str:
        state = self._numbers.numbered(state_of(pod_of(found)))
        before = self._states.get(state.name)
        with self._changed:
            self._states[state.name] = state
        for action in changes(before, state):
            self._report(report(state, action))
            if action == "start" and self._numbers.is_replacement(state):
                self._hand_over(partial(self._replaced, state))
        return state.name

    def _lose(self, name: str) -> None:
        with self._changed:
            self._gone.add(name)
            self._changed.notify_all()
        self._report(report(self._states[name], "gone"))


class PodNumbers:
    """Incarnations of pods: their Job's, and one more for each that ran in it before."""

    def __init__(self) -> None:
        self._ran: dict[str, list[str]] = {}
        """By Job: its pods that ran, in order."""

    def numbered(self, state: PodState) -> PodState:
        """The pod, with its own incarnation."""
        ran = self._ran.setdefault(state.job, [])
        if state.has_started and state.name not in ran:
            ran.append(state.name)
        place = ran.index(state.name) if state.name in ran else len(ran)
        return replace(state, incarnation=state.incarnation + place)

    def is_replacement(self, state: PodState) -> bool:
        """Whether another pod of its Job ran before it."""
        return self._ran.get(state.job, [])[:1] != [state.name]


def changes(before: PodState | None, now: PodState) -> Iterator[str]:
    """What happened to a pod between two looks, in order."""
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


def report(state: PodState, action: str) -> Mapping[str, Json]:
    """What ENGINE_REPORTED says of a change; `reason` is the cluster's word for it."""
    code = state.exit_code if action in ("die", "oom") else None
    at_s = {"start": state.started_s, "die": state.finished_s, "oom": state.finished_s}
    reasons = {
        "evict": state.disruption, "die": state.reason, "oom": state.reason,
        "no_image": state.waiting_for,
    }  # fmt: skip
    return {
        "node": state.node,
        "incarnation": state.incarnation,
        "action": action,
        "at_s": at_s.get(action) or time.time(),
        "exit_code": code,
        "signal": None if code is None else end_by_code(code)["signal"],
        "reason": reasons.get(action, ""),
    }
