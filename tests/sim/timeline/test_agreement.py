"""A timeline through a syncer agrees with `--fleet sim`, which simulates every message of all."""

from pathlib import Path

import pytest

from chaoslab.core.payloads import LearnerAdopted
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.history import History
from chaoslab.run.judged_run import run_and_judge
from chaoslab.sim.model import PARAMETERS
from chaoslab.sim.timeline.engine import simulate
from chaoslab.sim.timeline.training import Method, Training

PLAN = """
version: 1
name: thin
seed: 1
training: {{algorithm: {method}, learners: 4, model: nano, compression: int8, sync_every: {every},
           {more} stop: {{steps: {steps}}}}}
fleet: {{kind: sim, costs: {costs}}}
faults: []
expect: [{{check: ledger}}]
"""
COSTS = "step_s = 1.0\nspread = 0\nlatency_s = 0.05\nrate_bytes_per_s = {rate}\n" + "\n".join(
    f"{name}_s = 0"
    for name in ("start", "compile", "push", "adopt", "decode", "merge", "store", "publish")
)
INT8_BITS = 8 * 1.02
"""With the heads and scales of `Costs.up_bytes_share`."""


def fleet(folder: Path, training: Training, rate: int, steps: int) -> tuple[float, float]:
    """Utilisation and rounds of the first learner, from adoption to adoption of one fragment."""
    more = ""
    if training.method is not Method.DILOCO:
        more = f"fragments: {training.fragments}, overlap: {training.overlap},"
    costs, plan = folder / "costs.toml", folder / "thin.yaml"
    costs.write_text(COSTS.format(rate=rate))
    plan.write_text(PLAN.format(method=training.method, every=training.sync_every, more=more,
                                steps=steps, costs=costs))  # fmt: skip
    history = run_and_judge(prepare(Asked(plan=str(plan))), folder).history
    return _shares(history, training.sync_every)


def _shares(history: History, every: int) -> tuple[float, float]:
    adopted = [
        one
        for one in history.of(LearnerAdopted)
        if one.payload.learner == "learner-0" and one.payload.fragment == 0
    ]
    first, last = adopted[len(adopted) // 3], adopted[-1]
    steps = last.payload.step - first.payload.step
    rounds = len(adopted) - 1 - len(adopted) // 3
    return steps / (last.time_s - first.time_s), rounds * every / steps


@pytest.mark.deep
@pytest.mark.parametrize(
    ("method", "every", "fragments", "overlap", "rate", "within"),
    [
        (Method.DILOCO, 10, 0, 0, 20_000, 0.001),
        (Method.STREAMING, 12, 4, 2, 30_000, 0.09),
        (Method.DECOUPLED, 12, 6, 2, 30_000, 0.03),
        (Method.DECOUPLED, 24, 12, 2, 20_000, 0.03),
        (Method.DECOUPLED, 12, 6, 2, 20_000, 0.15),  # where pulls wait behind fragments
    ],
)
def test_both_simulators_give_the_same(
    tmp_path: Path, method: Method, every: int, fragments: int, overlap: int, rate: int,
    within: float,
) -> None:  # fmt: skip
    training = Training(
        method=method, parameters=PARAMETERS["nano"], step_s=1.0, centres=4, latency_s=0.05,
        sync_every=every, fragments=fragments, overlap=overlap, bits=INT8_BITS, syncer=True,
    )  # fmt: skip
    result = simulate(training, rate)
    utilisation, rounds = fleet(tmp_path, training, rate, 14 * every)
    assert result.utilisation == pytest.approx(utilisation, rel=within)
    assert result.rounds == pytest.approx(min(1.0, rounds), rel=within)
