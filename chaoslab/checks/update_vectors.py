"""Direction and size of each learner's updates, against those of its `peers`.

    direction   cosine with the others' of the same round, of all fragments and of each: not turned
                in 6 contributions after 24, nor below 0 in 12, unless the peers' are so as well
    least size  a tenth of the peers' in the middle of 12 pushes; of its own before it was taken
                away, a hundredth, if no peer is left that no fault had taken away
    size        none that the syncer shortened, while it took a peer's of as many steps as it came
    new         not of the norm of the one before, of the same fragment, twice in a row

Learners train on one mixture of data, from one state, so their updates agree: a little late in
training, much at its beginning. A part of `real_work`. Records without cosines, as those of other
systems, have no directions to judge.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import sqrt
from statistics import fmean, median, stdev

from chaoslab.checks.codes import Code
from chaoslab.checks.peers import (
    WINDOW,
    Samples,
    beside,
    first_gone_s,
    middle_near,
    never_away,
    on_duty,
    windows,
)
from chaoslab.checks.timeline import Part, before_the_end, of_learner_between, once, parts, parts_of
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event
from chaoslab.core.payloads import Contributor, PushAccepted, PushBounded, UpdateTampered
from chaoslab.record.history import History

FEWEST_STEPS = 2
"""The first step of a schedule may have a learning rate of 0."""
_FEW = 6
_TURNED = 0.5
"""`_FEW` values show turned updates if their mean is below minus this share of the mean before."""
_KNOWN = 30
"""Values that must be known to judge by only `_FEW`; the earlier ones must be steady."""
_STEADY = 4.0
"""Earlier values are steady if their mean exceeds this many standard errors of a mean of `_FEW`: a
mean of sound updates is then 6 standard errors from the bound of turned ones."""
_WINDOW = 12
"""Values that show it where no earlier, sound ones are known."""
_OPPOSED = -0.05
"""A mean above this is not judged. Those of sound learners of `nano` stay above 0.07 up to step
1,400, where single values deviate by 0.06."""
_SURE = 6.0
"""Standard errors that the mean must be below 0: of 12 values that chance makes, one in 40,000."""
_TIMES = 2.0
"""The wrong learner's mean is at least this many times as far below 0 as any other's."""
_REPEATED = 2
"""Norms of real updates differ in their last digits; one may be pushed once more unaltered."""
_FAINT = 0.1
"""Faint size as a share of the peers': few steps or fresh moments do not make a push so small."""
_SPENT = 0.01
"""Of its own size before: that of sound updates falls to a seventh in 600 steps, and the learning
rate may fall to a tenth."""
_BEFORE = 2 * WINDOW
"""Pushes before its absence that count, at most."""
_LIKE_STEPS = 2.0
"""A peer's push of at least its steps by this is compared with it."""
_LIKE_SIZE = 2.0


def misdirected_pushes(history: History) -> Iterator[Violation]:
    """The first window of each learner whose updates alone point away from those of its peers.

    Where all point away from each other, as two do if one of them is turned round, it is not
    known which is wrong, nor whether one is: so do those of small shards at the end of training.
    """
    for learner in history.learners:
        yield from islice(_opposed(history, learner), 1)


def _opposed(history: History, learner: str) -> Iterator[Violation]:
    """Its windows that point away, of all fragments, then of each."""
    whole: list[Part] = []
    by_fragment: dict[int, list[Part]] = defaultdict(list)
    for part in parts_of(history, learner):
        if part.contributor.cosine is not None:
            whole.append(part)
            by_fragment[part.merged.payload.fragment].append(part)
    for own in (whole, *by_fragment.values()):
        cosines = [part.contributor.cosine or 0.0 for part in own]
        for end in range(_FEW, len(own) + 1):
            count = _pointing_away(cosines[max(0, end - _KNOWN) : end])
            if count and _is_alone(learner, window := own[end - count : end]):
                mean = fmean(cosines[end - count : end])
                text = (
                    f"the updates of {learner} pointed away from those of its peers (mean cosine "
                    f"{mean:.2f}) in {count} rounds from {window[0].time_s:.1f} to "
                    f"{window[-1].time_s:.1f} s"
                )
                yield Violation.at(window[-1].merged, Code.MISDIRECTED_PUSH, text, learner)


def _pointing_away(cosines: Sequence[float]) -> int:
    """Number of the last pushes that point away; 0 if there are too few."""
    before, few, many = cosines[:-_FEW], cosines[-_FEW:], cosines[-_WINDOW:]
    if fmean(few) >= 0:
        return 0
    if len(cosines) == _KNOWN:
        usual = fmean(before)
        is_steady = usual > _STEADY * stdev(before) / sqrt(_FEW)
        if is_steady and fmean(few) < -_TURNED * usual:
            return _FEW
    if len(many) < _WINDOW or (mean := fmean(many)) > _OPPOSED:
        return 0
    return _WINDOW if mean + _SURE * stdev(many) / sqrt(_WINDOW) < 0 else 0


def _is_alone(learner: str, window: Sequence[Part]) -> bool:
    """Whether its mean in these rounds is far below that of any other learner."""
    cosines: dict[str, list[float]] = defaultdict(list)
    for part in window:
        for one in part.merged.payload.contributors:
            if one.cosine is not None:
                cosines[one.learner].append(one.cosine)
    mean = fmean(cosines.pop(learner))
    return mean < _TIMES * min(map(fmean, cosines.values()), default=-1.0)


def oversized_pushes(history: History) -> Iterator[Violation]:
    """The first push of each learner that was shortened, although no fault had tampered with it.

    Peers that push hardly anything show nothing, and one that pushed half of it acquits it: then
    what it was shortened to is wrong.
    """
    sizes = {_key(event.payload): _size(event) for event in history.of(PushAccepted)}
    tampered = {_key(event.payload) for event in history.of(UpdateTampered)}
    bounded = {_key(event.payload) for event in history.of(PushBounded)}
    told: set[str] = set()
    faint = {found.culprit for found in faint_pushes(history)}
    for event in before_the_end(history, history.of(PushBounded)):
        said = event.payload
        if said.learner in told or _key(said) in tampered:
            continue
        given = _contributors(history).get(said.round, {})
        own = given.get(said.learner)
        if own is None:
            continue
        like_it = [
            sizes.get((learner, said.round), 0.0)
            for learner, peer in given.items()
            if _LIKE_STEPS * peer.c_steps >= own.c_steps
            and (learner, said.round) not in bounded
            and learner not in faint
        ]
        size = said.norm / sqrt(max(1, own.c_steps))
        if not like_it or size <= _LIKE_SIZE * max(like_it):
            continue
        told.add(said.learner)
        text = (
            f"{said.learner} pushed an update of norm {said.norm:.4g} in round {said.round}, where "
            f"{said.usual:.4g} is usual, and no fault had asked for it"
        )
        yield Violation.at(event, Code.OVERSIZED_PUSH, text, said.learner)


@once
def faint_pushes(history: History) -> Sequence[Violation]:
    """First window of each learner whose updates are far smaller than they should be."""
    return [
        violation
        for learner in history.learners
        for violation in islice(_faint(history, learner), 1)
    ]


def _faint(history: History, learner: str) -> Iterator[Violation]:
    before = _sizes_before(history, learner)
    for window in windows(history, learner, PushAccepted):
        own = median(map(_size, window))
        others = list(map(median, beside(history, learner, window, _sizes(history))))
        of_peers = middle_near(others, own) if others else 0.0
        former = 0.0 if never_away(history, window[-1].time_s) or not before else median(before)
        for usual, least, whose in (
            (of_peers, _FAINT, "its peers'"),
            (former, _SPENT, "its former"),
        ):
            if not 0 < own < least * usual:
                continue
            text = (
                f"{learner} pushed updates of {own / usual:.2%} of {whose} size from "
                f"{window[0].time_s:.1f} to {window[-1].time_s:.1f} s"
            )
            yield Violation.at(window[-1], Code.FAINT_PUSH, text, learner)


@once
def _sizes(history: History) -> Samples:
    """Sizes of pushes on duty, without those that the syncer shortened."""
    shortened = {_key(event.payload) for event in history.of(PushBounded)}
    return on_duty(
        history, PushAccepted,
        lambda push: None if _key(push.payload) in shortened else _size(push),
    )  # fmt: skip


def _sizes_before(history: History, learner: str) -> Sequence[float]:
    """Sizes of its last pushes before a fault first took it away."""
    gone_s = first_gone_s(history)[learner]
    pushes = of_learner_between(history, PushAccepted, learner, 0.0, gone_s)
    return [_size(push) for push in pushes if push.payload.c_steps >= FEWEST_STEPS][-_BEFORE:]


def _size(push: Event[PushAccepted]) -> float:
    """Norm of a push by the root of its steps."""
    said = push.payload
    return (said.norm or 0.0) / sqrt(max(1, said.c_steps))


def repeated_pushes(history: History) -> Iterator[Violation]:
    """The first update that a life pushes again and again, as from a buffer that is filled once."""
    last: dict[tuple[str, int, int], tuple[float, int]] = {}
    told: set[str] = set()
    for event in before_the_end(history, history.of(PushAccepted)):
        said = event.payload
        key = *said.life, said.fragment
        before, times = last.get(key, (0.0, 0))
        times = times + 1 if said.norm == before else 0
        last[key] = said.norm or 0.0, times
        if said.norm and times == _REPEATED and said.learner not in told:
            told.add(said.learner)
            text = (
                f"{said.learner} pushed an update of norm {said.norm!r} of fragment "
                f"{said.fragment} {times + 1} times in a row (until round {said.round})"
            )
            yield Violation.at(event, Code.REPEATED_PUSH, text, said.learner)


def _key(said: PushAccepted | PushBounded | UpdateTampered) -> tuple[str, int]:
    return said.learner, said.round


@once
def _contributors(history: History) -> Mapping[int, Mapping[str, Contributor]]:
    """Contributors by round and learner."""
    found: dict[int, dict[str, Contributor]] = defaultdict(dict)
    for part in parts(history):
        found[part.merged.payload.round][part.learner] = part.contributor
    return found
