"""`chaoslab research experiment`: what it prints, writes and returns."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from tests.contracts.fleet_kit import wait_until
from tests.experiments.studies import SMALL, written

RECORDS = Path("runs/experiments/small")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str, text: str = SMALL) -> Result:
    written(Path(), text)
    return CliRunner().invoke(main, ["research", "experiment", "small.yaml", "--jobs", "1", *words])


def test_it_prints_the_tables_and_writes_page_table_and_figure() -> None:
    done = run()
    assert done.exit_code == ExitCode.PASS, done.output
    assert "| system | 300k | 1.2M |" in done.stdout
    assert "95 % interval" in done.stdout
    assert sorted(path.name for path in RECORDS.iterdir()) == [
        "README.md", "figure.svg", "results.csv", "results.jsonl",
    ]  # fmt: skip
    assert sorted(path.name for path in Path().iterdir()) == ["runs", "small.yaml"]
    assert "chaoslab research experiment small.yaml" in (RECORDS / "README.md").read_text()
    assert "small: 24 simulations" in done.stderr


def test_the_page_shows_the_command_as_a_shell_takes_it() -> None:
    written(Path(), SMALL)
    Path("small.yaml").rename("my small.yaml")
    words = ["research", "experiment", "my small.yaml", "--set", "seeds=2"]
    done = CliRunner().invoke(main, [*words, "--jobs", "1"])
    assert done.exit_code != ExitCode.REFUSED, done.output
    page = (RECORDS / "README.md").read_text()
    assert "chaoslab research experiment 'my small.yaml' --set seeds=2" in page


def test_a_second_run_simulates_nothing_and_gives_the_same_bytes() -> None:
    run()
    first = {path.name: path.read_bytes() for path in RECORDS.iterdir()}
    for words, number in (((), 0), (("--fresh",), 24)):
        assert f"small: {number} simulations" in run(*words).stderr
        assert {path.name: path.read_bytes() for path in RECORDS.iterdir()} == first


def test_a_quick_run_leaves_the_records_of_the_full_one_as_they_are() -> None:
    run()
    before = (RECORDS / "results.jsonl").read_bytes()
    assert "small: 8 simulations" in run("--quick", "--fresh").stderr
    assert (RECORDS / "results.jsonl").read_bytes() == before
    assert {path.name for path in (RECORDS / "quick").iterdir()} == {
        "README.md", "figure.svg", "results.csv", "results.jsonl",
    }  # fmt: skip
    assert "small: 0 simulations" in run("--quick").stderr


def test_published_values_that_are_missed_are_a_fail() -> None:
    done = run(text=SMALL.replace("max_rms: 20", "max_rms: 0.001"))
    assert done.exit_code == ExitCode.FAIL


def test_json_is_one_value_on_stdout() -> None:
    done = run("--json", "--out", "elsewhere", "--set", "seeds=2")
    value = json.loads(done.stdout)
    assert (value["experiment"], value["seeds"], value["exit_code"]) == ("small", 2, 0)
    assert len(value["cells"]) == 8
    assert value["cells"][0]["labels"]["system"] == "rigid"
    goodput = value["cells"][0]["measures"]["goodput"]
    assert (0 < goodput["mean"] < 1, goodput["published"]) == (True, 57)
    assert value["published"][0]["is_within"] is True
    assert Path("elsewhere/README.md").is_file()
    assert not (RECORDS / "README.md").exists()


def test_a_mistake_in_the_file_is_refused_and_nothing_is_written() -> None:
    done = run(text=SMALL.replace("seeds: 3", "seeds: 0"))
    assert done.exit_code == ExitCode.REFUSED
    assert "seeds: " in done.stderr
    assert [path.name for path in Path().iterdir()] == ["small.yaml"]


def test_an_interrupt_keeps_what_was_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: str) -> Callable[[int, int], None]:
        def say(done: int, _every: int) -> None:
            if done == 5:
                raise KeyboardInterrupt

        return say

    with monkeypatch.context() as patch:
        patch.setattr("chaoslab.cli.research.experiment.progress", interrupted)
        assert run().exit_code == ExitCode.INTERRUPTED
    assert not (RECORDS / "README.md").exists()
    assert "small: 19 simulations" in run().stderr


LONG = """
version: 1
name: long
question: What is left of a study that is ended?
simulate: plan
base:
  plan: mtbf_soak
  training.step_time: 500ms
  training.stop: {time: 60s}
  faults: []
  expect: []
constants: {training.step_time: assumed, faults: none}
matrix:
  K: {one: {training.quorum: 1}, two: {training.quorum: 2}}
seeds: 1000
tables:
  - {rows: K, measures: [committed]}
"""
"""More simulations than are done before the signal, each of them short."""


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_that_ends_it_leaves_no_temporary_folder(
    tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    study = tmp_path / "long.yaml"
    study.write_text(LONG, encoding="utf-8")
    words = ["-m", "chaoslab", "research", "experiment", str(study), "--jobs", "2", "--out", "page"]
    with subprocess.Popen(
        [sys.executable, *words],
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
    ) as command:
        try:
            wait_until(lambda: any(temporary.glob("chaoslab-simulated-*")))
            command.send_signal(number)
            code = command.wait(60)
        finally:
            command.kill()
    wait_until(lambda: not any(temporary.iterdir()))
    assert code == (-signal.SIGKILL if number is signal.SIGKILL else ExitCode.INTERRUPTED)
