"""Bandwidth of each link: what it carried, what training needed of it, what it was spared.

    up     learner ──► syncer      counted by the syncer, where it arrives
    down   syncer ──► learner      counted by the learner, where it arrives
    peers  learners ──► learner    likewise, by its kernel; only with `data_parallel`

    sending gradients every step = parameters x 4 bytes x 2 (there and back) x steps
    saving = that / bytes that arrived, of the same learners in the same time of the same run

With `data_parallel` gradients are sent every step, around a ring: 2 (M - 1) / M of their size comes
to each of M learners, beside a model each way every H steps. The saving is M / (M - 1 + M / H):
hardly above 1, and below it if M > H.

Required is what the links carried in the baseline, when nothing limited them; available is the
rate at which payloads arrived while they did. The saving is this run's with its settings (model,
fragments, compression, steps between two rounds) and is comparable with no published figure. A
small sum can come in bursts: `max_peak` bounds those (`bursts`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import ClassVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.bursts import Burst, bursts
from chaoslab.checks.codes import Code
from chaoslab.checks.pacing import noise_of_rounds, unless_noisy
from chaoslab.checks.timeline import baseline_end_s, once, training_end_s
from chaoslab.checks.violations import (
    Doubt,
    Measured,
    Violation,
    conclude,
    margin_above,
    unknown,
)
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import CommunicatorFormed, LearnerStarted, LearnerStep, LinkMeasured
from chaoslab.core.units import BytesPerSecond, Factor
from chaoslab.record.history import History

_BYTES_PER_PARAMETER = 4
_OVER_S = 5.0
"""A rate is taken over at least this time."""
_FORMULA = "parameters x 4 bytes x 2 x steps of all learners / bytes that arrived at both ends"
_PEERS = "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """An event by which the end where bytes arrive says how many did."""

    event: Event[LinkMeasured] | Event[LearnerStep]
    bytes: float
    """Bytes that arrived in the lives that count."""
    life: int = 0
    """Incarnation of the learner; 0 for the syncer, which counts on while learners come and go."""
    bytes_per_s: float | None = None
    """Rate of payloads while they arrived."""

    @property
    def time_s(self) -> float:
        return self.event.time_s

    def since(self, earlier: "_Report") -> float:
        """Bytes that arrived since then. A count that fell, or of another life, began at zero."""
        is_new = self.bytes < earlier.bytes or self.life != earlier.life
        return self.bytes if is_new else self.bytes - earlier.bytes


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """One direction of what a learner sends or gets: reports of the receiving end, in order."""

    learner: str
    direction: str
    reports: tuple[_Report, ...]

    def __str__(self) -> str:
        return f"{self.learner} {self.direction}"

    @property
    def seconds(self) -> float:
        """Seconds from the first report to the last."""
        return self.reports[-1].time_s - self.reports[0].time_s if self.reports else 0.0

    @cached_property
    def bytes(self) -> float:
        """Bytes that arrived from the first report to the last."""
        return sum(self.arrived)

    @cached_property
    def arrived(self) -> Sequence[float]:
        """Bytes that arrived between consecutive reports, with the later report."""
        return [later.since(earlier) for earlier, later in pairwise(self.reports)]

    @cached_property
    def peak(self) -> tuple[float, Event | None]:
        """The highest rate over about `_OVER_S` in bytes per second, and when it ended."""
        best: tuple[float, Event | None] = 0.0, None
        times_s, arrived = [report.time_s for report in self.reports], self.arrived
        first, amount = 0, 0.0
        for last, end_s in enumerate(times_s[1:]):
            amount += arrived[last]
            while end_s - times_s[first + 1] >= _OVER_S and first < last:
                amount -= arrived[first]
                first += 1
            span_s = end_s - times_s[first]
            if span_s >= _OVER_S and amount / span_s > best[0]:
                best = amount / span_s, self.reports[last + 1].event
        return best

    @cached_property
    def rates(self) -> Sequence[float]:
        """The rates at which payloads arrived, report by report."""
        return [report.bytes_per_s for report in self.reports if report.bytes_per_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Links carry less than the bound, and much less than gradients in every step would take."""

    name: ClassVar[str] = "bandwidth"
    summary: ClassVar[str] = "what each link carried, and how much less than gradients every step"

    max_bytes_per_s: BytesPerSecond | None = None
    """Highest rate of any link in either direction, and of what comes to a learner from the others,
    over five seconds; none without a bound."""
    min_saving: Factor = binding(1.0, least=1, show="{:g}x".format)
    """Least saving against sending gradients in every step, as a factor."""
    max_peak: Factor | None = binding(None, most=100, show="{:g}x".format)
    """Most that one learner may push in the time of one round (H steps / P), as a multiple of its
    mean in the baseline. Evenly spread rounds give about 2, because a window can hold the ends of
    two; P fragments at once give P. Not judged without a bound."""

    def __post_init__(self) -> None:
        if self.max_peak is not None and self.max_peak < 1:
            raise PlanError(f"`max_peak: {self.max_peak:g}x` is below the mean itself: use 3x")

    def judge(self, history: History) -> Finding:
        """Add up from the end of the baseline to the end of training."""
        baseline_s, end_s = baseline_end_s(history), training_end_s(history)
        if baseline_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        if history.of(CommunicatorFormed) and not _counts_peers(history):
            return unknown(
                self.name,
                Code.RECORD_INCOMPLETE,
                "gradients went from learner to learner, where they are not counted",
            )
        flows = _flows(history, baseline_s, end_s)
        silent = [str(flow) for flow in flows if flow.seconds < _OVER_S]
        if silent or not flows:
            what = f"too little was reported of {', '.join(silent) or 'any link'} to tell"
            return unknown(self.name, Code.TOO_FEW_SAMPLES, what)
        gradients = _gradient_bytes(history, baseline_s, end_s)
        arrived = sum(flow.bytes for flow in flows)
        if not gradients or not arrived:
            return unknown(
                self.name,
                Code.RECORD_INCOMPLETE,
                "parameters, steps or bytes are missing from the record",
            )
        return self._finding(history, flows, saving=gradients / arrived, gradients=gradients)

    def _finding(
        self, history: History, flows: Sequence[_Flow], *, saving: float, gradients: float
    ) -> Finding:
        peaks = [(*flow.peak, flow) for flow in flows]
        peak, _, fastest = max(peaks, key=lambda found: found[0])
        arrived = sum(flow.bytes for flow in flows)
        found = bursts(history)
        worst = self._worst(peak, found)
        finding = conclude(
            self.name,
            [
                *(self._too_fast(*found) for found in peaks),
                *self._bunched(found),
                self._wasted(flows, saving),
            ],
            passed=f"{saving:.1f} times less data arrived than with gradients in every step "
            f"({_said(arrived)} instead of {_said(gradients)}); the fastest, {fastest}, "
            f"carried {_said(peak)}/s at most",
            samples=sum(len(flow.reports) for flow in flows),
            measured=worst,
            numbers=_numbers(history, flows, saving=saving, gradients=gradients) | _shown(found),
        )
        if worst is None or (saving < self.min_saving and worst.worst <= worst.bound):
            margin = margin_above(saving, self.min_saving, best=2 * self.min_saving)
            finding = replace(
                finding,
                observed=round(saving, 3),
                bound=self.min_saving,
                margin=margin,
                unit=Unit.FACTOR,
            )
        return unless_noisy(finding, noise_of_rounds(history), self.max_peak) if found else finding

    def _worst(self, rate: float, found: Sequence[Burst]) -> Measured | None:
        """Rate or peak, whichever has less room below its bound; None without bounds."""
        measured = []
        if self.max_bytes_per_s is not None:
            measured.append(Measured(rate, self.max_bytes_per_s, Unit.BYTES_PER_S, digits=1))
        if self.max_peak is not None and found:
            measured.append(
                Measured(max(burst.factor for burst in found), self.max_peak, Unit.FACTOR)
            )
        return max(measured, key=lambda one: one.worst / one.bound, default=None)

    def _bunched(self, found: Sequence[Burst]) -> Iterator[Violation | Doubt]:
        if self.max_peak is None:
            return
        if not found:
            text = "pushes report no size, or the baseline has too few of them"
            yield Doubt(Code.RECORD_INCOMPLETE, text)
        for burst in found:
            if burst.factor > self.max_peak:
                text = (
                    f"{burst.learner} pushed {burst.factor:.1f} times its mean in the "
                    f"{burst.window_s:.2f} s before {burst.last.time_s:.1f} s; the bound is "
                    f"{self.max_peak:g}x"
                )
                yield Violation.at(burst.last, Code.PEAK_TOO_HIGH, text, burst.learner)

    def _too_fast(self, peak: float, event: Event | None, flow: _Flow) -> Violation | None:
        if self.max_bytes_per_s is None or peak <= self.max_bytes_per_s or event is None:
            return None
        text = (
            f"{flow} carried {_said(peak)}/s in the {_OVER_S:g} s before "
            f"{event.time_s:.1f} s; the bound is {_said(self.max_bytes_per_s)}/s"
        )
        return Violation.at(event, Code.RATE_TOO_HIGH, text, flow.learner)

    def _wasted(self, flows: Sequence[_Flow], saving: float) -> Violation | None:
        if saving >= self.min_saving:
            return None
        text = (
            f"only {saving:.2f} times less data arrived than with gradients in every step "
            f"({_FORMULA}); the bound is {self.min_saving:g}x"
        )
        last = max((flow.reports[-1].event for flow in flows), key=lambda event: event.seq)
        return Violation.at(last, Code.SAVING_TOO_LOW, text, "")


def _flows(history: History, start_s: float, end_s: float) -> tuple[_Flow, ...]:
    """Both directions of every learner's link, and what came from its peers, within that time."""
    reports = _by_flow(history)
    directions = ("up", "down", _PEERS) if _counts_peers(history) else ("up", "down")
    return tuple(
        _Flow(
            learner=learner,
            direction=direction,
            reports=tuple(
                report
                for report in reports.get((learner, direction), ())
                if start_s <= report.time_s <= end_s
            ),
        )
        for learner in history.learners
        for direction in directions
    )


def _counts_peers(history: History) -> bool:
    """Whether learners say how much came from other learners; those that train without do not."""
    return any(direction == _PEERS for _, direction in _by_flow(history))


@once
def _by_flow(history: History) -> Mapping[tuple[str, str], Sequence[_Report]]:
    """All reports of each learner and direction, in order."""
    found: dict[tuple[str, str], list[_Report]] = defaultdict(list)
    for event in history.of(LinkMeasured):
        said = event.payload
        life = said.incarnation if said.direction == "down" else 0
        report = _Report(event=event, bytes=said.bytes, life=life, bytes_per_s=said.bytes_per_s)
        found[said.learner, said.direction].append(report)
    for step in history.of(LearnerStep):
        of, came = step.payload, step.payload.peer_bytes
        if came is not None:
            found[of.learner, _PEERS].append(_Report(event=step, bytes=came, life=of.incarnation))
    return found


def _gradient_bytes(history: History, start_s: float, end_s: float) -> float:
    """Bytes of sending every gradient up, and the mean of all gradients down."""
    started = history.last(LearnerStarted)
    parameters = started.payload.parameters if started else 0.0
    steps = sum(e.payload.steps for e in history.between(start_s, end_s, LearnerStep))
    return parameters * _BYTES_PER_PARAMETER * 2 * steps


def _numbers(
    history: History, flows: Sequence[_Flow], *, saving: float, gradients: float
) -> dict[str, Json]:
    before = _flows(history, 0.0, baseline_end_s(history) or 0.0)
    required = {str(flow): flow.bytes / flow.seconds for flow in before if flow.seconds}
    available = {str(flow): median(flow.rates) for flow in flows if flow.rates}
    return {
        "saving_factor": round(saving, 3),
        "formula": _FORMULA,
        "gradients_every_step_bytes": round(gradients),
        "arrived_bytes": {str(flow): round(flow.bytes) for flow in flows},
        "mean_bytes_per_s": {str(flow): round(flow.bytes / flow.seconds, 1) for flow in flows},
        "peak_bytes_per_s": {str(flow): round(flow.peak[0], 1) for flow in flows},
        "required_bytes_per_s": {name: round(rate, 1) for name, rate in required.items()},
        "available_bytes_per_s": {name: round(rate, 1) for name, rate in available.items()},
        "required_of_available_share": {
            name: round(required[name] / available[name], 6)
            for name in required
            if available.get(name)
        },
    }


def _shown(found: Sequence[Burst]) -> dict[str, Json]:
    """Numbers of the bursts; none of a record that cannot tell."""
    if not found:
        return {}
    return {
        "push_peak_window_s": round(found[0].window_s, 4),
        "push_peak_of_mean": {burst.learner: round(burst.factor, 3) for burst in found},
    }


def _said(amount: float) -> str:
    """Bytes as people read them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= factor:
            return f"{amount / factor:.1f} {unit}"
    return f"{amount:.0f} B"
