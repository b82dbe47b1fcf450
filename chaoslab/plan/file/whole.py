"""The shape of a whole plan: its frame, fleets and links, a variant for each fault and check.

    version: 1      fleet: {kind: local, links: embedded, regions: {eu: [learner-0], us: 3}}
    baseline: {warmup: 12 rounds, window: 24 rounds}     abort: [{when: {no_round_for: 2m}}]

Plain records (training, baseline, limits) need nothing here: `shape.record` serves them.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, TypeAdapter, WithJsonSchema

from chaoslab.core.errors import PlanError
from chaoslab.plan.file.conventions import class_doc, field_docs, keys_in
from chaoslab.plan.file.document import Tree
from chaoslab.plan.file.shape import (
    Found,
    Nested,
    any_of,
    arguments,
    entry,
    keys_of,
    mapping,
    record,
    record_on_demand,
    variants,
    variants_on_demand,
    with_settings,
)
from chaoslab.plan.file.targets import FOR, OUTAGE, TARGET
from chaoslab.plan.file.values import Shape, choice, plain, text
from chaoslab.plan.file.variables import TYPES
from chaoslab.plan.model import (
    PROGRAMS,
    AbortRule,
    Arrivals,
    CheckSpec,
    FaultPlan,
    FaultSpec,
    FleetSpec,
    Target,
    Trigger,
)

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]*"
"""Pattern of a name that is also that of a folder."""
NAMED: Final = "a name: use letters, digits, - and _, beginning with a letter or a digit"
"""What a text of this pattern is, for errors."""

_VERSION: Final = 1
_PLAN_NAME = rf"(?!latest$){NAME}"
_PLAN_NAMED = f"{NAMED}; `latest` names the newest run"


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """What a plan may name, each by its name with the frozen dataclass of its settings."""

    faults: Mapping[str, type] = field(default_factory=dict)
    checks: Mapping[str, type] = field(default_factory=dict)
    fleets: Mapping[str, type] = field(default_factory=dict)
    links: Mapping[str, type] = field(default_factory=dict)

    @cached_property
    def adapter(self) -> TypeAdapter[dict[str, Any]]:
        """What decodes plans with these kinds, each of them when a plan first names it."""
        return TypeAdapter(plan_shape(self))


def plan_shape(kinds: Kinds, *, is_whole: bool = False) -> Shape:
    """The shape of a plan; decodes to the arguments of `FaultPlan`.

    If it `is_whole`, the shapes of all its kinds are made at once, for a JSON Schema.
    """
    fleets, nested = _Fleets(kinds.fleets, kinds.links), record if is_whole else record_on_demand
    special = {
        FleetSpec: fleets.whole() if is_whole else fleets.on_demand(),
        FaultSpec: _named("fault", kinds.faults, partial(_fault, nested), is_whole=is_whole),
        CheckSpec: _named("check", kinds.checks, _check, is_whole=is_whole),
        AbortRule: _ABORT,
    }
    keys = {
        "version": entry(
            plain(_version, {"const": _VERSION}),
            "Version of the plan format.",
            example=f"{_VERSION}",
            is_required=True,
        ),
        **keys_of(FaultPlan, special, nested),
        "name": entry(
            text(_PLAN_NAME, _PLAN_NAMED),
            "Names the plan and its runs.",
            example="my-plan",
            is_required=True,
        ),
        "vars": entry(_VARIABLES, "Variables, used as ${vars.name}; --set vars.name=… sets one."),
    }
    return mapping(
        "FaultPlan", keys, lambda found: arguments(FaultPlan, found), doc=class_doc(FaultPlan)
    )


def _named(
    tag: str, kinds: Mapping[str, type], shape: Callable[[str, type], Shape], *, is_whole: bool
) -> Shape:
    if is_whole:
        return variants(tag, {name: shape(name, kind) for name, kind in kinds.items()})
    return variants_on_demand(tag, kinds, shape)


# ---------------------------------------------------------------- the frame


def _version(value: object) -> int:
    if value != _VERSION or isinstance(value, bool):
        raise PlanError(f"must be {_VERSION}, got {value!r}")
    return _VERSION


class _Fleets:
    """The shape of `fleet`: its own keys, and those of every fleet and kind of links.

    Several may have a setting of the same name: those that the plan chooses decode theirs.
    Settings of a fleet that is not chosen are passed over, so that `--fleet` may choose another.
    As long as a plan writes none of them, the fleets and links that it does not choose are not
    looked at.
    """

    def __init__(self, fleets: Mapping[str, type], links: Mapping[str, type]) -> None:
        self._fleets, self._links = fleets, links
        kind = choice(str, [*fleets], noun="fleet")
        link = choice(str, [*links], noun="kind of links")
        self._own = own = keys_of(FleetSpec)
        own["kind"] = entry(kind, lambda: _kinds("Where nodes run.", fleets), default="local")
        own["links"] = entry(link, lambda: _kinds(field_docs(FleetSpec)["links"], links))
        own["programs"] = entry(_PROGRAMS, lambda: field_docs(FleetSpec)["programs"])
        self._keys, self._adapter = cache(self._keys_of), cache(self._adapter_of)

    def whole(self) -> Shape:
        """With the keys of all, for a JSON Schema."""
        return mapping("FleetSpec", self._all_keys, self._build, doc=class_doc(FleetSpec))

    def on_demand(self) -> Shape:
        """The same without a JSON Schema; the keys of all only where a plan's are others than
        those of what it chooses.
        """
        return Annotated[Any, PlainValidator(self._decode)]

    def _decode(self, value: object) -> FleetSpec:
        if isinstance(value, dict):
            name, chosen = value.get("kind", "local"), value.get("links")
            if name in [*self._fleets] and chosen in [None, *self._links]:
                is_narrow = value.keys() <= self._keys(name, chosen).keys()
                return self._adapter(name, chosen, is_narrow).validate_python(value)
        return TypeAdapter[FleetSpec](self.whole()).validate_python(value)

    def _adapter_of(self, name: str, chosen: str | None, is_narrow: bool) -> TypeAdapter[FleetSpec]:
        likely = self._keys(name, chosen)
        keys = likely if is_narrow else {**self._all_keys, **likely}
        return TypeAdapter(mapping("FleetSpec", keys, self._build, likely=likely))

    def _keys_of(self, name: str, chosen: str | None) -> Mapping[str, Shape]:
        """Those of a fleet and its links."""
        of_links = {} if chosen is None else with_settings(self._own, chosen, self._links[chosen])
        found = {**of_links, **with_settings(self._own, name, self._fleets[name])}
        return {**self._own, **{key: found[key] for key in sorted(found.keys() - self._own.keys())}}

    @cached_property
    def _all_keys(self) -> Mapping[str, Shape]:
        entries: dict[str, list[Shape]] = {}
        for name, kind in (*self._fleets.items(), *self._links.items()):
            keys = with_settings(self._own, name, kind)
            for key in keys.keys() - self._own.keys():
                entries.setdefault(key, []).append(keys[key])
        return {**self._own, **{key: any_of(entries[key]) for key in sorted(entries)}}

    def _build(self, found: Found) -> FleetSpec:
        name, chosen = found.get("kind", "local"), found.get("links")
        fleet, links = self._fleets[name], None if chosen is None else self._links[chosen]
        of_links = frozenset() if links is None else keys_in(links)
        if both := sorted(keys_in(fleet) & of_links):
            raise PlanError(
                f"the fleet {name} and the links {chosen} both have a setting `{both[0]}`, so "
                "they cannot be used together: choose another of the two"
            )
        if others := found.keys() - self._own.keys() - keys_in(fleet) - of_links:
            self._refuse_other_links(others)
        return FleetSpec(
            **arguments(FleetSpec, found),
            settings=_settings(fleet, found),
            links_settings=None if links is None else _settings(links, found),
        )

    def _refuse_other_links(self, others: Set[str]) -> None:
        """PlanError for a setting that only links have which the plan does not choose."""
        of_fleets = frozenset().union(*map(keys_in, self._fleets.values()))
        for other, kind in self._links.items():
            if given := sorted((others & keys_in(kind)) - of_fleets):
                raise PlanError(f"`{given[0]}` needs `links: {other}`")


def _kinds(doc: str, kinds: Mapping[str, type]) -> str:
    """What a key means that names a kind, and each kind."""
    return " ".join((doc, *(f"{name}: {class_doc(kind)}" for name, kind in kinds.items())))


def _settings(kind: type, found: Found) -> object:
    """None where all are the defaults, as in a plan that says nothing."""
    settings = kind(**arguments(kind, found))
    return None if settings == kind() else settings


_PROGRAMS: Final = mapping(
    "Programs",
    {role: entry(str, None, example=f"my_package.my_{role}") for role in PROGRAMS},
    dict,
)
_ABORT: Final = mapping(
    "Abort",
    {
        "when": entry(
            record(AbortRule), class_doc(AbortRule), example="{no_round_for: 60s}", is_required=True
        )
    },
    lambda found: found["when"],
)

_SCALAR: Final[Tree] = {"type": ["string", "number", "boolean"]}
_TYPED: Final[Tree] = {
    "type": "object",
    "properties": {
        "type": {"enum": [*TYPES]},
        "default": _SCALAR,
        "description": {"type": "string"},
    },
    "required": ["default"],
    "additionalProperties": False,
}
_VARIABLES: Final = Annotated[
    Any,
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [_SCALAR, _TYPED]}}),
]


# ---------------------------------------------------------------- faults and checks


def _fault(nested: Nested, name: str, kind: type) -> Shape:
    """The shape of one entry of `faults`: the keys of every fault and the settings of this one."""
    common = {
        "id": entry(text(NAME, NAMED), "Names the fault in triggers and in the record."),
        "fault": entry(Literal[name], _summary(kind), is_required=True),
        "target": entry(TARGET, class_doc(Target), example="{learners: 1}", is_required=True),
        "at": entry(nested(Trigger, {}), class_doc(Trigger)),
        "arrivals": entry(nested(Arrivals, {}), class_doc(Arrivals)),
        "for": entry(FOR, "How long until it is healed; `rest`: not before the run ends."),
        "outage": entry(OUTAGE, "A length that is drawn for each injection, in place of `for`."),
    }

    def build(found: Found) -> FaultSpec:
        lengths = [found[key] for key in ("for", "outage") if key in found]
        if len(lengths) != 1:
            raise PlanError("needs one of `for: 5s`, `for: rest`, an `outage`")
        return FaultSpec(
            id=found["id"],
            fault=name,
            settings=kind(**arguments(kind, found)),
            target=found["target"],
            at=found.get("at"),
            arrivals=found.get("arrivals"),
            outage=lengths[0],
        )

    keys = with_settings(common, name, kind)
    return mapping(kind.__name__, keys, build, doc=class_doc(kind))


def _check(name: str, kind: type) -> Shape:
    """The shape of one entry of `expect`."""
    keys = {"check": entry(Literal[name], _summary(kind), is_required=True)}

    def build(found: Found) -> CheckSpec:
        return CheckSpec(check=name, settings=kind(**arguments(kind, found)))

    return mapping(kind.__name__, with_settings(keys, name, kind), build, doc=class_doc(kind))


def _summary(kind: type) -> str | None:
    summary = getattr(kind, "summary", None)
    return summary if isinstance(summary, str) else None
