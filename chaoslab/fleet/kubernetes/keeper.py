"""Manifest of a run's keeper: the Job that owns all other objects of the run.

    harness ─ renews an annotation of its pod ─► keeper ─ not renewed for so long ─► it ends
                                                   └─ owns ─► all the rest, deleted with it

So nothing of a run outlives a harness that is gone by more than the run's lease.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import (
    RETRIES,
    Manifests,
    confined,
    literal,
    pod_context,
)

_RENEWED: Final = "/run/keeper"
_PROGRAM: Final = """
import pathlib, sys, time
limit_s, file = float(sys.argv[1]), pathlib.Path(sys.argv[2])
seen, since = "", time.monotonic()
while time.monotonic() - since < limit_s:
    said = file.read_text() if file.exists() else ""
    if said != seen:
        seen, since = said, time.monotonic()
    time.sleep(1.0)
"""
"""Ends when the annotation has not changed for so long."""


def keeper(manifests: Manifests, limit_s: float) -> Mapping[str, Json]:
    """The owner of everything else; deleted by the cluster if it is not renewed for so long.

    It is started again wherever its pod is lost: only its own end counts.
    """
    field_ref: dict[str, Json] = {"fieldPath": f"metadata.annotations['{names.RENEWED}']"}
    volume: dict[str, Json] = {
        "name": "renewed",
        "downwardAPI": {"items": [{"path": "renewed", "fieldRef": field_ref}]},
    }
    settings = manifests.settings
    container: dict[str, Json] = {
        "name": "keeper",
        "image": settings.image,
        "imagePullPolicy": settings.pull,
        "command": literal(("python3", "-I", "-c", _PROGRAM, str(limit_s), f"{_RENEWED}/renewed")),
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
        "volumeMounts": [{"name": "renewed", "mountPath": _RENEWED}],
        "securityContext": confined(),
    }
    spec: dict[str, Json] = {
        **settings.others,
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": pod_context(settings.others),
        "containers": [container],
        "volumes": [volume],
    }
    annotations = {names.RENEWED: "", names.DIRECTORY: manifests.directory}
    labels = dict(names.labels_of(manifests.run))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": manifests.name(),
            "labels": {**labels},
            "annotations": {names.DIRECTORY: manifests.directory},
        },
        "spec": {
            "backoffLimit": RETRIES,
            "ttlSecondsAfterFinished": 0,
            "template": {
                "metadata": {"labels": {**labels}, "annotations": {**annotations}},
                "spec": spec,
            },
        },
    }
