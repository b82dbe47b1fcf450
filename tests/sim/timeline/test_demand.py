"""The least bandwidth for a target: points of the published grid, and the published table."""

import math

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.timeline.engine import GRID_GBIT, Target, grid_steps, least_gbit, reached
from chaoslab.sim.timeline.training import Method
from tests.sim.timeline.trainings import training


@pytest.mark.parametrize(
    ("point", "published"),
    [(7, 0.4), (12, 0.9), (15, 1.7), (31, 33.9), (36, 86.8), (41, 222.3), (46, 569.0)],
)
def test_published_values_are_points_of_the_grid(point: int, published: float) -> None:
    assert GRID_GBIT[point] == pytest.approx(published, rel=0.07)
    assert grid_steps(GRID_GBIT[point], published) == 0
    assert grid_steps(GRID_GBIT[point + 2], published) == 2


@pytest.mark.parametrize(
    "method", [Method.DATA_PARALLEL, Method.STREAMING, Method.DECOUPLED], ids=str
)
@pytest.mark.parametrize("target", [0.5, 0.95])
def test_the_point_reaches_the_target_and_the_one_before_does_not(
    method: Method, target: float
) -> None:
    parts = 24 if method is Method.DECOUPLED else 0
    settings = training(
        method, parameters=10**9, layers=24, step_s=0.1, sync_every=24, fragments=parts
    )
    gbit = least_gbit(settings, target)
    point = GRID_GBIT.index(gbit)
    assert 0 < point < 49
    assert reached(settings, gbit) >= target > reached(settings, GRID_GBIT[point - 1])


def test_a_target_out_of_reach_of_the_grid_is_said_to_be() -> None:
    far = training(latency_s=3.0)
    assert least_gbit(far, 0.9) == math.inf
    assert grid_steps(math.inf, 1000.0) == 1


def test_a_target_is_a_share() -> None:
    with pytest.raises(PlanError, match=r"^utilisation: "):
        Target(method=Method.DILOCO, parameters=10, step_s=1.0, utilisation=1.0)
