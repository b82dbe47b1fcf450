"""Participation: every member works, from the baseline or from its return to the end of training.

    rounds           | | | | | | | | | | | | | | |    on duty: from the end of the baseline, or its
    with learner-2   | | |  fault  ◄─ | | | . . .     first contribution after a fault of its own,
                                      └─ window ┘     to its next fault or the end of training

In every window that holds 12 of the rounds that it can be expected to contribute to, and those of
2 s, the last one included, three figures stay at least at `min_share` of what is expected, and the
first one also in every window that holds 8 such rounds of one fragment:

    rounds   with a contribution of its own: their share, against that of the baseline
    weight   of what was merged in them, against its part of the baseline pace of all contributors
    steps    per second, against its own baseline; without a step time, on a full machine, against
             the others if they are slower as well

Under a fault that leaves it at work (`may_silence` of its class) rounds are expected of a learner
as far as a slowness lets that the evidence measured, and steps where it measured none. A learner
that contributed far less in the baseline than others that are no faster is a doubt.

No duty counts while an injection keeps the syncer away. A learner that a fault took away and that
never contributed again is left to the second answer (`learners_rejoin`).

Where learners without a step time share a machine that is full, steps tell which one got a core,
too: they are compared there with what a learner was given of the time in which it was ready, or,
where that is not known, a quarter of them is enough. Rounds become due as the fastest learner
steps, and one that is outrun contributes to fewer of them, with less weight: both are compared with
the steps that it made, rounds give or take one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median
from typing import ClassVar, NamedTuple

from chaoslab.checks.base import Finding
from chaoslab.checks.capacity import slowdown
from chaoslab.checks.codes import Code
from chaoslab.checks.duty import Duty, duty, per_s, rounds_of_a_window, under_alone
from chaoslab.checks.pacing import noise_of_steps, unless_noisy, unless_overrun
from chaoslab.checks.stretches import Stretches, holds
from chaoslab.checks.timeline import (
    FaultWindow,
    Part,
    baseline_end_s,
    by_fragment,
    delays_script,
    fault_windows,
    of_learner_between,
    parts_of,
)
from chaoslab.checks.violations import Doubt, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    MemberLeft,
    MemberSuspected,
    NodeExited,
    RoundMerged,
)
from chaoslab.core.units import Share, plural, show_share
from chaoslab.record.history import History

_OF_ONE_FRAGMENT = 8
"""Rounds of a window of one fragment that it can be expected to contribute to."""
_HARDLY_NONE = 6.0
"""Expected contributions of which it is hardly chance that none came (e^-6)."""
_STANDS_STILL = 0.1
_BY_CHANCE = 4.0
"""Factor by which learners without a step time may slow each other on a full machine, where the
CPU time of each is not known."""


class _Window(NamedTuple):
    """Work of one learner in a window, as shares of the expected work."""

    start_s: float
    end_s: float
    rounds: int
    own: int
    """Rounds that it contributed to."""
    rounds_share: float
    weight_share: float | None
    """Share of the weight; None: it contributed to none of the rounds."""
    steps_share: float | None
    """Share of the steps, without comparison to others; None without a known pace."""
    last: Event[RoundMerged]
    fragment: int | None = None
    """The one whose rounds it holds alone, without a look at weight and steps; None: all. There are
    such windows only where no learner is slow because it lacks a core."""
    fault: FaultWindow | None = None
    """The fault that is open on the learner, and leaves it at work."""

    @property
    def of(self) -> str:
        """Name of the fragment, to follow "rounds"."""
        return "" if self.fragment is None else f" of fragment {self.fragment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Participation:
    """Every member contributes, weighs and steps as it did before, until training ends."""

    name: ClassVar[str] = "participation"
    summary: ClassVar[str] = "every member contributes, weighs and steps to the end as before"

    min_share: Share = binding(0.5, least=0.05, show=show_share)
    """Least share of a learner's expected rounds, weight and steps per second, in each window."""

    def judge(self, history: History) -> Finding:
        """Judge each window of each learner's duty; the worst of each learner is told."""
        usual = _usual(history)
        if usual is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        found: list[Violation | Doubt] = []
        samples, least, broken = 0, dict[str, float](), list[tuple[float, float]]()
        misses_rounds = False
        for learner, own in usual.duty.of.items():
            found += [*_short_tails(learner, own, usual), *self._uneven(learner, usual)]
            found += _silent_under_faults(learner, usual)
            for window in (*_windows(learner, own, usual), *_under_faults(learner, usual)):
                samples += 1
                share, what = self._least(window, learner, usual)
                least[learner] = min(share, least.get(learner, share))
                if share < self.min_share:
                    found.append(self._violation(window, learner, usual, share, what))
                    broken.append((window.start_s, window.end_s))
                    misses_rounds |= what == "rounds"
        worst = min(least.values(), default=1.0)
        finding = conclude(
            self.name,
            found,
            passed=f"every {history.who} worked to the end: at least {min(worst, 1.0):.0%} of what "
            f"was expected of it, in each of {samples:,} windows",
            samples=samples,
            nothing=Doubt(Code.TOO_FEW_SAMPLES, "too few rounds were merged after the baseline"),
            numbers={
                "least_share": {name: round(share, 3) for name, share in sorted(least.items())}
            },
        )
        if broken:
            finding = unless_overrun(finding, history, broken, without=finding.culprits)
        noise = 0.0 if misses_rounds else noise_of_steps(history, usual.duty.of)
        return unless_noisy(finding, noise, self.min_share)

    def _least(self, window: _Window, learner: str, usual: "_Usual") -> tuple[float, str]:
        """The least of the three shares, and of what; steps only below the bound by others, too."""
        start_s, end_s = window.start_s, window.end_s
        rounds, weight, steps = window.rounds_share, window.weight_share, window.steps_share
        if not usual.duty.shows_speeds(start_s, end_s):
            made = usual.duty.outrun(learner, start_s, end_s)
            given = usual.duty.given_share(learner, start_s, end_s)
            if steps is not None:
                expected = made * window.rounds * usual.share(learner)
                rounds = (window.own + 1) / max(1.0, expected)
                steps = steps / given if given else _BY_CHANCE * steps
            if weight is not None:
                weight = weight / made if made else None
        if steps is not None and steps < self.min_share:
            steps /= usual.duty.common_pace(start_s, end_s, learner)
        found = {"rounds": rounds, "weight": weight, "steps": steps}
        shares = {name: share for name, share in found.items() if share is not None}
        what = min(shares, key=lambda name: shares[name])
        return shares[what], what

    def _violation(
        self, window: _Window, learner: str, usual: "_Usual", share: float, what: str
    ) -> Violation:
        did = {
            "rounds": f"contributed to {window.own} of {window.rounds} rounds{window.of}",
            "weight": "weighed too little",
            "steps": "stepped too slowly",
        }[what]
        when = f"from {window.start_s:.1f} to {window.end_s:.1f} s"
        if window.fault:
            when += f", while {window.fault} was open, which leaves it at work"
        text = (
            f"{learner} {did} {when}: {share:.0%} of what is expected of it, and the bound is "
            f"{self.min_share:.0%}{_instead(window, learner, usual)}"
        )
        return Violation.at(window.last, Code.WORKED_TOO_LITTLE, text, learner)

    def _uneven(self, learner: str, usual: "_Usual") -> Iterator[Doubt]:
        """Whether it contributed in the baseline as those that step as fast as it, or slower: what
        it does later is compared with that.
        """
        known = [usual.share_since(name) for name in usual.duty.as_slow_as(learner)]
        peers, own = [share for share in known if share], usual.share_since(learner)
        if own and peers and own < self.min_share * median(peers):
            text = (
                f"{learner} contributed to {own:.0%} of the rounds of the baseline, and learners "
                f"that are no faster to {median(peers):.0%}: it is nothing to compare with"
            )
            yield Doubt(Code.BASELINE_UNEVEN, text)


class _Usual:
    """Contributions of each learner in the baseline, and of all since."""

    def __init__(self, history: History, duty: Duty, end_s: float) -> None:
        self.history, self.duty = history, duty
        self.rounds = [e for e in history.of(RoundMerged) if not e.payload.is_restated]
        self.own = {
            learner: {part.seq: part for part in parts_of(history, learner)
                  if not part.merged.payload.is_restated}
            for learner in history.learners
        }  # fmt: skip
        """Contributions of each learner, by the `seq` of the round."""
        baseline = [event for event in self.rounds if event.time_s <= end_s]
        self._before = by_fragment(baseline)
        self.per_s = per_s([event.time_s for event in baseline])
        """Rounds in the baseline."""
        before = baseline[-2 * self.window() :]
        self._shares = {
            learner: sum(e.seq in own for e in before) / len(before) if before else 0.0
            for learner, own in self.own.items()
        }
        self.first = {learner: _firsts(parts_of(history, learner)) for learner in history.learners}
        self.whole = {event.seq: _whole(event.payload, duty) for event in self.rounds}
        """Total weight and pace of the contributors of a round, by its `seq`."""

    @property
    def is_known(self) -> bool:
        """Whether any learner contributed in the baseline."""
        return any(self._shares.values())

    def window(self, share: float = 1.0) -> int:
        """Rounds of a window of a learner from which such a share of them is expected."""
        return rounds_of_a_window(self.per_s, share)

    def share(self, learner: str) -> float:
        """Share of the baseline's rounds to which it contributed; 1 if it was not there."""
        return self._shares[learner] or 1.0

    def share_since(self, learner: str) -> float:
        """The same of the rounds since it first contributed; 0 if these are too few."""
        own = self.own[learner]
        since = [e.seq in own for rounds in self._before.values() for e in rounds
                 if own and e.seq >= min(own)]  # fmt: skip
        return fmean(since) if len(since) >= self.window() else 0.0

    def share_of_fragment(self, learner: str, fragment: int) -> float:
        """The same of one fragment, at most that of all; 0 if it never contributed to it."""
        share = self._shares[learner]
        if not share:
            return 1.0
        of_it = [event.seq in self.own[learner] for event in self._before.get(fragment, ())]
        return min(share, fmean(of_it)) if of_it else share


def _usual(history: History) -> _Usual | None:
    found, end_s = duty(history), baseline_end_s(history)
    usual = None if found is None or end_s is None else _Usual(history, found, end_s)
    return usual if usual and usual.is_known else None


def _whole(merged: RoundMerged, duty: Duty) -> tuple[float, float]:
    weights = sum(one.weight for one in merged.contributors)
    return weights, sum(duty.pace(one.learner) for one in merged.contributors)


def _firsts(parts: Sequence[Part]) -> frozenset[int]:
    """The `seq` of the first rounds of each life and fragment."""
    first: dict[tuple[int, int], int] = {}
    for part in parts:
        first.setdefault((part.contributor.incarnation, part.merged.payload.fragment), part.seq)
    return frozenset(first.values())


def _windows(learner: str, on_duty: Stretches, usual: _Usual) -> Iterator[_Window]:
    """Every window of its duty."""
    rounds = [event for event in usual.rounds if holds(on_duty, event.time_s)]
    share = usual.share(learner)
    for within in _runs(rounds, usual.window(share)):
        window = _window(learner, usual, within, share)
        yield window._replace(
            weight_share=_weight_share(learner, usual, within),
            steps_share=usual.duty.pace_share(learner, window.start_s, window.end_s),
        )
    fragments = by_fragment(rounds)
    for fragment, of_it in fragments.items() if len(fragments) > 1 else ():
        share = usual.share_of_fragment(learner, fragment)
        for within in _runs(of_it, ceil(_OF_ONE_FRAGMENT / share)) if share else ():
            window = _window(learner, usual, within, share)
            if usual.duty.shows_speeds(window.start_s, window.end_s):
                yield window._replace(fragment=fragment)


class _UnderFault(NamedTuple):
    """Rounds of a time in which a learner is under a fault that leaves it at work."""

    fault: FaultWindow
    within: tuple[float, float]
    rounds: Sequence[Event[RoundMerged]]
    ratio: float
    """Step time of the learner, as a multiple of its own before."""
    expected: float
    """Share of the rounds that it should contribute to."""


def _times_under_faults(learner: str, usual: _Usual) -> Iterator[_UnderFault]:
    """Its times under a fault that leaves it at work, and under no other.

    A fault may slow it, and its host with it, so that it is ready for fewer rounds and answers
    late: then as many are expected as the square of its pace lets expect.
    """
    for fault in fault_windows(usual.history):
        ratio = slowdown(fault.story, learner)
        may_silence = fault.story.injecting.payload.may_silence or (
            fault.story.injection in delays_script(usual.history)
        )
        if may_silence or fault.story.takes_away or ratio is None:
            continue
        for start_s, end_s in under_alone(usual.history, learner, fault):
            rounds = [event for event in usual.rounds if start_s < event.time_s <= end_s]
            expected = usual.share(learner) / ratio**2
            yield _UnderFault(fault, (start_s, end_s), rounds, ratio, expected)


def _under_faults(learner: str, usual: _Usual) -> Iterator[_Window]:
    """Windows of these times; its pace is left to the evidence of a fault that slows it."""
    for under in _times_under_faults(learner, usual):
        for within in _runs(under.rounds, usual.window(under.expected)):
            found = _window(learner, usual, within, under.expected)
            pace = usual.duty.pace_share(learner, found.start_s, found.end_s, [under.within])
            yield found._replace(fault=under.fault, steps_share=pace if under.ratio == 1 else None)


def _silent_under_faults(learner: str, usual: _Usual) -> Iterator[Doubt]:
    """Times under faults that are too short to judge, and in which it contributed nothing."""
    for under in _times_under_faults(learner, usual):
        needed = usual.window(under.expected)
        own = sum(event.seq in usual.own[learner] for event in under.rounds)
        expected = under.expected * len(under.rounds)
        if not own and expected >= _HARDLY_NONE and len(under.rounds) < needed:
            story = under.fault.story
            text = (
                f"{learner} contributed to none of the {len(under.rounds)} rounds under "
                f"`{story.spec}` ({story.injection}), and it takes {needed} rounds to tell"
            )
            yield Doubt(Code.TOO_FEW_SAMPLES, text)


def _runs(
    rounds: Sequence[Event[RoundMerged]], length: int
) -> Iterator[Sequence[Event[RoundMerged]]]:
    """Every sequence of this many successive rounds."""
    for end in range(length, len(rounds) + 1):
        yield rounds[end - length : end]


def _window(
    learner: str, usual: _Usual, within: Sequence[Event[RoundMerged]], share: float
) -> _Window:
    """Work in these rounds by a learner with this share of contributions in the baseline."""
    own = sum(event.seq in usual.own[learner] for event in within)
    return _Window(
        start_s=within[0].time_s,
        end_s=within[-1].time_s,
        rounds=len(within),
        own=own,
        rounds_share=own / len(within) / share,
        weight_share=None,
        steps_share=None,
        last=within[-1],
    )


def _short_tails(learner: str, on_duty: Stretches, usual: _Usual) -> Iterator[Doubt]:
    """Last times on duty that look bad and are too short to judge."""
    start_s, end_s = on_duty[-1] if on_duty else (0.0, 0.0)
    last = [event for event in usual.rounds if start_s < event.time_s <= end_s]
    own = sum(event.seq in usual.own[learner] for event in last)
    needed = usual.window(usual.share(learner))
    if len(last) < needed and 2 * own < len(last) * usual.share(learner):
        text = (
            f"{learner} contributed to {own} of the {len(last)} rounds from {start_s:.1f} s to "
            f"the end, and it takes {needed} rounds to tell"
        )
        yield Doubt(Code.TOO_FEW_SAMPLES, text)


def _weight_share(
    learner: str, usual: _Usual, rounds: Sequence[Event[RoundMerged]]
) -> float | None:
    """Its part of the weight of the rounds with it, against its part of the contributors' pace.

    The first contributions of a life, one for each fragment, hold what it did since it joined.
    """
    weight = expected = 0.0
    for event in rounds:
        part = usual.own[learner].get(event.seq)
        whole, pace = usual.whole[event.seq]
        if part is None or whole <= 0 or part.seq in usual.first[learner]:
            continue
        weight += part.contributor.weight / whole
        expected += usual.duty.pace(learner) / pace
    return weight / expected if expected else None


def _instead(window: _Window, learner: str, usual: _Usual) -> str:
    """Its other activity on duty, as the end of a sentence."""
    history, said = usual.history, list[str]()
    on_duty = [(window.start_s, window.end_s)] if window.fault else usual.duty.of[learner]
    for kind, what in ((MemberLeft, "dropped"), (MemberSuspected, "suspected")):
        seen = of_learner_between(history, kind, learner, window.start_s, window.end_s)
        times_s = [event.time_s for event in seen if holds(on_duty, event.time_s)]
        said += [f"it was {what} at {times_s[0]:.1f} s"] if times_s else []
    said += [
        f"it died at {event.time_s:.1f} s"
        for event in history.between(window.start_s, window.end_s, NodeExited)
        if event.payload.node == learner and holds(on_duty, event.time_s)
    ]
    missed = sum(
        learner in event.payload.missed
        for event in history.between(window.start_s, window.end_s, RoundMerged)
        if holds(on_duty, event.time_s) and window.fragment in (None, event.payload.fragment)
    )
    unasked = window.rounds - window.own - missed
    said += [f"it did not answer {plural(missed, 'pull')}"] if missed > 0 else []
    said += [f"{plural(unasked, 'round')} did without it"] if unasked > 0 else []
    if window.steps_share is not None and window.steps_share < _STANDS_STILL:
        said += ["it hardly stepped"]
    return f"; {', '.join(said)}" if said else ""
