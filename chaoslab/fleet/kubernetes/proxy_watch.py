"""Watch of the pod that carries a run's links: its address, and how it ended.

A stream of its own, so that to ask whether it runs costs no request, and an API server that is away
is not taken for a proxy that has ended.
"""

import queue
from collections.abc import Mapping

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.proxy_manifests import PROXY
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.watch import Watch


class ProxyWatch(Watch):
    """Watches until it is closed."""

    resource = PODS

    def __init__(self, cluster: Cluster, job_uid: str) -> None:
        super().__init__(cluster, f"controller-uid={job_uid}", queue.Queue(1))  # nothing is put in
        self._uid = ""
        self.state: PodState | None = None
        """As it was seen last."""
        self.address = ""
        """Of its pod, once it has one: of IPv4, if it has one of that."""
        self.is_gone = False
        self._refusal: Refused | None = None

    @property
    def ended(self) -> str:
        """How it ended, as half a sentence; empty while it runs or was not seen yet."""
        if self._refusal is not None:
            return f"it is not known any more whether it runs: {self._refusal}"
        state = self.state
        if state is None:
            return ""
        if state.exit_code is not None:
            why = f" ({state.reason})" if state.reason else ""
            return f"its pod {state.name} has ended with exit code {state.exit_code}{why}"
        if state.is_failed:
            return f"its pod {state.name} has failed: {state.reason or state.waiting}"
        return f"its pod {state.name} is gone" if self.is_gone else ""

    # ---------------------------------------------------------------- on its thread

    def _give_up(self, refusal: Refused) -> None:
        self._refusal = refusal

    @property
    def _there(self) -> frozenset[str]:
        return frozenset({self._uid} if self._uid else ())

    def _see(self, found: Mapping[str, Json]) -> None:
        self._uid = names.uid_of(found)
        pod = pod_of(found)
        found_at = [one.ip for one in (pod.status.podIPs if pod.status else None) or [] if one.ip]
        self.address = min(found_at, key=lambda ip: ":" in ip, default=self.address)
        self.state = state_of(pod, PROXY)

    def _lose(self, uid: str) -> None:  # noqa: ARG002 - there is one alone
        self._uid, self.is_gone = "", True
