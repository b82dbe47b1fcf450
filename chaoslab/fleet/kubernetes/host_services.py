"""Manifests of the Services of a learner of several hosts: where they meet, and a name for each.

    pods of hosts 1, 2, … ── 4650 ──► meeting ──► pod of host 0, of whichever incarnation
    pods of all hosts ──► JOB-0.SERVICE, JOB-1.SERVICE, … where the cluster serves names

The hosts meet by an IP address, as learners find the syncer: that works at once, and without DNS.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import Manifests

MEETING_PORT: Final = 4650
"""Port on which host 0 waits for the others."""


def meeting(manifests: Manifests, node: str) -> Mapping[str, Json]:
    """A stable address of host 0."""
    port: dict[str, Json] = {"port": MEETING_PORT, "protocol": "TCP"}
    selector = {**names.labels_of(manifests.run, node=node), names.LABEL_INDEX: "0"}
    return _service(
        manifests, manifests.name(node, "meeting"), {"selector": {**selector}, "ports": [port]}
    )


def host_names(manifests: Manifests, node: str) -> Mapping[str, Json]:
    """A name of each host, by the `subdomain` of its pod; runtimes of accelerators ask for that."""
    selector = names.labels_of(manifests.run, node=node)
    return _service(
        manifests, manifests.name(node), {"selector": {**selector}, "clusterIP": "None"}
    )


def _service(manifests: Manifests, name: str, spec: Mapping[str, Json]) -> Mapping[str, Json]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": manifests.metadata(name),
        "spec": {**spec, "publishNotReadyAddresses": True},
    }
