"""Pod of a run in which the embedded proxy runs; see `links.proxied.host`.

    open ─► Secret with the token, Job ─► ProxyWatch: its pod runs ─► its API answers ─► PodEndpoint
    port ─► pod's address : 4700, 4701, …
    close ─► Job and Secret are deleted

The pod belongs to the owner Job and goes with the run. Where it ends, all links are lost: another
pod would have another address.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod_state import Hope
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster
from chaoslab.fleet.kubernetes.proxy_manifests import API_PORT, ProxyManifests
from chaoslab.fleet.kubernetes.proxy_watch import ProxyWatch
from chaoslab.fleet.kubernetes.resources import JOBS, SECRETS
from chaoslab.fleet.run_name import run_name
from chaoslab.links.proxied.host import PlacePort, WithoutRules
from chaoslab.links.proxied.http_api import Endpoint, call

NO_RULES: Final = (
    "pods of a run write no rules on packets: use an effect on the stream, such as latency, or "
    "--fleet docker"
)
_FIRST_PORT: Final = 4700
_PAUSE_S: Final = 0.1
_READY_S: Final = 20.0
"""Time until the API of a proxy answers whose pod runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEndpoint(Endpoint):
    """API of a proxy in a pod. `address` is pod:port, for messages alone."""

    server: str
    context: str
    namespace: str
    pod: str

    @property
    def facts(self) -> dict[str, Json]:
        """For the undo verbs of pods."""
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
            owner = cluster.get(JOBS, names.own_name(run))
            manifests = ProxyManifests(
                run=run, directory=str(self._directory), settings=self._settings(),
                owner=names.uid_of(owner),
            )  # fmt: skip
            token = secrets.token_urlsafe()
            cluster.create(manifests.proxy_secret(token))
            if_it_fails.callback(cluster.delete, SECRETS, manifests.proxy_name)
            job = cluster.create(manifests.proxy())
            if_it_fails.callback(cluster.delete, JOBS, manifests.proxy_name)
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
            self._await_answer(api)
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

    def _await_answer(self, api: PodEndpoint) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                call(api, "GET", "/version", way=self.cluster.way(api.pod, API_PORT))
            except FleetError as error:
                if how := self.ended():
                    raise FleetError(f"the proxy for links did not come up: {how}") from error
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return
