"""Writing of a plan's dataclasses as a person would write them: the inverse of reading.

    Limits(min_alive=1, timeout_s=600.0)  ──►  {"min_alive": 1, "timeout": "10m", …}

Everything is written out, defaults included, in the plan's own keys and units; what is absent
(`None`) stays absent. Reading the result gives an equal plan.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import singledispatch
from typing import Any, Final, cast, get_args

from chaoslab.core import units
from chaoslab.core.errors import HarnessBug
from chaoslab.plan.file.conventions import Hint, hints_of, key_of, quantity_of, tuple_in
from chaoslab.plan.file.document import Tree
from chaoslab.plan.model import AbortRule, Distribution, FaultPlan, Outage, Target

_INLINE = (object, Outage)
"""Types of fields whose keys stand beside those of their owner: settings, and `for`."""

DRAWN: Final[Mapping[Distribution, tuple[str, ...]]] = {
    Distribution.EXPONENTIAL: ("mean",),
    Distribution.WEIBULL: ("mean", "shape"),
    Distribution.LOGNORMAL: ("median", "sigma"),
}
"""Keys of `outage` by its distribution: the length, then its other parameters."""


@singledispatch
def written(part: object) -> dict[str, Tree]:
    """The mapping for one dataclass, in the order of its fields."""
    return _fields(part)


def _fields(part: object) -> dict[str, Tree]:
    hints = hints_of(type(part))
    entry: dict[str, Tree] = {}
    for field in fields(part):  # type: ignore[arg-type]  # all are dataclasses
        value = getattr(part, field.name)
        if value is None or value == {} or not field.compare:
            continue
        if hints[field.name] in _INLINE:
            entry |= written(value)
        else:
            entry[key_of(field.name)] = written_value(hints[field.name], value)
    return entry


def written_default(field: "Field[Any]", hint: Hint) -> Tree:
    """The default of a field as it stands in a plan; None without one."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return None if default in (None, MISSING) else written_value(hint, default)


def written_value(hint: Hint, value: object) -> Tree:
    """Value of one field as in a plan; `Json` is unchanged."""
    if hint is Any:
        return cast("Tree", value)
    if isinstance(value, tuple):
        return [written_value(get_args(tuple_in(hint))[0], item) for item in value]
    if isinstance(value, Mapping):
        item_hint = get_args(hint)[1]
        return {key: written_value(item_hint, item) for key, item in value.items()}
    quantity = quantity_of(hint)
    if quantity is units.COUNT:
        return value if isinstance(value, int) else str(value)
    if quantity is units.LIMIT and isinstance(value, float) and math.isfinite(value):
        return value
    if quantity is not None:
        return quantity.show(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, bool | int | float | str):
        return value
    return written(value)


def changed(settings: object) -> Mapping[str, Tree]:
    """Settings that differ from their defaults; they can be made without arguments."""
    return _differing(written(settings), written(type(settings)()))


def _differing(given: Mapping[str, Tree], usual: Mapping[str, Tree]) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for key, value in given.items():
        before = usual.get(key)
        if value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            found[key] = _differing(value, before)
        else:
            found[key] = value
    return found


def one_line(value: Tree) -> str:
    """A value as it stands in a plan, without line breaks; settings are `key value, …`."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {one_line(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(one_line, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed(settings: Mapping[str, Tree]) -> str:
    """Settings as a preview shows them: `signal SIGKILL, times 3`, without empty lists and what is
    false.
    """
    shown = (
        f"{key} {one_line(value)}"
        for key, value in settings.items()
        if value != [] and value is not False
    )
    return ", ".join(shown)


@written.register
def _(plan: FaultPlan) -> dict[str, Tree]:
    return {"version": 1, **_fields(plan)}


@written.register
def _(rule: AbortRule) -> dict[str, Tree]:
    return {"when": {**_fields(rule)}}


@written.register
def _(target: Target) -> dict[str, Tree]:
    entry: dict[str, Tree] = dict(target.labels)
    whose = "reserve" if target.reserve else "learners"
    if target.share is not None:
        entry[whose] = units.show_share(target.share)
    elif target.count is not None:
        entry[whose] = target.count
    elif target.names:
        entry[whose] = list(target.names)
    elif target.everyone:
        entry[whose] = "all"
    elif target.syncer:
        entry["syncer"] = "all"
    elif target.launcher:
        entry["launcher"] = "all"
    entry["pick"] = target.pick.value
    return entry | ({"exclude": list(target.exclude)} if target.exclude else {})


@written.register
def _(outage: Outage) -> dict[str, Tree]:
    if outage.rest:
        return {"for": "rest"}
    if outage.seconds is None:
        raise HarnessBug("an outage has neither a length nor `rest`")
    length = units.show_duration(outage.seconds)
    if outage.dist is Distribution.FIXED:
        return {"for": length}
    length_key, *more = DRAWN[outage.dist]
    drawn: dict[str, Tree] = {"dist": outage.dist.value, length_key: length}
    drawn |= {key: getattr(outage, key) for key in more}
    if outage.at_most_s is not None:
        drawn["at_most"] = units.show_duration(outage.at_most_s)
    return {"outage": drawn}
