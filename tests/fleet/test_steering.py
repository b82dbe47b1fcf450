"""A slowness that is too strong or too weak is steered by what the node's own steps show of it."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoslab.clock import VirtualClock
from chaoslab.events import Json, Kind
from chaoslab.fleet import burdened
from chaoslab.fleet.base import NoObligations, Sighting
from chaoslab.fleet.burdened import Burdened
from chaoslab.fleet.burdens import Burden, Neighbours, Slowness
from chaoslab.fleet.life import Place


class Bearer:
    """Remembers how it was steered."""

    mechanism, is_broken = "a test", False

    def __init__(self) -> None:
        self.steered: list[float] = []

    def begin(self) -> None:
        pass

    def set(self, burden: Burden) -> None:
        pass

    def steer(self, correction: float) -> None:
        self.steered.append(correction)

    def counts(self) -> Mapping[str, Json]:
        return {}

    def end(self) -> None:
        pass


@pytest.fixture
def bearer(monkeypatch: pytest.MonkeyPatch) -> Bearer:
    found = Bearer()
    monkeypatch.setattr(burdened, "_bearer", lambda *_: found)
    return found


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def burdens(tmp_path: Path, clock: VirtualClock) -> Burdened:
    return Burdened(place=Place(run_directory=tmp_path, clock=clock, obligations=NoObligations()))


LIFE = SimpleNamespace(spec=SimpleNamespace(name="learner-1"), incarnation=1, cpu_s=0.0)


def stepping(burdens: Burdened, step_s: float, times: int = 10) -> None:
    data: dict[str, Json] = {"step_s": step_s}
    said = Sighting(source="learner-1", kind=Kind.LEARNER_STEP, data=data)
    burdens.hear([said] * times)


def slowed(
    burdens: Burdened, clock: VirtualClock, step_s: float, burden: Burden, times: int = 10
) -> None:
    """Calm steps of 50 ms, then such ones under the burden, and one look at them."""
    stepping(burdens, 0.05)
    burdens.put(LIFE, "injection-0", burden)  # type: ignore[arg-type]  # a life in a few words
    stepping(burdens, step_s, times)
    clock.advance_to(clock.now_s() + 2.0)
    burdens.news(())


def test_a_node_that_is_too_slow_is_given_more(
    burdens: Burdened, clock: VirtualClock, bearer: Bearer
) -> None:
    slowed(burdens, clock, 0.15, Slowness(factor=2))
    assert 1.2 < bearer.steered[0] < 1.5


def test_a_node_that_is_too_fast_is_given_less(
    burdens: Burdened, clock: VirtualClock, bearer: Bearer
) -> None:
    slowed(burdens, clock, 0.06, Slowness(factor=2))
    assert bearer.steered[0] < 0.8


def test_a_node_as_slow_as_asked_is_left_alone(
    burdens: Burdened, clock: VirtualClock, bearer: Bearer
) -> None:
    slowed(burdens, clock, 0.1, Slowness(factor=2))
    assert bearer.steered == [pytest.approx(1.0)]


def test_a_few_steps_tell_nothing(burdens: Burdened, clock: VirtualClock, bearer: Bearer) -> None:
    slowed(burdens, clock, 0.15, Slowness(factor=2), times=2)
    assert bearer.steered == []


def test_neighbours_are_not_steered(burdens: Burdened, clock: VirtualClock, bearer: Bearer) -> None:
    slowed(burdens, clock, 0.15, Neighbours(count=1))
    assert bearer.steered == []


def test_steps_under_a_burden_are_not_taken_for_calm_ones(
    burdens: Burdened, clock: VirtualClock, bearer: Bearer
) -> None:
    slowed(burdens, clock, 0.1, Slowness(factor=2), times=100)
    burdens.relieve("learner-1", "injection-0")
    slowed(burdens, clock, 0.1, Slowness(factor=2))
    assert bearer.steered[-1] == pytest.approx(1.0)
