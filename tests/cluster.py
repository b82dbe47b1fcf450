"""A Kubernetes cluster for tests, and a fleet on it that needs nothing but Python in its image.

Tests use the cluster that `docker/start_kubernetes.sh` starts, never that of kubectl's current
context. CHAOSLAB_REQUIRE=kubernetes makes its absence a failure.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.base import UndoLog

IS_REQUIRED = "kubernetes" in os.environ.get("CHAOSLAB_REQUIRE", "")
if not IS_REQUIRED:
    pytest.importorskip("lightkube", reason="lightkube is missing")

from lightkube import ApiError, Client  # noqa: E402 - see above
from lightkube.models.meta_v1 import ObjectMeta  # noqa: E402
from lightkube.resources.core_v1 import Namespace  # noqa: E402

from chaoslab.fleet.docker.images.images import source  # noqa: E402
from chaoslab.fleet.kubernetes.cluster import Cluster  # noqa: E402
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet  # noqa: E402
from chaoslab.fleet.kubernetes.manifests import PodSettings  # noqa: E402
from chaoslab.fleet.kubernetes.pods import Setup  # noqa: E402
from chaoslab.fleet.kubernetes.resources import JOB_SETS  # noqa: E402
from chaoslab.fleet.kubernetes.run_objects import remains  # noqa: E402

STATE = Path(os.environ.get("CHAOSLAB_KUBERNETES_STATE", "/var/lib/chaoslab-kubernetes"))
CONTEXT = "chaoslab-test"
NAMESPACE = os.environ.get("CHAOSLAB_KUBERNETES_NAMESPACE", "chaoslab-tests")


def kubeconfig_or_skip() -> Path:
    """The kubeconfig of the cluster that tests may use, with a namespace for them."""
    why_not = "no test cluster has the image of this source: docker/start_kubernetes.sh"
    if not _is_loaded():
        if IS_REQUIRED:
            raise FleetError(why_not)
        pytest.skip(why_not)
    return STATE / "kubeconfig"


def _is_loaded() -> bool:
    """Whether the cluster was given the image of this source."""
    images = STATE / "images"
    return images.exists() and image() in images.read_text().split()


@contextmanager
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The test cluster, by the kubeconfig in the environment from now on."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_or_skip()))
    found = Cluster.connect(CONTEXT, NAMESPACE)
    try:
        found.version()
    except FleetError as error:
        if IS_REQUIRED:
            raise
        pytest.skip(f"the test cluster does not answer: {error}")
    _ensure_namespace()
    try:
        yield found
    finally:
        found.close()


def _ensure_namespace() -> None:
    """The namespace of the tests; it stays when they are over, as the cluster does."""
    client = Client()
    try:
        client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    except ApiError as error:
        if error.status.code != HTTPStatus.CONFLICT:
            raise
    finally:
        client.close()


def need_job_sets(cluster: Cluster) -> None:
    """Skip without JobSets: `docker/start_kubernetes.sh jobset` installs them.

    CHAOSLAB_REQUIRE=jobset makes their absence a failure.
    """
    if not cluster.serves(JOB_SETS):
        if "jobset" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise FleetError("the test cluster has no JobSets: docker/start_kubernetes.sh jobset")
        pytest.skip("the test cluster has no JobSets: docker/start_kubernetes.sh jobset")


def left_in_cluster(cluster: Cluster, record: Path) -> tuple[str, ...]:
    """What a run made there that is still there."""
    return remains(cluster, run_name(record), has_job_sets=True)


def image() -> str:
    """The image of this source, which `docker/start_kubernetes.sh load` gave to the cluster."""
    return source().image


def small_fleet(
    run_directory: Path,
    clock: Clock,
    cluster: Cluster,
    undo_log: UndoLog,
    *,
    lease_s: float = 60.0,
    **settings: Any,
) -> KubernetesFleet:
    """Its nodes run whatever the image has."""
    asked = PodSettings(image=image(), pull="Never", disk_bytes=10_000_000, **settings)
    return KubernetesFleet(
        run_directory, clock, undo_log=undo_log, cluster=cluster,
        setup=Setup(pods=asked, start_s=60.0, lease_s=lease_s),
    )  # fmt: skip
