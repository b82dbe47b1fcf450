"""Borders by bisection: where they lie, which values are tried, and what an interrupt leaves."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from chaoslab.core import units
from chaoslab.experiments.axes import Axis, Question
from chaoslab.experiments.envelope import Search, TriedValue, carry_out, simulated
from chaoslab.prepare.plans import Asked

OUTAGE = Axis(key="faults.one.for", low=1.0, high=300.0, quantity=units.DURATION)
NUMBER = Axis(key="faults.one.target.learners", low=1.0, high=10.0, quantity=units.COUNT)
RATE = Axis(key="faults.thin.rate", low=10e3, high=1e6, quantity=units.RATE)

Searcher = Callable[..., Search]


@pytest.fixture(name="look")
def _look(monkeypatch: pytest.MonkeyPatch) -> Searcher:
    """The search of a border, in a plan that passes with some values."""

    def look(axis: Axis, passes: Callable[[float], bool], *, interrupted_after: int = 99) -> Search:
        search = Search(axis=axis, asked=Asked(plan="kill_half"))

        def tried(asked: Asked, _seeds: Sequence[int]) -> TriedValue:
            if len(search.found) == interrupted_after:
                raise KeyboardInterrupt
            text = asked.settings[-1].split("=")[1]
            return TriedValue(
                passes=passes(axis.quantity.parse(text)), reason=f"{text} is too much"
            )

        monkeypatch.setattr("chaoslab.experiments.envelope.simulated", tried)
        with suppress(KeyboardInterrupt):
            carry_out([search], [1], jobs=1)
        return search

    return look


BORDERS: dict[Axis, tuple[float, ...]] = {
    OUTAGE: (1.0, 1.5, 42.0, 270.0),
    NUMBER: (1, 4, 9),
    replace(RATE, question=Question.LINK): (80e3, 900e3),
}


@pytest.mark.parametrize(
    ("axis", "border"), [(axis, border) for axis in BORDERS for border in BORDERS[axis]]
)
def test_a_border_is_found_to_one_part_in_twenty_and_exactly_in_whole_numbers(
    look: Searcher, axis: Axis, border: float
) -> None:
    less_is_harsher = axis.question is Question.LINK
    promised = Search(axis=axis, asked=Asked(plan="kill_half")).left()
    search = look(axis, lambda value: value >= border if less_is_harsher else value <= border)
    edge = search.edge()
    low, high = sorted((edge.passes, edge.fails))
    assert low <= border <= high <= (low + 1 if axis is NUMBER else 1.05 * low)
    assert (edge.passes > edge.fails) is less_is_harsher
    assert edge.reason.endswith("is too much")
    assert len(search.found) <= min(promised, 11)
    assert search.left() == 0


@pytest.mark.parametrize(
    ("axis", "ends"),
    [
        (OUTAGE, ("5m", "1s")),
        *((replace(RATE, question=question), ("10kB/s", "1MB/s"))
          for question in (Question.LINK, Question.RATE)),
    ],
)  # fmt: skip
def test_the_harshest_value_passes_of_all_and_the_mildest_fails_of_none(
    look: Searcher, axis: Axis, ends: tuple[str, str]
) -> None:
    every, none = (
        look(axis, lambda _, answer=passes: answer).to_json() for passes in (True, False)
    )
    assert (every["passes"], every["fails"], every["tried"]) == (ends[0], None, 2)
    assert (none["passes"], none["fails"]) == (None, ends[1])


def test_what_is_found_first_does_not_matter() -> None:
    ends = {
        OUTAGE.low: TriedValue(passes=False, reason="mild"),
        OUTAGE.high: TriedValue(passes=False),
    }
    for order in (list(ends), list(reversed(ends))):
        found = {value: ends[value] for value in order}
        edge = Search(axis=OUTAGE, asked=Asked(plan="kill_half"), found=found).edge()
        assert (edge.fails, edge.reason) == (OUTAGE.low, "mild")


def test_an_interrupt_keeps_what_was_found(look: Searcher) -> None:
    search = look(OUTAGE, lambda value: value <= 42.0, interrupted_after=4)
    edge, found = search.edge(), search.to_json()
    assert edge.passes <= 42.0 < edge.fails
    assert (found["tried"], found["finished"]) == (4, False)


def test_a_plan_that_is_refused_does_not_pass() -> None:
    settings = ("limits.max_affected=1%",)
    assert not simulated(Asked(plan="kill_one", settings=settings), [1]).passes


@pytest.mark.deep
def test_worker_processes_find_the_same_border() -> None:
    asked = Asked(plan="kill_one", settings=("limits.max_affected=1%",), fleet="sim")
    search = Search(axis=NUMBER, asked=asked)
    told: list[tuple[int, int]] = []
    carry_out([search], [1], jobs=2, on_progress=lambda done, every: told.append((done, every)))
    assert search.to_json()["passes"] is None
    assert told[-1] == (2, 2)


@pytest.mark.deep
def test_a_longer_outage_is_found_out_by_the_check_that_it_violates() -> None:
    outages = {
        length: simulated(Asked(plan="syncer_crash", settings=(f"faults.0.for={length}",)), [11])
        for length in ("4s", "19s")
    }
    assert outages["4s"] == TriedValue(passes=True)
    assert not outages["19s"].passes
    assert outages["19s"].reason.startswith("continuity: ")
