"""Resume of a training that is not chaoslab's own: from where it was, and in one with its step.

    saved 500          killed at 540    resumes at S
    ────┴──────────────────┤  ▒▒▒▒▒▒▒▒  ├──────────►
        C                  L

Every later life of a worker begins at the newest checkpoint that was saved before it (C <= S <= L,
give or take one step, or one report where it does not say S), with most of what it had learnt by
its loss; it says the step from which it goes on, and gets beyond L again, step by step. Without a
word of checkpoints it must not begin anew. Workers that save go on saving.

Judged in every run of a script, beside `divergence`; other trainings have `rejoin`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import inf, isfinite, sqrt
from statistics import fmean, variance
from typing import ClassVar, NamedTuple

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.duty import duty
from chaoslab.checks.mixed_lines import mixed
from chaoslab.checks.timeline import before_the_end, fault_windows, of_learner, once, samples_of
from chaoslab.checks.violations import Doubt, Violation, conclude
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    LearnerJoined,
    LearnerStep,
    LineKind,
    Need,
    NodeExited,
    NodeStarted,
    RunStarted,
    ScriptStarted,
    StorageDamaged,
    StorageFilled,
    StorageFreed,
    TrainerSaid,
)
from chaoslab.core.units import plural
from chaoslab.record.history import History

_WINDOW, _NOISE = 12, 4.0
"""Losses whose mean is compared, and the standard errors by which it may differ by chance."""
_USUALLY = 0.9
"""Share of the reports that are no further apart than usual."""
_LEAP, _FASTER = 2, 10.0
"""Times the steps between two reports, and times the pace, that no worker can reach."""
_RUSH_S = 2.0
"""What comes within less may have been read late."""
_SAVES, _REGULAR = 3, 1.5
"""Times that it saved before the first fault, and so many times the steps between: then it has to
have saved again. Not where these differ by more, as of one that saves what is best."""


def script_of(history: History) -> ScriptStarted | None:
    """Facts about the script before it runs; None of other trainings."""
    started = history.last(RunStarted)
    return started.payload.script if started else None


class Life(NamedTuple):
    """A worker's training from one start, or from one return to an earlier step, to the next."""

    joined: Event[LearnerJoined]
    began_s: float
    """Start of its process; if the last one still ran then, by the clock of their containers."""
    samples: Sequence[Event[LearnerStep]]
    """Reports of its own, until training ended."""
    overlap_s: float = 0.0
    """Longest time for which the container of the last one still ran when its own had begun."""

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
    overlaps = _overlaps(history)
    for joined in before_the_end(history, history.of(LearnerJoined)):
        said = joined.payload
        mine = before_the_end(history, samples_of(history, said.learner, said.epoch))
        began_s, overlap_s = starts.get(said.life, joined.time_s), 0.0
        if said.life in overlaps:
            last_s, overlap_s = overlaps[said.life]
            began_s = last_s - overlap_s
        found[said.learner].append(Life(joined, began_s, mine, overlap_s))
    return found


def _overlaps(history: History) -> Mapping[tuple[str, int], tuple[float, float]]:
    """By life that may have begun before the last one had ended: when that was heard of last, and
    for how long both ran at most, by the clock of their containers. A cluster tells a start to the
    second before it.
    """
    found = {}
    ended = {(e.payload.node, e.payload.incarnation + 1): e for e in history.of(NodeExited)}
    for begun in history.of(NodeStarted):
        life = (begun.payload.node, begun.payload.incarnation)
        began_s, before = begun.payload.container_began_s, ended.get(life)
        ended_s = None if before is None else before.payload.container_ended_s
        if before is None or began_s is None or ended_s is None or ended_s <= began_s:
            continue
        said = [e.time_s for e in history.of(TrainerSaid) if e.seq < before.seq
                and (e.payload.node, e.payload.incarnation + 1) == life]  # fmt: skip
        found[life] = max(said, default=before.time_s), ended_s - began_s
    return found


# ---------------------------------------------------------------- where it goes on


@once
def began_anew(history: History) -> Event[LearnerJoined] | None:
    """The life by which the last of all workers had begun anew, after it had trained: then the
    whole has, and none of them goes on. None: one of them never did.
    """
    found = lives(history) if script_of(history) and not mixed(history) else {}
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
            [
                *(each for before, life in later for each in _problems(before, life, history)),
                *_leaps(history),
                *stopped_saving(history),
            ],
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
    if is_unplaced(life, history):
        text = (
            f"{who} prints no steps, and its next process did not say that it resumed: from where "
            "it went on is not known"
        )
        yield Doubt(Code.START_UNKNOWN, text)
        return
    saved, is_anew = _newest_saved(life, history), _is_anew(before, life, history)
    if is_anew or (saved is not None and start < saved - _slack(life, history)):
        code = Code.BEGAN_ANEW if is_anew else Code.RESUMED_FROM_OLDER
        text = (
            f"{where}, as if it had never trained"
            if saved is None
            else f"{where}, although the checkpoint of step {saved:,} had been saved"
        )
        yield Violation.at(life.joined, code, text, who)
    elif life.overlap_s and _is_before_the_last(life, history):
        text = (
            f"{where}; its container began up to {life.overlap_s:.1f} s before the last one had "
            "ended, which saved a checkpoint meanwhile: from which one it had to go on is not known"
        )
        yield Doubt(Code.LIVES_OVERLAPPED, text)
    if start > last + life.stride and not _is_given(life, history):
        text = f"{where}: it never made the {start - last:,} steps between"
        yield Violation.at(life.joined, Code.STEPS_SKIPPED, text, who)
    first = life.samples[0] if life.samples else None
    if first is not None and not start <= first.payload.step <= start + 2 * life.stride:
        text = (
            f"{who} said that it goes on from step {start:,}, and its first report is of step "
            f"{first.payload.step:,}"
        )
        yield Violation.at(first, Code.RESUMED_OTHERWISE, text, who)
    if not is_anew and (unlearnt := _unlearnt(life, history)):
        yield unlearnt
    has_no_excuse = not history.of(StorageDamaged) and not _has_saved(history)
    if has_no_excuse and not is_anew and _is_from_nothing(before, life, history):
        text = f"{where}, and no checkpoint was saved in the whole run: there is none to go on from"
        yield Doubt(Code.START_UNKNOWN, text)
    *earlier, newest = lives(history)[who]
    if life.joined is newest.joined and life.last <= max(one.last for one in earlier):
        text = f"{where}; it never got beyond step {life.last:,}"
        yield Doubt(Code.TOO_LITTLE_TIME, text)


def _is_before_the_last(life: Life, history: History) -> bool:
    """Whether a life goes on from an older checkpoint than the newest that it may have found."""
    saved = _newest_saved(life._replace(began_s=inf), history)
    return saved is not None and life.start < saved - _slack(life, history)


def _is_anew(before: Life, life: Life, history: History) -> bool:
    """Whether a life begins where training began, and need not."""
    saved = _newest_saved(life, history)
    if is_unplaced(life, history):
        return False
    if saved is not None:
        return life.start < saved - _slack(life, history) and life.start <= life.stride
    script: ScriptStarted | None = script_of(history)
    may_save = _has_saved(history) or (script is not None and script.says_saved)
    is_free = may_save or bool(history.of(StorageDamaged))
    return not is_free and _is_from_nothing(before, life, history)


def _unlearnt(life: Life, history: History) -> Violation | None:
    """Whether a life that goes on has lost, by its loss, most of what was learnt by then: its step
    is that of a checkpoint, and its weights are not.
    """
    who = life.joined.payload.learner
    mine = [e for own in lives(history)[who] for e in own.samples if e.payload.loss is not None]
    earlier = [e for e in mine if e.seq < life.joined.seq]
    after = [e for e in mine if e.payload.epoch == life.joined.payload.epoch][:_WINDOW]
    if len(after) < _WINDOW:
        return None
    until = after[-1].payload.step
    before = sorted((e for e in earlier if e.payload.step <= until), key=_step)[-_WINDOW:]
    losses = [[e.payload.known_loss for e in some] for some in (earlier[:_WINDOW], before, after)]
    if len(before) < _WINDOW or not all(map(isfinite, chain(*losses))):
        return None
    first, reached, now = map(fmean, losses)
    noise = _NOISE * sqrt((variance(losses[1]) + variance(losses[2])) / _WINDOW)
    learnt = abs(reached) if _is_attached(history) else first - reached
    if learnt <= noise or now - reached <= max(learnt / 2, noise):
        return None
    text = (
        f"{who} said that it goes on from step {life.start:,}, and its loss was {now:.4g} then: "
        f"{reached:.4g} had been reached by step {before[-1].payload.step:,}, from {first:.4g}"
    )
    return Violation.at(after[-1], Code.BEGAN_ANEW, text, who)


def _step(report: Event[LearnerStep]) -> int:
    return report.payload.step


def is_unplaced(life: Life, history: History) -> bool:
    """Whether nothing tells the steps of a life: its lines have none, and none says where it goes
    on, or that it does.
    """
    said = history.of(TrainerSaid)
    return life.joined.payload.source != "initial" and not any(
        (e.payload.what is LineKind.PROGRESS and e.payload.step is not None)
        or (
            e.payload.what is LineKind.RESUMED
            and life.began_s <= e.time_s
            and e.seq < life.joined.seq
        )
        for e in said
    )


def _is_from_nothing(before: Life, life: Life, history: History) -> bool:
    return life.start <= _origin(life, history) < before.last


def _origin(life: Life, history: History) -> int:
    """The step up to which a worker that begins anew may be when its first report comes."""
    if _is_attached(history):
        return life.stride
    first, *_ = lives(history)[life.joined.payload.learner]
    return first.samples[0].payload.step if first.samples else 0


def _is_attached(history: History) -> bool:
    """Whether workers had trained before the run."""
    started = history.last(RunStarted)
    return started is not None and Need.WHOLE in started.payload.without


def _slack(life: Life, history: History) -> int:
    """Steps by which a life may begin before the newest checkpoint: one, since some count from 0,
    if its own line and those of all checkpoints name a step; else those of a report.
    """
    said = history.of(TrainerSaid)
    says_saved = all(e.payload.step is not None for e in said if e.payload.what is LineKind.SAVED)
    return 1 if _says_start(life, history) and says_saved else life.stride


def _says_start(life: Life, history: History) -> bool:
    """Whether a line of its own names the step from which it goes on."""
    others = {*history.learners} - {life.joined.payload.learner}
    return any(
        e.payload.what is LineKind.RESUMED
        and e.payload.step == life.start
        and e.payload.node not in others
        for e in history.of(TrainerSaid)
        if life.began_s <= e.time_s and e.seq < life.joined.seq
    )


def _is_given(life: Life, history: History) -> bool:
    """Whether a life goes on from the state of another worker, as it says: in a training without
    checkpoints, from a step that another one had reached.
    """
    reached = max(
        (
            e.payload.step
            for e in history.of(LearnerStep)
            if e.seq < life.joined.seq and e.payload.learner != life.joined.payload.learner
        ),
        default=0,
    )
    is_reached = life.start <= reached + life.stride
    return is_reached and not _has_saved(history) and _says_start(life, history)


def _leaps(history: History) -> Iterator[Violation]:
    """The first steps of each worker after the first fault that it cannot have made: at a pace that
    is out of reach, in a whole life, or in one report of far more than any had until then. Not
    judged where the baseline had too few cores to tell, and no twin shows what is in reach.
    """
    known, windows = duty(history), fault_windows(history)
    first_s = min((one.start_s for one in windows), default=inf)
    is_slowed = known is not None and not known.shows_speeds(*known.baseline)
    if known is None or not known.has_paces or (is_slowed and history.twin is None):
        return
    for worker, own in lives(history).items():
        most = _FASTER * max(known.pace(worker), _pace_of_twin(worker, history))
        usual = _LEAP * max(
            (e.payload.steps for life in own for e in life.samples if e.time_s < first_s), default=1
        )
        leaps = (
            event
            for life in own
            for event in life.samples
            if event.time_s > first_s
            and event.payload.steps > usual
            and event.payload.step_s * most < 1
        )
        rushes = (
            last
            for first, *_, last in (life.samples for life in own if len(life.samples) >= _WINDOW)
            if first.time_s > first_s
            and last.time_s - first.time_s >= _RUSH_S
            and last.payload.step - first.payload.step > most * (last.time_s - first.time_s)
        )
        for event in (*islice(leaps, 1), *islice(rushes, 1)):
            text = (
                f"{worker} cannot have made the steps up to its report of step "
                f"{event.payload.step:,}, by its pace in the baseline: it skipped some"
            )
            yield Violation.at(event, Code.STEPS_SKIPPED, text, worker)
            break


def _pace_of_twin(worker: str, history: History) -> float:
    """Its steps per second in the fault-free twin, which may have more cores; 0 without one."""
    own = lives(history.twin).get(worker, ()) if history.twin else ()
    made = [
        (life.last - life.start) / (life.samples[-1].time_s - life.joined.time_s)
        for life in own
        if life.samples and life.samples[-1].time_s > life.joined.time_s
    ]
    return max(made, default=0.0)


def _has_saved(history: History) -> bool:
    return any(e.payload.what is LineKind.SAVED for e in history.of(TrainerSaid))


def _newest_saved(life: Life, history: History) -> int | None:
    """Step of the newest checkpoint that was saved before a life began: by the worker itself, or,
    if it never says so, by any. None: no worker said that one was.
    """
    said = [e for e in history.of(TrainerSaid) if e.payload.what is LineKind.SAVED]
    own = [e for e in said if e.payload.node == life.joined.payload.learner]
    before = [
        e
        for e in own or said
        if e.time_s <= life.began_s and e.seq < life.joined.seq and not _is_cut_off(e, history)
    ]
    steps = sorted({_step_of(e, history) for e in before})
    damaged = _damaged(life, before[-1].seq if before else 0, history, is_own=bool(own))
    if damaged and not damaged[-1].untouched:
        return None  # the trainer has removed older ones itself
    gone = len({one.file for one in damaged})
    return next(reversed(steps[: len(steps) - gone]), None)


@once
def stopped_saving(history: History) -> Sequence[Violation]:
    """Workers that saved before the first fault, and no more since the last one was over."""
    windows = fault_windows(history)
    first_s = min((one.start_s for one in windows), default=0.0)
    over_s = max((one.end_s for one in windows), default=0.0)
    said = [e for e in history.of(TrainerSaid) if e.payload.what is LineKind.SAVED]
    before = [e for e in said if e.time_s < first_s]
    savers = {e.payload.node for e in before}
    if any(e.payload.node not in savers for e in said):
        return []  # another one may do it for them now
    found = []
    for worker in savers & {*history.learners}:
        own = sorted({_step_of(e, history) for e in before if e.payload.node == worker})
        last = [e for e in said if e.payload.node == worker][-1]
        reports = before_the_end(history, of_learner(history, LearnerStep, worker))
        since = [e for e in reports if e.time_s >= max(over_s, last.time_s)]
        between = [b - a for a, b in pairwise(own)]
        if len(own) < _SAVES or not since or max(between) > _REGULAR * min(between):
            continue
        made = since[-1].payload.step - since[0].payload.step
        if made > _SAVES * max(between):
            text = (
                f"{worker} saved every {max(between):,} steps, and not once in the {made:,} "
                f"steps up to step {since[-1].payload.step:,}"
            )
            found.append(Violation.at(last, Code.NOT_SAVED_AGAIN, text, worker))
    return found


def _step_of(saved: Event[TrainerSaid], history: History) -> int:
    """Step of a checkpoint; without one in its line that of the last report before it, or before
    its file was written.
    """
    if saved.payload.step is not None:
        return saved.payload.step
    reports, said_s = of_learner(history, LearnerStep, saved.payload.node), _said_s(saved)
    before = (e for e in reversed(reports) if e.seq < saved.seq and e.time_s <= said_s)
    return next((e.payload.step for e in before), 0)


def _is_cut_off(saved: Event[TrainerSaid], history: History) -> bool:
    """Whether its file was written on a full disk, and so perhaps not as a whole."""
    filled, freed = (
        sum(e.time_s <= _said_s(saved) for e in history.of(kind))
        for kind in (StorageFilled, StorageFreed)
    )
    return saved.payload.age_s > 0 and filled > freed


def _said_s(saved: Event[TrainerSaid]) -> float:
    return saved.time_s - saved.payload.age_s


def _damaged(life: Life, saved: int, history: History, *, is_own: bool) -> Sequence[StorageDamaged]:
    """The newest checkpoints that a fault has damaged since the last one was saved: of the worker
    alone, if `is_own`.
    """
    return [
        e.payload
        for e in history.of(StorageDamaged)
        if saved < e.seq < life.joined.seq
        and (not is_own or e.payload.node == life.joined.payload.learner)
    ]
