"""`chaoslab run --repeat`: flake rates, the exit code of all runs, and what ends a repetition."""

import json
from pathlib import Path

import pytest

from chaoslab.cli.commands.repetition import allowed
from chaoslab.core.errors import ExitCode, FleetError, PlanError
from tests.cli.test_cli import FakeFleets, call, fleets, run_once  # noqa: F401  # a fixture
from tests.fakes import FakeFleet, Troubles

ALL = frozenset({"learner-0", "learner-1", "learner-2"})


class FlakyFleets(FakeFleets):
    """Of the runs that are made, those of `failing` lose their victim for good."""

    failing: frozenset[int] = frozenset()

    def __call__(self, *given: object, **named: object) -> FakeFleet:
        is_failing = len(self.made) + 1 in self.failing
        self.troubles = Troubles(not_back=ALL if is_failing else frozenset())
        return super().__call__(*given, **named)  # type: ignore[arg-type]  # handed on as it came


@pytest.fixture
def flaky(fleets: FakeFleets) -> FlakyFleets:  # noqa: F811
    fleets.__class__ = FlakyFleets
    assert isinstance(fleets, FlakyFleets)
    return fleets


def records(tmp_path: Path) -> int:
    return len(list((tmp_path / "runs/one_dies").glob("[!l]*")))


def test_every_finding_has_its_flake_rate_with_an_interval(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.failing = frozenset({2})
    done = run_once("--repeat", "4", "--json", "--quiet", "--no-twin")
    assert done.exit_code == 1
    whole = json.loads(done.stdout)
    assert whole["outcomes"] == {"PASS": 3, "FAIL": 1}
    assert [one["exit_code"] for one in whole["records"]] == [0, 1, 0, 0]
    rejoin = next(one for one in whole["findings"] if one["check"] == "rejoin")
    assert (rejoin["failed"], rejoin["flake_rate"]) == (1, 0.25)
    assert rejoin["flake_interval"] == pytest.approx([0.046, 0.699], abs=0.001)
    assert rejoin["margin_min"] is not None
    assert records(tmp_path) == 4


def test_until_failure_ends_with_the_first_run_that_is_not_pass(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.failing = frozenset({3})
    done = run_once("--until-failure", "--quiet", "--no-twin")
    assert (done.exit_code, records(tmp_path)) == (1, 3)


@pytest.mark.parametrize(("tolerated", "exit_code"), [("50%", 0), ("1", 0), ("0", 1), ("49%", 1)])
def test_a_gate_tolerates_what_it_says(flaky: FlakyFleets, tolerated: str, exit_code: int) -> None:
    flaky.failing = frozenset({1})
    done = run_once("--repeat", "2", "--tolerate", tolerated, "--quiet", "--no-twin")
    assert done.exit_code == exit_code
    assert "1/2 FAIL runs/one_dies/" in done.stderr


def test_a_harness_that_breaks_ends_the_repetition_and_is_never_tolerated(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.crash = FleetError("the world is gone")
    done = run_once("--repeat", "5", "--tolerate", "99%", "--quiet", "--no-twin")
    assert (done.exit_code, records(tmp_path)) == (ExitCode.BROKEN, 1)


def test_an_interrupt_ends_the_repetition_after_its_summary(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.interrupted_at_s = 5.0
    done = run_once("--repeat", "5", "--quiet", "--no-twin")
    assert (done.exit_code, records(tmp_path)) == (ExitCode.INTERRUPTED, 1)
    assert "1 run:" in done.stdout


@pytest.mark.parametrize(
    "asked", ["--tolerate 5%", "--repeat 2 --tolerate 2", "--until-failure --tolerate 1"]
)
def test_a_tolerance_that_no_run_can_exceed_is_refused(
    flaky: FlakyFleets, tmp_path: Path, asked: str
) -> None:
    assert run_once(*asked.split()).exit_code == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("text", ["many", "100%", "-1", "", "1.5"])
def test_a_tolerance_is_a_number_of_runs_or_a_share_below_all(text: str) -> None:
    with pytest.raises(PlanError, match="--tolerate"):
        allowed(text)
