"""Bandwidth: what links carried, by the receiver's count, against gradients in every step."""

from dataclasses import replace

import pytest

from chaoslab.checks.bandwidth import Bandwidth
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed
from tests.model_training import PARAMETERS, STEPS, TICK_S, TRANSFER_BYTES


def of(numbers: object, key: str) -> float:
    assert isinstance(numbers, dict)
    return float(numbers[key])


def test_the_saving_is_that_of_the_same_run_and_says_its_formula() -> None:
    finding = Bandwidth().judge(Story().baseline().train(20).end().history())
    assert finding.outcome is Outcome.PASS
    saving = PARAMETERS * 4 * 2 * STEPS / (2 * TRANSFER_BYTES)
    assert finding.numbers["saving_factor"] == pytest.approx(saving, rel=0.1)
    assert "parameters x 4 bytes x 2 x steps" in str(finding.numbers["formula"])
    assert (finding.observed, finding.bound) == (finding.numbers["saving_factor"], 1.0)
    assert "times less arrived" in finding.reason


def test_each_direction_of_each_link_is_counted_where_it_arrives() -> None:
    numbers = Bandwidth().judge(Story().baseline().train(20).end().history()).numbers
    for table in ("mean_bytes_per_s", "required_bytes_per_s", "peak_bytes_per_s"):
        for flow in ("learner-0 up", "learner-3 down"):
            assert of(numbers[table], flow) == pytest.approx(TRANSFER_BYTES / TICK_S, rel=0.1)
    assert of(numbers["arrived_bytes"], "learner-1 up") == pytest.approx(20 * 80, rel=0.1)
    assert of(numbers["available_bytes_per_s"], "learner-1 down") == 1e6
    assert of(numbers["required_of_available_share"], "learner-1 down") == pytest.approx(8e-5)


def test_a_link_above_the_bound_fails_by_name() -> None:
    story = Story().baseline().train(20).end()
    for seq, event in enumerate(story.events):
        if event.kind is Kind.LINK_MEASURED and event.data["learner"] == "learner-2":
            data = {**event.data, "bytes": 10 * event.payload.bytes}
            story.events[seq] = replace(event, data=data)
    finding = Bandwidth(max_bytes_per_s=100.0, min_saving=0.1).judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert finding.culprits == ("learner-2",)
    assert finding.codes == (Code.RATE_TOO_HIGH,)
    assert finding.margin == pytest.approx(-7.0, rel=0.05)
    assert Bandwidth(max_bytes_per_s=900.0).judge(story.history()).outcome is Outcome.PASS


def test_sending_more_than_gradients_every_step_fails() -> None:
    story = Story().baseline().train(20).end()
    story.altered(Kind.LEARNER_STARTED, lambda _: {"parameters": 0.5})
    finding = Bandwidth().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert finding.codes == (Code.SAVING_TOO_LOW,)
    assert finding.margin == pytest.approx(-0.5, abs=0.05)


def test_a_count_that_begins_again_with_the_next_life_is_added() -> None:
    quiet = Bandwidth().judge(Story().baseline().train(41).end().history()).numbers
    killed = Bandwidth().judge(half_killed().end().history()).numbers
    whole = of(quiet["arrived_bytes"], "learner-1 down")
    part = of(killed["arrived_bytes"], "learner-1 down")
    assert 0.7 * whole < part < 0.95 * whole
    assert of(killed["arrived_bytes"], "learner-0 down") == pytest.approx(whole, rel=0.05)


def test_a_link_that_nobody_measured_or_for_too_short_a_time_leaves_it_unknown() -> None:
    unmeasured = Story().baseline().train(20).end()
    unmeasured.without(
        Kind.LINK_MEASURED,
        lambda e: e.data["learner"] == "learner-1" and e.data["direction"] == "up",
    )
    finding = Bandwidth().judge(unmeasured.history())
    assert finding.outcome is Outcome.UNKNOWN
    assert finding.codes == (Code.TOO_FEW_SAMPLES,)
    short = Story().baseline().train(3).end()
    assert Bandwidth().judge(short.history()).outcome is Outcome.UNKNOWN
    no_baseline = Story().start().train(20).end()
    assert Bandwidth().judge(no_baseline.history()).outcome is Outcome.UNKNOWN


def test_a_run_that_does_not_say_how_large_the_model_is_tells_nothing() -> None:
    story = Story().baseline().train(20).end().without(Kind.LEARNER_STARTED)
    assert Bandwidth().judge(story.history()).outcome is Outcome.UNKNOWN
