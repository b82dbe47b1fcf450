"""Entries of a plan, as dataclasses with its keys: frame, faults, checks.

    {fault: process.kill, target: {learners: 50%}, at: {round: 3}, for: 6s, signal: SIGTERM}
      └─ merged: keys of every fault + settings of this one ──► FaultSpec(settings=Kill(…))

Settings of faults and checks stand beside the keys of their entry (`fleet_entry` has those of
fleets and links). Plain parts
(training, baseline, limits) need nothing here: `decoding` serves them.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, WrapValidator

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration
from chaoslab.plan.file.conventions import Hint, class_doc, keys_in
from chaoslab.plan.file.decoding import (
    adapter,
    by_key,
    decoded,
    merged,
    require_settings,
    settings_in,
)
from chaoslab.plan.file.document import Document, Tree, nearest
from chaoslab.plan.file.variables import REFERENCE, TYPES
from chaoslab.plan.file.writing import DRAWN
from chaoslab.plan.model import (
    AbortRule,
    Arrivals,
    CheckSpec,
    Distribution,
    FaultPlan,
    FaultSpec,
    Outage,
    Pick,
    Target,
    Trigger,
)

_literal: Any = Literal  # its values are known only at run time


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Names that a plan may use, each with the frozen dataclass of its settings."""

    faults: Mapping[str, type] = field(default_factory=dict)
    checks: Mapping[str, type] = field(default_factory=dict)
    fleets: Mapping[str, type] = field(default_factory=dict)
    links: Mapping[str, type] = field(default_factory=dict)


# ---------------------------------------------------------------- the frame


def text(pattern: str, what: str) -> Hint:
    """The type of a text that matches a pattern; `what` says what it is."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise PlanError(f"{value!r} is not {what}")
        return value

    schema: dict[str, Any] = {
        "anyOf": [{"type": "string", "pattern": f"^{pattern}$"}, REFERENCE]
    }  # fmt: skip
    return Annotated[str, AfterValidator(check), WithJsonSchema(schema)]


def form(read: Callable[[Any], object], *forms: Tree) -> Hint:
    """The type of what `read` makes of a value, or refuses; `forms` are its JSON Schemas."""
    return Annotated[Any, PlainValidator(read), WithJsonSchema({"anyOf": [*forms]})]


_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_NAMED: Final = "a name: use letters, digits, - and _, beginning with a letter or a digit"
Name: Final = text(_NAME, _NAMED)
"""A name that is also that of a folder."""
_PLAN_NAME: Final = text(rf"(?!latest$){_NAME}", f"{_NAMED}; `latest` names the newest run")
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
_VARIABLES: Final[Tree] = {
    "type": "object", "additionalProperties": {"anyOf": [_SCALAR, _TYPED]}
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _File:
    version: Literal[1]
    """Version of the plan format."""
    vars: Annotated[Any, WithJsonSchema(_VARIABLES)] = None
    """Variables, used as ${vars.name}; --set vars.name=… sets one."""


@dataclass(frozen=True, kw_only=True)
class Abort:
    """Entry of `abort`."""

    when: AbortRule = field(metadata={"example": "{no_round_for: 60s}"})


def frame(**own: Hint) -> type:
    """A whole plan; `own` are the types of `fleet`, `faults` and `expect`."""
    rule = Annotated[Abort, AfterValidator(lambda entry: entry.when)]
    rules: Any = tuple[rule, ...]
    more = {"name": _PLAN_NAME, "abort": rules, **own}
    return merged("FaultPlan", _File, FaultPlan, doc=class_doc(FaultPlan), own=more)


# ---------------------------------------------------------------- faults and checks


def _learners(value: object) -> Mapping[str, object]:
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


_FORMS: Final[list[Tree]] = [
    units.SHARE.form,
    {"type": "integer", "minimum": 1},
    {"const": "all"},
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
]
_Learners: TypeAlias = Annotated[Any, PlainValidator(_learners), WithJsonSchema({"anyOf": _FORMS})]


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Targets of a fault; keys that are none of these are labels, such as region: eu."""

    learners: _Learners = None
    """A share, a count, names, or all."""
    workers: _Learners = None
    """Workers of a script: a share, a count, names, or all."""
    reserve: _Learners = None
    """Learners that are not started with the run: a share, a count, names, or all."""
    syncer: Literal["all"] | None = None
    """The syncer."""
    launcher: Literal["all"] | None = None
    """The launcher of a script: it alone, not the workers that it has started."""
    pick: Pick = Pick.RANDOM
    """Choice of targets if more nodes match than are hit."""
    exclude: tuple[str, ...] = ()
    """Never these."""


_KNOWN: Final = keys_in(Targets)


def _target(value: Any, _: object) -> Target:
    """A target with labels, which are the keys that are not known."""
    mapping: Mapping[str, Any] = value if isinstance(value, dict) else {}
    labels = {key: label for key, label in mapping.items() if key not in _KNOWN}
    for label, given in labels.items():
        if "did you mean" in nearest(label, _KNOWN, noun="key"):
            raise PlanError(nearest(label, _KNOWN, noun="key"))
        if isinstance(given, list):
            named = f"learners: [{', '.join(map(str, given))}]"
            raise PlanError(
                f"label `{label}` must be text, got {given!r}; write names as `{named}`"
            )
        if not isinstance(given, str):
            raise PlanError(f"label `{label}` must be text, got {given!r}: put it in quotes")
    known = {key: way for key, way in mapping.items() if key in _KNOWN} if labels else value
    found: Targets = adapter(Targets).validate_json(json.dumps(known))
    ways = [one for one in (found.learners, found.workers, found.reserve) if one]
    if len(ways) > 1:
        raise PlanError("`learners`, `workers` and `reserve` exclude each other: write two faults")
    return Target(
        **(ways[0] if ways else {}),
        reserve=bool(found.reserve),
        syncer=found.syncer is not None,
        launcher=found.launcher is not None,
        labels=labels,
        pick=found.pick,
        exclude=found.exclude,
    )


def _for(value: object) -> Outage:
    if value == "rest":
        return Outage(rest=True)
    if isinstance(value, list | dict):
        raise PlanError(f"must be 5s or rest, got {value!r}; `outage` draws a random time")
    return Outage(seconds=units.duration_s(str(value)))


@dataclass(frozen=True, kw_only=True)
class DrawnOutage:
    """Duration that is drawn for each injection."""

    dist: Literal["exponential", "weibull", "lognormal"]
    """Distribution of the length."""
    mean_s: Duration | None = None
    """Mean, for `exponential` and `weibull`."""
    median_s: Duration | None = None
    """Median, for `lognormal`."""
    shape: float | None = None
    """Shape, for `weibull`; by default 1."""
    sigma: float | None = None
    """Sigma, for `lognormal`; by default 1."""
    at_most_s: Duration | None = None
    """A longer draw is cut to this."""


def _drawn(found: DrawnOutage) -> Outage:
    dist = Distribution(found.dist)
    length, *more = DRAWN[dist]
    keys = {key: getattr(found, one.name) for key, one in by_key(DrawnOutage).items()}
    given = {key: value for key, value in keys.items() if value is not None}
    if length not in given:
        raise PlanError(f"is missing: write `{length}: 10s`", key=length)
    for key in sorted(given.keys() - {"dist", length, *more, "at_most"}):
        raise PlanError(f"`dist: {dist}` does not take it: use {length}", key=key)
    parameters = {key: given[key] for key in more if key in given}
    return Outage(dist=dist, seconds=given[length], at_most_s=found.at_most_s, **parameters)


@dataclass(frozen=True, kw_only=True)
class _Fault:
    id: Any = None
    """Names the fault in triggers and in the record."""
    fault: str
    target: Any = field(metadata={"example": "{learners: 1}"})
    at: Trigger | None = None
    arrivals: Arrivals | None = None
    for_s: Any = None
    """Time until it is healed; `rest`: the end of the run."""
    outage: Annotated[DrawnOutage, AfterValidator(_drawn)] | None = None
    """A length that is drawn for each injection, in place of `for`."""


_OF_FAULTS: Final = {
    "id": Name,
    "target": Annotated[Targets, WrapValidator(_target)],
    "for_s": form(_for, units.DURATION.form, {"const": "rest"}),
}


@dataclass(frozen=True, kw_only=True)
class _Check:
    check: str


@cache
def fault_of(name: str, kind: type) -> Hint:
    """The type of an entry of `faults` with the keys of this kind."""

    def build(entry: Any) -> FaultSpec:
        lengths = [one for one in (entry.for_s, entry.outage) if one is not None]
        if len(lengths) != 1:
            raise PlanError("needs one of `for: 5s`, `for: rest`, an `outage`")
        return FaultSpec(
            id=entry.id,
            fault=name,
            settings=settings_in(kind, entry),
            target=entry.target,
            at=entry.at,
            arrivals=entry.arrivals,
            outage=lengths[0],
        )

    return _entry(name, _Fault, kind, AfterValidator(build))


@cache
def check_of(name: str, kind: type) -> Hint:
    """Type of an entry of `expect` for this check."""

    def build(entry: Any) -> CheckSpec:
        return CheckSpec(check=name, settings=settings_in(kind, entry))

    return _entry(name, _Check, kind, AfterValidator(build))


def _entry(name: str, base: type, kind: type, build: AfterValidator) -> Hint:
    require_settings(name, base, kind)
    summary = getattr(kind, "summary", None)
    described = Field(description=summary if isinstance(summary, str) else None)
    tag = Annotated[_literal[name], described]
    own = {"check": tag} if base is _Check else {"fault": tag, **_OF_FAULTS}
    return Annotated[merged(kind.__name__, base, kind, doc=class_doc(kind), own=own), build]


def entries_in(
    document: Document,
    way: tuple[str, str],
    kinds: Mapping[str, type],
    type_of: Callable[[str, type], Hint],
) -> tuple[Any, ...]:
    """The specs of the list at the first key of `way`; the other is the key that names a kind."""
    key, tag = way
    entries, found = document.tree.get(key), []
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        name = entry.get(tag) if isinstance(entry, dict) else None
        branch = (key, number)
        if not isinstance(name, str):
            is_known = isinstance(entry, str) and entry in kinds
            shown = entry if is_known else f"{min(kinds, default='…')}, …"
            document.add_problem(branch, f"`{tag}` is missing: write {{{tag}: {shown}}}")
        elif name not in kinds:
            document.add_problem((*branch, tag), nearest(name, kinds, noun=tag))
        elif (spec := decoded(document, branch, type_of(name, kinds[name]), entry)) is not None:
            found.append(replace(spec, where=document.where(branch)))
    return tuple(found)
