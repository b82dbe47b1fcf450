"""Rights that fleets in a cluster use: a Role with exactly these, and the server's word on each.

RIGHTS, MACHINES ─┬─► role, machines_role: YAML for `kubectl apply`
                  └─► lacking: those that this user has not, as the server says
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chaoslab.fleet.kubernetes.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Verbs on one resource, and what the fleet needs them for."""

    group: str
    resource: str
    """`pods`, or `pods/exec` for what is below them."""
    verbs: tuple[str, ...]
    use: str


JOB_SET_RIGHTS: Final = (
    Rule(group="jobset.x-k8s.io", resource="jobsets",
         verbs=("create", "get", "list", "watch", "delete"),
         use="JobSets of the nodes, where the cluster has them and heals"),
)  # fmt: skip
"""Rights without which nodes are plain Jobs, unless the plan asks for a JobSet."""
_RUN: Final = (
    Rule(group="batch", resource="jobs",
         verbs=("create", "get", "list", "watch", "patch", "delete"),
         use="a Job for each incarnation of a node, and the one that owns all and is renewed"),
    Rule(group="", resource="pods", verbs=("get", "list", "watch", "delete"),
         use="their pods: watched, deleted"),
    Rule(group="", resource="pods/log", verbs=("get",), use="events that nodes print"),
    Rule(group="", resource="pods/exec", verbs=("create", "get"),
         use="signals and test hooks"),
    Rule(group="", resource="pods/portforward", verbs=("create", "get"),
         use="faults on links, by the API of the proxy that carries them"),
    Rule(group="", resource="pods/eviction", verbs=("create",), use="pod.delete, how: evict"),
    Rule(group="", resource="pods/resize", verbs=("patch",),
         use="compute.slow by a CPU limit: mechanism: cgroup"),
    Rule(group="", resource="services", verbs=("create", "get", "list", "delete"),
         use="addresses of the syncer, and of the hosts of learners that have several"),
    Rule(group="", resource="persistentvolumeclaims", verbs=("create", "get", "list", "delete"),
         use="what nodes keep"),
    Rule(group="", resource="secrets", verbs=("create", "get", "list", "delete"),
         use="keys and certificates of nodes"),
)  # fmt: skip
_ATTACH: Final = (
    Rule(group="", resource="pods", verbs=("get", "list", "watch", "delete"),
         use="the pods of the training: found, watched; pod.delete"),
    Rule(group="", resource="pods/log", verbs=("get",), use="events that nodes print"),
    Rule(group="", resource="pods/exec", verbs=("create", "get"),
         use="which node a pod runs, its state, signals to it"),
    Rule(group="", resource="pods/eviction", verbs=("create",), use="pod.delete, how: evict"),
    Rule(group="coordination.k8s.io", resource="leases",
         verbs=("create", "get", "patch", "delete"), use="one run at a time"),
)  # fmt: skip
MACHINES: Final = (
    Rule(group="", resource="nodes", verbs=("get", "patch"),
         use="node.drain: cordon and uncordon; what the cluster says of the machine"),
)  # fmt: skip
"""Rights in the whole cluster, for drains of its machines."""
RIGHTS: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {"kubernetes": _RUN, "namespace": _ATTACH}
)
"""Rights that each run needs, by the kind of the fleet."""
_MORE: Final = {"kubernetes": JOB_SET_RIGHTS, "namespace": ()}
"""Rights of some runs alone."""
_NAMES: Final = {"kubernetes": "chaoslab", "namespace": "chaoslab-attach"}
"""Names of their Roles, which may be in one namespace."""
_WHAT: Final = {
    "kubernetes": "chaoslab run --fleet kubernetes", "namespace": "chaoslab attach namespace:NAME"
}  # fmt: skip


def rules_of(kind: str) -> tuple[Rule, ...]:
    """All rules of the Role of a kind of fleet."""
    return (*RIGHTS[kind], *_MORE[kind])


def role(namespace: str, kind: str = "kubernetes") -> str:
    """The Role as YAML, with the use of each rule as a comment."""
    return (
        f"# What `{_WHAT[kind]}` does in a namespace.\n"
        "apiVersion: rbac.authorization.k8s.io/v1\n"
        "kind: Role\n"
        f"metadata: {{name: {_NAMES[kind]}, namespace: {namespace}}}\n"
        f"rules:\n{_written(rules_of(kind))}"
    )


def machines_role() -> str:
    """The ClusterRole as YAML that drains of machines need beside the Role."""
    return (
        "# What node.drain does to the nodes of the cluster.\n"
        "apiVersion: rbac.authorization.k8s.io/v1\n"
        "kind: ClusterRole\n"
        "metadata: {name: chaoslab-nodes}\n"
        f"rules:\n{_written(MACHINES)}"
    )


def _written(rules: Sequence[Rule]) -> str:
    return "".join(
        f"# {one.use}\n"
        f"- apiGroups: ['{one.group}']\n"
        f"  resources: [{one.resource}]\n"
        f"  verbs: [{', '.join(one.verbs)}]\n"
        for one in rules
    )


def lacking(
    cluster: "Cluster", rules: Sequence[Rule], *, everywhere: bool = False
) -> Sequence[str]:
    """Rights that this user lacks, such as `create pods/exec`; empty if there are all.

    `everywhere`: in the whole cluster, and not in the namespace alone.
    """
    found = []
    for rule in rules:
        resource, _, below = rule.resource.partition("/")
        found += [
            f"{verb} {rule.resource}"
            for verb in rule.verbs
            if not cluster.may(verb, resource, rule.group, below, everywhere=everywhere)
        ]
    return found
