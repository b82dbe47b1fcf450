"""Fleet of a plan: kind, links, labels, regions and programs of its nodes.

Kinds of fleets and links are not known here: their settings are passed on unread.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from chaoslab.core.errors import PlanError

PROGRAMS: Final = ("syncer", "learner", "evaluator")
"""Roles whose program a plan may replace."""

_PROGRAM: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*( [^\s{}]+)*")


NO_LINKS: Final = "none"
"""Name of the absence of links: learners connect to the syncer directly."""
REGION = "region"
"""Label that `fleet.regions` sets."""


def _mapping(example: str) -> Any:
    """A field that is empty by default; `example` is what an error says to write."""
    return field(default_factory=dict, metadata={"example": example})


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Fleet of the run, and the links between its learners and the syncer."""

    kind: str = "local"
    """Name of the kind of fleet in the registry."""
    links: str | None = None
    """Kind of links between learners and syncer; None: the links that come with the fleet if a
    fault or a profile needs any, none otherwise."""
    labels: Mapping[str, Mapping[str, str]] = _mapping("{learner-0: {region: eu}}")
    """Labels of nodes by name, for targets such as `region: eu`."""
    regions: Mapping[str, int | tuple[str, ...]] = _mapping("{eu: [learner-0, learner-1], us: 2}")
    """The learners of each region: their names, or how many of those that no region names."""
    profiles: Mapping[str, str] = _mapping("{eu: transatlantic}")
    """By region: the profile of its links from the start, in addition to any faults."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """By role (syncer, learner, evaluator): the module that is started, as by `python -m`, in place
    of chaoslab's own, with the same flags; any program that follows the node contract works. Words
    after the module are its first arguments."""
    settings: object = None
    """Settings of this kind of fleet, decoded by it; None: its defaults."""
    links_settings: object = None
    """Settings of this kind of links, decoded by it; None: its defaults."""

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
