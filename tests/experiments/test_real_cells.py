"""Cells that are real runs: what they measure, what gives no result, and mistakes in the file."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.experiments import real_cells
from chaoslab.experiments.file import load
from chaoslab.experiments.plan_cells import PlanCell, cell_of
from chaoslab.experiments.real_cells import MEASURES, measure
from chaoslab.experiments.simulated_runs import simulated
from chaoslab.prepare.plans import prepare
from chaoslab.record.run_directory import list_runs
from tests.experiments.studies import REAL, written


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, REAL)


def test_a_cell_is_the_plan_on_its_own_fleet(study: Path) -> None:
    experiment, cells = load(study)
    assert (experiment.kind, experiment.seeds, len(cells)) == ("run plan", 2, 2)
    for cell in cells:
        for line in ("kind: local", "rounds: 600", "twin: false"):
            assert line in cell.settings.resolved


def test_quick_settings_take_the_place_of_those_of_the_base(study: Path) -> None:
    experiment, cells = load(study, quick_seeds=1)
    assert experiment.seeds == 1
    assert all("rounds: 20" in cell.settings.resolved for cell in cells)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., PlanCell]:
    """A cell of kill_one whose run is simulated, and has these things changed."""
    base = {"plan": "kill_one", "training.step_time": "50ms"}

    def made(**changed: object) -> PlanCell:
        cell = cell_of({**base, "training.stop.rounds": 90, **changed})
        judged = simulated(prepare(cell.asked(1)))
        monkeypatch.setattr(real_cells, "run_and_judge", lambda *_: judged)
        return cell

    return made


@pytest.mark.deep
def test_what_a_run_shows_is_measured_and_what_it_cannot_show_is_none(
    ended: Callable[..., PlanCell],
) -> None:
    killed = measure(ended(), 1)
    assert set(killed) == set(MEASURES)
    assert 0 < killed["rejoin"] < 10
    assert 0 < killed["gap"] < 10
    assert killed["saving"] > 1
    assert 0 < killed["mean_rate"] <= killed["peak_rate"] < math.inf
    assert 0.5 < killed["free"] < 1
    assert killed["committed_free"] == pytest.approx(killed["committed"] / killed["free"])
    assert 0 < killed["bytes_per_token"] < 4 * 2 * 120_000 / (8 * 128)  # gradients in every step
    assert killed["loss"] == math.inf  # nothing was evaluated
    assert killed["time_to_loss"] == killed["tokens_to_loss"] == math.inf
    spared = measure(ended(faults=[]), 1)
    assert (spared["rejoin"], spared["free"]) == (math.inf, 1.0)


def test_how_soon_a_loss_is_reached_is_measured_between_snapshots(
    ended: Callable[..., PlanCell],
) -> None:
    trained = ended(faults=[], twin=True, **{"training.evaluate_every": "50k"})
    cell = replace(trained, loss_to_reach=1.8)
    reached = measure(cell, 1)
    losses = {
        one.payload.committed_tokens: one.payload.loss
        for one in real_cells.run_and_judge(prepare(cell.asked(1)), Path()).history.of(
            EvaluationMeasured
        )
    }
    below = [tokens for tokens, loss in losses.items() if loss <= 1.8]
    above = [tokens for tokens, loss in losses.items() if loss > 1.8]
    assert max(above) < reached["tokens_to_loss"] < min(below)
    assert reached["time_to_loss"] >= reached["tokens_to_loss"] * 0.05 / (4 * 8 * 128)
    never = measure(replace(cell, loss_to_reach=min(losses.values()) - 0.1), 1)
    assert never["time_to_loss"] == never["tokens_to_loss"] == math.inf


@pytest.mark.parametrize(
    ("code", "error", "raised"),
    [
        (ExitCode.BROKEN, None, FleetError),
        (ExitCode.FAIL, FleetError("the disk is full"), FleetError),
        (ExitCode.INTERRUPTED, None, KeyboardInterrupt),
    ],
)
def test_a_run_that_was_not_finished_gives_no_result(
    ended: Callable[..., PlanCell],
    monkeypatch: pytest.MonkeyPatch,
    code: ExitCode,
    error: FleetError | None,
    raised: type[BaseException],
) -> None:
    cell = ended(faults=[])
    judged = real_cells.run_and_judge(prepare(cell.asked(1)), Path())
    bad = replace(judged, verdict=replace(judged.verdict, exit_code=code), error=error)
    monkeypatch.setattr(real_cells, "run_and_judge", lambda *_: bad)
    with pytest.raises(raised):
        measure(cell, 1)


def test_a_run_that_the_machine_disturbed_is_made_again_and_three_times_at_most(
    ended: Callable[..., PlanCell], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = ended(faults=[])
    lost = [0.2, 0.06, 0.01]
    monkeypatch.setattr(real_cells, "_lost_share", lambda _: lost.pop(0))
    assert measure(cell, 1)["uptime"] == 1
    assert not lost
    lost = [0.2, 0.06, 0.07, 0.0]
    with pytest.raises(FleetError, match="7%"):
        measure(cell, 1)
    assert lost == [0.0]


@pytest.mark.gate
@pytest.mark.alone
def test_real_runs_are_made_once_and_kept_on_record(study: Path) -> None:

    def again(*more: str) -> str:
        done = CliRunner().invoke(main, ["research", "experiment", str(study), "--quick", *more])
        assert done.exit_code == ExitCode.PASS, done.output
        return done.output

    assert "2 runs to do" in again()
    runs = list_runs(Path("runs"))
    assert [run.plan_name for run in runs] == ["kill_one", "kill_one"]
    lines = Path("runs/experiments/small/quick/results.jsonl").read_text("utf-8").splitlines()
    assert all(json.loads(line)["values"]["fails"] == 0 for line in lines)
    assert "0 runs to do" in again()
    assert len(list_runs(Path("runs"))) == 2
    assert not Path("small").exists()
