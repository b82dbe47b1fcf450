"""Facts of the undo verbs of the kubernetes fleet: what an undo log says of each, checked.

Objects that do not belong to the run that wrote them are refused. Credentials are up to the
kubeconfig of the user that undoes: a record names the context and the server that it meant.
"""

import re
from dataclasses import dataclass, field

from chaoslab.fleet.kubernetes.names import JOB_SET_VERSION
from chaoslab.fleet.run_name import require_own_name, require_own_run
from chaoslab.links.proxied.undo_verbs import require_injection, require_proxy
from chaoslab.undo.facts import Facts, require, require_match

CORES = re.compile(r"[0-9]{1,6}m?")
"""CPU cores as Kubernetes writes them: 2 or 250m."""
_MACHINE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts(Facts):
    """Something in a namespace of a cluster."""

    server: str
    """Address of its API server: a context may come to mean another one."""
    context: str
    namespace: str

    def __post_init__(self) -> None:
        is_name = _NAMESPACE.fullmatch(self.namespace) is not None
        require(is_name, f"{self.namespace!r} is no namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts(ClusterFacts):
    """All objects of a run."""

    run: str
    job_sets: str = ""
    """Version of the API of JobSets, if some may be among them; empty: none."""

    def __post_init__(self) -> None:
        ClusterFacts.__post_init__(self)
        require_own_run(self, self.run)
        require(self.job_sets in ("", JOB_SET_VERSION), f"no JobSets of {self.job_sets!r} are made")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts(RunFacts):
    """A machine of the cluster that the run has cordoned, as an annotation there says."""

    machine: str

    def __post_init__(self) -> None:
        RunFacts.__post_init__(self)
        require_match(_MACHINE, self.machine, "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts(ClusterFacts):
    """A pod of the run."""

    pod: str

    def __post_init__(self) -> None:
        ClusterFacts.__post_init__(self)
        require_own_name(self, self.pod, "pod")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimitFacts(PodFacts):
    """CPU limit and request that the container of a pod had."""

    limit: str
    request: str

    def __post_init__(self) -> None:
        PodFacts.__post_init__(self)
        for one in (self.limit, self.request):
            require(CORES.fullmatch(one) is not None, f"{one!r} is no number of cores")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProxyFacts(PodFacts):
    """A link through the proxy in a pod of the run."""

    proxy: str
    injection: str = ""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        PodFacts.__post_init__(self)
        require_proxy(self.proxy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEffectFacts(PodProxyFacts):
    """Effects of one injection on such a link."""

    def __post_init__(self) -> None:
        PodProxyFacts.__post_init__(self)
        require_injection(self.injection)
