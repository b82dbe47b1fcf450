"""Trainings for tests of timelines: a model of 16 Mbit, so that numbers are round."""

from chaoslab.sim.timeline.training import Method, Training

MODEL_BYTES = 2_000_000.0


def training(method: Method = Method.DATA_PARALLEL, **settings: object) -> Training:
    """A million parameters of 16 bits, steps of one second."""
    known = {"parameters": 1_000_000, "step_s": 1.0, "method": method}
    return Training(**{**known, **settings})  # type: ignore[arg-type]
