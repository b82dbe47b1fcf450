"""Rigid training by the renewal simulation against AIReSim (arXiv 2603.07041), case by case.

    git clone https://github.com/karthikp-ubc/airesim
    python benchmarks/airesim.py airesim [--seeds 40]

    airesim_cases ─┬─► AIReSim ──────────────┬─► experiments/airesim/results.json
                   └─► chaoslab.sim.renewal ─┘─► tables of its README.md, between markers

Not a benchmark with a target: `tests/sim/renewal/test_airesim.py` holds the renewal simulation to
what AIReSim gave. That is no package of PyPI, so it is imported from a checkout; it needs SimPy.
Results depend on the seeds alone, not on the machine.
"""

import argparse
import importlib
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import Any, TypeAlias

from airesim_cases import (
    CASES,
    DAY_MINUTES,
    DAY_S,
    TABLE_1,
    TABLE_1_STEPS,
    TRAINED_DAYS,
    Case,
    airesim_params,
    renewal_inputs,
)
from figures import Cell, rewritten, table

from chaoslab.sim.renewal.engine import simulate

FOLDER = Path(__file__).parent.parent / "experiments" / "airesim"
ERRORS_95 = NormalDist().inv_cdf(0.975)
"""Half of a 95 % interval, in standard errors."""
HEADS = {"goodput": "goodput (%)", "days": "days", "failures": "failures"}
DIGITS = {"goodput": 2, "days": 2, "failures": 1}

Run: TypeAlias = dict[str, float]
"""Goodput in percent, days until the training is done, failures in TRAINED_DAYS of training."""


def main() -> int:
    """Simulate everything by both, write the results and the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="of AIReSim")
    parser.add_argument("--seeds", type=int, default=40, help="of each case; table 1: a fifth")
    options = parser.parse_args()
    sys.path.insert(0, str(options.checkout))
    asked = ["git", "-C", str(options.checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    results = {
        "commit": commit,
        "cases": cases(options.seeds),
        "table_1": table_1(options.seeds // 5),
    }
    (FOLDER / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_page(results)
    return 0


def cases(seeds: int) -> Mapping[str, Any]:
    """Means and deviations of every case by both; each case has seeds of its own."""
    return {
        name: {
            "case": asdict(case),
            "expected": _run(case.expected_goodput, case.expected_failures),
            "airesim": _summary([_by_airesim(airesim_params(case), seed) for seed in own]),
            "chaoslab": _summary([_by_chaoslab(case, seed) for seed in own]),
        }
        for number, (name, case) in enumerate(CASES.items())
        for own in [range(number * seeds, (number + 1) * seeds)]
    }


def table_1(seeds: int) -> Mapping[str, Any]:
    """The same of AIReSim's defaults, then without what chaoslab does not have, and of chaoslab."""
    return {
        **{
            f"AIReSim, {name}": _summary([_by_airesim(params, seed) for seed in range(seeds)])
            for name, params in TABLE_1_STEPS.items()
        },
        "chaoslab": _summary([_by_chaoslab(TABLE_1, seed) for seed in range(seeds)]),
    }


def _by_airesim(params: Mapping[str, float], seed: int) -> Run:
    made, simulator = (importlib.import_module(f"airesim.{n}") for n in ("params", "simulator"))
    found = simulator.Simulator(made.Params(**params), seed=seed).run()
    run = _run(found.effective_training_ratio, found.total_failures)
    return run | {"days": found.total_training_time / DAY_MINUTES}


def _by_chaoslab(case: Case, seed: int) -> Run:
    rigid, model = renewal_inputs(case)
    found = simulate(rigid, seed, model=model)
    trained_days = found.goodput * rigid.horizon_s / DAY_S
    return _run(found.goodput, found.interruptions * TRAINED_DAYS / trained_days)


def _run(goodput: float, failures: float) -> Run:
    return {"goodput": 100 * goodput, "days": TRAINED_DAYS / goodput, "failures": failures}


def _summary(runs: Sequence[Run]) -> Mapping[str, Run]:
    return {
        name: {"mean": fmean(values), "deviation": stdev(values), "seeds": len(values)}
        for name in HEADS
        for values in [[run[name] for run in runs]]
    }


# ---------------------------------------------------------------- the page


def write_page(results: Mapping[str, Any]) -> None:
    """Write every table into the page, and print it."""
    page = FOLDER / "README.md"
    text = page.read_text(encoding="utf-8")
    made = {name: _comparison(results["cases"], name) for name in HEADS}
    made["table-1"] = _means(results["table_1"])
    for name, tables in made.items():
        text = rewritten(text, tables, name=name)
        print(f"\n{tables}")
    page.write_text(text, encoding="utf-8")


def _comparison(cases: Mapping[str, Any], name: str) -> str:
    """One measure of every case; the difference with its 95 % interval."""
    digits = DIGITS[name]
    cells: list[list[Cell]] = []
    for title, case in cases.items():
        theirs, ours = case["airesim"][name], case["chaoslab"][name]
        half = (_half(theirs) ** 2 + _half(ours) ** 2) ** 0.5
        cells.append(
            [
                title,
                f"{case['expected'][name]:.{digits}f}",
                _mean(theirs, digits),
                _mean(ours, digits),
                f"{ours['mean'] - theirs['mean']:+.{digits}f} ± {half:.{digits}f}",
            ]
        )
    return table([HEADS[name], "closed form", "AIReSim", "chaoslab", "difference"], cells)


def _means(simulators: Mapping[str, Any]) -> str:
    cells: list[list[Cell]] = [
        [title, *(_mean(found[name], DIGITS[name]) for name in HEADS)]
        for title, found in simulators.items()
    ]
    return table(["", *HEADS.values()], cells)


def _mean(found: Mapping[str, float], digits: int) -> str:
    return f"{found['mean']:.{digits}f} ± {_half(found):.{digits}f}"


def _half(found: Mapping[str, float]) -> float:
    """Half of the 95 % interval of a mean."""
    return ERRORS_95 * found["deviation"] / math.sqrt(found["seeds"])


if __name__ == "__main__":
    sys.exit(main())
