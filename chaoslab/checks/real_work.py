"""Work of training in what learners contribute: by its updates, weights, data and losses.

    push       norm above 0 after two steps or more; the weight of its tokens (c_tokens² / c_steps);
               size, direction, and none again and again: `update_vectors`
    data       see `data_order`
    state      at a join: see `rejoined_state`
    loss       that of its peers at the same time, to within half of it, and changing as theirs do;
               in the end that of the evaluation; below that of the untrained model

Judged in every run, for each learner in each of its lives; losses and sizes on its duty, against
`peers`.
Weights are judged where most follow this rule: another syncer may have another one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean, median, stdev
from typing import ClassVar, TypeVar

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.convergence import untrained_loss
from chaoslab.checks.data_order import disordered_data
from chaoslab.checks.peers import WINDOW, Samples, beside, middle_near, on_duty, windows
from chaoslab.checks.rejoined_state import wrong_states
from chaoslab.checks.resume import script_of
from chaoslab.checks.timeline import (
    before_the_end,
    of_learner,
    of_learner_between,
    once,
    parts,
    training_end_s,
)
from chaoslab.checks.update_vectors import (
    FEWEST_STEPS,
    faint_pushes,
    misdirected_pushes,
    oversized_pushes,
    repeated_pushes,
)
from chaoslab.checks.violations import Violation, conclude
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    Contributor,
    EvaluationMeasured,
    LearnerStep,
    NodeExited,
    OfLearner,
    PushAccepted,
)
from chaoslab.core.units import Share, plural, show_share
from chaoslab.record.history import History

_S = TypeVar("_S", bound=OfLearner)
_WEIGHT_TOLERANCE = 0.01
_NOISE = 7.0
"""Standard errors of the difference of two windows within which it may be by chance: of a hundred
windows of a run, with losses of small batches, which are neither normal nor independent."""
_CHANGE = 0.01
"""Share of the scale of losses by which those of all peers change where one's own do not."""
_LONG_STEPS = 200
"""After this many steps of most learners a loss has fallen, also in a warm-up."""


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
            *faint_pushes(history),
            *oversized_pushes(history),
            *misdirected_pushes(history),
            *repeated_pushes(history),
            *_wrong_weights(history),
            *wrong_states(history),
            *_after_death(history),
            *disordered_data(history),
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
        """The first window of each learner whose loss is not that of its peers.

        Whether the workers of a script train one model is not known.
        """
        untrained = _untrained(history)
        if untrained is None or script_of(history) is not None:
            return
        for learner in history.learners:
            for window in windows(history, learner, LearnerStep):
                others = beside(history, learner, window, _losses(history))
                if not others:
                    continue
                losses = list(map(_loss, window))
                own = fmean(losses)
                peers = middle_near(list(map(fmean, others)), own)
                scale, away = _scale(peers, untrained), abs(own - peers)
                if away > self.max_loss_difference * scale and away > _noise(losses, others):
                    text = (
                        f"{learner} reported a loss of {own:.4g} from {window[0].time_s:.1f} to "
                        f"{window[-1].time_s:.1f} s, and its peers {peers:.4g}"
                    )
                    yield Violation.at(window[-1], Code.LOSS_UNLIKE_PEERS, text, learner)
                    break
                if not _spread(losses) and min(map(_spread, others)) > _CHANGE * scale:
                    text = (
                        f"{learner} reported a loss of {own:.6g} {len(window)} times in a row up "
                        f"to {window[-1].time_s:.1f} s, while those of its peers changed"
                    )
                    yield Violation.at(window[-1], Code.LOSS_UNLIKE_PEERS, text, learner)
                    break
        yield from self._against_evaluation(history, untrained)

    def _against_evaluation(self, history: History, untrained: float) -> Iterator[Violation]:
        """Reported losses against the evaluation: those of all learners may be wrong."""
        last, end_s = history.last(EvaluationMeasured), training_end_s(history)
        ends = [
            fmean(sample.payload.known_loss for sample in samples)
            for learner in history.learners
            if len(samples := _before(history, learner, end_s)) == WINDOW
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
        if said.norm == 0 and said.c_steps >= FEWEST_STEPS:
            text = f"{said.learner} pushed zeros after {said.c_steps} steps (round {said.round})"
            yield Violation.at(event, Code.EMPTY_PUSH, text, said.learner)


def _wrong_weights(history: History) -> Iterator[Violation]:
    """Contributions with wrong weights; None if most are: then the syncer has another rule."""
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
    """First work of each life after its process had ended."""
    for died in history.of(NodeExited):
        if (late := history.outlived.get(died.seq)) is not None:
            said = died.payload
            text = (
                f"{said.node} still worked at {late.time_s:.1f} s, and its process (incarnation "
                f"{said.incarnation}) had ended at {died.time_s:.1f} s"
            )
            yield Violation.at(late, Code.WORKS_AFTER_DEATH, text, said.node)


# ---------------------------------------------------------------- losses


def _untrained(history: History) -> float | None:
    """The highest of the first losses of the learners of the start."""
    firsts = [of_learner(history, LearnerStep, learner)[:1] for learner in history.founders]
    losses = (event.payload.loss for first in firsts for event in first)
    return max((loss for loss in losses if loss is not None), default=None)


def _spread(losses: Sequence[float]) -> float:
    return max(losses) - min(losses)


def _noise(own: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """Difference of the mean losses that may be by chance."""
    return _NOISE * hypot(_error(own), max(map(_error, others)))


def _error(losses: Sequence[float]) -> float:
    """Standard error of their mean."""
    return stdev(losses) / sqrt(len(losses))


def _scale(peers: float, untrained: float) -> float:
    """Scale of a difference from the peers' loss; losses may be near 0, or below."""
    fallen = untrained - peers
    return max(min(fallen, abs(peers)), abs(peers) / 2, fallen / 10)


def _not_lowered(history: History) -> Iterator[Violation]:
    """A run of `_LONG_STEPS` or more whose last evaluation is no better than the untrained model;
    without evaluations, one in which no learner ever had a lower loss. Of a script nobody knows how
    soon its loss falls: its twin's has to have fallen by then.

    Learners also see their work that led to nothing, so that what they report says less.
    """
    untrained = untrained_loss(history)
    samples = [of_learner(history, LearnerStep, learner) for learner in history.learners]
    last = [own[-1].payload.step for own in samples if own]
    if untrained is None or not last or median(last) < _LONG_STEPS:
        return
    evaluated = [e for e in history.of(EvaluationMeasured) if not e.payload.is_modelled][-1:]
    losses = [e.payload.loss for e in evaluated] or _means(history, median(last))
    its = _means(history.twin, median(last)) if history.twin else []
    if script_of(history) is not None and not any(loss < untrained for loss in its):
        return
    if losses and not any(loss < untrained for loss in losses):
        whose = "the evaluation's last" if evaluated else f"every {history.who}'s"
        text = (
            f"{whose} loss was not below {untrained:.4g}, that of the untrained model, after "
            f"{median(last):,.0f} steps of each {history.who}"
        )
        shown = (evaluated or history.of(LearnerStep))[-1]
        yield Violation.at(shown, Code.LOSS_NOT_LOWERED, text, "")


def _means(history: History, until: float) -> Sequence[float]:
    """Means of 12 losses in a row of each learner, up to a step."""
    samples = [of_learner(history, LearnerStep, learner) for learner in history.learners]
    known = [[_loss(one) for one in own if one.payload.step <= until] for own in samples]
    return [
        fmean(own[end - WINDOW : end])
        for own in known
        for end in range(WINDOW, len(own) + 1, WINDOW)
    ]


def _before(history: History, learner: str, end_s: float) -> Sequence[Event[LearnerStep]]:
    """The last samples of a learner in the last quarter of training."""
    return of_learner_between(history, LearnerStep, learner, 0.75 * end_s, end_s)[-WINDOW:]


@once
def _losses(history: History) -> Samples:
    return on_duty(history, LearnerStep, _loss)


def _loss(sample: Event[LearnerStep]) -> float:
    return sample.payload.known_loss
