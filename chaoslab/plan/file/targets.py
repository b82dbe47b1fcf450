"""Whom a fault hits and for how long: the parts of an entry of `faults` with forms of their own.

target: {learners: 50% | 2 | all | [learner-0]}   target: {syncer: all}   target: {region: eu}
for: 6s | rest                                    outage: {dist: lognormal, median: 10s}
"""

import re
from typing import Final, Literal

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.plan.file.conventions import class_doc
from chaoslab.plan.file.document import nearest
from chaoslab.plan.file.shape import Found, entry, mapping, shape_of, variants
from chaoslab.plan.file.values import Shape, choice, plain, quantity_shape, text_form
from chaoslab.plan.file.writing import DRAWN
from chaoslab.plan.model import Distribution, Outage, Pick, Target

_DURATION: Final = quantity_shape(units.DURATION)


def _learners(value: object) -> Found:
    """The way of choosing that stands after `learners:`, as arguments of Target."""
    if value == "all":
        return {"everyone": True}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"count": value}
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return {"names": tuple(value)}
    if isinstance(value, str) and re.match("[0-9]", value):
        return {"share": units.share(value)}
    raise PlanError(f"must be 50%, 2, all or a list such as [learner-0, learner-3], got {value!r}")


def _target(found: Found) -> Target:
    known = ("learners", "reserve", "syncer", "pick", "exclude")
    labels = {key: value for key, value in found.items() if key not in known}
    for label, value in labels.items():
        if "did you mean" in nearest(label, known, noun="key"):
            raise PlanError(nearest(label, known, noun="key"))
        if isinstance(value, list):
            named = f"learners: [{', '.join(map(str, value))}]"
            raise PlanError(
                f"label `{label}` must be text, got {value!r}; write names as `{named}`"
            )
        if not isinstance(value, str):
            raise PlanError(f"label `{label}` must be text, got {value!r}: put it in quotes")
    if "learners" in found and "reserve" in found:
        raise PlanError("`learners` and `reserve` exclude each other: write two faults")
    ways: Found = dict(found["reserve"] if "reserve" in found else found.get("learners", {}))
    ways |= {"reserve": "reserve" in found}
    ways |= {key: found[key] for key in ("pick", "exclude") if key in found}
    return Target(**ways, syncer="syncer" in found, labels=labels)


_LEARNERS: Final = plain(
    _learners,
    text_form(units.SHARE),
    {"type": "integer", "minimum": 1},
    {"const": "all"},
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
)
TARGET: Final = mapping(
    "Target",
    {
        "learners": entry(_LEARNERS, "A share, a count, names, or all."),
        "reserve": entry(_LEARNERS, "The same of the learners that are not there at the start."),
        "syncer": entry(choice(str, ["all"]), "The syncer."),
        "pick": entry(shape_of("pick", Pick), class_doc(Pick), default=Pick.RANDOM.value),
        "exclude": entry(shape_of("exclude", tuple[str, ...]), "Never these."),
    },
    _target,
    is_open=True,
)


def _for(value: object) -> Outage:
    if value == "rest":
        return Outage(rest=True)
    if isinstance(value, list | dict):
        raise PlanError(f"must be 5s or rest, got {value!r}; `outage` draws a random time")
    return Outage(seconds=units.duration_s(str(value)))


def _drawn(dist: Distribution, length: str, *more: str) -> Shape:
    """The shape of `outage` with one distribution; `length` is the key of its mean or median."""
    numbers = {key: entry(shape_of(key, float), None, default=1.0) for key in more}
    keys = {
        "dist": entry(Literal[dist.value], None, is_required=True),
        length: entry(_DURATION, f"Its {length}.", example="10s", is_required=True),
        **numbers,
        "at_most": entry(_DURATION, "A longer draw is cut to this."),
    }

    def build(found: Found) -> Outage:
        parameters = {key: found[key] for key in more if key in found}
        return Outage(
            dist=dist, seconds=found[length], at_most_s=found.get("at_most"), **parameters
        )

    return mapping(f"{dist.value.capitalize()}Outage", keys, build)


FOR: Final = plain(_for, text_form(units.DURATION), {"const": "rest"})
OUTAGE: Final = variants("dist", {dist.value: _drawn(dist, *keys) for dist, keys in DRAWN.items()})
