"""What a simulation restates of the programs that it stands for is the same there.

It cannot import them, because they need JAX, gRPC and NumPy.
"""

import random
from pathlib import Path

import pytest

from chaoslab.core import link_meter
from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner import link, pace, round_wait, training_thread
from chaoslab.diloco.model import gpt
from chaoslab.diloco.syncer import action_executor, commits
from chaoslab.diloco.wire import streams
from chaoslab.sim import (
    chance,
    connection,
    learner,
    learner_process,
    leaving,
    messenger,
    model,
    step_reports,
    wires,
)

LIMITS = streams.Limits()


@pytest.mark.parametrize(
    ("simulated", "real"),
    [
        (wires.SILENT_S, LIMITS.keepalive_s + LIMITS.answer_s),
        (connection._HEARTBEATS * link_meter.PING_S, link._HEARTBEAT_S),
        (connection._SOUND_S, link._SOUND_S),
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


def test_delays_between_dials_lie_in_the_same_ranges() -> None:
    real = streams.Backoff(random.Random(1))
    simulated = connection.Backoff(chance.Chance(1))
    for backoff in (real, simulated):
        backoff.spread(800)
    most_s = [8.0, 16.0, 16.0]
    for backoff in (real, simulated):
        found_s = [backoff.next_s() for _ in most_s]
        assert all(0.1 * m <= s <= m for s, m in zip(found_s, most_s, strict=True)), found_s


@pytest.mark.parametrize("phase", Phase)
def test_every_protocol_point_can_be_watched(phase: Phase) -> None:
    sources = "".join(
        Path(one.__file__).read_text()
        for one in (action_executor, commits, learner_process, messenger)
    )
    assert f"Phase.{phase.name}," in sources


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
