"""What a simulation restates of the programs that it stands for is the same there.

It cannot import them, because they need JAX, gRPC and NumPy.
"""

from pathlib import Path

import pytest

from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner import messenger, training_thread
from chaoslab.diloco.model import gpt
from chaoslab.diloco.syncer import action_executor, commits
from chaoslab.diloco.wire import streams
from chaoslab.sim import model, wires

LIMITS = streams.Limits()


def test_silence_ends_a_stream_when_it_ends_a_real_one() -> None:
    assert LIMITS.keepalive_s + LIMITS.answer_s == wires.SILENT_S


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
        for one in (action_executor, commits, training_thread, messenger)
    )
    assert f"Phase.{phase.name}" in sources
