"""Timelines in a ring: closed forms where there are some, limits where there are none."""

from collections.abc import Mapping

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.timeline.engine import simulate, speed_up
from chaoslab.sim.timeline.training import Method
from tests.sim.timeline.trainings import MODEL_BYTES, training

ALL_RING = [Method.DATA_PARALLEL, Method.DILOCO, Method.STREAMING]


@pytest.mark.parametrize("method", ALL_RING)
def test_links_without_a_limit_cost_nothing(method: Method) -> None:
    result = simulate(training(method, layers=12), 1e15)
    assert result.utilisation == pytest.approx(1.0, abs=1e-6)
    assert result.step_s == pytest.approx(1.0, abs=1e-6)
    assert result.rounds == 1.0


@pytest.mark.parametrize("takes_s", [0.01, 0.5, 3.0, 100.0])
def test_a_model_of_one_layer_is_sent_after_each_step(takes_s: float) -> None:
    result = simulate(training(), MODEL_BYTES / takes_s)
    assert result.step_s == pytest.approx(1 + takes_s)
    assert result.utilisation == pytest.approx(1 / (1 + takes_s))


def test_on_a_thin_link_the_wait_is_for_the_link_alone() -> None:
    """It begins when the last layer has its gradient; the first layer, needed first, is last."""
    layers, takes_s = 24, 50.0
    result = simulate(training(layers=layers), MODEL_BYTES / takes_s)
    before_s = (layers + 1) / (3 * layers - 1)
    assert result.step_s == pytest.approx(before_s + takes_s)


def test_on_a_wide_link_the_wait_is_for_the_last_layer_alone() -> None:
    layers, takes_s = 24, 0.1
    result = simulate(training(layers=layers), MODEL_BYTES / takes_s)
    assert result.step_s == pytest.approx(1 + takes_s / layers)


@pytest.mark.parametrize("takes_s", [0.5, 30.0])
def test_diloco_sends_the_model_once_in_h_steps(takes_s: float) -> None:
    result = simulate(training(Method.DILOCO, sync_every=40), MODEL_BYTES / takes_s)
    assert result.step_s == pytest.approx(1 + takes_s / 40)


@pytest.mark.parametrize(("overlap", "waits_s"), [(0, 3.5), (2, 1.5), (3, 0.5), (4, 0.0)])
def test_overlap_hides_as_many_steps(overlap: int, waits_s: float) -> None:
    settings = training(Method.DILOCO, sync_every=20, overlap=overlap)
    assert simulate(settings, MODEL_BYTES / 3.5).step_s == pytest.approx(1 + waits_s / 20)


def test_streaming_sends_as_much_as_diloco_and_waits_less() -> None:
    diloco, streaming = (
        simulate(training(method, layers=24, sync_every=40), MODEL_BYTES / 2.0)
        for method in (Method.DILOCO, Method.STREAMING)
    )
    assert diloco.utilisation < streaming.utilisation < 1
    thin = [
        simulate(training(method, layers=24, sync_every=40), MODEL_BYTES / 4000.0).step_s
        for method in (Method.DILOCO, Method.STREAMING)
    ]
    assert thin == pytest.approx([100.0, 100.0], rel=0.02), "the link alone counts"


@pytest.mark.parametrize(("centres", "moved"), [(2, 1.0), (4, 1.5), (8, 1.75), (1000, 1.998)])
def test_a_ring_moves_nearly_twice_the_model_among_many(centres: int, moved: float) -> None:
    result = simulate(training(centres=centres), MODEL_BYTES)
    assert result.step_s == pytest.approx(1 + moved)


def test_latency_is_paid_for_each_hop_and_not_for_each_layer() -> None:
    settings = training(centres=4, layers=10, latency_s=0.1)
    assert simulate(settings, 1e15).step_s == pytest.approx(1 + 6 * 0.1, abs=1e-3)


def test_bits_and_the_share_that_is_sent_are_bytes() -> None:
    settings = training(bits=4, sent_share=0.5)
    assert simulate(settings, MODEL_BYTES).step_s == pytest.approx(1 + 4 / 16 / 2)


def test_a_speed_up_is_over_gradients_in_every_step() -> None:
    settings = training(Method.DILOCO, sync_every=50, bits=4)
    rate = MODEL_BYTES / 9
    assert speed_up(settings, rate) == pytest.approx((1 + 9) / (1 + 9 / 4 / 50))
    assert speed_up(training(), rate) == 1.0


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"step_s": 0.0}, "step"),
        ({"centres": 1}, "centres"),
        ({"bits": 0.0}, "bits"),
        ({"sent_share": 1.5}, "sent_share"),
        ({"method": Method.STREAMING, "layers": 30, "sync_every": 5}, "fragments"),
        ({"method": Method.STREAMING, "fragments": 3}, "fragments"),
        ({"overlap": 1}, "overlap"),
        ({"method": Method.DILOCO, "overlap": 100}, "overlap"),
    ],
)
def test_what_cannot_be_is_refused(settings: Mapping[str, object], key: str) -> None:
    with pytest.raises(PlanError, match=f"^{key}: "):
        training(**settings)  # type: ignore[arg-type]
