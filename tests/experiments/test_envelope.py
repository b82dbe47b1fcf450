"""Borders by bisection: where they lie, which values are tried, and what an interrupt leaves."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from chaoslab.core import units
from chaoslab.experiments.axes import Axis, Question
from chaoslab.experiments.envelope import Search, Tried, carry_out, simulated
from chaoslab.prepare.plans import Asked

OUTAGE = Axis(key="faults.one.for", low=1.0, high=300.0, quantity=units.DURATION)
NUMBER = Axis(key="faults.one.target.learners", low=1.0, high=10.0, quantity=units.COUNT)
RATE = Axis(key="faults.thin.rate", low=10e3, high=1e6, quantity=units.RATE)

Look = Callable[..., Search]


@pytest.fixture(name="look")
def _look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """The search of a border, in a plan that passes with some values."""

    def look(axis: Axis, passes: Callable[[float], bool], *, interrupted_after: int = 99) -> Search:
        search = Search(axis=axis, asked=Asked(plan="kill_half"))

        def tried(asked: Asked, _seeds: Sequence[int]) -> Tried:
            if len(search.found) == interrupted_after:
                raise KeyboardInterrupt
            text = asked.settings[-1].split("=")[1]
            return Tried(passes=passes(axis.quantity.parse(text)), reason=f"{text} is too much")

        monkeypatch.setattr("chaoslab.experiments.envelope.simulated", tried)
        with suppress(KeyboardInterrupt):
            carry_out([search], [1], jobs=1)
        return search

    return look


def test_the_border_of_a_duration_is_found_to_one_part_in_twenty(look: Look) -> None:
    search = look(OUTAGE, lambda value: value <= 42.0)
    edge = search.edge()
    assert edge.passes <= 42.0 < edge.fails <= 1.05 * edge.passes
    assert len(search.found) <= 10


@pytest.mark.parametrize("up_to", [1, 4, 9])
def test_the_border_of_a_whole_number_is_exact(look: Look, up_to: int) -> None:
    found = look(NUMBER, lambda value: value <= up_to).to_json()
    assert (found["passes"], found["fails"]) == (str(up_to), str(up_to + 1))


def test_all_may_pass_or_none(look: Look) -> None:
    for up_to, ends in {900.0: ("5m", None), 0.5: (None, "1s")}.items():
        found = look(OUTAGE, lambda value, most=up_to: value <= most).to_json()
        assert (found["passes"], found["fails"], found["tried"]) == (*ends, 2)


@pytest.mark.parametrize("question", [Question.LINK, Question.RATE])
def test_where_less_is_harsher_the_least_passes_of_all_and_the_most_fails_of_none(
    look: Look, question: Question
) -> None:
    axis = replace(RATE, question=question)
    for passes, ends in {True: ("10kB/s", None), False: (None, "1MB/s")}.items():
        found = look(axis, lambda _, answer=passes: answer).to_json()
        assert (found["passes"], found["fails"]) == ends


def test_what_is_found_first_does_not_matter() -> None:
    ends = {OUTAGE.low: Tried(passes=False, reason="mild"), OUTAGE.high: Tried(passes=False)}
    for order in (list(ends), list(reversed(ends))):
        found = {value: ends[value] for value in order}
        edge = Search(axis=OUTAGE, asked=Asked(plan="kill_half"), found=found).edge()
        assert (edge.fails, edge.reason) == (OUTAGE.low, "mild")


def test_less_may_be_harsher(look: Look) -> None:
    edge = look(RATE, lambda value: value >= 80e3).edge()
    assert 76e3 <= edge.fails < 80e3 <= edge.passes <= 84e3
    assert edge.reason.endswith("is too much")


def test_an_interrupt_keeps_what_was_found(look: Look) -> None:
    search = look(OUTAGE, lambda value: value <= 42.0, interrupted_after=4)
    edge, found = search.edge(), search.to_json()
    assert edge.passes <= 42.0 < edge.fails
    assert (found["tried"], found["finished"]) == (4, False)


def test_no_more_values_are_tried_than_progress_promised(look: Look) -> None:
    for axis in (OUTAGE, NUMBER, RATE):
        promised = Search(axis=axis, asked=Asked(plan="kill_half")).left()
        for border in (axis.low, 1.5 * axis.low, 0.9 * axis.high):
            search = look(axis, lambda value, most=border: value <= most)
            assert len(search.found) <= promised
            assert search.left() == 0


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
    assert outages["4s"] == Tried(passes=True)
    assert not outages["19s"].passes
    assert outages["19s"].reason.startswith("continuity: ")
