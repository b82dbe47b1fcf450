"""Undo verbs, labels and names of what is made in a cluster.

Apart from the rest so that reading an undo log does not need lightkube.
"""

import re
import socket
from collections.abc import Mapping
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.parts import mapping
from chaoslab.fleet.run_name import own_name

LABEL_RUN: Final = "chaoslab/run"
LABEL_NODE: Final = "chaoslab/node"
LABEL_INCARNATION: Final = "chaoslab/incarnation"
LABEL_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label of a pod of an indexed Job, by Kubernetes: its number in the Job."""
JOB_SET_VERSION: Final = "v1alpha2"
"""Version of the API of JobSets."""
LABEL_ATTEMPT: Final = "jobset.sigs.k8s.io/job-restart-attempt"
"""Label of a Job, by its JobSet: number of its restarts."""
LABEL_HOST: Final = "chaoslab/host"
"""Machine of the harness."""
DIRECTORY: Final = "chaoslab/directory"
"""Annotation of the owner Job: the run directory on the machine of the harness."""
CORDONED_BY: Final = "chaoslab/cordoned-by"
"""Annotation of a machine: the run that cordoned it."""

DELETE_RUN: Final = "delete_kubernetes_run"
"""server, context, namespace, run: delete all objects of a run."""
RESUME_POD: Final = "resume_pod"
"""server, context, namespace, pod: let its processes go on."""
UNWEDGE_POD: Final = "unwedge_pod"
"""server, context, namespace, pod: let its training thread go on."""
RELIEVE_POD: Final = "relieve_pod"
"""server, context, namespace, pod: end what fills its memory limit."""
UNLIMIT_POD: Final = "unlimit_pod"
"""server, context, namespace, pod, limit, request: its container's CPU limit as it was."""
UNCORDON: Final = "uncordon_machine"
"""server, context, namespace, run, machine: let it take pods again, if it was this run's cordon."""
CLEAR_POD_EFFECTS: Final = "clear_pod_effects"
"""server, context, namespace, pod, token, proxy, injection: take effects from a link by a pod."""
ENABLE_POD_PROXY: Final = "enable_pod_proxy"
"""server, context, namespace, pod, token, proxy: let a link by a pod take connections again."""
DELETE_LEASE: Final = "delete_lease"
"""server, context, namespace, run: give back the lease of a namespace."""

_LABEL_MOST: Final = 63


def object_name(run: str, *words: str) -> str:
    """Name of an object of a run: lower case, as Kubernetes asks."""
    return "-".join((own_name(run), *words)).lower().replace("_", "-")


def labels_of(run: str, **more: str) -> Mapping[str, str]:
    """Labels of everything that a run makes; `more`: node, incarnation."""
    return {
        LABEL_RUN: run,
        LABEL_HOST: label_value(socket.gethostname()),
        **{f"chaoslab/{key}": label_value(value) for key, value in more.items()},
    }


def label_value(word: str) -> str:
    """The word with characters that no label may have left out."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", word)[:_LABEL_MOST].strip("-_.")


def metadata_of(found: Mapping[str, Json]) -> Mapping[str, Json]:
    """Metadata of an object as the server has it."""
    return mapping(found, "metadata")


def name_of(found: Mapping[str, Json]) -> str:
    """Name of an object."""
    return str(metadata_of(found).get("name", ""))


def uid_of(found: Mapping[str, Json]) -> str:
    """Unique id of an object: another one of the same name has another."""
    return str(metadata_of(found).get("uid", ""))


def created(found: Mapping[str, Json]) -> str:
    """Time of an object's creation, as text that sorts by time."""
    return str(metadata_of(found).get("creationTimestamp", ""))


def labels_in(found: Mapping[str, Json]) -> Mapping[str, str]:
    """Labels of an object."""
    return {key: str(value) for key, value in mapping(found, "metadata", "labels").items()}
