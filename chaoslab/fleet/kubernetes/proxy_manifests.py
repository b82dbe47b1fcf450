"""Manifests of the pod that carries a run's links: the proxy, and the Secret with its token.

    learner ── pod's address : a port for each link ──► proxy ──► Service of the syncer
    harness ── port-forward, token ──► its API, on the pod's loopback

A pod that ends is not replaced: its effects are gone, and so the links count as lost.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.manifests import Manifests, confined, literal, pod_context
from chaoslab.links.proxy.access import TOKEN

API_PORT: Final = 8474
PROXY: Final = "proxy"
"""Name of its container, and last word of the names of its Job and Secret."""
_COMMAND: Final = ("python3", "-m", "chaoslab.links.proxy", "--port", str(API_PORT))
_KEY: Final = "token"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyManifests(Manifests):
    """Manifests of one run's proxy."""

    @property
    def proxy_name(self) -> str:
        """Name of its Job and of its Secret."""
        return self.name(PROXY)

    def proxy_secret(self, token: str) -> Mapping[str, Json]:
        """Secret with the token of its API."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self._metadata(self.proxy_name),
            "immutable": True,
            "data": {_KEY: base64.b64encode(token.encode()).decode()},
        }

    def proxy(self) -> Mapping[str, Json]:
        """The Job of its one pod."""
        key: dict[str, Json] = {"name": self.proxy_name, "key": _KEY}
        container: dict[str, Json] = {
            "name": PROXY,
            "image": self.settings.image,
            "imagePullPolicy": self.settings.pull,
            "command": literal(_COMMAND),
            "stdin": True,  # it ends with its standard input
            "env": [{"name": TOKEN, "valueFrom": {"secretKeyRef": key}}],
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "512Mi"},
            },
            "securityContext": confined(),
        }
        pod: dict[str, Json] = {
            "terminationGracePeriodSeconds": 5,
            **self.settings.others,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_context(self.settings.others),
            "restartPolicy": "Never",
            "containers": [container],
        }
        metadata = self._metadata(self.proxy_name)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "backoffLimit": 0,
                "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod},
            },
        }
