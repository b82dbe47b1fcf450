"""Fidelity: how near simulated runs come to real ones, figure by figure and verdict by verdict.

    real runs of four plans ─┬─ all but one of each ─► costs ─► simulated, four seeds ──┐
                             └─ the one that was left out ──────────────────────────────┤ figures
    each plan: real, of `plans.py`, and simulated ──────────────────────────────────────┤ verdicts
        experiments/fidelity/README.md ◄── results.json ◄───────────────────────────────┘

    python benchmarks/fidelity.py --measure 3   make what is missing of three real runs of each plan
    python benchmarks/fidelity.py               simulate, compare and write the page
    python benchmarks/fidelity.py --page        write the page from results.json alone

No run is compared with costs that come from itself. Each is simulated with the plan that it
resolved to and the step time that it kept, since `step_time: auto` measures how busy a machine is.
A real run whose checks could not judge, because the machine was too busy for that, is left out.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from fidelity_figures import figures_of, outcomes, outcomes_of
from fidelity_page import write_page
from figures import MachineLoad

from chaoslab.calibration.costs_file import measured, to_toml
from chaoslab.calibration.samples import samples_of
from chaoslab.checks.timeline import training_end_s
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.payloads import LearnerStep, MachineSampled, PaceSet
from chaoslab.prepare.plans import Asked, bundled_plans, prepare
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.record.history import History
from chaoslab.record.run_directory import RESOLVED_PLAN
from chaoslab.run.judged_run import run_and_judge

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "experiments" / "fidelity"
RESULTS = FOLDER / "results.json"
REAL_VERDICTS = ROOT / "experiments" / "plans" / "results.json"
SETTINGS: Mapping[str, Sequence[str]] = {
    "kill_half": ("training.step_time=100ms", "training.stop.rounds=150"),
    "wan_throttle": ("training.step_time=100ms", "training.stop.rounds=190"),
    "slow_chip": ("training.step_time=100ms", "training.stop.rounds=180"),
    "syncer_crash": ("training.step_time=100ms", "training.stop.rounds=170"),
}
"""A step time that a busy machine can keep, the same for both; rounds until a little after the last
fault."""
SEEDS = (1, 2, 3, 4)
_BUSY = ("step_time_not_kept", "machine_stalled")
"""Codes by which a check says that the machine kept it from judging."""


def main() -> int:
    """Measure what is missing, simulate, compare, write the page."""
    options = _options()
    if options.page:
        write_page(FOLDER, json.loads(RESULTS.read_text(encoding="utf-8")))
        return 0
    load = MachineLoad()
    for plan in SETTINGS:
        while len(_usable(options.runs, plan)) < options.measure:
            _run(options.runs, plan, SETTINGS[plan])
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if "figures" in options.parts:
        results |= {"place": load.place(), "settings": SETTINGS, **_compared(options.runs)}
    if "verdicts" in options.parts:
        results["verdicts"] = _verdicts()
    FOLDER.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_page(FOLDER, results)
    return 0


# ---------------------------------------------------------------- real runs


def _run(folder: Path, plan: str, settings: Sequence[str]) -> None:
    """One real run without a twin; any verdict will do."""
    command = [sys.executable, "-m", "chaoslab", "run", plan, "--no-twin", "--quiet"]
    command += [f"--set={setting}" for setting in settings]
    done = subprocess.run([*command, "--out", str(folder)], cwd=ROOT, check=False)
    if done.returncode not in {0, 1, 3}:
        sys.exit(f"chaoslab run {plan} ended with exit code {done.returncode}")


def _runs(folder: Path, plan: str) -> Sequence[Path]:
    """Runs of a plan that were judged, in order of their beginning."""
    return sorted(path.parent for path in folder.glob(f"{plan}/2*/verdict.json"))


def _usable(folder: Path, plan: str) -> Sequence[Path]:
    """Those in which no check says that the machine was too busy."""
    return [run for run in _runs(folder, plan) if not _was_busy(run)]


def _was_busy(run: Path) -> bool:
    return any(code in said for said in outcomes_of(run).findings.values() for code in _BUSY)


# ---------------------------------------------------------------- compared with simulated ones


def _compared(folder: Path) -> Mapping[str, Any]:
    """Real and simulated figures of each run of each plan, and the costs of its simulations."""
    runs = {plan: _usable(folder, plan) for plan in SETTINGS}
    rounds = min(map(len, runs.values()))
    if rounds < 2:
        sys.exit(f"{folder}: two usable runs of each plan are needed; add `--measure 3`")
    real: dict[str, list[Any]] = {plan: [] for plan in SETTINGS}
    left_out = {plan: len(_runs(folder, plan)) - len(_usable(folder, plan)) for plan in SETTINGS}
    costs = []
    for number in range(rounds):
        costs.append(
            _costs([run for mine in runs.values() for run in mine[:rounds] if run != mine[number]])
        )
        for plan, mine in runs.items():
            run = mine[number]
            given = (f"training.step_time={_step_s(run)}s",)
            simulated = [
                figures
                for figures, _ in _simulated(str(run / RESOLVED_PLAN), given, costs[-1], SEEDS)
            ]
            print(f"{plan} {run.name}: simulated {len(simulated)} times", flush=True)
            real[plan].append(
                {
                    "run": run.name,
                    "step_s": _step_s(run),
                    "others_cores": _others_cores(run),
                    "real": figures_of(run),
                    "outcomes": asdict(outcomes_of(run)),
                    "simulated": simulated,
                }
            )
    return {"runs": real, "left_out": left_out, "costs": costs}


def _costs(runs: Sequence[Path]) -> str:
    """The file that `chaoslab research calibrate` makes of these runs."""
    found = measured([samples_of(History.read(run)) for run in runs])
    return to_toml(found, [f"{run.parent.name}/{run.name}" for run in runs])


def _simulated(
    plan: str, settings: Sequence[str], costs: str, seeds: Sequence[int | None]
) -> Iterator[tuple[Mapping[str, float], Mapping[str, Any]]]:
    """Figures and outcomes of the plan, simulated once with each seed; None: that of the plan."""
    with TemporaryDirectory(prefix="chaoslab-fidelity-") as folder:
        file = Path(folder) / "costs.toml"
        file.write_text(costs, encoding="utf-8")
        given = (*settings, "twin=false", f"fleet.costs={file}")
        for seed in seeds:
            prepared = prepare(Asked(plan=plan, fleet="sim", settings=given, seed=seed))
            refuse_impossible(
                prepared.plan, prepared.schedule, prepared.fleet_setup.fleet, prepared.links
            )
            judged = run_and_judge(prepared, Path(folder))
            if ended := next((f for f in judged.verdict.findings if f.check == "run"), None):
                sys.exit(f"{plan}, seed {seed}: {ended.reason}")
            run = judged.directory.path
            yield figures_of(run), asdict(outcomes_of(run))


def _step_s(run: Path) -> float:
    """The step time that the run kept: given by its plan, or measured and set by the harness."""
    history = History.read(run)
    steps = history.between(0.0, training_end_s(history), LearnerStep)
    periods_s = {event.payload.period_s for event in steps if event.payload.period_s}
    pace = history.last(PaceSet)
    return pace.payload.step_s if pace else min(periods_s)


def _others_cores(run: Path) -> float:
    """Cores that other processes of the machine used, in the mean."""
    sampled = History.read(run).of(MachineSampled)
    return mean(event.payload.others_cores for event in sampled) if sampled else 0.0


# ---------------------------------------------------------------- verdicts


def _verdicts() -> Mapping[str, Any]:
    """Of every plan as it is: real as `plans.py` found it in its last run, and simulated with the
    default costs.
    """
    runs = json.loads(REAL_VERDICTS.read_text(encoding="utf-8"))["plans"]
    found: dict[str, Any] = {}
    for plan in sorted(bundled_plans()):
        real = asdict(outcomes(runs[plan][-1]["findings"])) if plan in runs else None
        try:
            ((_, simulated),) = _simulated(plan, (), "", (None,))
            found[plan] = {"real": real, "simulated": simulated, "refused": ""}
        except (AbilityError, PlanError) as error:
            found[plan] = {"real": real, "simulated": None, "refused": error.message}
        print(f"{plan}: verdict simulated", flush=True)
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python benchmarks/fidelity.py --measure 3",
    )
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "fidelity", help="folder of the real runs"
    )
    parser.add_argument(
        "--measure", type=int, default=0, metavar="N",
        help="make real runs until there are so many of each plan; a minute each",
    )  # fmt: skip
    parser.add_argument(
        "--parts", type=lambda given: given.split(","), default=["figures", "verdicts"],
        metavar="PART,PART", help="simulate only for these; the rest of results.json is kept",
    )  # fmt: skip
    parser.add_argument("--page", action="store_true", help="write the page from results.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
