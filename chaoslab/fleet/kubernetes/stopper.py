"""Manifest of the Job that stops the kubelet of a machine (`kubelet_stopper`).

It sees the processes of the machine and may signal them, and no more: no volume of the machine, no
network of it, no other capability. It is put on its machine by name, whatever taints that has.
"""

from collections.abc import Mapping
from pathlib import Path

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import kubelet_stopper, names
from chaoslab.fleet.kubernetes.manifests import CONTAINER, Manifests


def stopper(manifests: Manifests, name: str, machine: str, for_s: float) -> Mapping[str, Json]:
    """The Job for one machine."""
    program = Path(kubelet_stopper.__file__).read_text(encoding="utf-8").replace("$", "$$")
    container: dict[str, Json] = {
        "name": CONTAINER,
        "image": manifests.settings.image,
        "imagePullPolicy": manifests.settings.pull,
        "command": ["python3", "-I", "-S", "-c", program, f"{for_s:g}", machine],
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["KILL"]},
            "appArmorProfile": {"type": "Unconfined"},  # else it may signal confined processes only
        },
    }
    pod: dict[str, Json] = {
        "nodeName": machine,
        "hostPID": True,
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    labels = names.labels_of(manifests.run)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": manifests.metadata(name),
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": {**labels}}, "spec": pod},
        },
    }
