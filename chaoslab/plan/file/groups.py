"""The forms of `training.learners`: a count, or a list of groups that are not alike.

    learners: 4        learners: [{count: 4, region: us}, {count: 4, speed: 82%, region: eu}]

Everything else of `training` reads as its dataclass says (`shape.record`).
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import WithJsonSchema, WrapValidator

from chaoslab.core import units
from chaoslab.plan.file.conventions import class_doc, field_docs
from chaoslab.plan.file.document import Tree
from chaoslab.plan.file.shape import (
    REFERENCE,
    Found,
    Shape,
    arguments,
    entry,
    keys_of,
    mapping,
    record,
    refusal,
)
from chaoslab.plan.model import LearnerGroup, Training

_tuple: Any = tuple
_EXAMPLE = "4, or [{count: 4, speed: 100%}, {count: 4, speed: 82%}]"
_DOCS = field_docs(LearnerGroup)
_SPEED: Final[list[Tree]] = [{"type": "string", "pattern": f"^{units.SHARE.pattern}$"}, REFERENCE]
_GROUP: Final[Tree] = {
    "type": "object",
    "description": class_doc(LearnerGroup),
    "properties": {
        "count": {"type": "integer", "minimum": 1, "description": _DOCS["count"]},
        "speed": {"anyOf": _SPEED, "default": "100%", "description": _DOCS["speed"]},
        "region": {"type": "string", "description": _DOCS["region"]},
    },
    "required": ["count"],
    "additionalProperties": False,
}
_FORMS: Final[list[Tree]] = [
    {"type": "integer", "minimum": 1},
    {"type": "array", "items": _GROUP, "minItems": 1},
    REFERENCE,
]


def _learners(value: object, decode: Callable[[object], tuple[LearnerGroup, ...]]) -> object:
    """A count, or the groups; a mistake in one of them is placed there."""
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise refusal(f"{value!r} is not a whole number: write {_EXAMPLE}")
    if isinstance(value, int):
        return value
    if not value:
        raise refusal(f"must not be an empty list: write {_EXAMPLE}")
    return decode(value)


_LEARNERS: Final[Shape] = Annotated[
    _tuple[record(LearnerGroup), ...],
    WrapValidator(_learners),
    WithJsonSchema({"anyOf": _FORMS}),
]


def _built(found: Found) -> Training:
    groups = found.get("learners")
    if isinstance(groups, tuple):
        found = {**found, "learners": sum(group.count for group in groups), "groups": groups}
    return Training(**arguments(Training, found))


_KEYS = keys_of(Training, {LearnerGroup: record(LearnerGroup)})
_KEYS["learners"] = entry(_LEARNERS, field_docs(Training)["learners"], default=4)
del _KEYS["groups"]
TRAINING: Final[Shape] = mapping("Training", _KEYS, _built, doc=class_doc(Training))
