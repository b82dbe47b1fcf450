"""Files of experiments: what they become, and what each mistake is called and where."""

import re
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.experiments.file import load
from chaoslab.sim.renewal.failure_models import Fleet
from chaoslab.sim.renewal.scenario import Policy, Scenario
from tests.experiments.studies import REAL, SIMULATED, SMALL, THIN, written


def test_cells_are_the_combinations_of_the_matrix_over_the_base(tmp_path: Path) -> None:
    experiment, cells = load(written(tmp_path))
    assert len(cells) == 8
    assert cells[0].labels == {"failures": "one_per_year", "system": "rigid", "chips": "300k"}
    assert cells[-1].labels == {"failures": "llama_3", "system": "decoupled", "chips": "1.2M"}
    assert cells[-1].settings == Scenario(
        policy=Policy.DECOUPLED, learners=2, chips=1_200_000, failures=Fleet.LLAMA_3,
        horizon_s=7200.0, slice_chips=64,
    )  # fmt: skip
    assert experiment.seeds == 3


def test_the_file_that_the_documentation_shows_can_be_run(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text("utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (shown,) = (block for block in blocks if "name: mine" in block)
    experiment, cells = load(written(tmp_path, shown))
    assert (experiment.name, len(cells)) == ("mine", 8)


def test_an_override_changes_what_the_file_says(tmp_path: Path) -> None:
    experiment, cells = load(written(tmp_path), overrides=["seeds=5", "base.change=20s"])
    assert experiment.seeds == 5
    assert {cell.settings.change_s for cell in cells if isinstance(cell.settings, Scenario)} == {20}


SYSTEMS = "system:\n    rigid: {policy: rigid}\n    decoupled: {policy: decoupled, learners: 2}"


@pytest.mark.parametrize(
    ("study", "before", "after", "said"),
    [
        (REAL, "run: plan", "run: renewal", "small.yaml:5:6: run: "),
        (REAL, "run: plan", "run: plan\nsimulate: plan", "simulate: "),
        (REAL, "run: plan\n", "", "simulate: "),
        (REAL, "{rounds: 20}", "{round: 20}", "training.stop=.*`rounds`"),
        (REAL, "goodput, rejoin", "goodput, rejoins", "`rejoins`"),
        (REAL, "lost_periods: 100%", "lost_periods: 3", "base.lost_periods: "),
        (REAL, "lost_periods: 100%", "loss_to_reach: low", "loss_to_reach: "),
        (SIMULATED, "plan: kill_one", "plan: kill_on", "small.yaml:7:9: .*kill_one"),
        (SIMULATED, "  plan: kill_one\n", "", "`plan: kill_half`"),
        (SIMULATED, "training.quorum: 4", "training.quorum: 5", "quorum=5: .*way all"),
        (SIMULATED, "training.quorum: 4", "training.quorun: 4", "`quorum`"),
        (SIMULATED, "plan: kill_one", "plan: kill_one\n  loss_to_reach: 1.8", "loss_to_reach"),
        (SIMULATED, "[goodput, uptime]", "[goodput, uptimes]", "`uptimes`"),
        (SIMULATED, "[goodput, uptime]}", "[goodput], measure: uptime}", "`columns`"),
        (SIMULATED, "measures: [goodput, uptime]}", "measure: uptime}", "`columns`|together"),
        (THIN, "matrix:", "seeds: 5\nmatrix:", "small.yaml:.*seeds: "),
        (SMALL.partition("seeds: ")[0], "[300k, 1.2M]\n",
         "[300k, 1.2M]\n  uptime: {all: {quorum: 1}}\n", "small.yaml:14:11: matrix.uptime: "),
        (SMALL, "simulate: renewal", "simulate: renewals", "small.yaml:5:11: simulate: "),
        (SMALL, "seeds: 3", "seeds: 1", "seeds: "),
        (SMALL, "seeds: 3", "seed: 3", "small.yaml:14:1: seed: "),
        (SMALL, "horizon: 2h", "horizon: 2", "small.yaml:6:17: base.horizon: "),
        (SMALL, "horizon: 2h", "horizn: 2h", "`horizon`"),
        (SMALL, "learners: 2}", "learners: 0}",
         "small.yaml:12:46: matrix.system.decoupled.learners: "),
        (SMALL, "policy: rigid", "policy: rigit", "small.yaml:11:21: .*`rigid`"),
        (SMALL, "[300k, 1.2M]", "[300k, 1.2X]", "small.yaml:13:17: "),
        (SMALL, "rows: system\n", "rows: systems\n", "`systems`"),
        (SMALL, "[57, 27]", "[57]", "values.rigid: "),
        (SMALL, "values: {rigid", "values: {rgid", "`rgid`"),
        (SMALL, "    where: {failures: one_per_year}\n", "", "where: .*failures"),
        (SMALL, "{slice_chips: assumed}", "{slices: assumed}", "`slices`"),
        (SMALL, "{measure: goodput, along", "{measure: goodputs, along", "`goodputs`"),
        (SMALL, "version: 1", "version: 2", "version: "),
        (SMALL, "name: small", "name: ../escaped", "small.yaml:3:7: name: "),
        (SMALL, "goodput, rows: system, columns: chips}", "goodput, rows: system, columns: system}",
         r"small.yaml:25:47: tables\[0\].columns: "),
        (SMALL, "rows: system\n    columns: chips", "rows: chips\n    columns: chips",
         r"small.yaml:19:14: published\[0\].columns: "),
        (SMALL, "along: chips, lines: system", "along: system, lines: system",
         r"small.yaml:27:50: figure.lines: "),
        (SMALL, SYSTEMS, "system: rigid", "matrix.system: "),
    ],
)  # fmt: skip
def test_a_mistake_is_named_where_it_is(
    tmp_path: Path, study: str, before: str, after: str, said: str
) -> None:
    assert before in study
    path = written(tmp_path, study.replace(before, after, 1))
    with pytest.raises(PlanError, match=said):
        load(path, quick_seeds=1 if study is REAL else None)


def test_what_has_no_chance_has_one_seed(tmp_path: Path) -> None:
    experiment, cells = load(written(tmp_path, THIN))
    assert (experiment.seeds, len(cells)) == (1, 4)


@pytest.mark.parametrize("key", ["name", "question", "simulate", "base", "matrix"])
def test_a_key_that_is_missing_is_asked_for(tmp_path: Path, key: str) -> None:
    lines = SMALL.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"{key}:"))
    after = next(n for n in range(first + 1, len(lines)) if not lines[n].startswith(" "))
    with pytest.raises(PlanError, match=f"{key}: "):
        load(written(tmp_path, "\n".join(lines[:first] + lines[after:])))
