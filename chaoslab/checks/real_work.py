"""Is what learners contribute the work of training? By its updates, weights, data and losses.

    push       norm above 0 after two steps or more, and a tenth of its peers' at least; the weight
               of its tokens (c_tokens² / c_steps); direction and largest size: `update_vectors`
    data       one batch further with each step; at a join no earlier than where its merged work had
               brought it, and no later than it can have stepped since it was last heard
    state      at a join: see `rejoined_state`
    loss       that of its peers at the same time, to within half of it, and in the end that of the
               evaluation; below that of the untrained model

Judged in every run, for each learner in each of its lives; losses while all train from one state.
Weights are judged where most follow this rule: another syncer may have another one.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from math import sqrt
from operator import attrgetter
from statistics import fmean, median, stdev
from typing import ClassVar, TypeVar

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.convergence import untrained_loss
from chaoslab.checks.duty import Duty, duty, settled
from chaoslab.checks.rejoined_state import wrong_states
from chaoslab.checks.timeline import (
    before_the_end,
    of_learner,
    of_learner_between,
    once,
    parts,
    parts_of,
    training_end_s,
)
from chaoslab.checks.update_vectors import misdirected_pushes, oversized_pushes
from chaoslab.checks.violations import Violation, conclude
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.payloads import (
    Contributor,
    EvaluationMeasured,
    LearnerJoined,
    LearnerStep,
    NodeExited,
    OfLearner,
    PushAccepted,
)
from chaoslab.core.units import Share, plural, show_share
from chaoslab.record.journal import History

_S = TypeVar("_S", bound=OfLearner)
_FEWEST_STEPS = 2
"""The first step of a schedule may have a learning rate of 0."""
_FAINT = 0.1
"""Of the peers' size: far below what few steps, fresh moments or another batch cost."""
_WEIGHT_TOLERANCE = 0.01
_UNHEARD_STEPS = 16
_LATE_S = 1.0
_FASTER = 2.0
"""Steps that a learner makes and nobody hears of come at no more than so many times its pace."""
_WINDOW = 12
"""Samples of the loss of a window; each peer must have a third of them in that time."""
_NOISE = 4.0
"""Standard errors of the mean of a window within which it may be by chance."""
_LONG_STEPS = 200
"""After so many steps of most learners a loss has fallen, also in a warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealWork:
    """Pushes are not empty, weigh what they cost, and come of data and losses like the peers'."""

    name: ClassVar[str] = "real_work"
    summary: ClassVar[str] = "updates, weights, data and losses of each learner are real work's"

    max_loss_difference: Share = binding(0.5, most=1, show=show_share)
    """Largest accepted distance of a learner's loss from that of its peers, over a window of 12
    samples; as a share of the loss, or of what training has taken off it if that is less, but at
    least of half the loss and of a tenth of what training has taken off."""

    def judge(self, history: History) -> Finding:
        """Look at every push, contribution, join and step of the record."""
        found = [
            *_empty_pushes(history),
            *_faint_pushes(history),
            *oversized_pushes(history),
            *misdirected_pushes(history),
            *_wrong_weights(history),
            *wrong_states(history),
            *_after_death(history),
            *_data(history),
            *self._losses(history),
            *_not_lowered(history),
        ]
        pushes = len(history.of(PushAccepted))
        return conclude(
            self.name,
            found,
            passed=f"{plural(pushes, 'push', 'pushes')} of real work were accepted",
            samples=max(pushes, len(parts(history))),
        )

    def _losses(self, history: History) -> Iterator[Violation]:
        """The first window of each learner whose loss is not that of its peers."""
        untrained = _untrained(history)
        if untrained is None:
            return
        for learner in history.learners:
            for window in _windows(history, learner, LearnerStep):
                peers = _peers(history, learner, window, _loss)
                if peers is None:
                    continue
                own = fmean(map(_loss, window))
                least = self.max_loss_difference * _scale(peers, untrained)
                noise = _NOISE * stdev(map(_loss, window)) / sqrt(len(window))
                if abs(own - peers) > max(least, noise):
                    text = (
                        f"{learner} reported a loss of {own:.4g} from {window[0].time_s:.1f} to "
                        f"{window[-1].time_s:.1f} s, and its peers {peers:.4g}"
                    )
                    yield Violation.at(window[-1], Code.LOSS_UNLIKE_PEERS, text, learner)
                    break
        yield from self._against_evaluation(history, untrained)

    def _against_evaluation(self, history: History, untrained: float) -> Iterator[Violation]:
        """All learners may report a loss that is none."""
        last, end_s = history.last(EvaluationMeasured), training_end_s(history)
        ends = [
            fmean(sample.payload.loss for sample in samples)
            for who in history.learners
            if len(samples := _before(history, who, end_s)) == _WINDOW
        ]
        if last is None or last.payload.is_modelled or not ends:
            return
        own, evaluated = median(ends), last.payload.loss
        scale = max(untrained - evaluated, abs(evaluated) / 2)
        if abs(own - evaluated) > self.max_loss_difference * scale:
            text = (
                f"learners ended with a loss of {own:.4g}, and the evaluation says {evaluated:.4g}"
            )
            yield Violation.at(last, Code.LOSS_UNLIKE_EVALUATED, text, "")


# ---------------------------------------------------------------- updates


def _empty_pushes(history: History) -> Iterator[Violation]:
    for event in before_the_end(history, history.of(PushAccepted)):
        said = event.payload
        if said.norm == 0 and said.c_steps >= _FEWEST_STEPS:
            text = f"{said.learner} pushed zeros after {said.c_steps} steps (round {said.round})"
            yield Violation.at(event, Code.EMPTY_PUSH, text, said.learner)


def _faint_pushes(history: History) -> Iterator[Violation]:
    """The first window of each learner whose updates are far smaller than those of its peers."""
    for learner in history.learners:
        for window in _windows(history, learner, PushAccepted):
            peers, own = _peers(history, learner, window, _size), fmean(map(_size, window))
            if peers is not None and 0 < own < _FAINT * peers:
                text = (
                    f"{learner} pushed updates of {own / peers:.2%} of its peers' size from "
                    f"{window[0].time_s:.1f} to {window[-1].time_s:.1f} s"
                )
                yield Violation.at(window[-1], Code.FAINT_PUSH, text, learner)
                break


def _size(push: Event[PushAccepted]) -> float:
    """Its norm by the root of its steps."""
    said = push.payload
    return (said.norm or 0.0) / sqrt(max(1, said.c_steps))


def _wrong_weights(history: History) -> Iterator[Violation]:
    """None if most contributions weigh otherwise: then it is another rule of another syncer."""
    wrong = [part for part in parts(history) if not _weighs_its_work(part.contributor)]
    if 2 * len(wrong) > len(parts(history)):
        return
    for part in wrong:
        one = part.contributor
        text = (
            f"{part.learner} weighed {one.weight:.4g} in round {part.merged.payload.round}, and "
            f"{one.c_tokens:,.0f} tokens in {one.c_steps} steps weigh {_due(one):.4g}"
        )
        yield Violation.at(part.merged, Code.WEIGHT_WRONG, text, part.learner)


def _weighs_its_work(one: Contributor) -> bool:
    return abs(one.weight - _due(one)) <= _WEIGHT_TOLERANCE * _due(one)


def _due(one: Contributor) -> float:
    """The weight of a contribution: its tokens times its tokens per step (arXiv 2604.21428)."""
    return one.c_tokens**2 / one.c_steps if one.c_steps else 0.0


def _after_death(history: History) -> Iterator[Violation]:
    """The first work of each life whose process had ended."""
    for died in history.of(NodeExited):
        if (late := history.outlived.get(died.seq)) is not None:
            said = died.payload
            text = (
                f"{said.node} still worked at {late.time_s:.1f} s, and its process (incarnation "
                f"{said.incarnation}) had ended at {died.time_s:.1f} s"
            )
            yield Violation.at(late, Code.WORKS_AFTER_DEATH, text, said.node)


# ---------------------------------------------------------------- data


@once
def _ends(history: History) -> Mapping[tuple[str, int], Event[NodeExited]]:
    """By life: how its process was first seen to end."""
    return {
        (event.payload.node, event.payload.incarnation): event
        for event in reversed(history.of(NodeExited))
        if event.payload.is_seen
    }


def _data(history: History) -> Iterator[Violation]:
    """The first place of each learner where its data do not go on as its steps do."""
    found = duty(history)
    for learner in history.learners:
        said = [*_strays(history, learner, found)]
        yield from sorted(said, key=attrgetter("seq"))[:1]
    for absence in absences(history):
        yield from _repeats(absence, history)


def _strays(history: History, learner: str, found: Duty | None) -> Iterator[Violation]:
    ends = _ends(history)
    events: list[Event[LearnerJoined] | Event[LearnerStep]] = [
        *of_learner(history, LearnerJoined, learner),
        *of_learner(history, LearnerStep, learner),
    ]
    for before, event in pairwise(sorted(events, key=attrgetter("seq"))):
        last, said = before.payload, event.payload
        moved = said.data_position - last.data_position
        if isinstance(said, LearnerJoined):
            most, until_s = _UNHEARD_STEPS, event.time_s
            if said.life != last.life and last.life in ends:  # no process stepped since then
                until_s = min(until_s, ends[last.life].time_s)
            if found is not None:
                unheard_s = max(0.0, until_s - before.time_s) + _LATE_S
                most += round(_FASTER * found.pace(learner) * unheard_s)
            if moved > most:
                text = (
                    f"{learner} joined at batch {said.data_position:,} of its data, {moved:,} "
                    f"after the last one that it reported: it skipped data"
                )
                yield Violation.at(event, Code.DATA_SKIPPED, text, learner)
        elif said.life == last.life and said.epoch == last.epoch:
            steps = said.step - last.step
            if moved != steps:
                code = Code.DATA_SKIPPED if moved > steps else Code.DATA_REPEATED
                text = (
                    f"{learner} made {plural(steps, 'step')} up to step {said.step:,}, and took "
                    f"{plural(moved, 'batch', 'batches')} of its data for them"
                )
                yield Violation.at(event, code, text, learner)


def _repeats(absence: Absence, history: History) -> Iterator[Violation]:
    """A new life goes on in its data no earlier than at the last work of the old that was merged.

    Later than that, nobody can know what the syncer had heard.
    """
    known = history.once(_reached, absence.learner)
    before = [samples for life, samples in known.items() if life != absence.incarnation]
    ends = [(at, bisect_right(times_s, absence.gone_s)) for times_s, at in before]
    reached = max((positions[end - 1] for positions, end in ends if end), default=0)
    for joined in of_learner(history, LearnerJoined, absence.learner):
        position = joined.payload.data_position
        is_its = joined.payload.incarnation == absence.incarnation
        if is_its and position < reached:
            text = (
                f"{absence} joined at batch {position} of its data, although it had reached "
                f"{reached} before: it trains again on what it had trained on"
            )
            yield Violation.at(joined, Code.DATA_REPEATED, text, absence.learner)
            return


def _reached(history: History, learner: str) -> Mapping[int, tuple[Sequence[float], Sequence[int]]]:
    """By incarnation: the times of its samples, in order, and the furthest position up to each.

    Those of steps beyond the last one that was merged are left out.
    """
    merged: dict[int, float] = {}
    for part in parts_of(history, learner):
        life = part.contributor.incarnation
        merged[life] = max(part.contributor.step, merged.get(life, 0.0))
    found: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for sample in of_learner(history, LearnerStep, learner):
        said = sample.payload
        if said.step <= merged.get(said.incarnation, -1.0):
            found[said.incarnation].append((sample.time_s, said.data_position))
    lives = {life: sorted(samples) for life, samples in found.items()}
    return {
        life: ([time_s for time_s, _ in samples], [*accumulate((at for _, at in samples), max)])
        for life, samples in lives.items()
    }


# ---------------------------------------------------------------- losses


def _untrained(history: History) -> float | None:
    """The highest of the first losses of the learners of the start."""
    firsts = [of_learner(history, LearnerStep, who)[:1] for who in history.founders]
    return max((event.payload.loss for first in firsts for event in first), default=None)


def _scale(peers: float, untrained: float) -> float:
    """What a difference from the peers' loss is a share of; losses may be near 0, or below."""
    fallen = untrained - peers
    return max(min(fallen, abs(peers)), abs(peers) / 2, fallen / 10)


def _not_lowered(history: History) -> Iterator[Violation]:
    """A run of `_LONG_STEPS` or more whose last evaluation is no better than the untrained model;
    without evaluations, one in which no learner ever had a lower loss.

    Learners also see their work of which nothing came, so that what they report says less.
    """
    untrained = untrained_loss(history)
    samples = {who: of_learner(history, LearnerStep, who) for who in history.learners}
    last = [own[-1].payload.step for own in samples.values() if own]
    if untrained is None or not last or median(last) < _LONG_STEPS:
        return
    evaluated = [e for e in history.of(EvaluationMeasured) if not e.payload.is_modelled][-1:]
    losses = [e.payload.loss for e in evaluated] or [
        fmean(map(_loss, own[end - _WINDOW : end]))
        for own in samples.values()
        for end in range(_WINDOW, len(own) + 1, _WINDOW)
    ]
    if losses and not any(loss < untrained for loss in losses):
        whose = "the evaluation's last" if evaluated else "every learner's"
        text = (
            f"{whose} loss was not below {untrained:.4g}, that of the untrained model, after "
            f"{median(last):,.0f} steps of each learner"
        )
        shown = (evaluated or history.of(LearnerStep))[-1]
        yield Violation.at(shown, Code.LOSS_NOT_LOWERED, text, "")


def _windows(history: History, learner: str, kind: type[_S]) -> Iterator[Sequence[Event[_S]]]:
    """Half-overlapping windows of its samples while all train from one state."""
    for start_s, end_s in settled(history):
        samples = of_learner_between(history, kind, learner, start_s, end_s)
        ends = {*range(_WINDOW, len(samples) + 1, _WINDOW // 2), len(samples)}
        for end in sorted(ends):
            if end >= _WINDOW:
                yield samples[end - _WINDOW : end]


def _before(history: History, learner: str, end_s: float) -> Sequence[Event[LearnerStep]]:
    """The last samples of a learner in the last quarter of training."""
    return of_learner_between(history, LearnerStep, learner, 0.75 * end_s, end_s)[-_WINDOW:]


def _peers(
    history: History,
    learner: str,
    window: Sequence[Event[_S]],
    value: Callable[[Event[_S]], float],
) -> float | None:
    """Median over the others of their mean values meanwhile; None if none has enough samples."""
    known = history.once(_values, type(window[0].payload), value)
    means = []
    for who, (times_s, values) in known.items():
        first, end = (
            bisect_left(times_s, window[0].time_s),
            bisect_right(times_s, window[-1].time_s),
        )
        if who != learner and end - first >= _WINDOW // 3:
            means.append(fmean(values[first:end]))
    return median(means) if means else None


def _values(
    history: History, kind: type[_S], value: Callable[[Event[_S]], float]
) -> Mapping[str, tuple[Sequence[float], Sequence[float]]]:
    """By learner: the times of its samples, in order, and their values."""
    samples = {
        who: sorted((event.time_s, value(event)) for event in of_learner(history, kind, who))
        for who in history.learners
    }
    return {
        who: ([time_s for time_s, _ in own], [one for _, one in own])
        for who, own in samples.items()
    }


def _loss(sample: Event[LearnerStep]) -> float:
    return sample.payload.loss
