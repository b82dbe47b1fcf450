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
from tests.checks.cases import Case, doubts, each, fails, passes, rewritten
from tests.histories import Story, half_killed
from tests.model_training import PARAMETERS, STEPS, TICK_S, TRANSFER_BYTES


def of(numbers: object, key: str) -> float:
    return float(numbers[key])


def quiet() -> Story:
    return Story().baseline().train(20).end()


def test_each_direction_of_each_link_is_counted_where_it_arrives_against_all_gradients() -> None:
    finding = Bandwidth().judge(quiet().history())
    numbers = finding.numbers
    saving = PARAMETERS * 4 * 2 * STEPS / (2 * TRANSFER_BYTES)
    assert numbers["saving_factor"] == pytest.approx(saving, rel=0.1)
    assert (finding.outcome, finding.bound) == (Outcome.PASS, 1.0)
    assert finding.observed == numbers["saving_factor"]
    for table in ("mean_bytes_per_s", "required_bytes_per_s", "peak_bytes_per_s"):
        for flow in ("learner-0 up", "learner-3 down"):
            assert of(numbers[table], flow) == pytest.approx(TRANSFER_BYTES / TICK_S, rel=0.1)
    assert of(numbers["arrived_bytes"], "learner-1 up") == pytest.approx(20 * 80, rel=0.1)
    assert of(numbers["available_bytes_per_s"], "learner-1 down") == 1e6
    assert of(numbers["required_of_available_share"], "learner-1 down") == pytest.approx(8e-5)


def test_a_link_above_the_bound_fails_by_name() -> None:
    story = rewritten(
        quiet(),
        Kind.LINK_MEASURED,
        lambda event: {"bytes": 10 * event.payload.bytes},
        lambda event: event.data["learner"] == "learner-2",
    )
    finding = Bandwidth(max_bytes_per_s=100.0, min_saving=0.1).judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.RATE_TOO_HIGH,)
    assert finding.margin == pytest.approx(-7.0, rel=0.05)
    assert Bandwidth(max_bytes_per_s=900.0).judge(story.history()).outcome is Outcome.PASS


def test_sending_more_than_gradients_every_step_fails() -> None:
    story = quiet().altered(Kind.LEARNER_STARTED, lambda _: {"parameters": 0.5})
    finding = Bandwidth().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.SAVING_TOO_LOW,))
    assert finding.margin == pytest.approx(-0.5, abs=0.05)


def unmeasured() -> Story:
    return quiet().without(
        Kind.LINK_MEASURED,
        lambda e: e.data["learner"] == "learner-1" and e.data["direction"] == "up",
    )


def of_unknown_size() -> Story:
    story = quiet()
    for seq, event in enumerate(story.events):
        if event.kind is Kind.PUSH_ACCEPTED:
            data = {key: value for key, value in event.data.items() if key != "payload_bytes"}
            story.events[seq] = replace(event, data=data)
    return story


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


@pytest.mark.parametrize("flow", ["down", "peers"])
def test_a_count_that_begins_again_with_the_next_life_is_added(flow: str) -> None:
    numbers = Bandwidth().judge(averaging(half_killed()).end().history()).numbers
    whole = of(numbers["arrived_bytes"], f"learner-0 {flow}")
    assert 0.7 * whole < of(numbers["arrived_bytes"], f"learner-1 {flow}") < 0.95 * whole


def uncounted(*names: str) -> Story:
    """These learners do not say what comes from others."""
    return rewritten(
        averaging(Story().baseline().train(20)).end(),
        Kind.LEARNER_STEP,
        lambda _: {"peer_bytes": None},
        lambda event: event.data["learner"] in names,
    )


LEARNERS = tuple(f"learner-{number}" for number in range(4))
CASES = {
    "a link that nobody measured": doubts(Bandwidth(), unmeasured, Code.TOO_FEW_SAMPLES),
    "too short a time": doubts(Bandwidth(), lambda: Story().baseline().train(3).end()),
    "no baseline": doubts(Bandwidth(), lambda: Story().start().train(20).end()),
    "a model of unknown size": doubts(Bandwidth(), lambda: quiet().without(Kind.LEARNER_STARTED)),
    "what comes from other learners fails a bound like a link": fails(
        Bandwidth(max_bytes_per_s=1000.0),
        lambda: averaging(Story().baseline().train(20)).end(),
        Code.RATE_TOO_HIGH,
    ),
    "nobody counts what comes from others": doubts(
        Bandwidth(), lambda: uncounted(*LEARNERS), Code.RECORD_INCOMPLETE
    ),
    "only one counts what comes from others": doubts(
        Bandwidth(),
        lambda: uncounted("learner-0", "learner-2", "learner-3"),
        Code.TOO_FEW_SAMPLES,
    ),
    "pushes of unknown size": doubts(
        Bandwidth(max_peak=3.0), of_unknown_size, Code.RECORD_INCOMPLETE
    ),
    "pushes of unknown size, and no bound of a peak": passes(Bandwidth(), of_unknown_size),
}


@each(CASES)
def test_bandwidth(case: Case) -> None:
    case.hold()


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


def test_pushes_that_come_together_fail_by_the_learners_name() -> None:
    one_by_one = Bandwidth(max_peak=1.5).judge(quiet().history())
    assert (one_by_one.outcome, one_by_one.bound) == (Outcome.PASS, 1.5)
    assert one_by_one.observed == pytest.approx(1.0, rel=0.01)
    assert one_by_one.numbers["push_peak_window_s"] == TICK_S
    finding = Bandwidth(max_peak=3.0).judge(crowded(5).history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.PEAK_TOO_HIGH,)
    assert finding.observed == pytest.approx(5.0, rel=0.01)
    assert finding.margin == pytest.approx(-2 / 3, rel=0.02)
    assert Bandwidth(max_peak=6.0).judge(crowded(5).history()).outcome is Outcome.PASS
    unbounded = Bandwidth().judge(crowded(5).history())
    assert (unbounded.outcome, unbounded.bound) == (Outcome.PASS, 1.0)
    peaks = unbounded.numbers["push_peak_of_mean"]
    assert of(peaks, "learner-1") == pytest.approx(5.0, rel=0.01)


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


def test_of_rate_and_peak_the_one_nearer_to_its_bound_is_the_margin() -> None:
    story = crowded(2)
    near_peak = Bandwidth(max_bytes_per_s=1e6, max_peak=2.5).judge(story.history())
    assert (near_peak.observed, near_peak.bound) == (pytest.approx(2.0, rel=0.01), 2.5)
    assert Bandwidth(max_bytes_per_s=100.0, max_peak=50.0).judge(story.history()).bound == 100.0
