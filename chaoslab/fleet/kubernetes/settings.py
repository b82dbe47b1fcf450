"""The kubernetes fleet as a plan names it, and what a plan needs of a cluster.

    fleet: {kind: kubernetes, namespace: chaos, pod: {nodeSelector: …}}
       └─► Kubernetes ─ factory ─► ClusterFleets ─ cluster, rights ─► KubernetesFleet, per run
               └─ links ─► a proxy in a pod of the run

The cluster is asked when it is needed and not before: a plan can be read without one. lightkube is
imported as late.
"""

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import Bytes, Duration
from chaoslab.fleet.base import Ability, Fleet, NodeSite, NodeSpec, Role
from chaoslab.fleet.kubernetes.job_set_choice import JobSetChoice, JobSetUse
from chaoslab.fleet.kubernetes.parts import mapping
from chaoslab.fleet.local.slowdown import said
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import abilities_of
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.base import Links
from chaoslab.links.proxied.settings import Embedded
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.plan.model import NO_LINKS
from chaoslab.undo.base import UndoLog

if TYPE_CHECKING:
    from chaoslab.fleet.kubernetes.cluster import Cluster
    from chaoslab.fleet.kubernetes.manifests import PodSettings

_PRODUCTION: Final = re.compile(r"(^|[^a-z])(prod|prd|production|live)([^a-z]|$)", re.IGNORECASE)
_LEASE_LEAST_S: Final = 30.0
_OURS: Final = frozenset({"containers", "restartPolicy", "shareProcessNamespace"})
_OURS_OF_CONTAINER: Final = frozenset({"name", "image", "imagePullPolicy", "command", "args"})
_LABEL: Final = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PULLS: Final = ("IfNotPresent", "Never", "Always")


class Healer(StrEnum):
    """Program that starts a node again that a fault ended."""

    CHAOSLAB = "chaoslab"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """Jobs in a namespace of a Kubernetes cluster, by kubectl's current context."""

    context: str = ""
    """Context of the kubeconfig; empty: the current one, unless it looks like production."""
    namespace: str = ""
    """An existing namespace; empty: that of the context."""
    image: str = ""
    """Image of the nodes; empty: that of `chaoslab doctor images build` for this very source."""
    image_pull: str = "IfNotPresent"
    """When the cluster fetches it: IfNotPresent, Never or Always."""
    cpus: float | None = None
    """Cores that each node may use; None: no limit."""
    memory_bytes: Bytes | None = None
    """Memory that each node may use; None: no limit."""
    disk_bytes: Bytes = 1_000_000_000
    """Size of each node's claim, for its checkpoints or state."""
    storage_class: str = ""
    """Class of the claims; empty: the cluster's default."""
    cache_claim: str = ""
    """An existing claim for compiled steps, which all nodes mount; empty: each start compiles."""
    pod: Mapping[str, Json] = field(default_factory=dict)
    """Spec of the learners' pods, as in Kubernetes: nodeSelector, tolerations, volumes, …"""
    container: Mapping[str, Json] = field(default_factory=dict)
    """Spec of their container, as in Kubernetes: resources, also of chips, volumeMounts, …"""
    job_labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of the learners' Jobs and pods, such as Kueue's queue."""
    other_pods: Mapping[str, Json] = field(default_factory=dict)
    """Spec of all other pods, such as those of syncer and evaluator."""
    heal: Healer = Healer.CHAOSLAB
    """Program that starts syncer and learners again that a fault ended: chaoslab, at the heal, by a
    Job for each start; or the cluster, as soon as their one Job replaces its pod."""
    job_set: JobSetUse = JobSetUse.AUTO
    """Whether syncer and learners are Jobs of a JobSet, which starts each again alone. auto: with
    `heal: cluster`, where the cluster has JobSets that can; always; or never: plain Jobs."""
    exclusive_topology: str = ""
    """Label of machines, such as kubernetes.io/hostname or that of their pool or rack: each
    learner has those of one value to itself. Needs a JobSet; empty: placed as others are."""
    start_within_s: Duration = 300.0
    """Longest start of a pod, its image and its machine included."""
    lease_s: Duration = 180.0
    """Time after which the cluster deletes everything of a run whose harness is gone."""

    default_links: ClassVar[str] = "embedded"
    runs_here: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.image_pull not in _PULLS:
            raise PlanError(f"must be {', '.join(_PULLS)}, got {self.image_pull!r}",
                            key="image_pull")  # fmt: skip
        if self.lease_s < _LEASE_LEAST_S:
            raise PlanError(f"must be at least {_LEASE_LEAST_S:g}s", key="lease")
        self._refuse_impossible_job_sets()
        if self.start_within_s <= 0:
            raise PlanError("must be above 0s", key="start_within")
        for key, given, ours in (
            ("pod", self.pod, _OURS), ("other_pods", self.other_pods, _OURS),
            ("container", self.container, _OURS_OF_CONTAINER),
        ):  # fmt: skip
            if clash := sorted(ours & given.keys()):
                raise PlanError(f"chaoslab itself sets `{clash[0]}`: leave it out", key=key)
        if self.cpus is not None and self.cpus <= 0:
            raise PlanError(f"must be above 0, got {self.cpus:g}", key="cpus")
        for key, size in (("memory", self.memory_bytes), ("disk", self.disk_bytes)):
            if size is not None and size <= 0:
                raise PlanError(f"must be above 0 bytes, got {size}", key=key)

    def _refuse_impossible_job_sets(self) -> None:
        is_by_chaoslab = self.heal is not Healer.CLUSTER
        if self.job_set is JobSetUse.ALWAYS and is_by_chaoslab:
            raise PlanError(
                "a JobSet starts a node again as soon as it fails, not at the heal of a fault: "
                "write heal: cluster, or job_set: auto", key="job_set",
            )  # fmt: skip
        if self.exclusive_topology and not _LABEL.fullmatch(self.exclusive_topology):
            raise PlanError(
                f"must be a label of machines, such as kubernetes.io/hostname, got "
                f"{self.exclusive_topology!r}", key="exclusive_topology",
            )  # fmt: skip
        if self.exclusive_topology and (is_by_chaoslab or self.job_set is JobSetUse.NEVER):
            raise PlanError(
                "needs a JobSet, which takes heal: cluster, and not job_set: never; without one, "
                "write a podAntiAffinity into fleet.pod", key="exclusive_topology",
            )  # fmt: skip

    @property
    def limits_memory(self) -> bool:
        """Whether learners have a memory limit: without one, a machine would run out of it."""
        return self.memory_bytes is not None or self._has_own_limit("memory")

    @property
    def limits_cpu(self) -> bool:
        """Whether learners have a CPU limit: a pod that runs gets no first one."""
        return self.cpus is not None or self._has_own_limit("cpu")

    def _has_own_limit(self, of: str) -> bool:
        """Whether the plan's own container has it."""
        return of in mapping(self.container, "resources", "limits")

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that asks the cluster when a fleet is made.

        AbilityError for text of this machine and for tasks of one's own.
        """
        if Path(request.data).exists():
            raise AbilityError(
                f"the text {request.data} is on this machine, and pods cannot see it: put it into "
                "the image, and name that as fleet.image"
            )
        if request.trial(NodeSite()) is not None:
            raise AbilityError(
                "a task of your own cannot be tried in a cluster before the run: use "
                "--fleet docker, or one of the built-in models"
            )
        return ClusterFleets(settings=self, needs=request.needs, learners=len(request.learners))

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:
        """Links by chaoslab's own proxy in one more pod of the run."""
        if kind == NO_LINKS:
            return settings.factory(seed)
        if not isinstance(settings, Embedded):
            raise AbilityError(
                f"there are no links {kind!r} between pods: use embedded, a proxy in a pod of "
                "the run, or --fleet docker",
                key="links",
            )
        return partial(_by_proxy, ClusterFleets(settings=self), seed)

    def slowing(self, mechanism: Mechanism) -> str:
        """Slowing by the learner's own rests, unless its CPU limit is requested."""
        if mechanism is Mechanism.CGROUP:
            return "the CPU limit of its container, resized in place"
        return said(Mechanism.HOOK if mechanism is Mechanism.AUTO else mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    settings: Kubernetes
    needs: frozenset[Ability] = frozenset()
    """Abilities that the plan's faults need."""
    learners: int = 0
    """All that may run."""
    kind: str = "kubernetes"

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of the fleet; AbilityError if no cluster answers, or this user lacks rights.

        The server checks an owner Job, a claim, and Jobs of a syncer and a learner, and, if there
        is to be one, a JobSet of both; none is created.
        """
        from chaoslab.fleet.kubernetes.cpu_limit import require_resizes  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.fleet import KubernetesFleet  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.job_sets import NodeJob, job_set  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.manifests import Manifests  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.resources import CLAIMS  # noqa: PLC0415  # lightkube

        pods = self.pods()
        with closing(self._connect()) as cluster:
            try:
                cluster.version()
                pods = self._in_job_sets(pods, cluster)
                require_rights(cluster, self.kind)
                if Ability.QUOTA in self.needs:
                    require_resizes(cluster)
                if Ability.DRAIN in self.needs:
                    _require_machine_rights(cluster)
                trial = Manifests(run="trial", directory="trial", settings=pods, owner="trial")
                nodes = [
                    NodeSpec(name=role.value, role=role, command=("true",), keeps="state")
                    for role in (Role.SYNCER, Role.LEARNER)
                ]
                jobs = [NodeJob(one, trial.node(one, 1, one.command, {})) for one in nodes]
                for manifest in (
                    trial.owner_job(self.settings.lease_s), trial.claim("claim"),
                    *(one.job for one in jobs),
                    *([job_set(trial, trial.name(), jobs)] if pods.in_job_sets else []),
                ):  # fmt: skip
                    cluster.create(manifest, is_trial=True)
                if self.settings.cache_claim:
                    cluster.get(CLAIMS, self.settings.cache_claim)
            except FleetError as error:
                raise AbilityError(str(error)) from error
        return abilities_of(KubernetesFleet) - self.remedies.keys()

    @property
    def remedies(self) -> Mapping[Ability, str]:
        """Remedy for a missing limit, which cannot be used up."""
        found = {}
        if not self.settings.limits_memory:
            what = "give the nodes a limit by fleet.memory, such as fleet.memory: 1GB"
            found[Ability.MEMORY_LIMIT] = what
        if not self.settings.limits_cpu:
            what = "give the learners a CPU limit, such as fleet.cpus: 2, or leave out mechanism"
            found[Ability.QUOTA] = what
        return found

    def explain(self) -> str:
        """Sentence on who restarts nodes in this cluster."""
        if self.settings.heal is not Healer.CLUSTER:
            return ""
        with closing(self._connect()) as cluster:
            why_not = self._choice.made(cluster)
        if why_not:
            return f"nodes start again by their Jobs, without a JobSet: {why_not}"
        return "nodes start again by a JobSet, each alone (RestartJobAndIgnoreMaxRestarts)"

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run."""
        from chaoslab.fleet.kubernetes.fleet import KubernetesFleet  # noqa: PLC0415  # lightkube
        from chaoslab.fleet.kubernetes.pods import Setup  # noqa: PLC0415  # the same

        cluster, asked = self._connect(), self.settings
        pods = self._in_job_sets(self.pods(), cluster)
        setup = Setup(pods=pods, start_s=asked.start_within_s, lease_s=asked.lease_s)
        return KubernetesFleet(
            run_directory, clock, undo_log=undo_log, cluster=cluster, setup=setup,
            node_links=node_links,
        )  # fmt: skip

    @property
    def _choice(self) -> JobSetChoice:
        asked = self.settings
        return JobSetChoice(
            use=asked.job_set, exclusive_topology=asked.exclusive_topology, learners=self.learners,
        )  # fmt: skip

    def _in_job_sets(self, pods: "PodSettings", cluster: "Cluster") -> "PodSettings":
        """The same, in JobSets where this cluster has them and heals."""
        return replace(pods, in_job_sets=pods.replaces and not self._choice.made(cluster))

    def _connect(self) -> "Cluster":
        return connect(self.settings.context, self.settings.namespace)

    def pods(self) -> "PodSettings":
        """Settings of its runs' pods. AbilityError if their image is not named."""
        from chaoslab.fleet.kubernetes.manifests import PodSettings  # noqa: PLC0415

        asked = self.settings
        return PodSettings(
            image=asked.image or _own_image(), pull=asked.image_pull, cpus=asked.cpus,
            memory_bytes=asked.memory_bytes, storage_class=asked.storage_class,
            disk_bytes=asked.disk_bytes, cache_claim=asked.cache_claim, learners=asked.pod,
            others=asked.other_pods, container=asked.container, labels=asked.job_labels,
            replaces=asked.heal is Healer.CLUSTER, measures_cpu=Ability.QUOTA in self.needs,
            exclusive_topology=asked.exclusive_topology,
        )  # fmt: skip


def _by_proxy(
    fleets: ClusterFleets, seed: int, run_directory: Path, /, *, undo_log: UndoLog
) -> Links:
    """Links by a proxy in a pod, which is started when they are entered."""
    from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster  # noqa: PLC0415  # lightkube
    from chaoslab.fleet.kubernetes.proxy_host import PodProxyHost  # noqa: PLC0415
    from chaoslab.fleet.kubernetes.proxy_links import PodLinks  # noqa: PLC0415

    asked = fleets.settings
    connected = partial(ForwardingCluster.connect, asked.context, asked.namespace)
    proxy_host = PodProxyHost(run_directory, connected, fleets.pods, asked.start_within_s)
    return PodLinks(run_directory, undo_log=undo_log, seed=seed, proxy_host=proxy_host)


def connect(context: str, namespace: str) -> "Cluster":
    """A namespace. AbilityError for a context that looks like production, unless it is named."""
    from chaoslab.fleet.kubernetes.cluster import Cluster  # noqa: PLC0415  # lightkube

    cluster = Cluster.connect(context, namespace)
    names = (cluster.context, cluster.cluster_name, cluster.server)
    if not context and any(map(looks_like_production, names)):
        cluster.close()
        raise AbilityError(
            f"the current context, {cluster.context} (cluster {cluster.cluster_name} at "
            f"{cluster.server}), looks like production: to break nodes there, name it: "
            f"fleet.context: {cluster.context}, or in `chaoslab attach` namespace:NAME@"
            f"{cluster.context}"
        )
    return cluster


def require_rights(cluster: "Cluster", kind: str) -> None:
    """AbilityError if this user may not do what a fleet of this kind does, by the server's word."""
    from chaoslab.fleet.kubernetes.rights import RIGHTS, lacking  # noqa: PLC0415

    if missing := lacking(cluster, RIGHTS[kind]):
        raise AbilityError(
            f"in namespace {cluster.namespace} of context {cluster.context} you may not "
            f"{', '.join(missing)}: `chaoslab doctor rights {kind}` prints the Role that is needed"
        )


def _require_machine_rights(cluster: "Cluster") -> None:
    """AbilityError if this user may not do what a drain of a machine does."""
    from chaoslab.fleet.kubernetes.rights import MACHINES, lacking  # noqa: PLC0415

    if missing := lacking(cluster, MACHINES, everywhere=True):
        raise AbilityError(
            f"in the cluster of context {cluster.context} you may not {', '.join(missing)}: "
            "`chaoslab doctor rights kubernetes --nodes` prints the ClusterRole that is needed"
        )


def looks_like_production(name: str) -> bool:
    """Whether a context, its cluster or its server has a word such as prod in its name."""
    return _PRODUCTION.search(name) is not None


def _own_image() -> str:
    try:
        from chaoslab.fleet.docker.images.images import source  # noqa: PLC0415  # needs the SDK
    except AbilityError as error:
        raise AbilityError(
            "name the image of the nodes as fleet.image: its default, the image of "
            "`chaoslab doctor images build`, needs pip install 'chaoslab[docker]'"
        ) from error
    return source().image
