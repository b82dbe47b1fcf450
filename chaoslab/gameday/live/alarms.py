"""Alarms of a monitoring system: webhooks of Alertmanager and of Grafana, read into notes.

    {"version": "4", "alerts": [{"status": "firing", "labels": {"alertname": "Stalled", …},
                                 "annotations": {"summary": "…"}, "startsAt": "…"}]}
        ─► Alarms.notes ─► a Note for each that is new ─► the run

Both systems send an alarm again and again while it lasts. It is noted once when it fires, and once
when it is resolved. Which fault it names is decided from the record (`gameday.reactions`).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from chaoslab.core.events import Json
from chaoslab.core.payloads import AlarmState
from chaoslab.gameday.live.access import ALERTMANAGER, GRAFANA, Denied
from chaoslab.gameday.live.bodies import TEXT_MOST, Body
from chaoslab.plan.file.document import printable
from chaoslab.run.operators import Note

ALERTS_MOST: Final = 100
"""In one request."""
_NAMES: Final = "alertname"
_SAYS: Final = ("summary", "description")
"""Annotations that are noted, in this order."""
_VERSIONS: Final[Mapping[str, str]] = {ALERTMANAGER: "4", GRAFANA: "1"}
"""Of the form of the body, by who sends it."""
_SEEN_MOST: Final = 10_000


class _Told(NamedTuple):
    """By what an alarm that is sent again is known."""

    fingerprint: str
    state: AlarmState
    starts_at: str


class Alarms:
    """All alarms of one run; for one thread."""

    def __init__(self) -> None:
        self._seen: dict[_Told, None] = {}
        """Oldest first."""

    def notes(self, body: Body, *, now_s: float) -> list[Note]:
        """Those that were not noted before. `now_s`: seconds since the epoch.

        Denied if the body is no such webhook; then none of it counts as noted.
        """
        by = GRAFANA if "orgId" in body else ALERTMANAGER
        if body.get("version") != _VERSIONS[by]:
            raise _wrong("version", f'must be "4" (Alertmanager) or "1" (Grafana), not '
                         f"{_shown(body.get('version'))}")  # fmt: skip
        alerts = body.get("alerts")
        if not isinstance(alerts, list):
            raise _wrong("alerts", "must be a list")
        if len(alerts) > ALERTS_MOST:
            raise Denied(413, f"alerts: must be at most {ALERTS_MOST}: set `max_alerts` of the "
                         "receiver")  # fmt: skip
        read = [_read(alert, f"alerts[{n}]", by, now_s) for n, alert in enumerate(alerts)]
        return list(self._new(dict(read)))

    def _new(self, read: Mapping[_Told, Note]) -> Iterator[Note]:
        for told, note in read.items():
            if told not in self._seen:
                yield note
            self._seen[told] = self._seen.pop(told, None)
        for told in list(self._seen)[: max(0, len(self._seen) - _SEEN_MOST)]:
            del self._seen[told]


def _read(alert: Json, where: str, by: str, now_s: float) -> tuple[_Told, Note]:
    if not isinstance(alert, Mapping):
        raise _wrong(where, "must be an object")
    word = alert.get("status")
    if word not in tuple(AlarmState):
        raise _wrong(f"{where}.status", f"must be {' or '.join(AlarmState)}, not {_shown(word)}")
    state = AlarmState(str(word))
    labels = _texts(alert, "labels", where)
    annotations = _texts(alert, "annotations", where)
    starts_at, starts_s = _start(alert, where)
    fingerprint = alert.get("fingerprint") or repr(sorted(labels.items()))
    if not isinstance(fingerprint, str):
        raise _wrong(f"{where}.fingerprint", "must be text")
    note = Note(
        by=by,
        text=_text(state, labels, annotations),
        alarm=state,
        firing_s=round(max(0.0, now_s - starts_s), 3),
    )
    return _Told(fingerprint, state, starts_at), note


def _text(state: AlarmState, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Labels stand before what is said, which may be long: they name the nodes."""
    name = labels.get(_NAMES) or "an alarm without a name"
    what = f"{name} {'fires' if state is AlarmState.FIRING else 'is resolved'}"
    told = ", ".join(f"{key}={labels[key]}" for key in sorted(labels) if key != _NAMES)
    said = "; ".join(annotations[key] for key in _SAYS if annotations.get(key))
    text = f"{what}{f' ({told})' if told else ''}{f': {said}' if said else ''}"
    return printable(" ".join(text.split()))[:TEXT_MOST]


def _texts(alert: Mapping[str, Json], key: str, where: str) -> Mapping[str, str]:
    """An object with texts alone; empty if there is none."""
    found = alert.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping) or not all(isinstance(one, str) for one in found.values()):
        raise _wrong(f"{where}.{key}", "must be an object whose values are text")
    return {name: str(value) for name, value in found.items()}


def _start(alert: Mapping[str, Json], where: str) -> tuple[str, float]:
    """When it began to fire, as it was sent and in seconds since the epoch."""
    text = alert.get("startsAt")
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        time = None
    if not isinstance(text, str) or time is None or time.tzinfo is None:
        raise _wrong(
            f"{where}.startsAt",
            f"must be a time with its zone, such as 2026-01-31T12:00:00Z, not {_shown(text)}",
        )
    return text, time.timestamp()


def _shown(value: Json) -> str:
    return "missing" if value is None else printable(repr(value))[:60]


def _wrong(key: str, message: str) -> Denied:
    return Denied(400, f"{key}: {message}")
