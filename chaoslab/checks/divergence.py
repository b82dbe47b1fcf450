"""Losses of a training that is not chaoslab's own, beside those of its fault-free twin.

    loss │ ·                     run ──·──  twin ──o──
         │   o · o        · o · o ·
         │         killed  resumes          the same losses at the same steps
         └──────────────────────────► step

Exactly the same, where all but a few were before the first fault; else to within `max_delta` in
each window of 12 steps, or of as many as it takes to tell that from chance; also after the last
return. Judged in every run of a script that has a twin; other trainings have `loss_parity`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from statistics import fmean, stdev
from typing import ClassVar, NamedTuple

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.resume import is_unplaced, lives, script_of
from chaoslab.checks.timeline import of_learner, training_end_s
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import LearnerStep, Need
from chaoslab.core.units import Share, plural, show_share
from chaoslab.record.history import History

_WINDOW = 12
_NOISE = 4.0
"""Standard errors of the mean of a window within which a difference may be by chance."""
_SMALLEST = 1e-9
"""Of a loss: what its text may have lost."""
_MISREAD, _MORE = 0.1, 5.0
"""Largest share of losses that are told with another step where all others equal the twin's, and
how many times as many differ afterwards where a run goes on otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """At equal steps losses are those of the fault-free twin."""

    name: ClassVar[str] = "divergence"
    summary: ClassVar[str] = "a script's losses are those of the fault-free twin at equal steps"
    needs: ClassVar[Mapping[str, Need]] = {"": Need.TWIN}

    max_delta: Share = binding(0.05, most=0.5, show=show_share)
    """Largest accepted difference of the mean over 12 steps or more, as a share of the twin's."""
    exact: bool = True
    """Whether losses that equal the twin's before the first fault must do so afterwards, too: else
    the run goes on with other data, random numbers, schedule or moments, and that is UNKNOWN."""

    def judge(self, history: History) -> Finding:
        """Compare each worker's losses after the first fault with those of the twin."""
        if script_of(history) is None:
            return unknown(self.name, Code.NOTHING_TO_JUDGE, "no script trained")
        if history.twin is None:
            return unknown(self.name, Code.NO_TWIN, "there is no fault-free twin")
        first_s = min((story.injecting.time_s for story in history.faults), default=0.0)
        end_s, problems, samples, worst = training_end_s(history), list[Violation | Doubt](), 0, 0.0
        for worker in history.learners:
            pairs = list(_pairs(worker, history, history.twin))
            before = [pair for pair in pairs if pair.event.time_s < first_s]
            after = [pair for pair in pairs if first_s <= pair.event.time_s <= end_s]
            samples += len(after)
            if not pairs:
                continue
            last = _reports(worker, history)[-1].payload.epoch
            since = [pair for pair in after if pair.event.payload.epoch == last]
            if min(len(before), len(since)) < _WINDOW:
                text = f"{worker} reported too few losses at the steps of its twin"
                problems.append(Doubt(Code.TOO_FEW_SAMPLES, text))
                continue
            noise = stdev(pair.own - pair.twin for pair in before)
            length = self._length(noise, since)
            far = [
                (abs(window.mean) / window.scale, window)
                for of in sorted({_WINDOW, length})
                for window in _windows(after, of)
                if of == length or abs(window.mean) > _NOISE * noise / sqrt(of)
            ]
            worst = max([worst, *(share for share, _ in far)])
            off = next((window for share, window in far if share > self.max_delta), None)
            other = next((pair for pair in after if not pair.is_equal), None)
            if off is not None:
                text = (
                    f"the loss of {worker} was {abs(off.mean) / off.scale:.1%} from its twin's "
                    f"over {off.length} reports up to step {off.event.payload.step:,}"
                )
                problems.append(Violation.at(off.event, Code.DIVERGED, text, worker))
            elif len(since) < length:
                text = (
                    f"the losses of {worker} differ by chance from its twin's, and after its last "
                    f"start it takes {length:,} to see {self.max_delta:.0%}, instead of "
                    f"{len(since):,}: train for longer (`training.stop`), or raise `max_delta`"
                )
                problems.append(Doubt(Code.TOO_FEW_SAMPLES, text))
            elif self.exact and other is not None and _is_otherwise(before, after):
                text = (
                    f"the losses of {worker} equal its twin's until step "
                    f"{other.event.payload.step:,}, where they differ ({other.own:.6g}, twin "
                    f"{other.twin:.6g}): it resumed with other data, random numbers, schedule or "
                    "moments; `exact: false` accepts that"
                )
                problems.append(Doubt(Code.DIVERGED, text))
        return conclude(
            self.name,
            problems,
            passed=f"at {plural(samples, 'step')} after the first fault losses were those of the "
            f"twin, to within {worst:.1%}",
            samples=samples,
            nothing=Doubt(Code.TOO_FEW_SAMPLES, "no loss was reported at a step of the twin"),
            measured=Measured(worst, self.max_delta, Unit.SHARE, digits=4),
        )

    def _length(self, noise: float, pairs: "Sequence[_Pair]") -> int:
        """Losses whose mean differs by less than the bound if they differ by chance alone."""
        bound = self.max_delta * max(fmean(abs(pair.twin) for pair in pairs), _SMALLEST)
        return max(_WINDOW, ceil((_NOISE * noise / bound) ** 2))


class _Pair(NamedTuple):
    """The losses of a run and of its twin at the same step of the same worker."""

    event: Event[LearnerStep]
    own: float
    twin: float

    @property
    def is_equal(self) -> bool:
        return abs(self.own - self.twin) <= _SMALLEST * abs(self.twin)


class _Window(NamedTuple):
    event: Event[LearnerStep]
    """The last one."""
    mean: float
    """Of the differences."""
    scale: float
    """Mean size of the twin's losses."""
    length: int


def _pairs(worker: str, history: History, twin: History) -> Iterator[_Pair]:
    theirs = {
        event.payload.step: event.payload.loss
        for event in reversed(_reports(worker, twin))
        if event.payload.loss is not None
    }
    unplaced = {
        life.joined.payload.epoch
        for life in lives(history).get(worker, ())
        if is_unplaced(life, history)
    }
    for event in _reports(worker, history):
        if event.payload.epoch in unplaced:
            continue
        own, other = event.payload.loss, theirs.get(event.payload.step)
        if own is not None and other is not None and isfinite(own) and isfinite(other):
            yield _Pair(event, own, other)


def _reports(worker: str, history: History) -> Sequence[Event[LearnerStep]]:
    return [e for e in of_learner(history, LearnerStep, worker) if not e.payload.is_inferred]


def _is_otherwise(before: Sequence[_Pair], after: Sequence[_Pair]) -> bool:
    """Whether losses that equalled the twin's do so no longer."""
    was, is_now = (fmean(not pair.is_equal for pair in pairs) for pairs in (before, after))
    return was <= _MISREAD and is_now > _MORE * was


def _windows(pairs: Sequence[_Pair], length: int) -> Iterator[_Window]:
    for end in range(length, len(pairs) + 1):
        some = pairs[end - length : end]
        yield _Window(
            event=some[-1].event,
            mean=fmean(pair.own - pair.twin for pair in some),
            scale=max(fmean(abs(pair.twin) for pair in some), _SMALLEST),
            length=length,
        )
