"""Manifests of what a run makes in a cluster.

    node     Job of one incarnation, whose pod the cluster replaces only where it is to heal
    service  stable address of the syncer; where the hosts of a learner meet, and a name for each
    claim    volume that outlives the incarnations of a node
    secret   private files and secret environment of a node; token of the proxy
    proxy    Job of the pod that carries the links of a run
    owner Job   Job without pods that owns all of these

    pod of a node: pause ─┬─ sh (entry) ─ exec ─► python3 -m chaoslab.diloco.learner …
    one process namespace └─ exec from the harness: signals to all of them

The processes of a pod share a namespace in which the node is not the first, because the first
ignores SIGKILL from its own namespace. Node programs hear their test hooks from a pipe in the pod.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.kubernetes import names, scripts
from chaoslab.fleet.kubernetes.parts import listed, mapping
from chaoslab.links.proxy.access import TOKEN

CONTAINER: Final = "node"
HOME: Final = "/var/lib/chaoslab"
NODE: Final = f"{HOME}/node"
SHARED: Final = f"{HOME}/shared"
CACHE: Final = f"{HOME}/cache"
CONTROL: Final = "/run/chaoslab"
"""Folder in memory: process id, pipe of the test hooks, private files."""
PRIVATE: Final = f"{CONTROL}/private"
SYNCER_PORT: Final = 4600
MEETING_PORT: Final = 4650
"""Port on which host 0 waits for the others."""
API_PORT: Final = 8474
"""Port of the proxy's API, on the loopback of its pod."""
PROXY: Final = "proxy"
"""Name of its container, and last word of the names of its Job and Secret."""
_PROXY_COMMAND: Final = ("python3", "-m", "chaoslab.links.proxy", "--port", str(API_PORT))
_TOKEN: Final = "token"
"""Key of the token in its Secret."""
_HOME_OF_HOST: Final = f"{HOME}/home"
"""Home of the user in a pod of several: on their claim, whose programs have the same process ids in
each pod, files that are named by these would be mixed up."""
_SECRETS: Final = "/run/secrets/chaoslab"
_USER: Final = 10001
"""User of the image; its group owns the volumes."""
RETRIES: Final = 1_000_000
"""Retries of a Job whose pods are replaced without limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """Settings of a run's pods."""

    image: str
    pull: str = "IfNotPresent"
    cpus: float | None = None
    memory_bytes: int | None = None
    storage_class: str = ""
    disk_bytes: int = 1 << 30
    cache_claim: str = ""
    learners: Mapping[str, Json] = field(default_factory=dict)
    """The plan's own spec of learners' pods, into which the fleet puts its own."""
    container: Mapping[str, Json] = field(default_factory=dict)
    """The plan's own spec of their container, into which the fleet puts its own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of their Jobs and pods."""
    others: Mapping[str, Json] = field(default_factory=dict)
    """The plan's own spec of all other pods."""
    replaces: bool = False
    """Whether the cluster replaces pods of the syncer and of learners that fail."""
    in_job_sets: bool = False
    """Whether it does that by JobSets (`job_sets`), and not by the Jobs of nodes alone."""
    exclusive_topology: str = ""
    """Label of machines: no two learners run on machines with the same value of it. Of JobSets."""
    measures_cpu: bool = False
    """Whether the CPU time that learners use is measured, for a fault that cuts it."""

    def replaces_pods_of(self, role: Role) -> bool:
        """Whether the cluster brings such a node back."""
        return self.replaces and role is not Role.EVALUATOR

    def puts_in_job_set(self, role: Role) -> bool:
        """Whether such a node is a Job of a JobSet."""
        return self.in_job_sets and self.replaces_pods_of(role)

    def pods_of(self, spec: NodeSpec) -> int:
        """How many pods one incarnation of a node has: one for each host of a learner.

        Where the cluster brings nodes back, its hosts are processes of one pod: a Job would replace
        the pod of one host alone.
        """
        is_whole = spec.hosts is None or self.replaces_pods_of(spec.role)
        return 1 if is_whole or spec.hosts is None else spec.hosts.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """Manifests of one run."""

    run: str
    directory: str
    """Run directory on the harness's machine."""
    settings: PodSettings
    owner: str = ""
    """Unique id of the owner Job, once it is there."""

    def name(self, *words: str) -> str:
        """Name of an object of this run."""
        return names.object_name(self.run, *words)

    def service(self, node: str) -> Mapping[str, Json]:
        """A stable address of the syncer."""
        return self._service(self.metadata(self.name(node), node=node), node, SYNCER_PORT)

    def meeting(self, node: str) -> Mapping[str, Json]:
        """A stable address of host 0 of a learner, of whichever incarnation.

        The hosts meet there, as learners find the syncer: that works at once, and without DNS.
        """
        metadata = self.metadata(self.name(node, "meeting"))
        return self._service(metadata, node, MEETING_PORT, {names.LABEL_INDEX: "0"})

    def host_names(self, node: str) -> Mapping[str, Json]:
        """A name of each host of a learner, by the `subdomain` of its pod; runtimes of accelerators
        ask for that.
        """
        return self._service(self.metadata(self.name(node)), node)

    def keeps(self, spec: NodeSpec) -> bool:
        """Whether a node has a claim: for files, or to count its pods."""
        return bool(spec.keeps) or self.settings.replaces_pods_of(spec.role)

    def claim(self, name: str, *, is_shared: bool = False) -> Mapping[str, Json]:
        """A volume that outlives pods. `is_shared`: of pods on several machines at a time."""
        spec: dict[str, Json] = {
            "accessModes": ["ReadWriteMany" if is_shared else "ReadWriteOnce"],
            "resources": {"requests": {"storage": str(self.settings.disk_bytes)}},
        }
        if self.settings.storage_class:
            spec["storageClassName"] = self.settings.storage_class
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": self.metadata(self.name(name)),
            "spec": spec,
        }

    def node_secret(self, spec: NodeSpec) -> Mapping[str, Json]:
        """Private files and secret environment of a node."""
        environment = {f"environment.{name}": text.encode() for name, text in spec.secrets.items()}
        metadata = self.metadata(self.name(spec.name), node=spec.name)
        return _secret(metadata, {**spec.private_files, **environment})

    def node(
        self,
        spec: NodeSpec,
        incarnation: int,
        command: Sequence[str],
        environment: Mapping[str, str],
    ) -> Mapping[str, Json]:
        """The Job of one incarnation."""
        about = {"node": spec.name, "incarnation": str(incarnation)}
        own = self.settings.labels if spec.role is Role.LEARNER else {}
        labels = {**own, **names.labels_of(self.run, **about)}
        metadata = self.metadata(self.name(spec.name, str(incarnation)), **about)
        again: dict[str, Json] = {"backoffLimit": 0}
        if (count := self.settings.pods_of(spec)) > 1:
            again |= {"completionMode": "Indexed", "completions": count, "parallelism": count}
        if self.settings.replaces_pods_of(spec.role):
            again = {"backoffLimit": RETRIES, "podReplacementPolicy": "Failed"}
            if self.settings.puts_in_job_set(spec.role):
                again = {"backoffLimit": 0, "completionMode": "Indexed", "completions": 1,
                         "parallelism": 1}  # fmt: skip
            environment = {**environment, "CHAOSLAB_INCARNATION": str(incarnation)}
        pod = self._pod(spec, command, environment)
        return _job({**metadata, "labels": {**labels}}, pod, **again)

    def beside(self, node: str, command: Sequence[str], number: int) -> Mapping[str, Json]:
        """A Job that runs a command once with the claim of a node."""
        container = self._container(CONTAINER, command)
        container["volumeMounts"] = [{"name": "state", "mountPath": NODE}]
        volumes: list[Json] = [{"name": "state", **_claimed(self.name(node))}]
        metadata = self.metadata(self.name(node, "beside", str(number)))
        return _job(metadata, {**self._plain_pod(container), "volumes": volumes}, backoffLimit=0)

    def owner_job(self, lease_s: float) -> Mapping[str, Json]:
        """The Job without pods that owns all other objects of the run: the cluster's controller of
        Jobs deletes it `lease_s` after its start, unless `renewal` moves that on.

        So nothing of a run outlives a harness that is gone by more than the run's lease.
        """
        metadata: dict[str, Json] = {
            "name": self.name(),
            "labels": {**names.labels_of(self.run)},
            "annotations": {names.DIRECTORY: self.directory},
        }
        pod = self._plain_pod(self._container("owner", ("true",)))
        return _job(metadata, pod, parallelism=0, ttlSecondsAfterFinished=0, **renewal(lease_s))

    def proxy_secret(self, token: str) -> Mapping[str, Json]:
        """Secret with the token of the proxy's API."""
        return _secret(self.metadata(self.name(PROXY)), {_TOKEN: token.encode()})

    def proxy(self) -> Mapping[str, Json]:
        """The Job of the pod that carries a run's links. One that ends is not replaced: its effects
        are gone, and so the links count as lost.
        """
        key: dict[str, Json] = {"name": self.name(PROXY), "key": _TOKEN}
        container: dict[str, Json] = {
            **self._container(PROXY, _PROXY_COMMAND),
            "stdin": True,  # it ends with its standard input
            "env": [{"name": TOKEN, "valueFrom": {"secretKeyRef": key}}],
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "512Mi"},
            },
        }
        pod: dict[str, Json] = {
            "terminationGracePeriodSeconds": 5,
            **self._plain_pod(container),
            "enableServiceLinks": False,
        }
        return _job(self.metadata(self.name(PROXY)), pod, backoffLimit=0)

    def metadata(self, name: str, **labels: str) -> dict[str, Json]:
        """Metadata of an object of this run, which is deleted with its owner Job."""
        owner: dict[str, Json] = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": self.name(),
            "uid": self.owner,
        }
        return {
            "name": name,
            "labels": {**names.labels_of(self.run, **labels)},
            "ownerReferences": [owner],
        }

    # ---------------------------------------------------------------- inside

    def _service(
        self,
        metadata: Mapping[str, Json],
        node: str,
        port: int | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Mapping[str, Json]:
        """A Service in front of pods of a node, with an address of its own if it has a port."""
        selector: dict[str, Json] = {**names.labels_of(self.run, node=node), **(more or {})}
        ports: list[Json] = [{"port": port, "protocol": "TCP"}]
        where: dict[str, Json] = {"clusterIP": "None"} if port is None else {"ports": ports}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": selector, **where, "publishNotReadyAddresses": True},
        }

    def _container(self, name: str, command: Sequence[str]) -> dict[str, Json]:
        """A container of the run's image."""
        return {
            "name": name,
            "image": self.settings.image,
            "imagePullPolicy": self.settings.pull,
            "command": literal(command),
            "securityContext": confined(),
        }

    def _plain_pod(self, container: Mapping[str, Json]) -> dict[str, Json]:
        """A pod of no node."""
        return {
            **self.settings.others,
            "automountServiceAccountToken": False,
            "securityContext": pod_context(self.settings.others),
            "restartPolicy": "Never",
            "containers": [container],
        }

    def _pod(
        self, spec: NodeSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> dict[str, Json]:
        is_learner = spec.role is Role.LEARNER
        template = self.settings.learners if is_learner else self.settings.others
        own = self.settings.container if is_learner else {}
        volumes, mounts = self._volumes(spec)
        variables: list[Json] = [
            {"name": name, "value": value} for name, value in environment.items()
        ]
        for name in spec.secrets:
            key: dict[str, Json] = {"name": self.name(spec.name), "key": f"environment.{name}"}
            variables.append({"name": name, "valueFrom": {"secretKeyRef": key}})
        of_hosts: dict[str, Json] = {}
        if self.settings.pods_of(spec) > 1:
            own_address: dict[str, Json] = {"fieldRef": {"fieldPath": "status.podIP"}}
            variables.append({"name": "CHAOSLAB_ADDRESS", "valueFrom": own_address})
            variables.append({"name": "HOME", "value": _HOME_OF_HOST})
            of_hosts = {"subdomain": self.name(spec.name)}
        container: dict[str, Json] = {
            **own,
            **self._container(CONTAINER, (*scripts.ENTRY, *command)),
            "env": [*listed(own, "env"), *variables],
            "resources": self._resources(own),
            "volumeMounts": [*listed(own, "volumeMounts"), *mounts],
            "securityContext": {**confined(), **mapping(own, "securityContext")},
        }
        if spec.role is Role.SYNCER and self.settings.in_job_sets:
            container["startupProbe"] = _ready_once_it_listens()
        return {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            **of_hosts,
            **template,
            "securityContext": pod_context(template),
            "restartPolicy": "Never",
            "shareProcessNamespace": True,
            "containers": [container],
            "volumes": [*listed(template, "volumes"), *volumes],
        }

    def _volumes(self, spec: NodeSpec) -> tuple[list[Json], list[Json]]:
        """Volumes of the pod, and where its container has them."""
        wanted: dict[str, tuple[str, dict[str, Json]]] = {
            "control": (CONTROL, {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}),
            "state": (NODE, _claimed(self.name(spec.name)) if self.keeps(spec)
                      else {"emptyDir": {}}),
            "cache": (CACHE, _claimed(claim) if (claim := self.settings.cache_claim)
                      else {"emptyDir": {}}),
        }  # fmt: skip
        if self.settings.pods_of(spec) > 1:
            wanted["home"] = (_HOME_OF_HOST, {"emptyDir": {}})
        if spec.role is not Role.LEARNER:  # a claim may be on one machine at a time
            wanted["shared"] = (SHARED, _claimed(self.name("shared")))
        if spec.private_files:
            items: list[Json] = [{"key": name, "path": name} for name in spec.private_files]
            secret: dict[str, Json] = {"secretName": self.name(spec.name), "items": items}
            wanted["private"] = (_SECRETS, {"secret": {**secret, "defaultMode": 0o440}})
        volumes: list[Json] = [{"name": name, **of} for name, (_, of) in wanted.items()]
        mounts: list[Json] = [{"name": name, "mountPath": at} for name, (at, _) in wanted.items()]
        return volumes, mounts

    def _resources(self, own: Mapping[str, Json]) -> dict[str, Json]:
        asked = {**mapping(own, "resources")}
        limits = {**mapping(asked, "limits")}
        if self.settings.cpus is not None:
            limits["cpu"] = f"{self.settings.cpus * 1000:.0f}m"
        if self.settings.memory_bytes is not None:
            limits["memory"] = str(self.settings.memory_bytes)
        return {**asked, "limits": limits} if limits else asked


def renewal(until_s: float) -> dict[str, Json]:
    """Change of the spec of an owner Job by which it lives until this long after its start, by the
    cluster's clock.
    """
    return {"activeDeadlineSeconds": ceil(until_s)}


def _job(metadata: Mapping[str, Json], pod: Mapping[str, Json], **spec: Json) -> Mapping[str, Json]:
    """A Job, whose pods have its labels."""
    template: dict[str, Json] = {"metadata": {"labels": metadata["labels"]}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {**spec, "template": template},
    }


def _secret(metadata: Mapping[str, Json], content: Mapping[str, bytes]) -> Mapping[str, Json]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "immutable": True,
        "data": {name: base64.b64encode(one).decode() for name, one in content.items()},
    }


def _ready_once_it_listens() -> dict[str, Json]:
    """The kubelet asks until it does, and then no more: a node that is paused later stays ready."""
    return {
        "exec": {"command": [*scripts.LISTENS, f"{SYNCER_PORT:04X}"]},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": RETRIES,
    }


def literal(command: Sequence[str]) -> list[Json]:
    """The command with every `$` doubled: Kubernetes itself expands `$(NAME)` and `$$`."""
    return [word.replace("$", "$$") for word in command]


def pod_context(template: Mapping[str, Json]) -> dict[str, Json]:
    """The plan's own, and what the Pod Security level `restricted` asks for."""
    profile: dict[str, Json] = {"type": "RuntimeDefault"}
    return {"fsGroup": _USER, "seccompProfile": profile, **mapping(template, "securityContext")}


def _claimed(name: str) -> dict[str, Json]:
    return {"persistentVolumeClaim": {"claimName": name}}


def confined() -> dict[str, Json]:
    """Security context of every container."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": _USER,
    }
