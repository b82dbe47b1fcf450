"""Where the nodes of a run live, by which links learners reach the syncer, and their labels.

No kind of fleet or links is known here: their settings are carried and not looked at.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chaoslab.core.errors import PlanError

PROGRAMS: Final = ("syncer", "learner", "evaluator")
"""The roles whose program a plan may name."""

_PROGRAM: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*( [^\s{}]+)*")


NO_LINKS: Final = "none"
"""The links that are not there: learners dial the syncer themselves."""
REGION = "region"
"""The label that `fleet.regions` gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Which fleet carries the run, and by which links its learners reach the syncer."""

    kind: str = "local"
    """Its name in the registry."""
    links: str | None = None
    """What lies between each learner and the syncer; None: the links that come with the fleet if a
    fault or a profile needs any, none otherwise."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of nodes by name, for targets such as `region: eu`."""
    regions: Mapping[str, int | tuple[str, ...]] = field(default_factory=dict)
    """The learners of each region: their names, or how many of those that no region names."""
    profiles: Mapping[str, str] = field(default_factory=dict)
    """By region: the named profile that its links have from the start, whatever faults do."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """By role (syncer, learner, evaluator): the module that is started, as by `python -m`, in place
    of chaoslab's own, with the same flags; any program that keeps the node contract will do. Words
    after the module are its first arguments."""
    settings: object = None
    """Those of this kind of fleet, as it reads them itself; None: its defaults."""
    links_settings: object = None
    """Those of these links, likewise."""

    def __post_init__(self) -> None:
        for region, members in self.regions.items():
            if not members:
                raise PlanError(f"region {region!r} has no learners: write 2, or [learner-0]")
        if self.profiles and self.links == NO_LINKS:
            raise PlanError("`profiles` need links: use `links: embedded`, or leave `links` out")
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
