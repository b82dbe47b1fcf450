"""Search for the least schedule that still fails: delta debugging, then shorter and milder.

    injections ─► none: what fails without any fault has another cause    ─┐
              ─► fewest: halves, quarters, … and what is left without each │ each candidate:
              ─► targets: the same for the targets of each injection       │ Runner ─► Answer
              ─► shortest: each duration halved                            │
              ─► mildest: one way of both, then each strength halved      ─┘

A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28 (2002).
Nothing here runs anything: the runner may be a real run, a simulator or a function.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Protocol, TypeAlias, TypeVar

from chaoslab.faults.base import HasStrength
from chaoslab.plan.model import Injection

Candidate: TypeAlias = tuple[Injection, ...]
_T = TypeVar("_T")

SHORTEST_S = 0.5
"""No duration is halved below this."""
HALVINGS_MOST = 4
"""Most halvings of a strength that does not matter: a sixteenth of a fault is mild enough."""


class Answer(StrEnum):
    """Result of one candidate."""

    FAILS = "fails"
    """It fails in the intended way."""
    PASSES = "passes"
    UNRESOLVED = "unresolved"
    """It is UNKNOWN, or fails in another way."""
    IMPOSSIBLE = "impossible"
    """It cannot be carried out, and nothing was run."""
    INTERRUPTED = "interrupted"
    BROKEN = "broken"
    """The harness broke."""


class Ending(StrEnum):
    """End of a search."""

    MINIMAL = "minimal"
    """Nothing that was left can be taken away."""
    WITHOUT_FAULTS = "without faults"
    """It fails without any fault."""
    BUDGET_SPENT = "budget spent"
    NOT_REPRODUCED = "not reproduced"
    """The whole schedule did not fail again."""
    INTERRUPTED = "interrupted"
    BROKEN = "broken"


Runner: TypeAlias = Callable[[Candidate], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a search."""

    runs: int
    seconds: float | None = None
    """No run begins later than this after the first."""
    now_s: Callable[[], float]

    def until_s(self) -> float | None:
        """Time at which it is spent, if the search begins now."""
        return None if self.seconds is None else self.now_s() + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate, and its result."""

    candidate: Candidate
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimised:
    """Result of a search."""

    best: Candidate
    """The least schedule that failed; the one that was given if it never did."""
    ending: Ending
    trials: tuple[Trial, ...]


class _SearchEnded(Exception):
    """The search ends here."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


_ENDINGS = {Answer.INTERRUPTED: Ending.INTERRUPTED, Answer.BROKEN: Ending.BROKEN}


def minimise(whole: Candidate, runner: Runner, budget: Budget) -> Minimised:
    """Reduce a failing schedule as far as the budget reaches. The whole is run first."""
    search = _Search(runner=runner, budget=budget, best=whole, until_s=budget.until_s())
    try:
        if not search.fails(whole):
            return search.result(Ending.NOT_REPRODUCED)
        if search.fails(()):
            return search.result(Ending.WITHOUT_FAULTS)
        before: Candidate = ()
        while before != search.best:  # milder faults may make others needless
            search.reduce(fewest if before == () else all_needed)
            before = search.best
            search.shortest()
            search.mildest()
    except _SearchEnded as over:
        return search.result(over.ending)
    except KeyboardInterrupt:  # between two runs: a run that goes on answers that it was
        return search.result(Ending.INTERRUPTED)
    return search.result(Ending.MINIMAL)


class Reduction(Protocol):
    """A way to take items away."""

    def __call__(
        self, items: Sequence[_T], fails: Callable[[Sequence[_T]], bool], /
    ) -> Sequence[_T]:
        """The remaining items."""
        ...


@dataclass(slots=True, kw_only=True)
class _Search:
    runner: Runner
    budget: Budget
    until_s: float | None
    best: Candidate
    trials: list[Trial] = field(default_factory=list)
    halvings: Counter[int] = field(default_factory=Counter)
    """Halvings of each injection's strength, by its number."""

    def result(self, ending: Ending) -> Minimised:
        return Minimised(best=self.best, ending=ending, trials=tuple(self.trials))

    def fails(self, candidate: Candidate) -> bool:
        """Whether it fails; what was run before is remembered. One that fails is the best so far:
        every candidate is a reduction of the best.
        """
        known = next((one.answer for one in self.trials if one.candidate == candidate), None)
        if known is not None:
            return known is Answer.FAILS
        is_late = self.until_s is not None and self.budget.now_s() >= self.until_s
        runs = sum(one.answer is not Answer.IMPOSSIBLE for one in self.trials)
        if runs >= self.budget.runs or is_late:
            raise _SearchEnded(Ending.BUDGET_SPENT)
        answer = self.runner(candidate)
        self.trials.append(Trial(candidate=candidate, answer=answer))
        if answer in _ENDINGS:
            raise _SearchEnded(_ENDINGS[answer])
        if answer is Answer.FAILS:
            self.best = candidate
        return answer is Answer.FAILS

    def reduce(self, reduction: Reduction) -> None:
        """Take injections away, then targets from each injection in turn."""
        reduction(self.best, lambda kept: self.fails(tuple(kept)))
        for place, one in enumerate(self.best):
            if len(one.targets) > 1:

                def fails(kept: Sequence[str], at: int = place, whole: Injection = one) -> bool:
                    return self.fails(_with(self.best, at, replace(whole, targets=tuple(kept))))

                reduction(one.targets, fails)

    def shortest(self) -> None:
        """Halve each duration as long as it fails; one that is never healed keeps that."""
        for place in range(len(self.best)):
            while self._reduces(place, _shorter):
                pass

    def mildest(self) -> None:
        """Narrow each choice, then halve each strength, as long as it fails."""
        for place, one in enumerate(self.best):
            while self._reduces(place, _narrowed):
                pass
            while self.halvings[one.number] < HALVINGS_MOST and self._reduces(place, _milder):
                self.halvings[one.number] += 1

    def _reduces(self, place: int, less: Callable[[Injection], Iterator[Injection]]) -> bool:
        """Whether something less in this place fails, which is then the best."""
        return any(self.fails(_with(self.best, place, one)) for one in less(self.best[place]))


def fewest(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> Sequence[_T]:
    """The ddmin of Zeller and Hildebrandt: a subset that fails, and no longer without any item."""
    parts = 2
    while len(items) > 1:
        found = next((one for one in _subsets(items, parts) if fails(one[0])), None)
        if found is not None:
            items, parts = found
        elif parts < len(items):
            parts = min(len(items), 2 * parts)
        else:
            break
    return items


def all_needed(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> Sequence[_T]:
    """A subset that fails, by leaving out one item at a time: cheap where most are needed."""
    for item in tuple(items):
        rest = tuple(one for one in items if one != item)
        if rest and fails(rest):
            items = rest
    return items


def _subsets(items: Sequence[_T], parts: int) -> Iterator[tuple[Sequence[_T], int]]:
    """Each part; then, of more than two parts, the rest without each. Each with the number of parts
    into which it is divided next.
    """
    ends = [len(items) * part // parts for part in range(parts + 1)]
    for start, end in pairwise(ends):
        yield items[start:end], 2
    if parts > 2:
        for start, end in pairwise(ends):
            yield (*items[:start], *items[end:]), max(parts - 1, 2)


def _with(candidate: Candidate, place: int, one: Injection) -> Candidate:
    return (*candidate[:place], one, *candidate[place + 1 :])


def _shorter(one: Injection) -> Iterator[Injection]:
    if one.for_s is not None and one.for_s / 2 >= SHORTEST_S:
        yield replace(one, for_s=round(one.for_s / 2, 3))


def _narrowed(one: Injection) -> Iterator[Injection]:
    if isinstance(one.settings, HasStrength):
        yield from (replace(one, settings=settings) for settings in one.settings.narrowed())


def _milder(one: Injection) -> Iterator[Injection]:
    if isinstance(one.settings, HasStrength):
        yield from (replace(one, settings=settings) for settings in one.settings.milder())
