"""Entry `fleet` of a plan, with the settings of the fleet and of the links that it chooses.

    {kind: docker, links: netem, memory: 2GiB} ─► FleetSpec(settings=Docker(…), links_settings=…)

Keys of other fleets are judged by their types alone, so that `--fleet` may choose another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from chaoslab.plan.file.conventions import Hint, class_doc, field_docs, keys_in
from chaoslab.plan.file.decoding import decoded, merged, require_settings, settings_in
from chaoslab.plan.file.document import Document, nearest
from chaoslab.plan.file.entries import Kinds
from chaoslab.plan.model import FleetSpec

_literal: Any = Literal  # its values are known only at run time


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Modules by role."""

    syncer: str | None = field(default=None, metadata={"example": "my_package.my_syncer"})
    learner: str | None = None
    evaluator: str | None = None


def _named(programs: Programs) -> Mapping[str, str]:
    given = {one.name: getattr(programs, one.name) for one in fields(programs)}
    return {role: program for role, program in given.items() if program is not None}


_PROGRAMS: Final = {"programs": Annotated[Programs, AfterValidator(_named)]}


def fleet_in(document: Document, kinds: Kinds) -> FleetSpec | None:
    """The `fleet` of a plan, with the settings of the fleet and of the links that it chooses.

    Settings of others are judged by their types alone, so that `--fleet` may choose another.
    """
    value, branch = document.tree["fleet"], ("fleet",)
    given: Mapping[str, Any] = value if isinstance(value, dict) else {}
    name, chosen = given.get("kind", "local"), given.get("links")
    for key, one, known, noun in (
        ("kind", name, kinds.fleets, "fleet"),
        ("links", chosen, kinds.links, "kind of links"),
    ):
        if one is not None and one not in [*known]:
            words = nearest(str(one), known, noun=noun, lists_all=True)
            document.add_problem((*branch, key), words)
    if any(way[:1] == branch for way in document.broken):
        return None
    fleet, links = kinds.fleets[name], None if chosen is None else kinds.links[chosen]
    own = keys_in(FleetSpec).union(keys_in(fleet), keys_in(links) if links else ())
    others = () if given.keys() <= own else (*kinds.fleets.values(), *kinds.links.values())
    found: FleetSpec | None = decoded(document, branch, _fleet_of(fleet, links, others), value)
    if links and (both := sorted(keys_in(fleet) & keys_in(links))):
        document.add_problem(
            branch,
            f"the fleet {name} and the links {chosen} both have a setting `{both[0]}`, so "
            "they cannot be used together: choose another of the two",
        )
    unclaimed = given.keys() - own.union(*map(keys_in, others[: len(kinds.fleets)]))
    for other, kind in kinds.links.items() if others else ():
        if needed := sorted(unclaimed & keys_in(kind)):
            document.add_problem(branch, f"`{needed[0]}` needs `links: {other}`")
            break
    return found


@cache
def _fleet_of(fleet: type, links: type | None, others: tuple[type, ...]) -> Hint:
    """The type of `fleet` with these settings; those of `others` are known, and left out."""
    parts = (fleet, *([links] if links else []))
    require_settings("fleet", FleetSpec, *parts)

    def build(entry: Any) -> FleetSpec:
        own = {key: getattr(entry, key) for key in keys_in(FleetSpec) if hasattr(entry, key)}
        links_settings = _changed(links, entry) if links else None
        return FleetSpec(**own, settings=_changed(fleet, entry), links_settings=links_settings)

    made = merged(
        "FleetSpec", FleetSpec, *parts, doc=class_doc(FleetSpec), beside=others, own=_PROGRAMS
    )
    return Annotated[made, AfterValidator(build)]


def _changed(kind: type, entry: Any) -> object:
    """The settings in an entry; None where all are the defaults, as if nothing was said."""
    settings = settings_in(kind, entry)
    return None if settings == kind() else settings


def whole_fleet(kinds: Kinds) -> Hint:
    """The type of `fleet` with the settings of every fleet and of all links."""

    def choice(doc: str, known: Mapping[str, type]) -> Hint:
        told = (f"{name}: {class_doc(kind)}" for name, kind in known.items())
        return Annotated[_literal[tuple(known)], Field(description=" ".join((doc, *told)))]

    docs = field_docs(FleetSpec)
    own = {
        **_PROGRAMS,
        "kind": choice(docs["kind"], kinds.fleets),
        "links": choice(docs["links"], kinds.links),
    }
    parts = (*kinds.fleets.values(), *kinds.links.values())
    require_settings("a fleet", FleetSpec, *parts)
    return merged("FleetSpec", FleetSpec, *parts, doc=class_doc(FleetSpec), own=own)
