"""Links as a page draws them: measured rates and delays, beside what faults asked of them.

link.measured ─► rate up, rate down, round trip ─┐
link.shaped, link.cleared ─► what is asked now ──┴─► a row for each link that a fault shaped,
                                                     one for all others together
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind
from chaoslab.fleet.node_links import STANDING
from chaoslab.report.web.buckets import Curve, Grid, digits, together

_ROWS_MOST = 6
"""Links with a row of their own; more share the row of the others."""
_ASKED_MOST = 400
"""Changes of what is asked that a row keeps; a storm beyond that shows as its beginning."""
_WAYS = ("up", "down")
_CUTS = frozenset({"freeze", "blackhole", "refuse", "half_open"})

_Effect: TypeAlias = payloads.LinkShaped


@dataclass(slots=True, kw_only=True)
class _Link:
    up: Curve
    """Rate at which payloads arrived at the syncer while they did, in kB/s."""
    down: Curve
    """The same at the learner."""
    delay: Curve
    """Round trip in milliseconds."""
    effects: list[_Effect] = field(default_factory=list)
    """In force now."""
    asked: list[list[Json]] = field(default_factory=list)
    """At each change: time, kB/s up and down, added round trip in ms, whether it is cut."""
    is_shaped: bool = False
    """By a fault, not only as the plan's network is."""


class Links:
    """The fold over the events of links."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._links: dict[str, _Link] = {}

    def _link(self, name: str) -> _Link:
        if name not in self._links:
            up, down, delay = Curve(self._grid), Curve(self._grid), Curve(self._grid)
            self._links[name] = _Link(up=up, down=down, delay=delay)
        return self._links[name]

    def _measured(self, event: Event[payloads.LinkMeasured]) -> None:
        said = event.payload
        link = self._link(said.learner)
        rate = said.bytes_per_s
        if rate is not None:
            (link.up if said.direction == "up" else link.down).add(event.time_s, rate / 1000)
        delay_s = said.rtt_s if said.probe_rtt_s is None else said.probe_rtt_s
        if delay_s is not None and said.direction == "down":
            link.delay.add(event.time_s, delay_s * 1000)

    def _shaped(self, event: Event[payloads.LinkShaped]) -> None:
        link = self._link(event.payload.link)
        link.is_shaped |= event.payload.injection != STANDING
        link.effects.append(event.payload)
        self._changed(link, event.time_s)

    def _cleared(self, event: Event[payloads.LinkCleared]) -> None:
        link = self._link(event.payload.link)
        link.effects = [one for one in link.effects if one.injection != event.payload.injection]
        self._changed(link, event.time_s)

    def _changed(self, link: _Link, time_s: float) -> None:
        if len(link.asked) >= _ASKED_MOST:
            return
        rates = [_least_rate(link.effects, way) for way in _WAYS]
        delay_ms = sum(
            1000 * _number(one, "mean_s") * sum(_acts(one, way) for way in _WAYS)
            for one in link.effects
            if one.effect == "latency"
        )
        is_cut = any(one.effect in _CUTS for one in link.effects)
        link.asked.append([digits(time_s, 6), *rates, digits(delay_ms), is_cut])

    def to_json(self) -> Mapping[str, Json]:
        """Links that faults shaped one by one, the others as one range."""
        shaped = [name for name, link in self._links.items() if link.is_shaped][:_ROWS_MOST]
        others = [link for name, link in self._links.items() if name not in shaped]
        rows: list[Json] = [
            {
                "link": name,
                "up": self._links[name].up.range_json(),
                "down": self._links[name].down.range_json(),
                "delay_ms": self._links[name].delay.range_json(),
                "asked": self._links[name].asked,
            }
            for name in shaped
        ]
        return {
            "width_s": self._grid.width_s,
            "rows": rows,
            "others": {
                "number": len(others),
                "up": together((link.up for link in others), has_mean=False),
                "down": together((link.down for link in others), has_mean=False),
                "delay_ms": together((link.delay for link in others), has_mean=False),
            },
        }

    FOLDS: ClassVar[Mapping[Kind, Callable[["Links", Event[Any]], None]]] = {
        Kind.LINK_MEASURED: _measured,
        Kind.LINK_SHAPED: _shaped,
        Kind.LINK_CLEARED: _cleared,
    }


def _least_rate(effects: list[_Effect], way: str) -> Json:
    """The tightest limit in one direction; None without one."""
    rates = [
        _number(one, "rate_bytes_per_s")
        for one in effects
        if one.effect == "bandwidth" and _acts(one, way)
    ]
    return digits(min(rates) / 1000) if rates else None


def _acts(effect: _Effect, way: str) -> bool:
    return effect.direction in (way, "both")


def _number(effect: _Effect, name: str) -> float:
    found = effect.settings.get(name)
    return float(found) if isinstance(found, int | float) else 0.0
