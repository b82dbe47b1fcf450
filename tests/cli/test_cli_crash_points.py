"""`chaoslab research crash-points`: exit codes, JSON, the record, plans that it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.trainers.crash_points import Outcome, Point, Sweep

PLAN = r"""
version: 1
name: saves
training:
  script: {command: "true", progress: 'step (?P<step>\d+)', saved: 'saved (?P<step>\d+)'}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN)


def crash_points(*words: str) -> Result:
    return CliRunner().invoke(main, ["research", "crash-points", "plan.yaml", *words])


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.OK, ExitCode.PASS),
        (Outcome.LOST, ExitCode.FAIL),
        (Outcome.STUCK, ExitCode.FAIL),
        (Outcome.NOT_REACHED, ExitCode.UNKNOWN),
    ],
)
def test_the_worst_outcome_is_the_exit_code_and_the_record_of_an_ok_sweep_is_removed(
    outcome: Outcome, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        Point(number=at + 1, call="write", file="a.pt", outcome=one, complete=10, resumed=10)
        for at, one in enumerate((Outcome.OK, outcome))
    ]
    found = Sweep(save=2, step=20, operations=1, points=points, is_implied=False, blind=())
    monkeypatch.setattr("chaoslab.cli.research.crash_points.sweep", lambda *_, **__: found)
    assert crash_points().exit_code == code
    done = crash_points("--json")
    assert done.exit_code == code, done.output
    told = json.loads(done.stdout)
    assert [point["outcome"] for point in told["points"]] == ["ok", outcome]
    assert (told["record"] is None) == (outcome is Outcome.OK)
    if told["record"]:
        kept = json.loads((Path(told["record"]) / "crash-points.json").read_text())
        assert kept["points"] == told["points"]
    else:
        assert not any(Path("runs/crash-points").iterdir())


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("training.script.workers=2", "training.script"),
        ("training.script.progress='loss (?P<loss>.+)'", "training.script.progress"),
        ("training.script.from={file: train.log}", "training.script.from"),
        ("training.script=null", "training"),
    ],
)
def test_a_plan_that_has_no_crash_points_is_refused_at_its_key(setting: str, key: str) -> None:
    done = crash_points("--set", setting)
    assert done.exit_code == ExitCode.REFUSED, done.output
    assert key in done.stderr
    assert not Path("runs").exists()
