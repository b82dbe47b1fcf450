"""State of a learner that comes back: digests, step, rate, moments and shard are as it says.

    digests    of its fragments at every join; of its moments too, if it ever says them
    step       half of the lowest step of the others at least; if it kept its own state, that which
               it last said
    rate       that of the lives before it at about the same step, to within a factor of 2
    moments    those that its donor gave, or of the checkpoint that it found; fresh without either
    shard      that of its first life, and of no other learner

What a program does not say is not judged. Part of `real_work`; `agreement` judges parameters.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import RESUMED, is_script, of_learner_between
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    CheckpointFound,
    CheckpointGiven,
    LearnerJoined,
    LearnerStep,
    MemberJoined,
)
from chaoslab.record.history import History

_INITIAL = "initial"
_DONOR = "donor"
_EARLIER = 0.5
"""With a slow donor it joins at a lower step than others; if it begins anew, far below."""
_HEARD_S = 5.0
"""A learner that trains reports its step more often."""
_HEARD_AFTER_S = 1.0
_RATES_AROUND = 4
"""Rates on each side of a step. Learners that step together may be a few steps apart."""
_FARTHEST_STEPS = 16
_TIMES = 2.0
"""A warm-up from zero grows by no more in `_FARTHEST_STEPS` after as many."""


def wrong_states(history: History) -> Iterator[Violation]:
    """All that is wrong with the states in which learners came back."""
    joins = [e for e in history.of(LearnerJoined) if e.payload.source != RESUMED]
    yield from _unproved(joins)
    yield from _steps(joins, history)
    yield from _steps_back(history)
    yield from _rates(history)
    yield from _moments(joins, history)
    yield from _shards(history)


def _unproved(joins: Sequence[Event[LearnerJoined]]) -> Iterator[Violation]:
    says_moments = {e.payload.learner for e in joins if e.payload.moments is not None}
    for joined in joins:
        said, missing = joined.payload, ""
        if said.versions and not said.digests:
            missing = "what it holds"
        elif said.moments is None and said.learner in says_moments:
            missing = "its optimizer's moments"
        if missing:
            text = f"{said.learner} joined ({said.source}) and said no digest of {missing}"
            yield Violation.at(joined, Code.JOINED_WITHOUT_DIGESTS, text, said.learner)


def _steps(joins: Sequence[Event[LearnerJoined]], history: History) -> Iterator[Violation]:
    """Joins far below the steps of all others: the schedule begins anew, whatever its rate.

    The syncer names the step when it lets a learner in, and may have heard of the others late.
    Workers of a script may train apart: `resume` judges where they go on.
    """
    if is_script(history):
        return
    let_in_s = {(e.payload.life, e.payload.epoch): e.time_s for e in history.of(MemberJoined)}
    started, wrong = set[str](), set[str]()
    for joined in joins:
        said = joined.payload
        at_start = said.learner in history.founders and said.learner not in started
        started.add(said.learner)
        heard_s = let_in_s.get((said.life, said.epoch), joined.time_s) - _HEARD_AFTER_S
        heard = [
            of_learner_between(history, LearnerStep, learner, heard_s - _HEARD_S, heard_s)[-1:]
            for learner in history.learners
            if learner != said.learner and learner not in wrong
        ]
        lowest = min((one.payload.step for last in heard for one in last), default=0)
        if not at_start and said.learning_rate is not None and said.step < _EARLIER * lowest:
            wrong.add(said.learner)
            text = (
                f"{said.learner} joined ({said.source}) at step {said.step:,}, and no other "
                f"{history.who} was below step {lowest:,}"
            )
            yield Violation.at(joined, Code.JOINED_AT_EARLIER_STEP, text, said.learner)


def _steps_back(history: History) -> Iterator[Violation]:
    """Joins of lives that kept their own state, below the step that they had reached with it."""
    reached: dict[tuple[str, int], int] = {}
    for event in history.of(LearnerJoined, LearnerStep):
        said = event.payload
        before = reached.get(said.life, 0)
        if isinstance(said, LearnerJoined) and said.source == RESUMED and said.step < before:
            text = (
                f"{said.learner} joined ({said.source}) at step {said.step:,}, and had reached "
                f"step {before:,} with the same state"
            )
            yield Violation.at(event, Code.JOINED_AT_EARLIER_STEP, text, said.learner)
        reached[said.life] = said.step


# ---------------------------------------------------------------- learning rate


def _rates(history: History) -> Iterator[Violation]:
    """The first rate of each life that is none of the schedule of the lives before it.

    The first lives of the learners of the start show the schedule.
    """
    lives: dict[tuple[str, int], list[Event[LearnerJoined] | Event[LearnerStep]]] = {}
    for event in history.of(LearnerJoined, LearnerStep):
        lives.setdefault(event.payload.life, []).append(event)
    first = {
        learner: min((life for name, life in lives if name == learner), default=0)
        for learner in history.founders
    }
    known = sorted(pair for life in first.items() for pair in _pairs(lives.get(life, ())))
    for (learner, life), events in lives.items():
        if first.get(learner) == life:
            continue
        wrong = next(filter(None, (_off_schedule(event, known) for event in events)), None)
        if wrong is not None:
            yield wrong
            continue
        furthest = known[-1][0] if known else -1
        known += sorted(pair for pair in _pairs(events) if pair[0] > furthest)


def _pairs(
    events: Sequence[Event[LearnerJoined] | Event[LearnerStep]],
) -> Iterator[tuple[int, float]]:
    for event in events:
        if event.payload.learning_rate is not None:
            yield event.payload.step, event.payload.learning_rate


def _off_schedule(
    event: Event[LearnerJoined] | Event[LearnerStep], known: Sequence[tuple[int, float]]
) -> Violation | None:
    said = event.payload
    rate, at = said.learning_rate, bisect_left(known, (said.step, 0.0))
    before, later = known[max(0, at - _RATES_AROUND) : at], known[at : at + _RATES_AROUND]
    if rate is None or not before:
        return None
    nearest = before[-1][0]
    if not later and not _FARTHEST_STEPS <= nearest >= said.step - _FARTHEST_STEPS:
        return None  # no other learner was near that step
    rates = [each for _, each in (*before, *later)]
    is_too_low = bool(later) and rate * _TIMES < min(rates)
    if rate <= _TIMES * max(rates) and not is_too_low:
        return None
    text = (
        f"{said.learner} (incarnation {said.incarnation}) trained at a learning rate of {rate:.4g} "
        f"at step {said.step:,}, where others had {min(rates):.4g} to {max(rates):.4g}"
    )
    return Violation.at(event, Code.LEARNING_RATE_WRONG, text, said.learner)


# ---------------------------------------------------------------- moments


def _moments(joins: Sequence[Event[LearnerJoined]], history: History) -> Iterator[Violation]:
    given: dict[tuple[str | None, int], set[str | None]] = defaultdict(set)
    for gift in history.of(CheckpointGiven):
        given[gift.payload.learner, gift.payload.step].add(gift.payload.moments)
    found = {event.payload.life: event.payload for event in history.of(CheckpointFound)}
    fresh = {e.payload.moments for e in joins if e.payload.source == _INITIAL}
    for joined in joins:
        said = joined.payload
        if said.source == _INITIAL or said.moments is None:
            continue
        if said.source == _DONOR:
            whose, right = str(said.donor), given.get((said.donor, said.step), set())
        else:
            whose, right = _without_donor(found.get(said.life), fresh)
        if right - {None} and said.moments not in right:
            what = "fresh moments" if said.moments in fresh else "other moments"
            text = f"{said.learner} joined with {what} of its optimizer, not those of {whose}"
            yield Violation.at(joined, Code.MOMENTS_WRONG, text, said.learner)


def _without_donor(
    found: CheckpointFound | None, fresh: set[str | None]
) -> tuple[str, set[str | None]]:
    """Whose moments it has to have, and their digests; none if they are not known."""
    if found is None:
        return "", set()
    if found.file is None:
        return "an untrained model", fresh
    return f"its checkpoint {found.file}", {found.moments}


# ---------------------------------------------------------------- shard


def _shards(history: History) -> Iterator[Violation]:
    """The first join of each learner on another shard than its own, or on that of another."""
    own: dict[str, int] = {}
    wrong: set[str] = set()
    for joined in history.of(LearnerJoined):
        said = joined.payload
        if said.shard is None or said.learner in wrong:
            continue
        if said.shard != own.setdefault(said.learner, said.shard):
            wrong.add(said.learner)
            text = (
                f"{said.learner} joined on shard {said.shard} of the data, and its own is "
                f"{own[said.learner]}"
            )
            yield Violation.at(joined, Code.SHARD_WRONG, text, said.learner)
    yield from _shared(own, history)


def _shared(own: Mapping[str, int], history: History) -> Iterator[Violation]:
    """Learners with the shard of another one; none if all read the same, undivided data."""
    readers: dict[int, str] = {}
    for learner, shard in own.items() if len(set(own.values())) > 1 else ():
        if readers.setdefault(shard, learner) != learner:
            joined = next(e for e in history.of(LearnerJoined) if e.payload.learner == learner)
            text = f"{learner} reads shard {shard} of the data, which is that of {readers[shard]}"
            yield Violation.at(joined, Code.SHARD_WRONG, text, learner)
