"""Bandwidth: what links carried, by the receiver's count, against gradients in every step."""

from collections import defaultdict
from dataclasses import replace
from math import inf

import pytest

from chaoslab.checks.bandwidth import Bandwidth
from chaoslab.checks.base import Outcome
from chaoslab.checks.bursts import Burst, bursts
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from chaoslab.record.journal import History
from tests.histories import Story, half_killed
from tests.model_training import PARAMETERS, STEPS, TICK_S, TRANSFER_BYTES


def of(numbers: object, key: str) -> float:
    return float(numbers[key])


def test_the_saving_is_that_of_the_same_run_and_says_its_formula() -> None:
    finding = Bandwidth().judge(Story().baseline().train(20).end().history())
    assert finding.outcome is Outcome.PASS
    saving = PARAMETERS * 4 * 2 * STEPS / (2 * TRANSFER_BYTES)
    assert finding.numbers["saving_factor"] == pytest.approx(saving, rel=0.1)
    assert (finding.observed, finding.bound) == (finding.numbers["saving_factor"], 1.0)


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
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.RATE_TOO_HIGH,)
    assert finding.margin == pytest.approx(-7.0, rel=0.05)
    assert Bandwidth(max_bytes_per_s=900.0).judge(story.history()).outcome is Outcome.PASS


def test_sending_more_than_gradients_every_step_fails() -> None:
    story = Story().baseline().train(20).end()
    story.altered(Kind.LEARNER_STARTED, lambda _: {"parameters": 0.5})
    finding = Bandwidth().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.SAVING_TOO_LOW,))
    assert finding.margin == pytest.approx(-0.5, abs=0.05)


def test_a_count_that_begins_again_with_the_next_life_is_added() -> None:
    quiet = Bandwidth().judge(Story().baseline().train(41).end().history()).numbers
    killed = Bandwidth().judge(half_killed().end().history()).numbers
    whole = of(quiet["arrived_bytes"], "learner-1 down")
    assert 0.7 * whole < of(killed["arrived_bytes"], "learner-1 down") < 0.95 * whole
    assert of(killed["arrived_bytes"], "learner-0 down") == pytest.approx(whole, rel=0.05)


def test_a_link_that_nobody_measured_or_for_too_short_a_time_leaves_it_unknown() -> None:
    unmeasured = Story().baseline().train(20).end()
    unmeasured.without(
        Kind.LINK_MEASURED,
        lambda e: e.data["learner"] == "learner-1" and e.data["direction"] == "up",
    )
    finding = Bandwidth().judge(unmeasured.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_FEW_SAMPLES,))
    short = Story().baseline().train(3).end()
    assert Bandwidth().judge(short.history()).outcome is Outcome.UNKNOWN
    assert Bandwidth().judge(Story().start().train(20).end().history()).outcome is Outcome.UNKNOWN


def test_a_run_that_does_not_say_how_large_the_model_is_tells_nothing() -> None:
    story = Story().baseline().train(20).end().without(Kind.LEARNER_STARTED)
    assert Bandwidth().judge(story.history()).outcome is Outcome.UNKNOWN


# ---------------------------------------------------------------- from learner to learner

RING_BYTES = PARAMETERS * 4 * 2 * 3 // 4
"""What a step brings to each of four learners that add up their gradients around a ring."""


def averaging(story: Story) -> Story:
    """The same run, of learners that average their gradients and count what comes from others."""
    came: dict[tuple[Json, Json], int] = defaultdict(int)
    for seq, event in enumerate(story.events):
        if event.kind is Kind.LEARNER_STEP:
            life = event.data["learner"], event.data["incarnation"]
            came[life] += RING_BYTES * event.payload.steps
            story.events[seq] = replace(event, data={**event.data, "peer_bytes": came[life]})
    names = sorted(story.learners)
    return story.say(Kind.COMMUNICATOR_FORMED, "syncer", communicator=1, learners=names)


def test_what_comes_from_other_learners_is_counted_beside_the_links() -> None:
    finding = Bandwidth().judge(averaging(Story().baseline().train(20)).end().history())
    assert finding.outcome is Outcome.PASS
    through_syncer = 2 * TRANSFER_BYTES / STEPS
    saving = PARAMETERS * 4 * 2 / (RING_BYTES + through_syncer)
    assert finding.numbers["saving_factor"] == pytest.approx(saving, rel=0.05)
    rate = RING_BYTES * STEPS / TICK_S
    for table in ("mean_bytes_per_s", "required_bytes_per_s", "peak_bytes_per_s"):
        assert of(finding.numbers[table], "learner-2 peers") == pytest.approx(rate, rel=0.05)
    assert "learner-2 peers" not in str(finding.numbers["available_bytes_per_s"])


def test_what_comes_from_other_learners_fails_a_bound_like_a_link() -> None:
    finding = Bandwidth(max_bytes_per_s=1000.0).judge(
        averaging(Story().baseline().train(20)).end().history()
    )
    assert finding.outcome is Outcome.FAIL
    assert set(finding.codes) == {Code.RATE_TOO_HIGH}


def test_what_comes_from_other_learners_in_the_next_life_is_added() -> None:
    numbers = Bandwidth().judge(averaging(half_killed()).end().history()).numbers
    whole = of(numbers["arrived_bytes"], "learner-0 peers")
    assert 0.7 * whole < of(numbers["arrived_bytes"], "learner-1 peers") < 0.95 * whole


def test_what_nobody_counts_from_learner_to_learner_leaves_it_unknown() -> None:
    story = averaging(Story().baseline().train(20)).end()
    uncounted = [
        replace(event, data={**event.data, "peer_bytes": None})
        if event.kind is Kind.LEARNER_STEP
        else event
        for event in story.events
    ]
    finding = Bandwidth().judge(History(uncounted))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.RECORD_INCOMPLETE,))
    one_counts = [
        counted if event.data.get("learner") == "learner-1" else event
        for counted, event in zip(story.events, uncounted, strict=True)
    ]
    finding = Bandwidth().judge(History(one_counts))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_FEW_SAMPLES,))
    assert "learner-0 peers, learner-2 peers" in finding.reason


# ---------------------------------------------------------------- bursts


def crowded(pushes: int) -> Story:
    """Learner-1 pushes once a round, but once that many times at one moment."""
    story = Story().baseline().train(10)
    last = [
        event for event in story.events
        if event.kind is Kind.PUSH_ACCEPTED and event.data["learner"] == "learner-1"
    ][-1]  # fmt: skip
    for _ in range(pushes - 1):
        story.events.append(replace(last, seq=len(story.events), time_s=story.now_s))
    return story.train(10).end()


def test_pushes_that_come_one_by_one_have_the_peak_of_their_mean() -> None:
    finding = Bandwidth(max_peak=1.5).judge(Story().baseline().train(20).end().history())
    assert finding.outcome is Outcome.PASS
    assert (finding.observed, finding.bound) == (pytest.approx(1.0, rel=0.01), 1.5)
    assert of(finding.numbers["push_peak_of_mean"], "learner-3") == finding.observed
    assert finding.numbers["push_peak_window_s"] == TICK_S


def test_pushes_that_come_together_fail_by_the_learners_name() -> None:
    finding = Bandwidth(max_peak=3.0).judge(crowded(5).history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.PEAK_TOO_HIGH,)
    assert finding.observed == pytest.approx(5.0, rel=0.01)
    assert finding.margin == pytest.approx(-2 / 3, rel=0.02)
    assert Bandwidth(max_peak=6.0).judge(crowded(5).history()).outcome is Outcome.PASS


def test_the_bursts_of_a_part_of_a_run_leave_out_what_came_before_and_after_it() -> None:
    history = crowded(5).history()

    def of_learner_1(since_s: float = 0.0, until_s: float = inf) -> Burst:
        (found,) = (b for b in bursts(history, since_s, until_s) if b.learner == "learner-1")
        return found

    moment_s = of_learner_1().last.time_s
    assert of_learner_1(until_s=moment_s).factor == pytest.approx(5.0, rel=0.01)
    assert of_learner_1(until_s=moment_s - TICK_S).factor == pytest.approx(1.0, rel=0.01)
    assert of_learner_1(since_s=moment_s).factor == pytest.approx(1.0, rel=0.01)
    assert of_learner_1().mean_bytes == pytest.approx(TRANSFER_BYTES, rel=0.01)


def test_a_peak_that_no_plan_bounds_is_shown_and_not_judged() -> None:
    finding = Bandwidth().judge(crowded(5).history())
    assert (finding.outcome, finding.bound) == (Outcome.PASS, 1.0)
    assert of(finding.numbers["push_peak_of_mean"], "learner-1") == pytest.approx(5.0, rel=0.01)


def test_of_rate_and_peak_the_one_nearer_to_its_bound_is_the_margin() -> None:
    story = crowded(2)
    near_peak = Bandwidth(max_bytes_per_s=1e6, max_peak=2.5).judge(story.history())
    assert (near_peak.observed, near_peak.bound) == (pytest.approx(2.0, rel=0.01), 2.5)
    assert Bandwidth(max_bytes_per_s=100.0, max_peak=50.0).judge(story.history()).bound == 100.0


def test_a_record_that_does_not_say_how_large_pushes_are_cannot_tell_the_peak() -> None:
    story = Story().baseline().train(20).end()
    for seq, event in enumerate(story.events):
        if event.kind is Kind.PUSH_ACCEPTED:
            data = {key: value for key, value in event.data.items() if key != "payload_bytes"}
            story.events[seq] = replace(event, data=data)
    finding = Bandwidth(max_peak=3.0).judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.RECORD_INCOMPLETE,))
    unasked = Bandwidth().judge(story.history())
    assert unasked.outcome is Outcome.PASS
    assert "push_peak_of_mean" not in unasked.numbers
