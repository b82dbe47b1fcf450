"""The search for the first bad commit, on a function in the place of runs."""

from collections.abc import Collection, Sequence

import pytest

from chaoslab.replay.bisect import Bisected, BisectEnding, bisect
from chaoslab.replay.minimise import Answer

PASSES, FAILS, UNRESOLVED = Answer.PASSES, Answer.FAILS, Answer.UNRESOLVED


class Line:
    """Commits c0, c1, … one after the other."""

    def __init__(self, count: int) -> None:
        self.commits = [f"c{number}" for number in range(count)]

    def suspects(self, goods: Collection[str], bad: str) -> Sequence[str]:
        start = max(self.commits.index(good) for good in goods) + 1
        left = self.commits[start : self.commits.index(bad) + 1]
        middle = (len(left) - 1) / 2
        return sorted(left, key=lambda one: abs(left.index(one) - middle))


def searched(count: int, answers: dict[int, Answer], *, first_bad: int) -> Bisected:
    def run(commit: str) -> Answer:
        number = int(commit[1:])
        return answers.get(number, FAILS if number >= first_bad else PASSES)

    return bisect(Line(count), "c0", f"c{count - 1}", run)


@pytest.mark.parametrize("first_bad", range(1, 33))
def test_any_first_bad_commit_is_found_in_few_runs(first_bad: int) -> None:
    found = searched(33, {}, first_bad=first_bad)
    assert (found.ending, found.first_bad) == (BisectEnding.FOUND, f"c{first_bad}")
    assert found.suspects == ()
    assert len(found.answers) <= 2 + 6


def test_a_commit_without_an_answer_is_passed_by() -> None:
    found = searched(16, {8: UNRESOLVED, 7: UNRESOLVED}, first_bad=11)
    assert (found.ending, found.first_bad) == (BisectEnding.FOUND, "c11")


def test_what_was_skipped_right_before_the_first_bad_one_stays_suspect() -> None:
    found = searched(16, {10: UNRESOLVED, 9: UNRESOLVED}, first_bad=11)
    assert (found.ending, found.first_bad) == (BisectEnding.SKIPPED, "c11")
    assert set(found.suspects) == {"c9", "c10"}


def test_both_ends_must_be_what_they_are_said_to_be() -> None:
    assert searched(9, {8: PASSES}, first_bad=4).ending is BisectEnding.BAD_DOES_NOT_FAIL
    assert searched(9, {8: UNRESOLVED}, first_bad=4).first_bad is None
    assert searched(9, {0: FAILS}, first_bad=4).ending is BisectEnding.GOOD_DOES_NOT_PASS
    assert searched(9, {0: UNRESOLVED}, first_bad=4).ending is BisectEnding.GOOD_DOES_NOT_PASS


@pytest.mark.parametrize(
    ("answer", "ending"),
    [(Answer.INTERRUPTED, BisectEnding.INTERRUPTED), (Answer.BROKEN, BisectEnding.BROKEN)],
)
def test_an_interrupt_or_a_broken_harness_ends_it_with_what_is_known(
    answer: Answer, ending: BisectEnding
) -> None:
    found = searched(9, {4: answer}, first_bad=6)
    assert (found.ending, found.first_bad) == (ending, "c8")
    assert len(found.answers) == 3
