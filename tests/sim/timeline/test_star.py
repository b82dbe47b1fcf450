"""Timelines with a syncer: learners that wait for rounds, and learners that do not."""

import pytest

from chaoslab.sim.timeline.engine import simulate
from chaoslab.sim.timeline.training import Method, Training
from tests.sim.timeline.trainings import MODEL_BYTES, training


def decoupled(**settings: object) -> Training:
    known = {"sync_every": 24, "fragments": 24, "overlap": 2}
    return training(Method.DECOUPLED, **{**known, **settings})


@pytest.mark.parametrize("rate", [1e3, 1e5, 1e6, 1e15])
def test_no_learner_waits_however_thin_the_link(rate: float) -> None:
    result = simulate(decoupled(), rate)
    assert (result.utilisation, result.step_s) == (1.0, pytest.approx(1.0))


def test_a_fragment_in_every_step_needs_a_link_that_carries_it_in_a_step() -> None:
    fragment_bytes = MODEL_BYTES / 24
    assert simulate(decoupled(), 1.02 * fragment_bytes).rounds > 0.98
    for share in (0.25, 0.5, 0.75):
        result = simulate(decoupled(), share * fragment_bytes)
        assert result.rounds == pytest.approx(share, abs=0.02)


def test_the_narrower_of_both_ways_counts() -> None:
    fragment_bytes = MODEL_BYTES / 24
    up, down = decoupled(merged_bits=4), decoupled(bits=4)
    for one in (up, down):
        assert simulate(one, 0.5 * fragment_bytes).rounds == pytest.approx(0.5, abs=0.02)
    both = decoupled(bits=4, merged_bits=4)
    assert simulate(both, 0.5 * fragment_bytes).rounds == 1.0


def test_no_more_rounds_are_open_than_the_overlap_has_steps() -> None:
    """From pull to push two latencies: with 2 s each way, two rounds in four steps."""
    assert simulate(decoupled(latency_s=0.1), 1e15).rounds == 1.0
    assert simulate(decoupled(latency_s=2.0), 1e15).rounds == pytest.approx(0.5, abs=0.02)


def test_a_slow_merge_makes_the_next_round_of_a_fragment_later() -> None:
    assert simulate(decoupled(merge_s=12.0), 1e15).rounds == pytest.approx(24 / 35, abs=0.03)


def test_diloco_through_a_syncer_waits_there_and_back() -> None:
    """Report, pull, push, merge, publish: four latencies, both ways of the model, the merge."""
    settings = training(
        Method.DILOCO, syncer=True, sync_every=10, latency_s=0.1, merge_s=0.5, merged_bits=8
    )
    result = simulate(settings, MODEL_BYTES / 2)
    assert result.step_s == pytest.approx(1 + (4 * 0.1 + 0.5 + 2 + 1) / 10)
    assert result.rounds == 1.0


def test_streaming_through_a_syncer_hides_what_its_overlap_allows() -> None:
    settings = training(
        Method.STREAMING, syncer=True, sync_every=12, fragments=2, overlap=3, latency_s=0.05
    )
    assert simulate(settings, MODEL_BYTES).utilisation == 1.0, "1.2 s of 3 s"
    assert simulate(settings, MODEL_BYTES / 4).utilisation < 0.9
