"""Pod of a run in which the embedded proxy runs; see `links.proxied.host`.

    open ─► Secret with the token, Job ─► ProxyWatch: its pod runs ─► its API answers ─► PodEndpoint
    port ─► pod's address : 4700, 4701, …
    close ─► Job and Secret are deleted

The pod belongs to the owner Job and goes with the run. Where it ends, all links are lost: another
pod would have another address.
"""

import queue
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.manifests import API_PORT, PROXY, Manifests, PodSettings
from chaoslab.fleet.kubernetes.pod_state import Hope, PodState, state_of
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.resources import JOBS, PODS, SECRETS
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.run_name import own_name, run_name
from chaoslab.links.proxied.host import PlacePort, WithoutRules
from chaoslab.links.proxied.http_api import Endpoint, await_answer


class ProxyWatch(Watch):
    """Watch of the pod that carries a run's links: its address, and how it ended.

    A stream of its own, so that to ask whether it runs costs no request, and an API server that is
    away is not taken for a proxy that has ended.
    """

    resource = PODS

    def __init__(self, cluster: Cluster, job_uid: str) -> None:
        super().__init__(cluster, f"controller-uid={job_uid}", queue.Queue(1))  # nothing is put in
        self._uid = ""
        self.state: PodState | None = None
        """Last seen state."""
        self.address = ""
        """Address of its pod, IPv4 if it has one; empty before."""
        self.is_gone = False
        self._refusal: Refused | None = None

    @property
    def ended(self) -> str:
        """How it ended, as a clause; empty while it runs or was not seen yet."""
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


NO_RULES: Final = (
    "pods of a run write no rules on packets: use an effect on the stream, such as latency, or "
    "--fleet docker"
)
_FIRST_PORT: Final = 4700
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEndpoint(Endpoint):
    """API of a proxy in a pod. `address` is pod:port, for messages alone."""

    server: str
    context: str
    namespace: str
    pod: str

    @property
    def facts(self) -> dict[str, Json]:
        """Facts of the undo verbs of pods."""
        return {
            "server": self.server,
            "context": self.context,
            "namespace": self.namespace,
            "pod": self.pod,
            "token": self.token,
        }


class PodProxyHost(WithoutRules):
    """Pod of the proxy; see `links.proxied.host.ProxyHost`."""

    keeps_rules = False
    no_rules = NO_RULES
    interface = "eth0"

    def __init__(
        self,
        run_directory: Path,
        connect: Callable[[], ForwardingCluster],
        settings: Callable[[], PodSettings],
        start_s: float,
    ) -> None:
        """Nothing is asked before `open`; the run's owner Job is there by then."""
        self._directory = run_directory.resolve()
        self._connect, self._settings, self._start_s = connect, settings, start_s
        self._cluster: ForwardingCluster | None = None
        self._watch: ProxyWatch | None = None
        self._opened = ExitStack()
        self._next = _FIRST_PORT

    @property
    def cluster(self) -> ForwardingCluster:
        """Connection to the namespace, while it is open."""
        if self._cluster is None:
            raise HarnessBug("the proxy of links is used before it is opened")
        return self._cluster

    def open(self, kind: str) -> PodEndpoint:  # noqa: ARG002 - the protocol's; `embedded` alone
        """Start the pod. FleetError if it does not start, or its proxy does not answer."""
        with ExitStack() as if_it_fails:
            cluster = self._cluster = self._connect()
            if_it_fails.callback(cluster.close)
            run = run_name(self._directory)
            owner = cluster.get(JOBS, own_name(run))
            manifests = Manifests(
                run=run, directory=str(self._directory), settings=self._settings(),
                owner=names.uid_of(owner),
            )  # fmt: skip
            token = secrets.token_urlsafe()
            cluster.create(manifests.proxy_secret(token))
            if_it_fails.callback(cluster.delete, SECRETS, manifests.name(PROXY))
            job = cluster.create(manifests.proxy())
            if_it_fails.callback(cluster.delete, JOBS, manifests.name(PROXY))
            self._watch = ProxyWatch(cluster, names.uid_of(job))
            if_it_fails.callback(self._watch.close)
            self._watch.start()
            pod = self._await_pod(self._watch)
            if ":" in self._watch.address:
                raise FleetError(
                    f"the pod of the proxy for links has the address {self._watch.address} alone, "
                    "and the proxy needs one of IPv4: use a cluster that has both"
                )
            api = PodEndpoint(
                address=f"{pod}:{API_PORT}", token=token, server=cluster.server,
                context=cluster.context, namespace=cluster.namespace, pod=pod,
            )  # fmt: skip
            await_answer(api, self.ended, cluster.way(api.pod, API_PORT))
            self._opened = if_it_fails.pop_all()
        return api

    def ended(self) -> str:
        return self._watch.ended if self._watch is not None else ""

    def port(self) -> PlacePort:
        """The next one: no other process listens in that pod."""
        if self._watch is None:
            raise HarnessBug("the proxy of links is used before it is opened")
        port = PlacePort(host=self._watch.address, number=self._next)
        self._next += 1
        return port

    def established(self, number: int) -> int | None:
        """Unknown here; the embedded proxy counts by itself."""

    def close(self) -> None:
        """Delete its Job and its Secret; the pod goes with them."""
        self._opened.close()

    # ---------------------------------------------------------------- beginning

    def _await_pod(self, watch: ProxyWatch) -> str:
        """Name of its pod, once its container runs."""
        deadline, hope = time.monotonic() + self._start_s, Hope()
        while time.monotonic() < deadline:
            state = watch.state
            if state is not None and (watch.ended or hope.is_lost(state)):
                why = watch.ended or f"its pod {state.name} cannot start: {state.waiting}"
                raise FleetError(f"the proxy for links did not come up: {why}")
            if state is not None and state.has_started and watch.address:
                return state.name
            time.sleep(_PAUSE_S)
        waits = watch.state.waiting if watch.state is not None else "it has no pod"
        raise FleetError(f"the proxy for links has not started in {self._start_s:g} s: {waits}")
