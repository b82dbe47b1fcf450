"""Registry of parts from installed packages: fleets, links, faults, checks and undo actions.

    pyproject.toml of a package            [project.entry-points."chaoslab.faults"]
                                           "toy.nap" = "toy_chaos:Nap"
    load_plugins(Group.FAULTS, own, why_not) ─► own and {"toy.nap": Nap}

The parts of chaoslab itself are tables in its code, not entry points: the janitor must find its
undo actions even if the metadata of the installation are stale or missing, as with a checkout on
PYTHONPATH. Entry points are searched once, when a plan is read or an undo action is unknown.

A package that cannot be loaded is an error that names it: if it were left out, a plan or an undo
that needs it would fail without a visible cause.
"""

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from chaoslab.core.errors import PackageError

Plugin = TypeVar("Plugin")


class Group(StrEnum):
    """Groups of entry points, one for each kind of part."""

    FLEETS = "chaoslab.fleets"
    LINKS = "chaoslab.links"
    FAULTS = "chaoslab.faults"
    CHECKS = "chaoslab.checks"
    UNDO = "chaoslab.undo"


def load_plugins(
    group: Group, own: Mapping[str, Plugin], why_not: Callable[[str, Any], str]
) -> Mapping[str, Plugin]:
    """Parts of a group by name: `own` and those of other packages.

    `why_not` says why an object cannot be what it was registered as, empty if it can. PackageError
    for one that cannot be loaded, and for a name that is used twice.
    """
    theirs: dict[str, Plugin] = {}
    packages = dict.fromkeys(own, "chaoslab")
    points = _points(tuple(sys.path))[group]
    for point in sorted(points, key=lambda one: (one.name, one.value)):
        package = point.dist.name if point.dist else "an unknown package"
        if point.name in packages:
            raise PackageError(
                f"{_entry(point, package)} is refused: the name is used by "
                f"{packages[point.name]}; rename it, or uninstall one of them"
            )
        thing = _loaded(point, package)
        if why := why_not(point.name, thing):
            raise PackageError(f"{_entry(point, package)} is refused: {why}")
        theirs[point.name], packages[point.name] = thing, package
    return {**own, **theirs} if theirs else own  # as it is, a table on demand stays one


@cache
def _points(_path: tuple[str, ...]) -> Mapping[Group, tuple[EntryPoint, ...]]:
    """Entry points of all installed packages; once for all groups, as it reads a file of each."""
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in Group}


@cache
def _loaded(point: EntryPoint, package: str) -> Any:
    try:
        return point.load()
    except Exception as error:  # importing it runs whatever its author wrote
        raise PackageError(
            f"{_entry(point, package)} cannot be loaded ({type(error).__name__}: {error}): "
            f"repair or uninstall {package}"
        ) from error


def _entry(point: EntryPoint, package: str) -> str:
    return f"entry point {point.name!r} ({point.value}, group {point.group}) of package {package}"
