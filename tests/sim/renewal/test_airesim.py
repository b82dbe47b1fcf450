"""Rigid training against AIReSim (arXiv 2603.07041), which simulates synchronous jobs.

`airesim.json` has what it computed; `airesim.py` says with which inputs, and makes it again.
"""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import pytest

from chaoslab.sim.renewal.engine import simulate
from chaoslab.sim.renewal.failure_models import FailureModel
from chaoslab.sim.renewal.scenario import Policy, Scenario
from tests.sim.renewal.airesim import CASES, COMPUTE_DAYS, Case

DAY_S = 86400.0
MINUTE_S = 60.0
FOUND = json.loads(Path(__file__).with_name("airesim.json").read_text())
SEEDS = 40


def scenario(case: Case, goodput: float) -> tuple[Scenario, FailureModel]:
    """The same job for chaoslab, as long as AIReSim needed for it."""
    mean_factor = 1 + case.bad_share * (case.bad_factor - 1)
    model = FailureModel(
        mtbi_s=DAY_S / case.failures_per_day / mean_factor,
        bad_share=case.bad_share, bad_factor=case.bad_factor, source="AIReSim",
    )  # fmt: skip
    rigid = Scenario(
        policy=Policy.RIGID, chips=case.servers, slice_chips=1, horizon_s=COMPUTE_DAYS * DAY_S
        / goodput, change_s=case.restart * MINUTE_S, repair_mean_s=case.repair * MINUTE_S or 1e-3,
        repair_shape=1.0, repair_power=1,
    )  # fmt: skip
    return rigid, model


@pytest.mark.parametrize("name", CASES)
def test_goodput_and_failures_are_those_of_airesim(name: str) -> None:
    theirs = FOUND["cases"][name]
    assert theirs["case"] == asdict(CASES[name]), "made with other inputs: see airesim.py"
    rigid, model = scenario(CASES[name], theirs["goodput"])
    ours = [simulate(rigid, seed, model=model) for seed in range(SEEDS)]
    errors = 3 * (1 / SEEDS + 1 / FOUND["seeds"]) ** 0.5  # three standard errors of a difference
    goodput, failures = theirs["goodput"], theirs["failures"]
    noise = theirs["deviation"] * errors
    assert fmean(one.goodput for one in ours) == pytest.approx(goodput, abs=noise)
    assert fmean(one.interruptions for one in ours) == pytest.approx(
        failures, abs=failures**0.5 * errors
    )
