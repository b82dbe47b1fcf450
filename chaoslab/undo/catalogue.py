"""Every way to undo, by the name that an undo log has for it.

    OWN modules, `undo_verbs` of fleets and links ─► VERBS of chaoslab
    entry points of "chaoslab.undo" ────────────────► those of other packages, loaded only for a
                                                      verb that is not chaoslab's own

The modules are named and not imported: they lie above this package. A package that is broken
prevents no undo but its own.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from chaoslab.core.errors import PackageError
from chaoslab.core.registry import Group, load_plugins
from chaoslab.undo.verbs import Maintenance, Verb

_MODULES = {
    "processes": "chaoslab.undo.processes",
    "local": "chaoslab.fleet.local.undo_verbs",
    "proxied links": "chaoslab.links.proxied.undo_verbs",
    "toxiproxy": "chaoslab.links.toxiproxy.undo_verbs",
    "netem": "chaoslab.links.netem.undo_verbs",
    "docker": "chaoslab.fleet.docker.undo_verbs",
    "kubernetes": "chaoslab.fleet.kubernetes.undo_verbs",
    "remote": "chaoslab.fleet.remote.undo_verbs",
    "attached": "chaoslab.fleet.attached.undo_verbs",
}
"""Each has its `MAINTENANCE`."""


def verb_of(do: str) -> Verb[Any] | None:
    """The verb of this name; None if there is none. PackageError if a package cannot be loaded."""
    return own_verbs().get(do) or verbs().get(do)


@cache
def own_verbs() -> Mapping[str, Verb[Any]]:
    """Verbs of chaoslab itself."""
    return _verbs(_own())


@cache
def verbs() -> Mapping[str, Verb[Any]]:
    """All; PackageError if two have one name."""
    return _verbs(maintenance())


@cache
def maintenance() -> Mapping[str, Maintenance]:
    """Maintenance by the name of the fleet, the links or the package."""
    wrong = "it is no chaoslab.undo.verbs.Maintenance"
    return load_plugins(
        Group.UNDO, _own(), lambda _, it: "" if isinstance(it, Maintenance) else wrong
    )


def _own() -> Mapping[str, Maintenance]:
    return {name: import_module(module).MAINTENANCE for name, module in _MODULES.items()}


def _verbs(sources: Mapping[str, Maintenance]) -> Mapping[str, Verb[Any]]:
    found: dict[str, Verb[Any]] = {}
    whose: dict[str, str] = {}
    for name, source in sources.items():
        for do, verb in source.verbs.items():
            if do in found:
                raise PackageError(f"{name} and {whose[do]} both have the undo verb {do!r}")
            found[do], whose[do] = verb, name
    return found
