"""Rigid training against AIReSim (arXiv 2603.07041), which simulates synchronous jobs.

`experiments/airesim/results.json` has what it gave; `benchmarks/airesim.py` measures it again.
"""

import json
from dataclasses import asdict
from statistics import fmean

import pytest

from benchmarks.airesim_cases import CASES, DAY_S, TRAINED_DAYS, renewal_inputs
from chaoslab.sim.renewal.engine import simulate
from tests.generated_docs import ROOT

FOUND = json.loads((ROOT / "experiments" / "airesim" / "results.json").read_text())
SEEDS = 40


@pytest.mark.parametrize("name", CASES)
def test_goodput_and_failures_are_those_of_airesim(name: str) -> None:
    measured = FOUND["cases"][name]
    assert measured["case"] == asdict(CASES[name]), "made with other inputs: benchmarks/airesim.py"
    rigid, model = renewal_inputs(CASES[name])
    ours = [simulate(rigid, seed, model=model) for seed in range(SEEDS)]
    trained_days = [one.goodput * rigid.horizon_s / DAY_S for one in ours]
    failures = [
        one.interruptions * TRAINED_DAYS / days
        for one, days in zip(ours, trained_days, strict=True)
    ]
    theirs = measured["airesim"]
    # three standard errors of a difference
    errors = 3 * (1 / SEEDS + 1 / theirs["goodput"]["seeds"]) ** 0.5
    assert 100 * fmean(one.goodput for one in ours) == pytest.approx(
        theirs["goodput"]["mean"], abs=theirs["goodput"]["deviation"] * errors
    )
    assert fmean(failures) == pytest.approx(
        theirs["failures"]["mean"], abs=theirs["failures"]["deviation"] * errors
    )
