"""What a simulation restates of the programs that it stands for is the same there.

It cannot import them, because they need JAX, gRPC and NumPy.
"""

from pathlib import Path

import pytest

from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner import messenger, pace, round_wait, training_thread
from chaoslab.diloco.model import gpt
from chaoslab.diloco.syncer import action_executor, commits
from chaoslab.diloco.wire import streams
from chaoslab.sim import (
    learner,
    learner_process,
    leaving,
    model,
    step_reports,
    wires,
)

LIMITS = streams.Limits()


@pytest.mark.parametrize(
    ("simulated", "real"),
    [
        (wires.SILENT_S, LIMITS.keepalive_s + LIMITS.answer_s),
        (step_reports._SAMPLE_S, training_thread._SAMPLE_S),
        (leaving._DRAIN_S, training_thread._DRAIN_S),
        (learner._TURN_S, round_wait.TURN_S),
        (step_reports._TOLD_S, round_wait._TOLD_S),
    ],
)
def test_periods_and_limits_are_the_real_ones(simulated: object, real: object) -> None:
    assert simulated == real


def test_models_are_as_large_as_the_real_ones() -> None:
    sizes = {
        name: sum(int(gpt.np.prod(shape)) for shape in gpt.tensor_shapes(preset.shape).values())
        for name, preset in gpt.PRESETS.items()
    }
    assert sizes == dict(model.PARAMETERS)


@pytest.mark.parametrize("phase", Phase)
def test_every_protocol_point_can_be_watched(phase: Phase) -> None:
    sources = "".join(
        Path(one.__file__).read_text()
        for one in (action_executor, commits, learner_process, messenger)
    )
    assert f"Phase.{phase.name}" in sources


def test_steps_end_on_the_grid_of_the_real_pace() -> None:
    now_s = [0.0]

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    real = pace.Pace(step_time_s=0.1, speed=0.5, now=lambda: now_s[0], sleep=sleep)
    simulated = learner_process.Pace(step_time_s=0.1, speed=0.5)
    for takes_s in (0.05, 0.15, 0.3, 0.05, 0.9, 0.05, 0.05):
        began_s = now_s[0]
        ends_s = simulated.ends_s(began_s, takes_s)
        now_s[0] += takes_s
        real.rest(began_s)
        assert now_s[0] == pytest.approx(ends_s)
        assert real.overruns == simulated.overruns
