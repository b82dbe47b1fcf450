"""A slowness that is too strong or too weak is steered by what the node's own steps show of it."""

from dataclasses import dataclass

import pytest

from chaoslab.core.clock import VirtualClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Sighting
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.stress.registry import Bearer, Burdened
from chaoslab.fleet.stressors import Burden, Neighbours, Slowness


class Steered(Bearer):
    """Remembers how it was steered."""

    mechanism = "a test"

    def __init__(self) -> None:
        self.by: list[float] = []

    def begin(self) -> None:
        pass

    def steer(self, correction: float) -> None:
        self.by.append(correction)

    def end(self) -> None:
        pass


@dataclass(kw_only=True)
class Life:
    """Of a node that uses no CPU time."""

    spec: NodeSpec
    incarnation: int = 1
    is_over: bool = False

    def cpu_used(self) -> tuple[float, float] | None:
        return None


@pytest.fixture
def bearer() -> Steered:
    return Steered()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def burdens(clock: VirtualClock, bearer: Steered) -> Burdened[Life]:
    return Burdened(clock=clock, bearer=lambda _: bearer)


LIFE = Life(spec=NodeSpec(name="learner-1", role=Role.LEARNER, command=("true",), labels={}))


def stepping(burdens: Burdened[Life], step_s: float, times: int = 10) -> None:
    data: dict[str, Json] = {"steps": 4, "step_s": step_s}
    said = Sighting(source="learner-1", kind=Kind.LEARNER_STEP, data=data)
    burdens.hear([said] * times)


def slowed(
    burdens: Burdened[Life], clock: VirtualClock, step_s: float, burden: Burden, times: int = 10
) -> None:
    """Calm steps of 50 ms, then such ones under the burden, and one look at them."""
    stepping(burdens, 0.05)
    burdens.put(LIFE, "injection-0", burden)
    stepping(burdens, step_s, times)
    clock.advance_to(clock.now_s() + 2.0)
    burdens.news(())


def test_a_node_that_is_too_slow_is_given_more(
    burdens: Burdened[Life], clock: VirtualClock, bearer: Steered
) -> None:
    slowed(burdens, clock, 0.15, Slowness(factor=2))
    assert 1.2 < bearer.by[0] < 1.5


def test_a_node_that_is_too_fast_is_given_less(
    burdens: Burdened[Life], clock: VirtualClock, bearer: Steered
) -> None:
    slowed(burdens, clock, 0.06, Slowness(factor=2))
    assert bearer.by[0] < 0.8


def test_a_node_as_slow_as_asked_is_left_alone(
    burdens: Burdened[Life], clock: VirtualClock, bearer: Steered
) -> None:
    slowed(burdens, clock, 0.1, Slowness(factor=2))
    assert bearer.by == [pytest.approx(1.0)]


def test_a_few_steps_tell_nothing(
    burdens: Burdened[Life], clock: VirtualClock, bearer: Steered
) -> None:
    slowed(burdens, clock, 0.15, Slowness(factor=2), times=2)
    assert bearer.by == []


def test_neighbours_are_not_steered(
    burdens: Burdened[Life], clock: VirtualClock, bearer: Steered
) -> None:
    slowed(burdens, clock, 0.15, Neighbours(count=1))
    assert bearer.by == []


def test_steps_under_a_burden_are_not_taken_for_calm_ones(
    burdens: Burdened[Life], clock: VirtualClock, bearer: Steered
) -> None:
    slowed(burdens, clock, 0.1, Slowness(factor=2), times=100)
    burdens.relieve("learner-1", "injection-0")
    slowed(burdens, clock, 0.1, Slowness(factor=2))
    assert bearer.by[-1] == pytest.approx(1.0)


class Reluctant(Steered):
    """Cannot begin at first."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals, self.ended = 1, 0

    def begin(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise FleetError("learner-1 used no CPU time that could be cut")

    def end(self) -> None:
        self.ended += 1


def test_a_burden_that_could_not_begin_is_taken_away_and_may_be_tried_again(
    clock: VirtualClock,
) -> None:
    reluctant = Reluctant()
    burdens = Burdened[Life](clock=clock, bearer=lambda _: reluctant)
    with pytest.raises(FleetError, match="no CPU time"):
        burdens.put(LIFE, "injection-0", Neighbours(count=1))
    assert (reluctant.ended, burdens.news([LIFE])) == (1, [])
    burdens.put(LIFE, "injection-0", Neighbours(count=1))
    assert [one.kind for one in burdens.news([LIFE])] == [Kind.NODE_BURDENED]
