"""One real run and its simulation, with the faults of four plans: the same figures, about.

fault_plans/ ─► the faults of four plans, one after the other, each for a few seconds
real run ─┬─ its costs ───► simulated with its step time ─► figures ─┐
          └─ its figures ────────────────────────────────────────────┴─► compared
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest
from ruamel.yaml import YAML

from benchmarks.fidelity_figures import Figures, figures_of
from chaoslab.calibration.costs_file import measured, to_toml
from chaoslab.calibration.samples import samples_of
from chaoslab.core.payloads import PaceSet
from chaoslab.prepare.plans import Asked, bundled_plans, prepare
from chaoslab.record.history import History
from chaoslab.run.judged_run import run_and_judge
from chaoslab.sim.costs import Costs
from tests.whole_runs import start, verdict_of

pytestmark = [pytest.mark.deep, pytest.mark.alone]

PLAN = """
version: 1
name: four_plans
seed: 3
training: {learners: 4, step_time: auto, quorum: 1, stop: {rounds: 200}}
fleet: {regions: {eu: 2, us: 2}}
baseline: {warmup: 6 rounds, window: 12 rounds, max_variation: 100%}
limits: {min_alive: 2, timeout: 10m}
faults: []
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin}
  - {check: goodput, min_share: 10%}
  - {check: succession}
  - {check: ledger}
  - {check: versions}
"""
FAULTS: Mapping[str, tuple[str, int, str]] = {
    "kill_half": ("half-dies", 24, "3s"),
    "wan_throttle": ("thin", 76, "6s"),
    "slow_chip": ("throttled", 124, "6s"),
    "syncer_crash": ("dies-in-full-swing", 172, "2s"),
}
"""By plan: its fault that is taken, the round after which it comes, and for how long. On a fast
machine a round takes 0.16 s, and each fault must be over, rejoin included, before the next one."""
SHARES: Mapping[str, float] = {
    "contributions to a merge": 0.15,
    "goodput under faults (tokens/s)": 0.25,
    "between two merges, undisturbed (s)": 0.3,
    "restart to first contribution (s)": 0.5,
    "restart to each learner heard (s)": 0.5,
    "longest pause (s)": 0.5,
}
"""Largest accepted difference of each figure, as a share of the real one: more than idle machines
show, since those of tests are not idle; less than costs that are twice as high make of it."""
SEEDS = (1, 2, 3)
RUNS_MOST = 3
"""Real runs, one of which must have the figures of its simulation: others may hold one run up."""


def real_run(folder: Path) -> Path:
    """Directory of a real run."""
    folder.mkdir()
    (folder / "plan.yaml").write_text(text_of_plan())
    verdict_of(start(str(folder / "plan.yaml"), folder, "--no-twin"))
    return (folder / "latest").resolve()


def text_of_plan() -> str:
    """The plan with the faults, as they are written in their own plans but for their times."""
    yaml = YAML(typ="safe", pure=True)
    plan = yaml.load(PLAN)
    for name, (fault, after_round, for_) in FAULTS.items():
        entries = yaml.load(bundled_plans()[name].read_text())["faults"]
        entry = next(one for one in entries if one["id"] == fault)
        plan["faults"].append({**entry, "at": {"round": after_round}, "for": for_})
    return str(plan)  # in YAML's flow style


def simulated(costs: Costs, step_s: float, folder: Path) -> Iterator[Figures]:
    """Figures of simulations of the same plan."""
    (folder / "plan.yaml").write_text(text_of_plan())
    (folder / "costs.toml").write_text(costs.to_toml())
    settings = (
        f"fleet.costs={folder / 'costs.toml'}", "twin=false", f"training.step_time={step_s}s",
    )  # fmt: skip
    for seed in SEEDS:
        asked = Asked(plan=str(folder / "plan.yaml"), fleet="sim", settings=settings, seed=seed)
        yield figures_of(run_and_judge(prepare(asked), folder).directory.path)


def beyond(real: Figures, made: Sequence[Figures]) -> Mapping[str, str]:
    """Figures that differ by more than is accepted, with both."""
    missing = {
        name: "a run lacks it" for name in SHARES if not all(name in one for one in (real, *made))
    }
    means = {name: mean(one[name] for one in made) for name in SHARES if name not in missing}
    return missing | {
        name: f"real {real[name]:.3f}, simulated {found:.3f}"
        for name, found in means.items()
        if abs(found / real[name] - 1) > SHARES[name]
    }


def test_a_simulation_has_the_figures_of_a_real_run_and_not_with_wrong_costs(
    tmp_path: Path,
) -> None:
    tried = []
    for number in range(RUNS_MOST):
        real = real_run(tmp_path / f"real-{number}")
        history, figures = History.read(real), figures_of(real)
        pace = history.last(PaceSet)
        assert pace is not None
        step_s = pace.payload.step_s
        file = tmp_path / "measured.toml"
        file.write_text(to_toml(measured([samples_of(history)]), [real.name]))
        costs = Costs.read(file)
        differing = beyond(figures, list(simulated(costs, step_s, tmp_path)))
        tried.append(differing)
        if not differing:
            break
    assert differing == {}, tried
    doubled = replace(
        costs,
        start_s=2 * costs.start_s,
        compile_s=2 * costs.compile_s,
        flops_per_s=costs.flops_per_s / 2,
        syncer_start_s=2 * costs.syncer_start_s,
        syncer_resume_s=2 * costs.syncer_resume_s,
    )
    assert beyond(figures, list(simulated(doubled, step_s, tmp_path)))
