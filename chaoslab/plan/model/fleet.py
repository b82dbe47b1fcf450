"""Where the nodes of a run live, by which links learners reach the syncer, and their labels.

Names the kinds of fleets and links; none of them is known here otherwise.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from chaoslab.core.errors import PlanError

PROGRAMS: Final = ("syncer", "learner", "evaluator")
"""The roles whose program a plan may name."""

_MEMORY_LEAST: Final = 64_000_000
_PROGRAM: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*( [^\s{}]+)*")


class FleetKind(StrEnum):
    """Where nodes run."""

    LOCAL = "local"
    """Processes of this machine."""
    DOCKER = "docker"
    """Containers of the Docker engine of this machine, or of DOCKER_HOST."""


class LinkKind(StrEnum):
    """What lies between each learner and the syncer."""

    NONE = "none"
    """Learners dial the syncer themselves."""
    EMBEDDED = "embedded"
    """The proxy that comes with chaoslab."""
    TOXIPROXY = "toxiproxy"
    """A Toxiproxy server."""
    NETEM = "netem"
    """A gateway whose kernel forwards and shapes; between containers alone."""


REGION = "region"
"""The label that `fleet.regions` gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """What each container of a docker fleet is made of; the other fleets pass it over."""

    image: str = ""
    """Its image; empty: the one that `chaoslab images build` makes of this very source."""
    cpus: float | None = None
    """Cores that it may use; None: all of the engine's machine."""
    memory_bytes: int | None = None
    """Memory that it may use; None: all of the engine's machine."""
    processes: int = 512
    """Processes and threads that it may have."""

    def __post_init__(self) -> None:
        if self.cpus is not None and self.cpus <= 0:
            raise PlanError(f"must be above 0, got {self.cpus:g}", key="cpus")
        if self.memory_bytes is not None and self.memory_bytes < _MEMORY_LEAST:
            raise PlanError("must be at least 64MB; a learner needs about 512MB", key="memory")
        if self.processes < 1:
            raise PlanError(f"must be at least 1, got {self.processes}", key="processes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Which fleet carries the run, and by which links its learners reach the syncer."""

    kind: FleetKind = FleetKind.LOCAL
    links: LinkKind | None = None
    """None: embedded if a fault or a profile needs links, none otherwise."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of nodes by name, for targets such as `region: eu`."""
    regions: Mapping[str, int | tuple[str, ...]] = field(default_factory=dict)
    """The learners of each region: their names, or how many of those that no region names."""
    profiles: Mapping[str, str] = field(default_factory=dict)
    """By region: the named profile that its links have from the start, whatever faults do."""
    toxiproxy: str | None = None
    """host:port of the API of a Toxiproxy server that runs already; None: one of our own."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """By role (syncer, learner, evaluator): the module that is started, as by `python -m`, in place
    of chaoslab's own, with the same flags; any program that keeps the node contract will do. Words
    after the module are its first arguments."""
    containers: Containers = field(default_factory=Containers)
    """What the containers of a docker fleet are made of."""

    def __post_init__(self) -> None:
        for region, members in self.regions.items():
            if not members:
                raise PlanError(f"region {region!r} has no learners: write 2, or [learner-0]")
        if self.profiles and self.links is LinkKind.NONE:
            raise PlanError("`profiles` need links: use `links: embedded`, or leave `links` out")
        if self.toxiproxy is not None and self.links is not LinkKind.TOXIPROXY:
            raise PlanError("`toxiproxy` needs `links: toxiproxy`")
        for role, program in self.programs.items():
            if role not in PROGRAMS:
                raise PlanError(
                    f"`programs` has no role {role!r}: use {', '.join(PROGRAMS[:-1])} or "
                    f"{PROGRAMS[-1]}"
                )
            if not _PROGRAM.fullmatch(program):
                raise PlanError(f"the program of a {role} must be package.module, got {program!r}")

    @property
    def modules(self) -> Mapping[str, str]:
        """The modules of `programs`, without arguments."""
        return {role: program.split()[0] for role, program in self.programs.items()}
