"""Links through the embedded proxy in a pod of the run; see `links.base` and `links.proxied`.

learner ── dials the pod's address ──► proxy ──► Service of the syncer, whatever pod that has
harness ── PodProxyClient ── port-forward ──► its API, on the pod's loopback
undo log ── pod, token ──► `cleanup` ── ForeignProxy ──► the same API, from another process
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import API_PORT
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster
from chaoslab.fleet.kubernetes.proxy_host import PodEndpoint, PodProxyHost
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.links.proxied.embedded import EmbeddedLinks, EmbeddedProxyClient
from chaoslab.links.proxied.http_api import CALL_S, Endpoint, NoSuchName, Unreachable, call
from chaoslab.undo.base import UndoLog

_LOOK_S: Final = 2.0
"""Interval of the requests for all links of the proxy: each passes three servers."""


class PodProxyClient(EmbeddedProxyClient):
    """The proxy in a pod."""

    def __init__(self, api: PodEndpoint, seed: int, cluster: ForwardingCluster) -> None:
        super().__init__(api, seed)
        self._way = cluster.way(api.pod, API_PORT)
        self.has_failed = False
        """Whether a call failed since this was last set to False."""

    def ask(self, method: str, path: str, body: Json = None, *, within_s: float = CALL_S) -> Json:
        """Make one call; one that only reads is repeated if its answer was lost."""
        asked = partial(call, self.api, method, path, body, within_s=within_s, way=self._way)
        try:
            return asked()
        except (NoSuchName, Unreachable, Missing):
            self.has_failed = True
            raise
        except FleetError:
            self.has_failed = True
            if method != "GET":
                raise
            return asked()


class PodLinks(EmbeddedLinks):
    """All links of a run through the proxy in a pod of it; see `base.Links`."""

    undo_effects = names.CLEAR_POD_EFFECTS
    undo_refusal = names.ENABLE_POD_PROXY

    def __init__(
        self, directory: Path, *, undo_log: UndoLog, seed: int, proxy_host: PodProxyHost
    ) -> None:
        super().__init__(directory, undo_log=undo_log, seed=seed, proxy_host=proxy_host)
        self._proxy_host = proxy_host
        self._asked: PodProxyClient | None = None
        self._look_s = 0.0

    def _client_of(self, api: Endpoint) -> PodProxyClient:
        if not isinstance(api, PodEndpoint):
            raise HarnessBug(f"{api} is no API in a pod")
        self._asked = PodProxyClient(api, self._seed, self._proxy_host.cluster)
        return self._asked

    def troubles(self) -> Sequence[str]:
        """As promised, looked for every two seconds, and at once after a call that failed."""
        if self._asked is None:
            raise HarnessBug("links are used between entering and leaving their context")
        is_early = time.monotonic() < self._look_s
        if is_early and not self._asked.has_failed and not self.host.ended():
            return ()
        self._asked.has_failed = False
        found = super().troubles()
        self._look_s = time.monotonic() + _LOOK_S
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProxy:
    """A proxy in a pod as the undo log of a dead harness names it; see `undo_verbs.AskedProxy`."""

    cluster: ForwardingCluster
    pod: str
    token: str
    proxy: str
    injection: str

    def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Make one call to its server. Unreachable if the pod is gone."""
        api = Endpoint(address=f"{self.pod}:{API_PORT}", token=self.token)
        try:
            return call(api, method, path, body, way=self.cluster.way(self.pod, API_PORT))
        except Missing as error:
            raise Unreachable(str(error)) from error
