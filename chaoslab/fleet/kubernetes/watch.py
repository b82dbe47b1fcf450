"""Watch of objects, begun again with a fresh list whenever it ends, hangs or is cut off.

    list ─► watch, until it ends or is silent ─► list … ─► seen, lost ─► queue ─► ENGINE_REPORTED

No end of an object is lost by that; what came and went within such a gap is not seen. A server
that keeps refusing is an error that `poll` raises: nothing of these objects is heard any more.
"""

import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over

CLUSTER: Final = "cluster"
"""Source of the reports."""
_WATCH_S: Final = 30
"""The server ends a watch after this long."""
_SILENT_S: Final = 45.0
_AGAIN_S: Final = 1.0
_REFUSED_S: Final = 30.0
"""Refusals of a watch for longer are an error: a server that has just started refuses, too."""


class Watch(ABC):
    """Watches objects of nodes until it is closed, on a thread of its own."""

    resource: ClassVar[Resource]

    def __init__(self, cluster: Cluster, selector: str, arrivals: Arrivals) -> None:
        self._cluster, self._selector, self._arrivals = cluster, selector, arrivals
        self._is_closing = threading.Event()
        self._heard_s = time.monotonic()
        self._refused_s = math.inf
        """Beginning of refusals that were not reported."""
        name = self.resource.plural
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._is_closing.set()

    @property
    def silent_s(self) -> float:
        """Time since the server's last message: there is nothing new, or the watch hangs."""
        return time.monotonic() - self._heard_s

    # ---------------------------------------------------------------- on its thread

    @property
    @abstractmethod
    def _there(self) -> frozenset[str]:
        """Unique ids of those that were seen and not lost."""

    @abstractmethod
    def _see(self, found: Mapping[str, Json]) -> None:
        """Note the present state of an object."""

    @abstractmethod
    def _lose(self, uid: str) -> None:
        """Note that an object is gone."""

    def _run(self) -> None:
        while not self._is_closing.is_set() and not self._cluster.is_closing:
            began_s = time.monotonic()
            try:
                found, version = self._cluster.list(self.resource, self._selector)
                for uid in self._there - {names.uid_of(one) for one in found}:
                    self._lose(uid)
                for one in sorted(found, key=names.created):
                    self._see(one)
                self._heard_s = time.monotonic()
                self._watch(version)
            except (FleetError, ValueError) as error:  # the server is away, or cut a line off
                self._note_refusal(error)
                self._is_closing.wait(_AGAIN_S)
            else:  # it ended at once, as one that a gateway does not let through
                self._refused_s = math.inf
                self._is_closing.wait(max(0.0, began_s + _AGAIN_S - time.monotonic()))

    def _note_refusal(self, error: Exception) -> None:
        if not isinstance(error, Refused) or error.may_pass:
            self._refused_s = math.inf
            return
        now_s = time.monotonic()
        self._refused_s = min(self._refused_s, now_s)
        if now_s - self._refused_s >= _REFUSED_S:
            self._refused_s = math.inf
            self._give_up(error)

    def _give_up(self, refusal: Refused) -> None:
        """Report a final refusal."""
        hand_over(self._arrivals, Arrival(error=refusal), self._is_wanted)

    def _is_wanted(self) -> bool:
        return not self._is_closing.is_set()

    def _watch(self, version: str) -> None:
        params = {
            "watch": "true",
            "labelSelector": self._selector,
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_S),
        }
        for line in self._cluster.lines(self.resource, "", params, silent_s=_SILENT_S):
            event = json.loads(line)
            if self._is_closing.is_set() or event.get("type") == "ERROR":
                return
            self._see(event["object"])
            if event.get("type") == "DELETED":
                self._lose(names.uid_of(event["object"]))
            self._heard_s = time.monotonic()

    def _hand_over(self, observe: Callable[[], Sequence[Observation]]) -> None:
        hand_over(self._arrivals, Arrival(observe=observe), self._is_wanted)

    def _report(self, said: EngineReported) -> None:
        self._hand_over(partial(tuple, (Observation.of(CLUSTER, said),)))
