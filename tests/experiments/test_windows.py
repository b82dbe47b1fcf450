"""Windows: sums of pauses by hand, their faults, and both tiers within the bounds of the study."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.experiments import windows
from chaoslab.experiments.windows import State, Window, measure, pauses_in, plan_of
from chaoslab.sim.renewal.failure_models import Fleet
from chaoslab.sim.renewal.learner import Pause
from tests.experiments.studies import stated

WINDOW = Window(chips=1_200_000, learners=4, length_s=300.0)
MOST_POINTS = 0.02
"""Between the tiers, of goodput and of contributors: the bound that docs/simulation.md states."""


def pause(learner: int, start_s: float, end_s: float) -> Pause:
    return Pause(learner=learner, start_s=start_s, end_s=end_s)


def sums(window: Window, *found: Pause) -> dict[str, float]:
    return dict(windows._by_sums(window, found))


def test_goodput_is_the_time_of_all_learners_without_their_pauses() -> None:
    shown = sums(WINDOW, pause(0, 0.0, 30.0), pause(3, 20.0, 50.0))
    assert (shown["goodput"], shown["uptime"]) == (pytest.approx(1 - 60 / 1200), 1)


def test_the_run_advances_while_a_quorum_trains_and_rounds_come_while_one_is_ready() -> None:
    window = Window(chips=1_200_000, learners=4, quorum=3, length_s=300.0)
    apart = sums(window, pause(0, 10.0, 30.0), pause(1, 35.0, 50.0))
    assert apart["uptime"] == 1
    assert apart["rounds"] == pytest.approx(1 - 6 / 300)  # learner-0 is ready 11 s after its pause
    together = sums(window, pause(0, 10.0, 30.0), pause(1, 20.0, 50.0))
    assert together["uptime"] == pytest.approx(1 - 10 / 300)
    assert together["contributors"] == pytest.approx((290 - 30 / 4) / 290)


def test_a_window_has_the_same_pauses_for_the_same_seed_within_its_length() -> None:
    found = pauses_in(WINDOW, 3)
    assert found == pauses_in(WINDOW, 3)
    assert found != pauses_in(WINDOW, 4)
    assert all(0 <= one.start_s < one.end_s <= WINDOW.length_s for one in found)


def test_each_pause_is_a_fault_of_its_learner_at_its_time() -> None:
    found = [pause(0, 12.0, 30.0), pause(2, 40.0, 60.0)]
    kept = plan_of(WINDOW, found)
    assert [(one.fault, one.target.names) for one in kept.faults] == [
        ("process.pause", ("learner-0",)), ("process.pause", ("learner-2",)),
    ]  # fmt: skip
    assert [one.at.time_s for one in kept.faults if one.at] == [
        WINDOW.lead_s + 12.0, WINDOW.lead_s + 40.0,
    ]  # fmt: skip
    assert [one.outage.seconds for one in kept.faults] == [18.0, 20.0]
    lost = plan_of(Window(chips=1_200_000, learners=4, state=State.LOST), found)
    assert {one.fault for one in lost.faults} == {"process.kill"}


def test_what_is_no_window_is_refused() -> None:
    with pytest.raises(PlanError, match="at most `horizon`"):
        Window(chips=1_200_000, learners=4, length_s=100.0, horizon_s=50.0)
    with pytest.raises(PlanError, match="1 to 4"):
        Window(chips=1_200_000, learners=4, quorum=5)
    spot = Window(chips=1_200_000, learners=4, failures=Fleet.SPOT_TRACE)
    with pytest.raises(PlanError, match="failures"):
        pauses_in(spot, 0)


@pytest.mark.deep
@pytest.mark.parametrize("state", [*State])
def test_both_tiers_agree_on_a_window(state: State) -> None:
    shown = measure(Window(chips=1_200_000, learners=4, length_s=300.0, state=state), 1)
    assert shown["goodput_sums"] < 0.95
    assert abs(shown["goodput_difference"]) < MOST_POINTS
    assert abs(shown["contributors_difference"]) < MOST_POINTS


def test_the_study_has_no_difference_beyond_the_bound() -> None:
    for line in stated("tiers"):
        assert abs(float(line["goodput_difference"])) < MOST_POINTS
        assert abs(float(line["contributors_difference"])) < MOST_POINTS
