"""Direction and size of each learner's updates, against those of its peers.

    direction   cosine with the others' of the same round, of all fragments and of each: not turned
                in 6 contributions after 24, nor below 0 in 12, unless the peers' are so as well
    size        none that the syncer shortened, while it took a peer's of as many steps as it came

Learners train on one mixture of data, from one state, so their updates agree: a little late in
training, much at its beginning. A part of `real_work`. Records without cosines, as those of other
systems, have no directions to judge.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import sqrt
from statistics import fmean, stdev

from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import Part, before_the_end, once, parts, parts_of
from chaoslab.checks.violations import Violation
from chaoslab.core.payloads import Contributor, PushBounded, UpdateTampered
from chaoslab.record.journal import History

_FEW = 6
_TURNED = 0.5
"""So few show it by a mean below minus this share of the mean before."""
_KNOWN = 30
"""With these few: so many must be known, of which those before are steady."""
_STEADY = 4.0
"""Standard errors of a mean of so few, by the deviation of those before, that their mean exceeds:
then one of sound updates is 6 from where it would be taken for turned."""
_WINDOW = 12
"""Where it was never otherwise, so many show it."""
_OPPOSED = -0.05
"""A mean above this is not judged. Those of sound learners of `nano` stay above 0.07 up to step
1,400, where single values deviate by 0.06."""
_SURE = 6.0
"""Standard errors that the mean must be below 0: of 12 values that chance makes, one in 40,000."""
_TIMES = 2.0
"""The mean of the one that is wrong is at least so many times as far below 0 as anybody else's."""
_LIKE_STEPS = 2.0
"""A peer's push of at least its steps by this is compared with it."""


def misdirected_pushes(history: History) -> Iterator[Violation]:
    """The first window of each learner whose updates alone point away from those of its peers.

    Where all point away from each other, as two do if one of them is turned round, nobody can tell
    who is wrong, nor whether anybody is: so do those of small shards at the end of training.
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
    """How many of the last ones show that updates point away; 0 if they do not."""
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
    """Whether its mean in these rounds is far below that of anybody else."""
    cosines: dict[str, list[float]] = defaultdict(list)
    for part in window:
        for one in part.merged.payload.contributors:
            if one.cosine is not None:
                cosines[one.learner].append(one.cosine)
    mean = fmean(cosines.pop(learner))
    return mean < _TIMES * min(map(fmean, cosines.values()), default=-1.0)


def oversized_pushes(history: History) -> Iterator[Violation]:
    """The first push of each learner that was shortened, although no fault had spoilt it."""
    spoilt = {_key(event.payload) for event in history.of(UpdateTampered)}
    bounded = {_key(event.payload) for event in history.of(PushBounded)}
    told: set[str] = set()
    for event in before_the_end(history, history.of(PushBounded)):
        said = event.payload
        if said.learner in told or _key(said) in spoilt:
            continue
        given = _contributors(history).get(said.round, {})
        own = given.get(said.learner)
        if own is None or not any(
            _LIKE_STEPS * peer.c_steps >= own.c_steps
            for who, peer in given.items()
            if (who, said.round) not in bounded
        ):
            continue
        told.add(said.learner)
        text = (
            f"{said.learner} pushed an update of norm {said.norm:.4g} in round {said.round}, where "
            f"{said.usual:.4g} is usual, and no fault had asked for it"
        )
        yield Violation.at(event, Code.OVERSIZED_PUSH, text, said.learner)


def _key(said: PushBounded | UpdateTampered) -> tuple[str, int]:
    return said.learner, said.round


@once
def _contributors(history: History) -> Mapping[int, Mapping[str, Contributor]]:
    """By round and learner."""
    found: dict[int, dict[str, Contributor]] = defaultdict(dict)
    for part in parts(history):
        found[part.merged.payload.round][part.learner] = part.contributor
    return found
