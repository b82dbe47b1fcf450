"""docker/kubernetes-example/training.yaml in a namespace of the test cluster, for tests."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

from lightkube import ApiError, Client
from lightkube.codecs import load_all_yaml
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import Namespace, Pod, Secret, Service

from chaoslab.fleet.attached.pod_search import PodSearch, ask
from chaoslab.fleet.kubernetes.cluster import Cluster
from tests.cluster import CONTEXT, image

FILE = Path(__file__).parent.parent / "docker" / "kubernetes-example" / "training.yaml"
PATIENCE_S = 240.0
ROSTER = '["learner-0","learner-1","learner-2","learner-3"]'


@contextmanager
def deployed(name: str, learners: int) -> Iterator["Deployed"]:
    """Its objects with fewer learners, until the block ends; then nothing is left of them."""
    names = [f"learner-{index}" for index in range(learners)]
    with namespace(name) as client:
        tokens = {one: f"{one}:{secrets.token_hex(32)}" for one in names}
        client.create(Secret(metadata=ObjectMeta(name="tokens"), stringData=tokens))
        for one in load_all_yaml(_manifests(names)):
            client.create(cast("Service", one), namespace=name)
        yield Deployed(client, name, (*names, "syncer"))


@contextmanager
def namespace(name: str) -> Iterator[Client]:
    """A namespace, and a client for it, until the block ends; then nothing is left of it."""
    client = Client(namespace=name)
    try:
        client.create(Namespace(metadata=ObjectMeta(name=name)))
        yield client
    finally:
        client.delete(Namespace, name, grace_period=0)
        deadline = time.monotonic() + PATIENCE_S
        while _is_there(client, name):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        client.close()


def logs(client: Client, labels: Mapping[str, str]) -> list[list[str]]:
    """Lines of each pod with these labels that has begun to print."""
    found = []
    for pod in client.list(Pod, labels=dict(labels)):
        with suppress(ApiError):
            found.append(list(client.log(str(pod.metadata and pod.metadata.name))))
    return found


def _manifests(names: list[str]) -> str:
    text = FILE.read_text(encoding="utf-8")
    for written, wanted in (
        ("image: chaoslab-node", f"image: {image()}\n          imagePullPolicy: Never"),
        (ROSTER, json.dumps(names, separators=(",", ":"))),
        ("replicas: 4", f"replicas: {len(names)}"),
        ("--shards=4", f"--shards={len(names)}\n            - --step-time=0.25"),
        ("storage: 1Gi", "storage: 50Mi"),
        ("memory: 512Mi", "memory: 128Mi"),
    ):
        assert written in text
        text = text.replace(written, wanted)
    return text


def _is_there(client: Client, namespace: str) -> bool:
    try:
        client.get(Namespace, namespace)
    except ApiError:
        return False
    return True


class Deployed:
    """A training in a namespace."""

    def __init__(self, client: Client, namespace: str, names: tuple[str, ...]) -> None:
        self._client, self.namespace, self.names = client, namespace, names

    def merged(self) -> int:
        """Rounds that the syncer's pod has merged since its start."""
        try:
            return sum('"round.merged"' in line for line in self._client.log("syncer-0"))
        except ApiError:
            return 0

    def await_merges(self, most: int) -> bool:
        """Whether so many more are merged in time."""
        before, deadline = self.merged(), time.monotonic() + PATIENCE_S
        while self.merged() < before + most:
            assert time.monotonic() < deadline, self.pods()
            time.sleep(1.0)
        return True

    def states(self) -> Mapping[str, str]:
        """By node: what its process does, as the kernel shows it; T: it is stopped."""
        with closing(Cluster.connect(CONTEXT, self.namespace)) as cluster:
            return {
                node.name: str(ask(cluster, node, "show").get("state", "gone"))
                for node in PodSearch(cluster).look()
            }

    def leases(self) -> list[str]:
        """Names of leases in the namespace."""
        return [str(one.metadata and one.metadata.name) for one in self._client.list(Lease)]

    def pods(self) -> Mapping[str, object]:
        """By name: the phase of each pod."""
        found = self._client.list(Pod)
        return {str(one.metadata and one.metadata.name): one.status and one.status.phase
                for one in found}  # fmt: skip
