"""Effects are checked when built; what links cannot do is refused; no links do nothing."""

from collections.abc import Callable

import pytest

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.links.base import NoLinks, require
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    HalfOpen,
    JitterShape,
    Latency,
    LimitData,
    LinkAbility,
    Loss,
    Refuse,
    Reset,
    Slice,
)
from tests.fake_links import FakeLinks


@pytest.mark.parametrize(
    "make",
    [
        lambda: Latency(mean_s=-1),
        lambda: Latency(mean_s=1e9),
        lambda: Latency(mean_s=0.01, jitter_s=0.02),
        lambda: Latency(mean_s=float("nan")),
        lambda: Bandwidth(rate_bytes_per_s=0),
        lambda: Bandwidth(rate_bytes_per_s=float("nan")),
        lambda: Slice(size_bytes=0),
        lambda: Slice(size_bytes=1, delay_s=-1),
        lambda: LimitData(size_bytes=0),
        lambda: Loss(share=0.0),
        lambda: Loss(share=1.0),
    ],
)
def test_an_effect_that_cannot_be_is_refused_when_built(make: Callable[[], Effect]) -> None:
    with pytest.raises(PlanError):
        make()


def test_a_jitter_that_is_not_uniform_is_an_ability_of_its_own() -> None:
    plain = Latency(mean_s=0.1, jitter_s=0.01)
    assert plain.needs == {LinkAbility.LATENCY}
    shaped = Latency(mean_s=0.1, jitter_s=0.01, shape=JitterShape.PARETO)
    assert shaped.needs == {LinkAbility.LATENCY, LinkAbility.JITTER_SHAPES}
    assert Latency(mean_s=0.1, shape=JitterShape.PARETO).needs == {LinkAbility.LATENCY}


@pytest.mark.parametrize(
    "effect",
    [
        Latency(mean_s=0.1), Bandwidth(rate_bytes_per_s=1e6), Slice(size_bytes=10), Freeze(),
        LimitData(size_bytes=10), Blackhole(), Refuse(), Reset(), HalfOpen(), Loss(share=0.1),
        Duplicate(share=0.1),
    ],
    ids=lambda effect: effect.kind,
)  # fmt: skip
def test_what_links_lack_is_refused_with_a_reason(effect: Effect) -> None:
    with pytest.raises(AbilityError):
        require(NoLinks(), Direction.BOTH, effect)
    require(FakeLinks(effect.needs), Direction.BOTH, effect)


@pytest.mark.parametrize("effect", [Refuse(), Reset()])
def test_what_acts_on_the_whole_link_has_no_single_direction(effect: Effect) -> None:
    with pytest.raises(PlanError, match="direction"):
        require(FakeLinks(), Direction.UP, effect)


def test_no_links_lead_straight_to_the_syncer_and_do_nothing() -> None:
    with NoLinks() as links:
        link = links.create("learner-0", "127.0.0.1:4242")
        assert link.address == "127.0.0.1:4242"
        link.shape("injection-0", Direction.UP, Latency(mean_s=0.1))
        link.clear("injection-0")
        assert link.counters().up_bytes is None
        assert not links.troubles()
        assert links.links == {"learner-0": link}
        with pytest.raises(FleetError, match="learner-0"):
            links.create("learner-0", "127.0.0.1:4242")
