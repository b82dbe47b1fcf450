"""Where the nodes of a run live, by which links learners reach the syncer, and their labels.

Names the kinds of fleets and links; none of them is known here otherwise.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from chaoslab.errors import PlanError

PROGRAMS: Final = ("syncer", "learner", "evaluator")
"""The roles whose program a plan may name."""

_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class FleetKind(StrEnum):
    """Where nodes run."""

    LOCAL = "local"


class LinkKind(StrEnum):
    """What lies between each learner and the syncer."""

    NONE = "none"
    """Learners dial the syncer themselves."""
    EMBEDDED = "embedded"
    """The proxy that comes with chaoslab."""
    TOXIPROXY = "toxiproxy"
    """A Toxiproxy server."""


REGION = "region"
"""The label that `fleet.regions` gives."""


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
    of chaoslab's own, with the same flags; any program that keeps the node contract will do."""

    def __post_init__(self) -> None:
        for region, members in self.regions.items():
            if not members:
                raise PlanError(f"the region {region!r} has no learners: write 2, or [learner-0]")
        if self.profiles and self.links is LinkKind.NONE:
            raise PlanError("`profiles` need links: use `links: embedded`, or leave `links` out")
        if self.toxiproxy is not None and self.links is not LinkKind.TOXIPROXY:
            raise PlanError("`toxiproxy` names a server: write `links: toxiproxy` with it")
        for role, module in self.programs.items():
            if role not in PROGRAMS:
                raise PlanError(
                    f"`programs` has no role {role!r}: use {', '.join(PROGRAMS[:-1])} or "
                    f"{PROGRAMS[-1]}"
                )
            if not _MODULE.fullmatch(module):
                raise PlanError(f"{module!r} is no module of the {role}: write package.module")
