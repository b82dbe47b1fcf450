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

from pydantic import TypeAdapter, ValidationError

from chaoslab.core import units
from chaoslab.core.errors import HarnessBug, PlanError
from chaoslab.core.events import Json, encode
from chaoslab.plan.file.writing import listed, written
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
    """Injections in the order of the plan's faults; those of one fault in the order of time."""
    dropped: tuple[Dropped, ...] = ()


def to_lines(schedule: Schedule) -> list[str]:
    """JSON lines without newlines: the head, every injection and every dropped one."""
    head: Json = {"schedule": FORMAT, "seed": schedule.seed}
    return [
        encode(head),
        *(encode(_injection_out(injection)) for injection in schedule.injections),
        *(encode({"dropped": one.spec, **_fields(one, but="spec")}) for one in schedule.dropped),
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
                found["spec"] = found.pop("dropped")
                dropped.append(cast("Dropped", _dataclass(Dropped, found)))
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
    settings = listed(written(injection.settings))
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


def _injection_out(injection: Injection) -> Json:
    fields = {"injection": injection.number, **_fields(injection, but="number")}
    fields["trigger"] = {k: v for k, v in _fields(injection.trigger).items() if v is not None}
    if not injection.watched:
        del fields["watched"]
    return fields


def _injection_in(found: dict[str, object], faults: Mapping[str, type]) -> Injection:
    name = str(found["fault"])
    if name not in faults:
        raise ValueError(f"no fault is called {name}; there are {', '.join(sorted(faults))}")
    found["number"] = found.pop("injection")
    found["settings"] = _dataclass(faults[name], found["settings"])
    found["trigger"] = _dataclass(Trigger, found["trigger"])
    return cast("Injection", _dataclass(Injection, found))


def _dataclass(kind: type, found: object) -> object:
    """An object from its fields, with enumerations and tuples restored."""
    known = inspect.signature(kind).parameters.keys()
    if not isinstance(found, dict) or not found.keys() <= known:
        raise ValueError(f"{found} are not fields of {kind.__name__}, which has {sorted(known)}")
    try:
        return _adapter(kind).validate_python(found)
    except ValidationError as error:
        found_wrong = error.errors(include_url=False)
        wrong = [f"{'.'.join(map(str, one['loc']))!r}: {one['msg']}" for one in found_wrong]
        raise ValueError(", ".join(wrong)) from error


@cache
def _adapter(kind: type) -> TypeAdapter[object]:
    return TypeAdapter(kind)


def _seed(head: Mapping[str, object]) -> int:
    if head["schedule"] != FORMAT:
        raise ValueError(f"its format is {head['schedule']}, and only {FORMAT} is known")
    return int(str(head["seed"]))


def _fields(data: object, *, but: str = "") -> dict[str, Json]:
    if not dataclasses.is_dataclass(data) or isinstance(data, type):
        raise HarnessBug(f"{data!r} is not a dataclass, so it cannot stand in a schedule")
    fields = cast("dict[str, Json]", dataclasses.asdict(data))
    return {name: value for name, value in fields.items() if name != but}
