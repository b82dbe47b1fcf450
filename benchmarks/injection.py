"""Timing of faults: when they were requested, when they took effect, and how simultaneously.

    journal   fault.injecting ─► asked ─► signals ─► fault.injected
    outside   an observer reads the state of every learner's process ─► first seen held

Dozens of short pauses of two learners at a time, at times given by a trace, and dozens of kills of
two.
The learners are paced as in the plans (`step_time: auto`): one that waits for a core is held by a
signal at once, and is seen held only when it has a core again.
The harness's own events are compared with what the observer sees. The distance of two targets is at
most the first reading in which the later one is held, minus the last one in which the earlier one
is not. The observer's own lateness at the same moments is the machine's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from figures import Cell, Figure, MachineLoad, Result, quantile
from process_observer import Hold, ProcessObserver
from trainings import BenchmarkError, run_plan, workplace

from chaoslab.core.events import Event
from chaoslab.core.payloads import NodeStarted
from chaoslab.record.history import FaultStory, History

DELAY_AT_MOST_MS = 5.0
APART_AT_MOST_MS = 2.0
PAUSES = 200
KILLS = 150
PAUSE_S = 0.3
PAUSE_EVERY_S = 0.5
KILL_S = 0.5
KILL_EVERY_S = 2.5
LEAST = 100
"""Least number of injections of a kind for a p99."""
COARSE_MS = 1.0
STALL_S = 0.01
SLACK_S = 0.01
"""Allowed difference between the journal's time stamps and the observer's, in s."""
_CUT_S = 0.001
WITHIN_S = 900.0

_PAUSES_S = [n * PAUSE_EVERY_S for n in range(PAUSES)]
_KILLS_S = [_PAUSES_S[-1] + 3 + n * KILL_EVERY_S for n in range(KILLS)]
_EXPECTED_S = tuple(time_s - _PAUSES_S[0] for time_s in (*_PAUSES_S, *_KILLS_S))


def _trace(times_s: Sequence[float]) -> str:
    return f"{{per: fleet, dist: trace, trace: [{', '.join(f'{t:g}s' for t in times_s)}]}}"


PLAN = f"""
version: 1
name: injection
training: {{learners: 4, model: nano, step_time: auto, stop: {{time: {_KILLS_S[-1] + 30:g}s}}}}
baseline: {{warmup: 4 rounds, window: 8 rounds, max_variation: 1000%}}
faults:
  - id: pauses
    fault: process.pause
    target: {{learners: 2}}
    arrivals: {_trace(_PAUSES_S)}
    for: {PAUSE_S}s
  - id: kills
    fault: process.kill
    target: {{learners: 2}}
    arrivals: {_trace(_KILLS_S)}
    for: {KILL_S}s
"""


def measure() -> Result:
    """One run, measured from its journal and from outside."""
    load = MachineLoad()
    with workplace() as folder, ProcessObserver(expected_s=_EXPECTED_S) as observer:
        history = run_plan(folder / "injection", PLAN, within_s=WITHIN_S, beside=observer.look)
    return result(history, observer, load.place())


# ---------------------------------------------------------------- both together


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One injection, in milliseconds; None for what was not observed from outside."""

    fault: str
    said_ms: float
    """From the requested time to fault.injected, by the journal."""
    span_ms: float
    """From the requested time, or fault.injecting if that is later, to fault.injected: all signals
    were sent within it.
    """
    seen_ms: float | None
    """From the requested time to the reading in which the last target was held."""
    apart_ms: float | None
    """Largest possible time between the holds of the targets."""
    machine_ms: float
    """How late the observer woke at most between the requested time and fault.injected."""


def result(history: History, observer: ProcessObserver, place: Mapping[str, Cell]) -> Result:
    """The figures of all injections; BenchmarkError if there are too few."""
    hits = hits_of(history, observer)
    said = [hit.said_ms for hit in hits]
    span = [hit.span_ms for hit in hits]
    machine = [hit.machine_ms for hit in hits]
    seen = [hit.seen_ms for hit in hits if hit.seen_ms is not None]
    killed, paused = (_apart_ms(hits, fault) for fault in ("process.kill", "process.pause"))
    if min(len(killed), len(paused)) < LEAST:
        raise BenchmarkError(
            f"{len(said)} of {PAUSES + KILLS} injections were carried out, {len(seen)} of them "
            f"seen from outside, {len(killed)} kills and {len(paused)} pauses with readings close "
            f"enough: {LEAST} of each are needed"
        )
    return Result(
        number=4,
        name="injection",
        what="how late a fault comes after the time that was asked for, and how far apart its two "
        "victims are hit",
        command="python benchmarks/harness.py --only 4",
        figures=(
            *_figures("asked to injected, by the journal", said, DELAY_AT_MOST_MS),
            *_figures("asked to held, seen from outside", seen, DELAY_AT_MOST_MS),
            *_figures("two victims killed apart, seen from outside", killed, APART_AT_MOST_MS),
            *_figures("two victims paused apart, seen from outside", paused, None),
            *_figures("two victims apart, by the journal at most", span, None),
            *_figures("the observer's own lateness meanwhile", machine, None),
        ),
        rows=tuple(
            _row(fault, [hit for hit in hits if hit.fault == fault])
            for fault in dict.fromkeys(hit.fault for hit in hits)
        ),
        notes=_notes(observer, len(seen) - len(killed) - len(paused), len(seen)),
        place=place,
    )


def _notes(observer: ProcessObserver, coarse: int, count: int) -> tuple[str, ...]:
    bounds = (
        f"Distances seen from outside are upper bounds. Where two readings lay more than "
        f"{COARSE_MS:g} ms apart they cannot tell: {coarse} of {count} injections."
    )
    if not observer.has_realtime_priority:
        return (bounds, "The observer had no real-time priority.")
    late = [wake.late_s for wake in observer.wakes if wake.late_s > STALL_S]
    stalls = (
        f"In the whole run the observer woke more than {1e3 * STALL_S:g} ms late "
        f"{len(late)} times, {1e3 * max(late, default=0.0):.0f} ms at most, caused by the machine."
    )
    return (bounds, stalls)


def _figures(name: str, values_ms: Sequence[float], at_most_ms: float | None) -> Iterator[Figure]:
    worst = quantile(values_ms, 0.99)
    count = len(values_ms)
    yield Figure(name=f"{name}, p99", observed=worst, unit="ms", at_most=at_most_ms, samples=count)
    yield Figure(name=f"{name}, p50", observed=median(values_ms), unit="ms", samples=count)


def _apart_ms(hits: Sequence[Hit], fault: str) -> list[float]:
    return [hit.apart_ms for hit in hits if hit.fault == fault and hit.apart_ms is not None]


def _row(fault: str, hits: Sequence[Hit]) -> Mapping[str, Cell]:
    apart = _apart_ms(hits, fault)
    return {
        "fault": fault,
        "injections": len(hits),
        "asked to injected: p50 (ms)": median(hit.said_ms for hit in hits),
        "longest (ms)": max(hit.said_ms for hit in hits),
        "observer late then (ms)": max(hits, key=lambda hit: hit.said_ms).machine_ms,
        "two victims apart: p50 (ms)": median(apart) if apart else None,
        "farthest (ms)": max(apart) if apart else None,
    }


def hits_of(history: History, observer: ProcessObserver) -> list[Hit]:
    """Every injection that was carried out, with the observations of it."""
    origin_s = _origin_s(history)
    hits = []
    for story in history.faults:
        if story.injected is None:
            continue
        begin_s, said = story.injecting.time_s, story.injecting.payload
        asked_s = begin_s if said.asked_s is None else said.asked_s
        injected_s = story.injected.time_s
        seen = _seen(story, history, observer.holds, origin_s)
        is_fine = bool(seen) and all(1e3 * (h.held_s - h.free_s) <= COARSE_MS for h in seen)
        hits.append(
            Hit(
                fault=story.fault,
                said_ms=1e3 * (injected_s - asked_s),
                span_ms=1e3 * (injected_s - max(begin_s, asked_s)),
                seen_ms=1e3 * (max(h.held_s for h in seen) - origin_s - asked_s) if seen else None,
                apart_ms=1e3 * _apart_s(seen) if is_fine else None,
                machine_ms=1e3 * observer.latest_wake_s(origin_s + asked_s, origin_s + injected_s),
            )
        )
    return hits


def _origin_s(history: History) -> float:
    """When the run's clock began, in seconds since the epoch.

    The wall clock of an event is cut to whole milliseconds, so it is half of one too early in the
    median; the largest difference would be that of an event between whose two clocks others ran.
    """
    return median(_wall_s(event) - event.time_s for event in history.events) + _CUT_S / 2


def _apart_s(seen: Sequence[Hold]) -> float:
    """Largest possible difference of the holds, each after its last free reading."""
    return max(
        (late.held_s - early.free_s for late in seen for early in seen if late is not early),
        default=0.0,
    )


def _seen(
    story: FaultStory, history: History, holds: Sequence[Hold], origin_s: float
) -> list[Hold]:
    """The hold of each target; [] unless all were observed."""
    begin_s = origin_s + story.injecting.time_s - SLACK_S
    end_s = origin_s + (story.healing.time_s if story.healing else history.end_s)
    found = []
    for name in story.targets:
        pid = _pid(name, story, history)
        holds_of_it = [h for h in holds if h.pid == pid and begin_s <= h.held_s <= end_s]
        if not holds_of_it:
            return []
        found.append(holds_of_it[0])
    return found


def _pid(name: str, story: FaultStory, history: History) -> int:
    """The process that the fault affected."""
    started = [
        event
        for event in history.of(NodeStarted)
        if event.payload.node == name and event.seq < story.injecting.seq
    ]
    return started[-1].payload.pid


def _wall_s(event: Event) -> float:
    return datetime.fromisoformat(event.wall).timestamp()
