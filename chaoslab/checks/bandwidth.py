"""What did each link carry, how much did training need of it, and how much was it spared?

    up    learner ──► syncer      counted by the syncer, where it arrives
    down  syncer ──► learner      counted by the learner, where it arrives

    sending gradients every step = parameters x 4 bytes x 2 (there and back) x steps
    saving = that / bytes that arrived, of the same learners in the same time of the same run

Required is what the links carried in the baseline, when nothing held them back; available is the
rate at which payloads arrived while they did. The saving is this run's with its settings (model,
fragments, compression, steps between two rounds) and is comparable with no published figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import ClassVar

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import baseline_end_s, training_end_s
from chaoslab.checks.violations import Measured, Violation, conclude, room_above, unknown
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LearnerStarted, LearnerStep, LinkMeasured
from chaoslab.core.units import Factor
from chaoslab.record.journal import History

_BYTES_PER_PARAMETER = 4
_OVER_S = 5.0
"""A rate is taken over at least this time."""
_FORMULA = "parameters x 4 bytes x 2 x steps of all learners / bytes that arrived at both ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """One direction of one link: reports of the end where the bytes arrive, in order."""

    learner: str
    direction: str
    reports: tuple[Event[LinkMeasured], ...]

    def __str__(self) -> str:
        return f"{self.learner} {self.direction}"

    @property
    def seconds(self) -> float:
        """From the first report to the last."""
        return self.reports[-1].time_s - self.reports[0].time_s if self.reports else 0.0

    @property
    def bytes(self) -> float:
        """What arrived from the first report to the last."""
        return sum(amount for _, amount in self.steps())

    def steps(self) -> Iterator[tuple[Event[LinkMeasured], float]]:
        """Each report with what had arrived since the one before.

        A count that falls, and one of another life, began at zero.
        """
        for before, event in pairwise(self.reports):
            now, earlier = event.payload.bytes, before.payload.bytes
            was_reset = now < earlier or (
                self.direction == "down" and event.payload.incarnation != before.payload.incarnation
            )
            yield event, now if was_reset else now - earlier

    def peak(self) -> tuple[float, Event[LinkMeasured] | None]:
        """The highest rate over about `_OVER_S` in bytes per second, and when it ended."""
        best: tuple[float, Event[LinkMeasured] | None] = 0.0, None
        steps = list(self.steps())
        starts_s = [event.time_s for event in self.reports]
        first, amount = 0, 0.0
        for last, (event, arrived) in enumerate(steps):
            amount += arrived
            while event.time_s - starts_s[first + 1] >= _OVER_S and first < last:
                amount -= steps[first][1]
                first += 1
            span_s = event.time_s - starts_s[first]
            if span_s >= _OVER_S:
                best = max(best, (amount / span_s, event), key=lambda found: found[0])
        return best

    def rates(self) -> list[float]:
        """The rates at which payloads arrived, report by report."""
        return [e.payload.bytes_per_s for e in self.reports if e.payload.bytes_per_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Links carry less than the bound, and much less than gradients in every step would take."""

    name: ClassVar[str] = "bandwidth"
    summary: ClassVar[str] = "what each link carried, and how much less than gradients every step"

    max_bytes_per_s: float | None = None
    """Highest rate of any link in either direction, over five seconds; none without a bound."""
    min_saving: Factor = 1.0
    """How many times less must arrive than if gradients were sent in every step."""

    def judge(self, history: History) -> Finding:
        """Add up from the end of the baseline to the end of training."""
        baseline_s, end_s = baseline_end_s(history), training_end_s(history)
        if baseline_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
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
        peaks = [(*flow.peak(), flow) for flow in flows]
        peak, _, fastest = max(peaks, key=lambda found: found[0])
        arrived = sum(flow.bytes for flow in flows)
        bound = self.max_bytes_per_s
        finding = conclude(
            self.name,
            [*(self._too_fast(*found) for found in peaks), self._wasted(flows, saving)],
            passed=f"{saving:.1f} times less arrived than gradients in every step would have been "
            f"({_said(arrived)} instead of {_said(gradients)}); the fastest link, {fastest}, "
            f"carried {_said(peak)}/s at most",
            samples=sum(len(flow.reports) for flow in flows),
            measured=None if bound is None else Measured(peak, bound, digits=1),
            numbers=_numbers(history, flows, saving=saving, gradients=gradients),
        )
        if bound is None or (saving < self.min_saving and peak <= bound):
            margin = room_above(saving, self.min_saving)
            return replace(finding, observed=round(saving, 3), bound=self.min_saving, margin=margin)
        return finding

    def _too_fast(
        self, peak: float, event: Event[LinkMeasured] | None, flow: _Flow
    ) -> Violation | None:
        if self.max_bytes_per_s is None or peak <= self.max_bytes_per_s or event is None:
            return None
        text = (
            f"the link of {flow} carried {_said(peak)}/s in the {_OVER_S:g} s before "
            f"{event.time_s:.1f} s; the bound is {_said(self.max_bytes_per_s)}/s"
        )
        return Violation.at(event, Code.RATE_TOO_HIGH, text, flow.learner)

    def _wasted(self, flows: Sequence[_Flow], saving: float) -> Violation | None:
        if saving >= self.min_saving:
            return None
        text = (
            f"only {saving:.2f} times less arrived than gradients in every step would have "
            f"been ({_FORMULA}); the bound is {self.min_saving:g}x"
        )
        last = max((flow.reports[-1] for flow in flows), key=lambda event: event.seq)
        return Violation.at(last, Code.SAVING_TOO_LOW, text, "")


def _flows(history: History, start_s: float, end_s: float) -> tuple[_Flow, ...]:
    """Both directions of every learner's link within that time."""
    found: dict[tuple[str, str], list[Event[LinkMeasured]]] = {
        (learner, direction): [] for learner in history.learners for direction in ("up", "down")
    }
    for event in history.between(start_s, end_s, LinkMeasured):
        key = (event.payload.learner, event.payload.direction)
        if key in found:
            found[key].append(event)
    return tuple(
        _Flow(learner=learner, direction=direction, reports=tuple(reports))
        for (learner, direction), reports in found.items()
    )


def _gradient_bytes(history: History, start_s: float, end_s: float) -> float:
    """What sending every gradient up and the mean of all down would have come to."""
    started = history.last(LearnerStarted)
    parameters = started.payload.parameters if started else 0.0
    steps = sum(e.payload.steps for e in history.between(start_s, end_s, LearnerStep))
    return parameters * _BYTES_PER_PARAMETER * 2 * steps


def _numbers(
    history: History, flows: Sequence[_Flow], *, saving: float, gradients: float
) -> Mapping[str, Json]:
    before = _flows(history, 0.0, baseline_end_s(history) or 0.0)
    required = {str(flow): flow.bytes / flow.seconds for flow in before if flow.seconds}
    available = {str(flow): median(flow.rates()) for flow in flows if flow.rates()}
    return {
        "saving_factor": round(saving, 3),
        "formula": _FORMULA,
        "gradients_every_step_bytes": round(gradients),
        "arrived_bytes": {str(flow): round(flow.bytes) for flow in flows},
        "mean_bytes_per_s": {str(flow): round(flow.bytes / flow.seconds, 1) for flow in flows},
        "peak_bytes_per_s": {str(flow): round(flow.peak()[0], 1) for flow in flows},
        "required_bytes_per_s": {name: round(rate, 1) for name, rate in required.items()},
        "available_bytes_per_s": {name: round(rate, 1) for name, rate in available.items()},
        "required_of_available_share": {
            name: round(required[name] / available[name], 6)
            for name in required
            if available.get(name)
        },
    }


def _said(amount: float) -> str:
    """Bytes as people read them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= factor:
            return f"{amount / factor:.1f} {unit}"
    return f"{amount:.0f} B"
