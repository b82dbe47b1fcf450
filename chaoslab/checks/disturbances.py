"""Stretches in which the harness or the machine was stalled, and what they make of a FAIL.

    harness.stalled ─────────┐
    machine.sampled ─ busy ──┴─► Disturbance ─► without(history, …): the run as if that time had
                                                not passed ─► judged again: still FAIL? then FAIL,
                                                              else UNKNOWN, and why

A failure that stands without the disturbed time is a failure. Only what others took of the machine
counts as a disturbance, never the load that the run itself makes: see docs/record.md.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.node_clocks import stalls
from chaoslab.checks.stretches import Stretches, holds, union
from chaoslab.checks.timeline import baseline_end_s, once
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import MachineSampled, PhaseEntered, RoundStored
from chaoslab.record.history import History

_LEFT_SHARE = 0.7
"""Least share of the cores left to the run, of those that were left to it in the baseline."""
_IDLE_SHARE = 0.1
"""Share of idle cores above which no process had to wait for a core."""
_NAMED_MOST = 3
_WITHOUT_TIME = frozenset(
    {Code.BEGAN_ANEW, Code.RESUMED_FROM_OLDER, Code.RESUMED_OTHERWISE, Code.DIVERGED}
)
"""Failures by steps and losses alone: no lack of time has a worker go on from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A stretch in which time passed for the run that it could not use."""

    start_s: float
    end_s: float
    text: str
    seq: int
    """The event that shows it."""

    def overlap_s(self, start_s: float, end_s: float) -> float:
        """Seconds of a stretch that it took."""
        return max(0.0, min(self.end_s, end_s) - max(self.start_s, start_s))


@once
def disturbances(history: History) -> tuple[Disturbance, ...]:
    """Every disturbance that reaches beyond the baseline, in the order in which they began."""
    from_s = baseline_end_s(history) or 0.0
    stalled = (
        Disturbance(start_s=one.start_s, end_s=one.end_s, text=one.text, seq=one.event.seq)
        for one in stalls(history)
    )
    found = [one for one in (*stalled, *_busy(history)) if one.end_s > from_s]
    return tuple(sorted(found, key=lambda one: (one.start_s, one.seq)))


def weighed(
    finding: Finding, again: Outcome | None, history: History, disturbed: Sequence[Disturbance]
) -> Finding:
    """The finding; UNKNOWN for a FAIL, or a PASS, that did not stand when it was judged `again`.

    `again`: its outcome `without` the disturbed time, None if that could not be had. Whatever is
    not PASS tells of the disturbances, and of the machine, in its time.
    """
    has_passed = finding.outcome is Outcome.PASS
    if has_passed and again is not Outcome.FAIL:
        return finding
    finding = _with_machine(finding, history)
    has_failed = finding.outcome is Outcome.FAIL and not _WITHOUT_TIME & {*finding.codes}
    if has_passed or (has_failed and again not in {None, Outcome.FAIL}):
        otherwise = "would have failed" if has_passed else "would not have failed"
        return replace(
            finding,
            outcome=Outcome.UNKNOWN,
            codes=(*finding.codes, Code.MACHINE_STALLED),
            reason=f"{finding.reason}; but {_named(disturbed)}, and without that time it "
            f"{otherwise}",
            margin=None,
            evidence=(*finding.evidence, *(one.seq for one in disturbed[:_NAMED_MOST])),
        )
    span = _span(finding, history)
    meanwhile = [one for one in disturbed if span and one.overlap_s(*span)]
    if not meanwhile:
        return finding
    return replace(
        finding,
        codes=(*finding.codes, Code.MACHINE_STALLED),
        reason=f"{finding.reason} (meanwhile {_named(meanwhile)})",
    )


def without(history: History, disturbed: Sequence[Disturbance]) -> History:
    """The same events, as if the disturbed time had not passed: it is taken off all later times.

    Step samples that were taken while the machine was busy say nothing any more.
    """
    stretches = union((one.start_s, one.end_s) for one in disturbed)
    starts_s = [start_s for start_s, _ in stretches]
    sums_s = [*accumulate((end_s - start_s for start_s, end_s in stretches), initial=0.0)]

    def moved_s(time_s: float) -> float:
        begun = bisect_right(starts_s, time_s)
        if not begun:
            return time_s
        start_s, end_s = stretches[begun - 1]
        return time_s - (sums_s[begun - 1] + (min(time_s, end_s) - start_s))

    busy = union((one.start_s, one.end_s) for one in _busy(history))
    events = (_emptied(e, busy).at(moved_s(e.time_s)) for e in history.events)
    return history.retimed(events, twin=history.twin)


def _emptied(event: Event, busy: Stretches) -> Event:
    """A step sample of a busy time as a line that no check reads: others are known by their seq."""
    if event.kind is Kind.LEARNER_STEP and holds(busy, event.time_s):
        return replace(event, kind=Kind.COUNTS_SAMPLED, data={})
    return event


def is_full(sample: Event[MachineSampled]) -> bool:
    """Whether a node may have had to wait for a core of the machine: not if all are elsewhere."""
    said = sample.payload
    return said.nodes != 0 and said.idle_cores <= _IDLE_SHARE * said.cores


# ---------------------------------------------------------------- what disturbed


def _busy(history: History) -> Iterator[Disturbance]:
    """Stretches in which others left the run far less of the machine than in the baseline."""
    usual = [_left_cores(sample) for sample in _of_baseline(history)]
    run: list[Event[MachineSampled]] = []
    for sample in history.of(MachineSampled) if usual else ():
        if is_full(sample) and _left_cores(sample) < _LEFT_SHARE * min(usual):
            run.append(sample)
        elif run:
            yield _stretch(run)
            run = []
    if run:
        yield _stretch(run)


def _of_baseline(history: History) -> Sequence[Event[MachineSampled]]:
    """Samples of the baseline; of what came before it, too, if it was too short for any."""
    until_s = baseline_end_s(history)
    begun = [e for e in history.of(PhaseEntered) if e.payload.phase == "baseline"]
    if until_s is None or not begun:
        return ()
    own = list(history.between(begun[0].time_s, until_s, MachineSampled))
    return own or list(history.between(0.0, until_s, MachineSampled))


def _stretch(run: Sequence[Event[MachineSampled]]) -> Disturbance:
    start_s, end_s = run[0].time_s - run[0].payload.window_s, run[-1].time_s
    cores = run[0].payload.cores
    share = 1 - sum(map(_left_cores, run)) / len(run) / cores
    return Disturbance(
        start_s=start_s,
        end_s=end_s,
        text=f"others took {share:.0%} of the machine from {start_s:.1f} to {end_s:.1f} s (load "
        f"{max(e.payload.load_1m for e in run):.1f} on {cores:g} cores)",
        seq=run[0].seq,
    )


def _left_cores(sample: Event[MachineSampled]) -> float:
    """Cores that neither processes outside of the run nor other guests of the host took."""
    others = sample.payload.others_cores + sample.payload.stolen_cores
    return max(0.0, sample.payload.cores - others)


# ---------------------------------------------------------------- how it is told


def _named(disturbed: Sequence[Disturbance]) -> str:
    more = len(disturbed) - _NAMED_MOST
    texts = [one.text for one in disturbed[:_NAMED_MOST]]
    return " and ".join(texts) + (f" (and {more} more)" if more > 0 else "")


def _span(finding: Finding, history: History) -> tuple[float, float] | None:
    """The time between the first and the last piece of evidence."""
    times_s = [history.events[n].time_s for n in finding.evidence if n < len(history.events)]
    return (min(times_s), max(times_s)) if times_s else None


def _with_machine(finding: Finding, history: History) -> Finding:
    """The finding with how busy the machine was, or with the broken line that hides it."""
    try:
        numbers = _machine_numbers(finding, history)
    except MalformedEvent as error:
        return replace(finding, reason=f"{finding.reason} (how busy the machine was: {error})")
    return replace(finding, numbers={**finding.numbers, **numbers})


def _machine_numbers(finding: Finding, history: History) -> Mapping[str, Json]:
    """Highest load of the machine in the time of a finding."""
    span = _span(finding, history)
    if span is None:
        return {}
    samples = [
        e for e in history.of(MachineSampled)
        if e.time_s >= span[0] and e.time_s - e.payload.window_s <= span[1]
    ]  # fmt: skip
    stored = [e.payload.took_s for e in history.between(*span, RoundStored)]
    numbers: dict[str, Json] = {}
    for name, figure in _TOLD.items():
        values = [value for e in samples if (value := figure(e.payload)) is not None]
        if values:
            numbers[name] = round(max(values), 3)
    if stored:
        numbers["syncer_write_s"] = round(max(stored), 3)
    return numbers


_TOLD: Mapping[str, Callable[[MachineSampled], float | None]] = {
    "machine_load_1m": lambda sample: sample.load_1m,
    "machine_others_cores": lambda sample: sample.others_cores,
    "machine_stolen_cores": lambda sample: sample.stolen_cores,
    "machine_cpu_pressure_share": lambda sample: sample.cpu_pressure,
    "machine_io_pressure_share": lambda sample: sample.io_pressure,
    "machine_memory_pressure_share": lambda sample: sample.memory_pressure,
    "harness_waited_s": lambda sample: sample.waited_s,
    "harness_throttled_s": lambda sample: sample.throttled_s,
}
"""The figures of a finding, and where a sample has them."""
