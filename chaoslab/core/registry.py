"""What other installed packages bring: fleets, links, faults, checks, and ways to undo.

    pyproject.toml of a package            [project.entry-points."chaoslab.faults"]
                                           "toy.nap" = "toy_chaos:Nap"
    brought(Group.FAULTS, own, why_not) ─► own and {"toy.nap": Nap}

chaoslab's own are not entry points but tables in its code: the janitor must find its undo verbs
where the metadata of the installation are stale or missing, as with a checkout on PYTHONPATH. The
tables cost nothing at the start; entry points are searched for once, when a plan is read or an
undo verb is not chaoslab's own.

A package that cannot be loaded is an error that names it, whoever asks for its group: left out, a
plan or an undo that needs it would fail in a way that nobody understands.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from chaoslab.core.errors import PackageError

Brought = TypeVar("Brought")


class Group(StrEnum):
    """The groups of entry points."""

    FLEETS = "chaoslab.fleets"
    LINKS = "chaoslab.links"
    FAULTS = "chaoslab.faults"
    CHECKS = "chaoslab.checks"
    UNDO = "chaoslab.undo"


def brought(
    group: Group, own: Mapping[str, Brought], why_not: Callable[[str, Any], str]
) -> Mapping[str, Brought]:
    """`own`, and what other packages bring to the group, by name.

    `why_not` says why an object cannot be what it was registered as, empty if it can. PackageError
    for one that cannot be loaded, and for a name that is used twice.
    """
    found = dict(own)
    packages = dict.fromkeys(own, "chaoslab")
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        package = point.dist.name if point.dist else "an unknown package"
        if point.name in found:
            raise PackageError(
                f"{_entry(point, package)} is refused: the name is used by "
                f"{packages[point.name]}; rename it, or uninstall one of them"
            )
        thing = _loaded(point, package)
        if why := why_not(point.name, thing):
            raise PackageError(f"{_entry(point, package)} is refused: {why}")
        found[point.name], packages[point.name] = thing, package
    return found


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
