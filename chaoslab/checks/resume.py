"""Resume of a training that is not chaoslab's own: from where it was, and as it would have gone on.

    saved 500          killed at 540    resumes at S      twin
    ────┴──────────────────┤  ▒▒▒▒▒▒▒▒  ├──────────►      ─ ─ ─ ─ ─ ─ ►
        C                  L                              the same losses at the same steps

`resume`       every later life of a worker begins at the newest checkpoint that was saved before it
               (C <= S <= L, give or take one step, or one report where it does not say S), says the
               step from which it goes on, and gets beyond L again, step by step. Without a word of
               checkpoints it must not begin anew.
`divergence`   at equal steps the losses are those of the fault-free twin: exactly, where they were
               before the first fault; else to within `max_delta`, in each window of 12 steps, or of
               as many as it takes to tell that from chance; also after the last return

Judged in every run of a script; other trainings have their own rules (`rejoin`, `loss_parity`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite, sqrt
from statistics import fmean, stdev
from typing import ClassVar, NamedTuple

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.duty import duty
from chaoslab.checks.timeline import before_the_end, of_learner, once, training_end_s
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    LearnerJoined,
    LearnerStep,
    Need,
    NodeStarted,
    RunStarted,
    ScriptStarted,
    StorageDamaged,
    TrainerSaid,
    What,
)
from chaoslab.core.units import Share, plural, show_share
from chaoslab.record.history import History

_WINDOW = 12
_NOISE = 4.0
"""Standard errors of the mean of a window within which a difference may be by chance."""
_USUALLY = 0.9
"""Share of the reports that are no further apart than usual."""
_LEAP, _FASTER = 2, 10.0
"""Times the steps between two reports, and times the pace, that no worker can reach."""
_SMALLEST = 1e-9
"""Rounding of a loss in text."""


def script_of(history: History) -> ScriptStarted | None:
    """Facts about the script before it runs; None of other trainings."""
    started = history.last(RunStarted)
    return started.payload.script if started else None


class Life(NamedTuple):
    """A worker's training from one start, or from one return to an earlier step, to the next."""

    joined: Event[LearnerJoined]
    began_s: float
    """Start of its process."""
    samples: Sequence[Event[LearnerStep]]
    """Reports of its own, until training ended."""

    @property
    def start(self) -> int:
        """Step from which it goes on, as it says, or as its first report shows."""
        return self.joined.payload.step

    @property
    def last(self) -> int:
        """The furthest step that it reported."""
        return max((one.payload.step for one in self.samples), default=self.start)

    @property
    def stride(self) -> int:
        """The most steps between two of its reports, but for the odd one."""
        steps = sorted(one.payload.steps for one in self.samples)
        return steps[int(_USUALLY * (len(steps) - 1))] if steps else 1


@once
def lives(history: History) -> Mapping[str, Sequence[Life]]:
    """Lives by worker, in order. A worker without reports has those that another made for it."""
    found: dict[str, list[Life]] = defaultdict(list)
    starts = {(e.payload.node, e.payload.incarnation): e.time_s for e in history.of(NodeStarted)}
    for joined in before_the_end(history, history.of(LearnerJoined)):
        said = joined.payload
        mine = [e for e in before_the_end(history, of_learner(history, LearnerStep, said.learner))
                if e.payload.epoch == said.epoch]  # fmt: skip
        life = Life(joined, starts.get(said.life, joined.time_s), mine)
        found[said.learner].append(life)
    return found


# ---------------------------------------------------------------- where it goes on


@once
def began_anew(history: History) -> Event[LearnerJoined] | None:
    """The life by which the last of all workers had begun anew, after it had trained: then the
    whole has, and none of them goes on. None: one of them never did.
    """
    found = lives(history) if script_of(history) else {}
    anew = [
        next(
            (life.joined for before, life in pairwise(own) if _is_anew(before, life, history)), None
        )
        for own in found.values()
    ]
    began = [joined for joined in anew if joined is not None]
    return max(began, key=lambda one: one.seq) if began and len(began) == len(anew) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Every worker that comes back goes on from its newest checkpoint, and gets further."""

    name: ClassVar[str] = "resume"
    summary: ClassVar[str] = "a script's workers go on from the newest checkpoint, and get further"

    def judge(self, history: History) -> Finding:
        """Judge each life of each worker after its first."""
        found = lives(history) if script_of(history) else {}
        later = [both for own in found.values() for both in pairwise(own)]
        return conclude(
            self.name,
            [problem for before, life in later for problem in _problems(before, life, history)],
            passed="; ".join(_told(before, life) for before, life in later),
            samples=len(later),
            nothing=Doubt(Code.NO_FAULT, "no worker came back"),
            numbers={"lost_steps": sum(max(0, before.last - life.start) for before, life in later)},
        )


def _told(before: Life, life: Life) -> str:
    who, lost = life.joined.payload.learner, max(0, before.last - life.start)
    again = f"and made {plural(lost, 'step')} again" if lost else "and lost no step"
    return f"{who} was at step {before.last:,}, went on from step {life.start:,} {again}"


def _problems(before: Life, life: Life, history: History) -> Iterator[Violation | Doubt]:
    who, start, last = life.joined.payload.learner, life.start, before.last
    if life.joined.payload.incarnation == before.joined.payload.incarnation:
        where = f"{who} went back from step {last:,} to {start:,} in the same process"
    else:
        where = f"{who} was at step {last:,}, and its next process began at step {start:,}"
    saved, is_anew = _newest_saved(life, history), _is_anew(before, life, history)
    if is_anew or (saved is not None and start < saved - _slack(life, history)):
        code = Code.BEGAN_ANEW if is_anew else Code.RESUMED_FROM_OLDER
        text = (
            f"{where}, as if it had never trained"
            if saved is None
            else f"{where}, although the checkpoint of step {saved:,} had been saved"
        )
        yield Violation.at(life.joined, code, text, who)
    if start > last + life.stride:
        text = f"{where}: it never made the {start - last:,} steps between"
        yield Violation.at(life.joined, Code.STEPS_SKIPPED, text, who)
    first = life.samples[0] if life.samples else None
    if first is not None and not start < first.payload.step <= start + 2 * life.stride:
        text = (
            f"{who} said that it goes on from step {start:,}, and its first report is of step "
            f"{first.payload.step:,}"
        )
        yield Violation.at(first, Code.RESUMED_OTHERWISE, text, who)
    has_no_excuse = not history.of(StorageDamaged) and not _has_saved(history)
    if has_no_excuse and not is_anew and _is_from_nothing(before, life, history):
        text = f"{where}, and no checkpoint was saved in the whole run: there is none to go on from"
        yield Doubt(Code.NOTHING_TO_JUDGE, text)
    if leap := _leap(life, history):
        made, step = plural(leap.payload.steps, "step"), leap.payload.step
        text = f"{who} cannot have made the {made} of its report of step {step:,}: it skipped some"
        yield Violation.at(leap, Code.STEPS_SKIPPED, text, who)
    if life.last <= last and life.joined is lives(history)[who][-1].joined:
        text = f"{where}; it never got beyond step {life.last:,}"
        yield Doubt(Code.TOO_LITTLE_TIME, text)


def _is_anew(before: Life, life: Life, history: History) -> bool:
    """Whether a life begins where training began, and need not."""
    saved = _newest_saved(life, history)
    if saved is not None:
        return life.start < saved - _slack(life, history) and life.start <= life.stride
    script = script_of(history)
    may_save = _has_saved(history) or (script is not None and script.says_saved)
    is_free = may_save or bool(history.of(StorageDamaged))
    return not is_free and _is_from_nothing(before, life, history)


def _is_from_nothing(before: Life, life: Life, history: History) -> bool:
    return life.start <= _origin(life, history) < before.last


def _origin(life: Life, history: History) -> int:
    """The step up to which a worker that begins anew may be when its first report comes."""
    started = history.last(RunStarted)
    if started is not None and Need.WHOLE in started.payload.without:
        return life.stride  # it had trained before the run
    first, *_ = lives(history)[life.joined.payload.learner]
    return first.samples[0].payload.step if first.samples else 0


def _slack(life: Life, history: History) -> int:
    """Steps by which a life may begin before the newest checkpoint: one, since some count from 0,
    if its own line and those of all checkpoints name a step; else those of a report.
    """
    said, others = history.of(TrainerSaid), {*history.learners} - {life.joined.payload.learner}
    says_start = any(
        e.payload.what is What.RESUMED
        and e.payload.step == life.start
        and e.payload.node not in others
        for e in said
        if life.began_s <= e.time_s and e.seq < life.joined.seq
    )
    says_saved = all(e.payload.step is not None for e in said if e.payload.what is What.SAVED)
    return 1 if says_start and says_saved else life.stride


def _leap(life: Life, history: History) -> Event[LearnerStep] | None:
    """The first report of steps that it cannot have made since the one before: of far more than
    any in the lives before, at a pace that is out of reach.
    """
    known = duty(history)
    if known is None or not known.has_paces:
        return None
    who = life.joined.payload.learner
    reports = of_learner(history, LearnerStep, who)
    usual = max((e.payload.steps for e in reports if e.seq < life.joined.seq), default=1)
    return next(
        (
            e
            for e in life.samples
            if e.payload.steps > _LEAP * usual and e.payload.step_s * known.pace(who) * _FASTER < 1
        ),
        None,
    )


def _has_saved(history: History) -> bool:
    return any(e.payload.what is What.SAVED for e in history.of(TrainerSaid))


def _newest_saved(life: Life, history: History) -> int | None:
    """Step of the newest checkpoint that was saved before a life began: by the worker itself, or,
    if it never says so, by any. None: no worker said that one was.
    """
    said = [e for e in history.of(TrainerSaid) if e.payload.what is What.SAVED]
    own = [e for e in said if e.payload.node == life.joined.payload.learner]
    before = [e for e in own or said if e.time_s <= life.began_s and e.seq < life.joined.seq]
    steps = sorted({_step_of(e, history) for e in before})
    gone = _damaged(life, before[-1].seq if before else 0, history, is_own=bool(own))
    return next(reversed(steps[: len(steps) - gone]), None)


def _step_of(saved: Event[TrainerSaid], history: History) -> int:
    """Step of a checkpoint; without one in its line that of the last report before it."""
    if saved.payload.step is not None:
        return saved.payload.step
    reports = of_learner(history, LearnerStep, saved.payload.node)
    return next((e.payload.step for e in reversed(reports) if e.seq < saved.seq), 0)


def _damaged(life: Life, saved: int, history: History, *, is_own: bool) -> int:
    """How many of the newest checkpoints a fault has damaged since the last one was saved: of the
    worker alone, if `is_own`.
    """
    files = {
        e.payload.file
        for e in history.of(StorageDamaged)
        if saved < e.seq < life.joined.seq
        and (not is_own or e.payload.node == life.joined.payload.learner)
    }
    return len(files)


# ---------------------------------------------------------------- as it would have gone on


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """At equal steps losses are those of the fault-free twin."""

    name: ClassVar[str] = "divergence"
    summary: ClassVar[str] = "a script's losses are those of the fault-free twin at equal steps"
    needs: ClassVar[Mapping[str, Need]] = {"": Need.TWIN}

    max_delta: Share = binding(0.05, most=0.5, show=show_share)
    """Largest accepted difference of the mean over 12 steps, as a share of the twin's."""
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
                    f"{len(since):,}"
                )
                problems.append(Doubt(Code.TOO_FEW_SAMPLES, text))
            elif self.exact and other is not None and all(pair.is_equal for pair in before):
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
    """Mean of the differences."""
    scale: float
    """Mean size of the twin's losses."""
    length: int


def _pairs(worker: str, history: History, twin: History) -> Iterator[_Pair]:
    theirs = {
        event.payload.step: event.payload.loss
        for event in reversed(_reports(worker, twin))
        if event.payload.loss is not None
    }
    for event in _reports(worker, history):
        own, other = event.payload.loss, theirs.get(event.payload.step)
        if own is not None and other is not None and isfinite(own) and isfinite(other):
            yield _Pair(event, own, other)


def _reports(worker: str, history: History) -> Sequence[Event[LearnerStep]]:
    return [e for e in of_learner(history, LearnerStep, worker) if not e.payload.is_inferred]


def _windows(pairs: Sequence[_Pair], length: int) -> Iterator[_Window]:
    for end in range(length, len(pairs) + 1):
        some = pairs[end - length : end]
        yield _Window(
            event=some[-1].event,
            mean=fmean(pair.own - pair.twin for pair in some),
            scale=max(fmean(abs(pair.twin) for pair in some), _SMALLEST),
            length=length,
        )
