"""What a fault-free window measures, and when it is steady enough to compare with."""

from collections.abc import Mapping, Sequence

import pytest

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import BaselineMeasured
from chaoslab.record.history import History
from chaoslab.run.baseline import measure


def history(gaps_s: Sequence[float], *, tokens: int = 1000) -> History:
    """Rounds with these gaps, each committing `tokens`, and two learners' steps beside them."""
    found = History(())
    time_s = 0.0
    for number, gap_s in enumerate([0.0, *gaps_s]):
        time_s += gap_s
        for name, step_s in (("learner-0", 0.1), ("learner-1", 0.3)):
            _add(found, time_s, Kind.LEARNER_STEP, {"learner": name, "step_s": step_s})
        _add(found, time_s, Kind.ROUND_MERGED, merged(tokens * (number + 1)))
    return found


def merged(committed_tokens: int) -> dict[str, Json]:
    """A round to which learner-0 contributed alone."""
    work = {"step": 1, "c_steps": 1, "c_tokens": 1.0, "weight": 1.0, "tokens_from": 0.0}
    mine = {"learner": "learner-0", "incarnation": 1, "epoch": 1, "tokens_to": 1.0, **work}
    return {"committed_tokens": committed_tokens, "contributors": [mine]}


def _add(found: History, time_s: float, kind: Kind, data: Mapping[str, Json]) -> None:
    seq = len(found.events)
    found.append(Event(seq=seq, time_s=time_s, source="x", kind=kind, data=data))


def window(
    gaps_s: Sequence[float], *, first: int = 1, max_variation: float = 0.25
) -> BaselineMeasured:
    return measure(
        history(gaps_s),
        first_round=first,
        last_round=len(gaps_s) + 1,
        max_variation=max_variation,
    )


@pytest.mark.parametrize(
    ("gaps_s", "first", "longest_s"),
    [([0.5] * 8, 1, 0.5), ([9.0, 9.0, *[0.5] * 8], 3, 0.5), ([0.5] * 7 + [0.9], 1, 0.9)],
    ids=["even", "after a warm-up", "one is long"],
)
def test_a_window_is_measured(gaps_s: list[float], first: int, longest_s: float) -> None:
    found = window(gaps_s, first=first)
    assert found.is_steady
    assert (found.gap_s_median, found.gap_s_max) == (0.5, pytest.approx(longest_s))
    assert found.tokens_per_s == pytest.approx(1000 * 8 / sum(gaps_s[first - 1 :]))
    assert found.step_s == {"learner-0": pytest.approx(0.1), "learner-1": pytest.approx(0.3)}
    assert found.step_s_median == {"learner-0": 0.1, "learner-1": 0.3}
    assert found.step_variation == {"learner-0": pytest.approx(0), "learner-1": pytest.approx(0)}


@pytest.mark.parametrize(
    ("gaps_s", "is_steady"),
    [([0.2] * 4 + [0.8] * 4, False), ([0.5, 0.5], True), ([0.0] * 6, False)],
    ids=["it drifts", "fewer than four quarters", "no length"],
)
def test_a_window_is_steady_if_its_rate_is(gaps_s: list[float], is_steady: bool) -> None:
    assert window(gaps_s).is_steady is is_steady


def test_variation_is_that_of_the_rates_of_four_quarters() -> None:
    found = window([0.5, 0.5, 0.5, 1.0], max_variation=1.0)
    rates = [2.0, 2.0, 2.0, 1.0]
    mean = sum(rates) / 4
    by_hand = (sum((rate - mean) ** 2 for rate in rates) / 4) ** 0.5 / mean
    assert found.variation == pytest.approx(by_hand)


def test_a_window_that_the_run_did_not_complete_is_not_steady() -> None:
    found = measure(history([0.5] * 4), first_round=2, last_round=20, max_variation=1.0)
    assert not found.is_steady
    assert found.gap_s_median is None


def test_a_window_without_the_work_of_a_learner_is_not_steady() -> None:
    rounds = history([0.5] * 8)
    both = ("learner-0", "learner-1")
    found = measure(rounds, first_round=1, last_round=9, max_variation=1.0, contributors=both)
    assert not found.is_steady
    assert found.gap_s_median == 0.5
    assert "learner-1" in found.reason
    alone = measure(rounds, first_round=1, last_round=9, max_variation=1.0, contributors=both[:1])
    assert alone.is_steady
