"""Synchronous trainings for AIReSim (arXiv 2603.07041), and what it makes of them.

    git clone https://github.com/karthikp-ubc/airesim
    python -m tests.sim.renewal.airesim airesim > tests/sim/renewal/airesim.json

AIReSim simulates a job of servers that stops with each failure. It counts minutes and servers where
chaoslab counts seconds and chips; nothing else is translated. Needs SimPy.
"""

import importlib
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

SEEDS = 12
COMPUTE_DAYS = 16.0
"""Length of the job without failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job of servers that stops with each failure; times in minutes."""

    servers: int = 512
    failures_per_day: float = 0.08
    """Of a good server; together those of table 1 of AIReSim, 4096 servers with 0.01."""
    bad_share: float = 0.0
    bad_factor: float = 6.0
    restart: float
    """Pause after each failure."""
    repair: float = 0.0
    """Mean repair (exponential) for which the job waits besides; 0: a spare server takes over."""


CASES = {
    "restart 10 min, spare servers": Case(restart=10.0),
    "restart 20 min, spare servers": Case(restart=20.0),
    "restart 30 min, spare servers": Case(restart=30.0),
    "restart 20 min, 15 % of the servers fail six times as often": Case(
        restart=20.0, bad_share=0.15
    ),
    "restart 3 min, waits for repairs of 60 min": Case(servers=64, restart=3.0, repair=60.0),
    "restart 3 min, waits for repairs of 6 min": Case(restart=3.0, repair=6.0),
}


def _simulated(case: Case, seed: int) -> dict[str, float]:
    """By AIReSim: bad servers stay bad, and every repair is the automated one."""
    params, simulator = (importlib.import_module(f"airesim.{n}") for n in ("params", "simulator"))
    spares = 0 if case.repair else 1  # of several, those that failed most would be mostly spared
    one = simulator.Simulator(
        params.Params(
            random_failure_rate=case.failures_per_day / 1440,
            systematic_failure_rate_multiplier=case.bad_factor - 1,
            systematic_failure_fraction=case.bad_share,
            recovery_time=0.0 if case.repair else case.restart,
            host_selection_time=case.restart if case.repair else 0.0,
            job_size=case.servers,
            job_length=COMPUTE_DAYS * 1440,
            warm_standbys=spares,
            working_pool_size=case.servers + spares,
            spare_pool_size=0,
            auto_repair_time=case.repair or 1e-3,
            prob_auto_to_manual=0.0,
            auto_repair_fail_prob=1.0,
        ),
        seed=seed,
    )
    found = one.run()
    return {"goodput": found.effective_training_ratio, "failures": found.total_failures}


def main(checkout: str) -> None:
    """Print inputs and results as JSON."""
    sys.path.insert(0, checkout)
    commit = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    cases = {}
    for name, case in CASES.items():
        runs = [_simulated(case, seed) for seed in range(SEEDS)]
        goodputs = [run["goodput"] for run in runs]
        cases[name] = {
            "case": asdict(case),
            "goodput": fmean(goodputs),
            "deviation": stdev(goodputs),
            "failures": fmean(run["failures"] for run in runs),
        }
    sys.stdout.write(json.dumps({"commit": commit, "seeds": SEEDS, "cases": cases}, indent=1))


if __name__ == "__main__":
    main(str(Path(sys.argv[1])))
