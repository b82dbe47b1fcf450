"""Schedule as data, as the lines of `schedule.jsonl`, and as sentences.

    {"schedule":1,"seed":7}
    {"injection":0,"spec":"half-dies","fault":"process.kill","settings":{…},"targets":[…],…}
    {"dropped":"crashes","fault":"process.kill","targets":[…],"time_s":41.2,"reason":"…"}

The lines use base units and read back to an equal schedule, which is how a run is repeated.
"""

import dataclasses
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from pydantic import TypeAdapter

from chaoslab.core import units
from chaoslab.core.errors import HarnessBug, PlanError
from chaoslab.core.events import Json, encode
from chaoslab.plan.model import Injection, Trigger

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A drawn injection that the limits leave out, with the reason."""

    spec: str
    fault: str
    targets: tuple[str, ...]
    time_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All injections, and those that were drawn but broke a limit."""

    seed: int
    injections: tuple[Injection, ...]
    """In the order of the plan's faults; those of one fault in the order of time."""
    dropped: tuple[Dropped, ...] = ()


def to_lines(schedule: Schedule) -> list[str]:
    """JSON lines without newlines: the head, every injection and every dropped one."""
    head: Json = {"schedule": FORMAT, "seed": schedule.seed}
    return [
        encode(head),
        *(encode(_injection_out(injection)) for injection in schedule.injections),
        *(encode(_dropped_out(dropped)) for dropped in schedule.dropped),
    ]


def from_lines(lines: Iterable[str], faults: Mapping[str, type]) -> Schedule:
    """The schedule in such lines; `faults` decodes the settings. PlanError names a bad line."""
    injections, dropped, seed = [], [], 0
    for number, line in enumerate(lines, start=1):
        try:
            found = json.loads(line)
            if number == 1:
                seed = _seed(found)
            elif "injection" in found:
                injections.append(_injection_in(found, faults))
            else:
                dropped.append(_dropped_in(found))
        except (ValueError, KeyError, TypeError, PlanError) as error:
            text = f"this is not a line of a schedule ({error}): {line[:120]}"
            raise PlanError(text, where=f"schedule.jsonl:{number}:1") from error
    return Schedule(seed=seed, injections=tuple(injections), dropped=tuple(dropped))


def preview(schedule: Schedule) -> list[str]:
    """One sentence for each injection, and for each that the limits left out."""
    return [
        *(_sentence(injection) for injection in schedule.injections),
        *(
            f"left out: {dropped.fault} on {_listed(dropped.targets)} at "
            f"{units.show_duration(dropped.time_s)}, because {dropped.reason}"
            for dropped in schedule.dropped
        ),
    ]


def _sentence(injection: Injection) -> str:
    given = _settings(injection.settings).items()
    settings = ", ".join(f"{key} {value}" for key, value in given if value not in (None, ()))
    is_arrival = getattr(injection.settings, "brings_in", False)
    if injection.for_s is None:
        until = "they stay to the end" if is_arrival else "never healed before the end"
    else:
        length = units.show_duration(injection.for_s)
        until = f"they leave after {length}" if is_arrival else f"healed after {length}"
    return (
        f"{injection.id} ({injection.spec}): {injection.fault}"
        f"{f' ({settings})' if settings else ''} on {_listed(injection.targets)} "
        f"{injection.trigger}, {until}"
    )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "the node that announces it"
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


# ---------------------------------------------------------------- JSON

_INT = TypeAdapter(int)
_NAMES = TypeAdapter(tuple[str, ...])
_SECONDS = TypeAdapter(float | None)


def _injection_out(injection: Injection) -> Json:
    trigger = dataclasses.asdict(injection.trigger)
    return {
        "injection": injection.number,
        "spec": injection.spec,
        "fault": injection.fault,
        "settings": _settings(injection.settings),
        "targets": injection.targets,
        "trigger": {key: value for key, value in trigger.items() if value is not None},
        "for_s": injection.for_s,
        **({"watched": injection.watched} if injection.watched else {}),
    }


def _injection_in(found: Mapping[str, object], faults: Mapping[str, type]) -> Injection:
    name = str(found["fault"])
    if name not in faults:
        raise ValueError(f"no fault is called {name}; there are {', '.join(sorted(faults))}")
    return Injection(
        number=_INT.validate_python(found["injection"]),
        spec=str(found["spec"]),
        fault=name,
        settings=_dataclass(faults[name], found["settings"]),
        targets=_NAMES.validate_python(found["targets"]),
        trigger=cast("Trigger", _dataclass(Trigger, found["trigger"])),
        for_s=_SECONDS.validate_python(found["for_s"]),
        watched=_NAMES.validate_python(found.get("watched", ())),
    )


def _dataclass(kind: type, found: object) -> object:
    """An object from its fields, with enumerations and tuples restored."""
    known = inspect.signature(kind).parameters.keys()
    if not isinstance(found, dict) or not found.keys() <= known:
        raise ValueError(f"{found} are not fields of {kind.__name__}, which has {sorted(known)}")
    return _adapter(kind).validate_python(found)


@cache
def _adapter(kind: type) -> TypeAdapter[object]:
    return TypeAdapter(kind)


def _dropped_out(dropped: Dropped) -> Json:
    fields = cast("dict[str, Json]", dataclasses.asdict(dropped))
    return {"dropped": fields.pop("spec"), **fields}


def _dropped_in(found: Mapping[str, object]) -> Dropped:
    return Dropped(
        spec=str(found["dropped"]),
        fault=str(found["fault"]),
        targets=_NAMES.validate_python(found["targets"]),
        time_s=_SECONDS.validate_python(found["time_s"]) or 0.0,
        reason=str(found["reason"]),
    )


def _seed(head: Mapping[str, object]) -> int:
    if head["schedule"] != FORMAT:
        raise ValueError(f"its format is {head['schedule']}, and only {FORMAT} is known")
    return int(str(head["seed"]))


def _settings(settings: object) -> dict[str, Json]:
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        raise HarnessBug(f"{settings!r} are no settings of a fault: they are not a dataclass")
    return cast("dict[str, Json]", dataclasses.asdict(settings))
