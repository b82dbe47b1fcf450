"""Manifest of a run's owner Job: the Job without pods that owns all other objects of the run.

    harness ─ moves its deadline on ─► owner Job ─ the deadline passes ─► it fails, and is deleted
                                         └─ owns ─► all the rest, deleted with it

So nothing of a run outlives a harness that is gone by more than the run's lease. The cluster's Job
controller looks at the deadline: no pod is needed, which could wait for a machine.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import Manifests, confined, pod_context

_DEADLINE: Final = "activeDeadlineSeconds"
"""Counted from the Job's own start, by the cluster's clock."""


def owner_job(manifests: Manifests, lease_s: float) -> Mapping[str, Json]:
    """The owner of everything else; deleted by the cluster `lease_s` after its start."""
    settings, labels = manifests.settings, names.labels_of(manifests.run)
    container: dict[str, Json] = {
        "name": "owner",
        "image": settings.image,
        "imagePullPolicy": settings.pull,
        "command": ["true"],
        "securityContext": confined(),
    }
    pod: dict[str, Json] = {
        **settings.others,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": pod_context(settings.others),
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": manifests.name(),
            "labels": {**labels},
            "annotations": {names.DIRECTORY: manifests.directory},
        },
        "spec": {
            "parallelism": 0,
            "ttlSecondsAfterFinished": 0,
            **renewal(lease_s),
            "template": {"metadata": {"labels": {**labels}}, "spec": pod},
        },
    }


def renewal(until_s: float) -> dict[str, Json]:
    """Change of its spec by which it lives until this long after its start."""
    return {_DEADLINE: ceil(until_s)}
