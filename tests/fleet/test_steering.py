"""A slowness that is too strong or too weak is steered by what the node's own steps show of it."""

from dataclasses import dataclass

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.stress.registry import StressDriver, StressRegistry, Wish
from chaoslab.fleet.stressors import Neighbours, Slowness, Stressor
from tests.payload_reading import observed
from tests.virtual_clock import VirtualClock


class Steered(StressDriver):
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
class Incarnation:
    """Of a node that uses no CPU time."""

    spec: NodeSpec
    incarnation: int = 1
    is_over: bool = False

    def cpu_used(self) -> tuple[float, float] | None:
        return None


@pytest.fixture
def driver() -> Steered:
    return Steered()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def stressors(clock: VirtualClock, driver: Steered) -> StressRegistry[Incarnation]:
    return StressRegistry(clock=clock, driver=lambda _: driver)


LIFE = Incarnation(spec=NodeSpec(name="learner-1", role=Role.LEARNER, command=("true",), labels={}))


def stepping(stressors: StressRegistry[Incarnation], step_s: float, times: int = 10) -> None:
    data: dict[str, Json] = {"steps": 4, "step_s": step_s}
    said = observed(Kind.LEARNER_STEP, data, source="learner-1")
    stressors.hear([said] * times)


def slowed(
    stressors: StressRegistry[Incarnation],
    clock: VirtualClock,
    step_s: float,
    stressor: Stressor,
    times: int = 10,
) -> None:
    """Calm steps of 50 ms, then such ones under the burden, and one look at them."""
    stepping(stressors, 0.05)
    stressors.put(LIFE, "injection-0", stressor)
    stepping(stressors, step_s, times)
    clock.advance_to(clock.now_s() + 2.0)
    stressors.observations(())


@pytest.mark.parametrize(
    ("step_s", "least", "most"), [(0.15, 1.2, 1.5), (0.06, 0.0, 0.8), (0.1, 0.999, 1.001)]
)
def test_a_node_is_given_more_or_less_until_it_is_as_slow_as_asked(
    stressors: StressRegistry[Incarnation],
    clock: VirtualClock,
    driver: Steered,
    step_s: float,
    least: float,
    most: float,
) -> None:
    slowed(stressors, clock, step_s, Slowness(factor=2))
    assert least < driver.by[0] < most


@pytest.mark.parametrize(
    ("stressor", "times"), [(Slowness(factor=2), 2), (Neighbours(count=1), 10)]
)
def test_neighbours_are_not_steered_and_a_few_steps_tell_nothing(
    stressors: StressRegistry[Incarnation],
    clock: VirtualClock,
    driver: Steered,
    stressor: Stressor,
    times: int,
) -> None:
    slowed(stressors, clock, 0.15, stressor, times)
    assert driver.by == []


def test_steps_under_a_burden_are_not_taken_for_calm_ones(
    stressors: StressRegistry[Incarnation], clock: VirtualClock, driver: Steered
) -> None:
    slowed(stressors, clock, 0.1, Slowness(factor=2), times=100)
    stressors.relieve("learner-1", "injection-0")
    slowed(stressors, clock, 0.1, Slowness(factor=2))
    assert driver.by[-1] == pytest.approx(1.0)


@dataclass(kw_only=True)
class Measured(Incarnation):
    """Of a node whose CPU time is measured."""

    seen: tuple[float, float] | None = None

    def cpu_used(self) -> tuple[float, float] | None:
        return self.seen


@pytest.mark.parametrize(("every_s", "cores"), [
    (1.0, 0.5),
    (5.0, 0.5),
    (20.0, 0.5),  # then the last two count
])  # fmt: skip
def test_what_a_node_used_ten_seconds_ago_does_not_count_however_often_it_is_measured(
    clock: VirtualClock, every_s: float, cores: float
) -> None:
    wishes: list[float] = []
    life = Measured(spec=LIFE.spec)

    def driver(wish: Wish[Measured]) -> Steered:
        wishes.append(wish.calm_cores)
        return Steered()

    stressors = StressRegistry(clock=clock, driver=driver)
    for look in range(60):
        at_s = look * every_s
        life.seen = (at_s, 2.0 * at_s if at_s <= 20.0 else 40.0 + 0.5 * (at_s - 20.0))
        clock.advance_to(1.0 + look)
        stressors.observations([life])
    stressors.put(life, "injection-0", Slowness(factor=2))
    assert wishes == [pytest.approx(cores)]


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
    stressors = StressRegistry[Incarnation](clock=clock, driver=lambda _: reluctant)
    with pytest.raises(FleetError):
        stressors.put(LIFE, "injection-0", Neighbours(count=1))
    assert (reluctant.ended, stressors.observations([LIFE])) == (1, [])
    stressors.put(LIFE, "injection-0", Neighbours(count=1))
    assert [one.kind for one in stressors.observations([LIFE])] == [Kind.NODE_STRESSED]
