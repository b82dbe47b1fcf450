"""Search for the first bad commit between one that passes and one that fails.

    good passes? bad fails? ─► suspects ─► the most telling one ─► runner ─┬─ passes: good
                                  ▲                                        ├─ fails: bad
                                  └──────────── until one is left ◄────────┴─ neither: skipped

Histories with merges are searched as they are. Nothing here runs anything or knows git.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from chaoslab.replay.minimise import Answer

CommitRunner: TypeAlias = Callable[[str], Answer]


class Suspects(Protocol):
    """Questions of a search to a repository."""

    def suspects(self, goods: Collection[str], bad: str) -> Sequence[str]:
        """Commits that may be the first bad one, `bad` included, the most telling first."""
        ...


class BisectEnding(StrEnum):
    """End of a search."""

    FOUND = "found"
    SKIPPED = "skipped"
    """Besides the first commit that is known to fail, all that are left have no answer."""
    GOOD_DOES_NOT_PASS = "good does not pass"
    BAD_DOES_NOT_FAIL = "bad does not fail"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """Result of a search."""

    ending: BisectEnding
    first_bad: str | None
    """The earliest commit that is known to fail; the first bad one if the search ended so."""
    suspects: tuple[str, ...]
    """Other commits that may be the first bad one."""
    answers: tuple[tuple[str, Answer], ...]
    """Answer of each commit that was tried, in that order."""


class _SearchEnded(Exception):
    def __init__(self, ending: BisectEnding) -> None:
        self.ending = ending


_ENDINGS = {Answer.INTERRUPTED: BisectEnding.INTERRUPTED, Answer.BROKEN: BisectEnding.BROKEN}


def bisect(repository: Suspects, good: str, bad: str, runner: CommitRunner) -> Bisected:
    """Try commits until one is known to be the first that fails; both ends are tried first."""
    search = _Search(repository=repository, runner=runner, goods=[good], bad=bad)
    try:
        if search.answer(bad) is not Answer.FAILS:
            return search.result(BisectEnding.BAD_DOES_NOT_FAIL)
        search.is_bad_known = True
        if search.answer(good) is not Answer.PASSES:
            return search.result(BisectEnding.GOOD_DOES_NOT_PASS)
        while (commit := search.next()) is not None:
            search.take(commit, search.answer(commit))
    except _SearchEnded as over:
        return search.result(over.ending)
    return search.result(BisectEnding.SKIPPED if search.others else BisectEnding.FOUND)


@dataclass(slots=True, kw_only=True)
class _Search:
    repository: Suspects
    runner: CommitRunner
    goods: list[str]
    bad: str
    is_bad_known: bool = False
    skipped: set[str] = field(default_factory=set)
    answers: list[tuple[str, Answer]] = field(default_factory=list)

    def answer(self, commit: str) -> Answer:
        found = self.runner(commit)
        self.answers.append((commit, found))
        if found in _ENDINGS:
            raise _SearchEnded(_ENDINGS[found])
        return found

    def next(self) -> str | None:
        """The most telling commit that has no answer yet."""
        left = self.repository.suspects(self.goods, self.bad)
        return next((one for one in left if one != self.bad and one not in self.skipped), None)

    def take(self, commit: str, found: Answer) -> None:
        if found is Answer.PASSES:
            self.goods.append(commit)
        elif found is Answer.FAILS:
            self.bad = commit
        else:
            self.skipped.add(commit)

    @property
    def others(self) -> tuple[str, ...]:
        left = self.repository.suspects(self.goods, self.bad)
        return tuple(one for one in left if one != self.bad)

    def result(self, ending: BisectEnding) -> Bisected:
        return Bisected(
            ending=ending,
            first_bad=self.bad if self.is_bad_known else None,
            suspects=self.others,
            answers=tuple(self.answers),
        )
