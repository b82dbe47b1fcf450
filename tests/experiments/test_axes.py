"""Axes of an envelope: ranges as they are written, questions, and the values in between."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.experiments.axes import Question, axis_of
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.plans import Asked, prepare


def plan_of(name: str) -> FaultPlan:
    return prepare(Asked(plan=name, fleet="sim")).plan


def ends(question: str, name: str) -> tuple[str, str]:
    """The settings of both ends of a question."""
    axis = axis_of(question, plan_of(name))
    return axis.setting(axis.low), axis.setting(axis.high)


@pytest.mark.parametrize(
    ("question", "plan", "low", "high"),
    [
        ("share", "kill_half", "faults.half-dies.target={learners: 1}",
         "faults.half-dies.target={learners: 4}"),
        ("share", "region_outage", "faults.eu-dark.target={learners: 1}",
         "faults.eu-dark.target={learners: 4}"),
        ("outage", "kill_half", "faults.half-dies.for=6s", "faults.half-dies.for=5m"),
        ("outage", "mtbf_soak",
         'faults.crashes.outage={"dist": "lognormal", "median": "5s", "sigma": 0.5}',
         'faults.crashes.outage={"dist": "lognormal", "median": "5m", "sigma": 0.5}'),
        ("link", "wan_throttle", "faults.thin.rate=800B/s", "faults.thin.rate=80kB/s"),
        ("link", "kill_half", "fleet.rate=1kB/s", "fleet.rate=1GB/s"),
        ("rate", "mtbf_soak", "faults.crashes.arrivals.mtbf=750ms",
         "faults.crashes.arrivals.mtbf=1m15s"),
    ],
)  # fmt: skip
def test_a_question_is_a_range_of_a_key(question: str, plan: str, low: str, high: str) -> None:
    assert ends(question, plan) == (low, high)


@pytest.mark.parametrize("name", ["kill_half", "wan_throttle", "mtbf_soak"])
def test_a_plan_takes_both_ends_of_every_question_that_it_allows(name: str) -> None:
    limits = ("limits.max_affected=100%", "limits.min_alive=0", "limits.timeout=1h")
    asked = 0
    for question in Question:
        try:
            both = ends(question, name)
        except PlanError:
            continue
        for setting in both:
            prepare(Asked(plan=name, fleet="sim", settings=(*limits, setting)))
        asked += 1
    assert asked >= 2


@pytest.mark.parametrize(
    ("question", "plan", "why"),
    [("share", "syncer_crash", "no fault hits"), ("rate", "kill_half", "mtbf_soak")],
)
def test_a_question_that_no_fault_fits_is_refused(question: str, plan: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        axis_of(question, plan_of(plan))


def test_a_quantity_is_doubled_from_row_to_row_and_a_number_counted() -> None:
    plan = plan_of("kill_half")
    for text, values in {
        "a=1s..10s": ["1s", "2s", "4s", "8s"],
        "a=2..4": ["2", "3", "4"],
        "a=1..20": ["1", "2", "4", "8", "16", "20"],
    }.items():
        axis = axis_of(text, plan)
        assert [axis.setting(value) for value in axis.values] == [f"a={one}" for one in values]


@pytest.mark.parametrize(
    "text", ["a", "a=1s", "a=1s..2", "a=5s..1s", "a=0s..1s", "=1s..2s", "a=x..y"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        axis_of(text, plan_of("kill_half"))
