"""The frame around the faults: version, fleet, baseline, abort rules and variables of a plan.

    version: 1      fleet: {kind: local, links: embedded, regions: {eu: [learner-0], us: 3}}
    baseline: {warmup: 12 rounds, window: 24 rounds}     abort: [{when: {no_round_for: 2m}}]

Plain records of the frame (training, limits) need nothing here: `shape.record` serves them.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from chaoslab.core import units
from chaoslab.core.errors import PackageError, PlanError
from chaoslab.plan.file.conventions import class_doc, field_docs
from chaoslab.plan.file.document import Tree
from chaoslab.plan.file.shape import (
    Found,
    Shape,
    arguments,
    built,
    choice,
    entry,
    keys_of,
    mapping,
    quantity_shape,
    record,
)
from chaoslab.plan.file.variables import TYPES
from chaoslab.plan.model import (
    PROGRAMS,
    AbortRule,
    Baseline,
    FleetSpec,
)

VERSION_KNOWN: Final = 1


def _version(value: object) -> int:
    if value != VERSION_KNOWN or isinstance(value, bool):
        raise PlanError(f"must be {VERSION_KNOWN}, got {value!r}")
    return VERSION_KNOWN


def _labels(value: object) -> dict[str, dict[str, str]]:
    nodes = value.items() if isinstance(value, dict) else [("", value)]
    for node, labels in nodes:
        is_text = isinstance(labels, dict) and all(isinstance(v, str) for v in labels.values())
        if not is_text:
            of = f"labels of {node}" if node else "labels"
            raise PlanError(f"{of} must be like {{learner-0: {{region: eu}}}}, got {labels!r}")
    return dict(nodes)


def _regions(value: object) -> dict[str, int | tuple[str, ...]]:
    if not isinstance(value, dict):
        raise PlanError(f"must be like {{eu: [learner-0, learner-1], us: 2}}, got {value!r}")
    found: dict[str, int | tuple[str, ...]] = {}
    for region, members in value.items():
        if isinstance(members, list) and all(isinstance(name, str) for name in members):
            found[region] = tuple(members)
        elif isinstance(members, int) and not isinstance(members, bool) and members >= 0:
            found[region] = members
        else:
            raise PlanError(
                f"region {region!r} must be a count or a list such as [learner-0], got {members!r}"
            )
    return found


def _texts(example: str) -> Callable[[object], dict[str, str]]:
    """What reads a mapping of text to text."""

    def read(value: object) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise PlanError(f"must be like {example}, got {value!r}")
        return dict(value)

    return read


def _shape(read: Callable[[object], object], form: dict[str, Any]) -> Shape:
    """The shape of what `read` makes of a value; `form` is its JSON Schema."""
    return Annotated[Any, PlainValidator(lambda value: built(read, value)), WithJsonSchema(form)]


def _by_name(form: Tree) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": form}


VERSION: Final = _shape(_version, {"const": VERSION_KNOWN})
_TEXT: Final[Tree] = {"type": "string"}
_NAMES: Final[Tree] = {"type": "array", "items": _TEXT, "minItems": 1}
_LABELS: Final = _shape(_labels, _by_name(_by_name(_TEXT)))
_REGIONS: Final = _shape(_regions, _by_name({"anyOf": [{"type": "integer", "minimum": 1}, _NAMES]}))
_PROFILES: Final = _shape(_texts("{eu: transatlantic}"), _by_name(_TEXT))
_PROGRAMS: Final = _shape(
    _texts("{learner: my_package.my_learner}"),
    {
        "type": "object",
        "properties": dict.fromkeys(PROGRAMS, _TEXT),
        "additionalProperties": False,
    },
)
_FLEET_DOCS: Final = field_docs(FleetSpec)


def fleet_shape(fleets: Mapping[str, type], links: Mapping[str, type]) -> Shape:
    """The shape of `fleet`: its own keys, and those of every fleet and kind of links.

    Settings of a fleet that is not chosen are passed over, so that `--fleet` may choose another.
    """
    keys = {
        "kind": entry(choice(str, [*fleets]), _kinds("Where nodes run.", fleets), default="local"),
        "links": entry(choice(str, [*links]), _kinds(_FLEET_DOCS["links"], links)),
        "labels": entry(_LABELS, "Labels of nodes by name: {learner-0: {region: eu}}."),
        "regions": entry(_REGIONS, _FLEET_DOCS["regions"]),
        "profiles": entry(_PROFILES, _FLEET_DOCS["profiles"]),
        "programs": entry(_PROGRAMS, _FLEET_DOCS["programs"]),
    }
    for name, kind in (*fleets.items(), *links.items()):
        settings = keys_of(kind, {})
        if clash := sorted(settings.keys() & keys.keys()):
            raise PackageError(f"{name} has a setting {clash[0]!r}, which `fleet` has already")
        keys |= settings

    def build(found: Found) -> FleetSpec:
        chosen = found.get("links")
        for name, kind in links.items():
            if name != chosen and (given := sorted(arguments(kind, found))):
                raise PlanError(f"`{given[0]}` needs `links: {name}`")
        return FleetSpec(
            **arguments(FleetSpec, found),
            settings=_settings(fleets[found.get("kind", "local")], found),
            links_settings=None if chosen is None else _settings(links[chosen], found),
        )

    return mapping("FleetSpec", keys, build, doc=class_doc(FleetSpec))


def _kinds(doc: str, kinds: Mapping[str, type]) -> str:
    """What a key means that names a kind, and each kind."""
    return " ".join((doc, *(f"{name}: {class_doc(kind)}" for name, kind in kinds.items())))


def _settings(kind: type, found: Found) -> object:
    """None where all are the defaults, as in a plan that says nothing."""
    settings = kind(**arguments(kind, found))
    return None if settings == kind() else settings


_ROUNDS: Final = quantity_shape(units.ROUNDS)
BASELINE: Final = mapping(
    "Baseline",
    {
        "warmup": entry(_ROUNDS, "Rounds before the window.", default="12 rounds"),
        "window": entry(_ROUNDS, "Rounds that are measured.", default="24 rounds"),
        **{key: shape for key, shape in keys_of(Baseline, {}).items() if "rounds" not in key},
    },
    lambda found: Baseline(
        **{f"{key}_rounds" if key in {"warmup", "window"} else key: found[key] for key in found}
    ),
    doc=class_doc(Baseline),
)
ABORT: Final = mapping(
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
VARIABLES: Final = Annotated[
    Any,
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [_SCALAR, _TYPED]}}),
]
