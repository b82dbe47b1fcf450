"""`chaoslab research calibrate`: costs of real runs printed or written, simulated runs refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.record.journal_file import JournalFile
from chaoslab.sim.costs import Costs
from tests.histories import Story


def recorded(path: Path, fleet: str = "local") -> Path:
    """The journal of a story that is said to be of this fleet."""
    path.mkdir(parents=True)
    file = JournalFile(path)
    for told in Story().baseline().train(6).end().history().events:
        is_start = told.kind is Kind.RUN_STARTED
        event = replace(told, data={**told.data, "fleet": fleet}) if is_start else told
        file.append(event.to_line())
    file.close()
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return recorded(tmp_path / "runs" / "story" / "20260101T000000Z-000001")


def calibrate(*words: str) -> Result:
    return CliRunner().invoke(main, ["research", "calibrate", *words])


def test_it_prints_a_file_that_a_simulation_reads(run: Path, tmp_path: Path) -> None:
    done = calibrate(str(run))
    assert done.exit_code == ExitCode.PASS, done.output
    path = tmp_path / "costs.toml"
    path.write_text(done.stdout)
    assert Costs.read(path) != Costs()


def test_two_runs_count_twice(run: Path) -> None:
    other = recorded(run.with_name("20260101T000000Z-000002"))
    one = json.loads(calibrate(str(run), "--json").stdout)
    both = json.loads(calibrate(str(run), str(other), "--json").stdout)
    assert len(both["runs"]) == 2
    assert [cost["samples"] for cost in both["costs"]] == [
        2 * cost["samples"] for cost in one["costs"]
    ]


def test_a_simulated_run_is_refused(tmp_path: Path) -> None:
    done = calibrate(str(recorded(tmp_path / "20260101T000000Z-000003", fleet="sim")))
    assert done.exit_code == ExitCode.REFUSED
    assert "was simulated" in done.stderr
