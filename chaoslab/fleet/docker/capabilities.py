"""Abilities that an engine takes from a fleet, by its own report, and why.

    facts (`docker info`) ─► lacking ─► ability: reason

An engine takes limits that its kernel does not have, and drops them with a warning: a fault would
begin and do nothing. So a plan that needs them is refused before anything starts.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.core.events import Json
from chaoslab.fleet.base import Ability

_NEEDED: Final[Mapping[str, tuple[frozenset[Ability], str]]] = {
    "CpuCfsQuota": (
        frozenset({Ability.SLOW, Ability.QUOTA}),
        "no CPU quotas, and so nothing for compute.slow",
    ),
    "MemoryLimit": (
        frozenset({Ability.MEMORY_LIMIT}),
        "no limits of memory, and so nothing for process.oom",
    ),
}
"""Abilities and reason for each engine fact. Rootless engines often lack quotas on cgroup v2."""
_NO_CGROUPS: Final = "no cgroups, and so nothing that freezes"
"""UNVERIFIED: rootless engines on cgroup v1 are said to be so; none was there to be tried."""


def lacking(facts: Mapping[str, Json]) -> Mapping[Ability, str]:
    """Abilities that an engine with these `Engine.facts` lacks, with the reason."""
    lacks = {
        ability: reason
        for fact, (abilities, reason) in _NEEDED.items()
        if facts.get(fact) is False
        for ability in abilities
    }
    if facts.get("CgroupDriver") == "none":
        lacks[Ability.PAUSE] = _NO_CGROUPS
    return lacks
