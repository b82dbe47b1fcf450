"""Effects as toxics of Toxiproxy's API, and what somebody else did to those of a link.

    Effect ─ translate ──────► type and attributes for the embedded proxy, to the fraction
           ─ whole_numbers ──► the same for Toxiproxy, which takes whole numbers only

Refuse, Reset and what happens to packets are no toxics: see `proxied`.
"""

from collections.abc import Mapping, Set
from types import MappingProxyType

from chaoslab.core.errors import AbilityError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Effect,
    Freeze,
    HalfOpen,
    Latency,
    LimitData,
    Slice,
)
from chaoslab.links.proxied.client import ProxyState, Toxic

STREAMS: Mapping[Direction, str] = MappingProxyType(
    {Direction.UP: "upstream", Direction.DOWN: "downstream", Direction.BOTH: "both"}
)
HELD_BACK_MS = 10**9
"""Eleven days: Toxiproxy has no toxic that holds everything back, but one that delays it."""
_BEYOND_TOXIPROXY = ("shape", "seed", "per")
"""Attributes of the embedded proxy only."""
_UNITS = {"latency": "ms", "jitter": "ms", "rate": "KB/s", "delay": "us", "timeout": "ms"}
_ROUNDING = 0.05
"""Largest rounding of a whole number against the requested value."""


def translate(effect: Effect, *, seed: int) -> tuple[str, Mapping[str, Json]]:
    """The type of toxic and its attributes, as the embedded proxy takes them."""
    match effect:
        case Latency():
            return "latency", {
                "latency": 1e3 * effect.mean_s,
                "jitter": 1e3 * effect.jitter_s,
                "shape": effect.shape.value,
                "seed": seed,
            }
        case Bandwidth():
            return "bandwidth", {
                "rate": effect.rate_bytes_per_s / 1e3,
                "per": effect.per.value,
            }
        case Slice():
            return "slicer", {
                "average_size": effect.size_bytes,
                "size_variation": 0,
                "delay": 1e6 * effect.delay_s,
            }
        case LimitData():
            return "limit_data", {"bytes": effect.size_bytes}
        case Freeze():
            return "freeze", {}
        case Blackhole():
            return "timeout", {"timeout": 0.0}
        case HalfOpen():
            return "half_open", {}
        case _:
            raise HarnessBug(f"{effect.kind} is no toxic")


def whole_numbers(effect: Effect) -> tuple[str, Mapping[str, Json]]:
    """The type of toxic and its attributes for Toxiproxy.

    AbilityError if no whole number of its units is near enough to what was asked.
    """
    match effect:
        case Freeze():
            return "latency", {"latency": HELD_BACK_MS, "jitter": 0}
        case HalfOpen():
            raise HarnessBug(f"{effect.kind} is no toxic of Toxiproxy's")
    kind, attributes = translate(effect, seed=0)
    known = {key: value for key, value in attributes.items() if key not in _BEYOND_TOXIPROXY}
    return kind, {key: _whole(value, key) for key, value in known.items()}


def is_freeze(toxic: Toxic) -> bool:
    """Whether a toxic of Toxiproxy's stands for one."""
    return toxic.kind == "latency" and toxic.attributes.get("latency") == HELD_BACK_MS


def _whole(value: Json, attribute: str) -> int:
    if isinstance(value, int):
        return value
    if not isinstance(value, float):
        raise HarnessBug(f"{attribute} of a toxic is no number: {value!r}")
    near = round(value)
    if abs(near - value) > _ROUNDING * value:
        raise AbilityError(
            f"Toxiproxy takes its {attribute} in {_UNITS[attribute]} as a whole number, and "
            f"{value:g} is none: ask for {max(1, near)}, or use links: embedded"
        )
    return near


def interference(ours: Mapping[str, Toxic], doubted: Set[str], seen: ProxyState, where: str) -> str:
    """Changes by others to the toxics of a link, as a sentence; empty without any.

    Of `ours`, by name, the `doubted` ones may be in any state, or gone.
    """
    gone, new = ours.keys() - doubted - seen.toxics.keys(), seen.toxics.keys() - ours.keys()
    there = sorted((ours.keys() & seen.toxics.keys()) - doubted)
    wrong = {name: _differences(ours[name].facts, seen.toxics[name].facts) for name in there}
    changed = {name: how for name, how in wrong.items() if how}
    words = [
        *(f"took {name} away from" for name in sorted(gone)),
        *(f"put {name} on" for name in sorted(new)),
        *(f"changed {name} of" for name in changed),
    ]
    details = f": {'; '.join(changed.values())}" if changed else ""
    return f"another client {', '.join(words)} {where}{details}" if words else ""


def _differences(asked: Mapping[str, Json], got: Mapping[str, Json]) -> str:
    """Differences from the requested values: `latency is 1, not 100`."""
    return ", ".join(
        f"{key} is {_shown(got.get(key))}, not {_shown(value)}"
        for key, value in asked.items()
        if got.get(key) != value
    )


def _shown(value: Json) -> str:
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)
