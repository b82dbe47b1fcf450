"""`chaoslab research fuzz`: what it prints, writes and returns."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.fuzz.plans import draw
from chaoslab.fuzz.search import Shrunk, Trial
from chaoslab.plan.model import FaultPlan
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.plans import Asked, decode
from chaoslab.replay.minimise import Ending

_BROKEN = frozenset({("ledger", "merged_twice")})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan violates the ledger, also without faults."""

    def run(plan: FaultPlan) -> Trial:
        reasons = ("ledger: a push counts twice",)
        return Trial(plan=plan, injections=(), violations=_BROKEN, reasons=reasons)

    monkeypatch.setattr("chaoslab.fuzz.search.run", run)


def fuzz(*words: str) -> Result:
    return CliRunner().invoke(main, ["research", "fuzz", "--jobs", "1", *words])


def test_seeds_without_a_violation_are_a_pass() -> None:
    done = fuzz("--from", "2", "--seeds", "1")
    assert done.exit_code == ExitCode.PASS, done.output
    assert done.stdout.startswith("1 seed tried (")
    assert "0 failing" in done.stdout
    assert done.stderr.splitlines() == ["fuzz: 1 simulation to do", "fuzz: 100 %"]
    assert not Path("runs").exists()


def all_fail(monkeypatch: pytest.MonkeyPatch, ending: Ending) -> None:
    """Every plan fails, and every search for the least one ends so."""

    def run(plan: FaultPlan) -> Trial:
        injections = schedule(plan, roster_of(plan)).injections
        return Trial(plan=plan, injections=injections, violations=_BROKEN, reasons=("ledger",))

    def shrink(trial: Trial) -> Shrunk:
        return Shrunk(plan=trial.plan, trial=trial, ending=ending, runs=1)

    monkeypatch.setattr("chaoslab.fuzz.search.run", run)
    monkeypatch.setattr("chaoslab.cli.research.fuzz.shrink", shrink)


def test_the_least_plan_is_named_as_a_shell_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    all_fail(monkeypatch, Ending.MINIMAL)
    done = fuzz("--from", "17", "--seeds", "1", "--out", "all plans")
    assert "next: chaoslab run 'all plans/17.least.yaml'   " in done.stderr


def test_an_interrupt_while_a_seed_is_shrunk_ends_the_search_and_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_fail(monkeypatch, Ending.INTERRUPTED)
    done = fuzz("--from", "17", "--seeds", "3", "--keep-going", "--out", "all")
    assert done.exit_code == ExitCode.INTERRUPTED
    assert [path.name for path in sorted(Path("all").iterdir())] == ["17.least.yaml", "17.yaml"]


@pytest.mark.usefixtures("_fails")
def test_a_failing_seed_prints_how_to_simulate_it_again_and_writes_its_plan() -> None:
    done = fuzz("--from", "17", "--seeds", "5")
    assert done.exit_code == ExitCode.FAIL
    assert "seed 17 fails: ledger: a push counts twice" in done.stderr
    assert "chaoslab research fuzz --from 17 --seeds 1" in done.stderr
    assert done.stdout.startswith("1 seed tried (")
    plan, _ = decode(Asked(plan="runs/fuzz/17.yaml"))
    assert [fault.fault for fault in plan.faults] == [fault.fault for fault in draw(17).faults]
    assert plan.training == draw(17).training


@pytest.mark.usefixtures("_fails")
def test_it_goes_on_when_asked_to_and_says_all_as_json() -> None:
    done = fuzz("--from", "3", "--seeds", "3", "--keep-going", "--json")
    value = json.loads(done.stdout)
    assert (value["seeds"], [one["seed"] for one in value["failing"]]) == (3, [3, 4, 5])
    assert value["failing"][0]["violations"] == ["ledger: merged_twice"]
