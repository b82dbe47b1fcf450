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
    done = run_once("--repeat", "4", "--json", "--quiet", "--no-control")
    assert done.exit_code == 1
    whole = json.loads(done.stdout)
    assert whole["outcomes"] == {"PASS": 3, "FAIL": 1}
    assert [one["exit_code"] for one in whole["records"]] == [0, 1, 0, 0]
    rejoin = next(one for one in whole["findings"] if one["check"] == "rejoin")
    assert (rejoin["failed"], rejoin["flake_rate"]) == (1, 0.25)
    low, high = rejoin["flake_interval"]
    assert (round(low, 3), round(high, 3)) == (0.046, 0.699)
    assert rejoin["margin_min"] is not None
    assert records(tmp_path) == 4


def test_each_run_is_announced_and_the_page_ends_with_the_rates(flaky: FlakyFleets) -> None:
    done = run_once("--repeat", "2", "--quiet", "--no-control")
    assert done.exit_code == 0
    assert "1/2 PASS runs/one_dies/" in done.stderr
    assert "2 runs: 2 PASS; " in done.stdout


def test_until_failure_ends_with_the_first_run_that_is_not_pass(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.failing = frozenset({3})
    done = run_once("--until-failure", "--quiet", "--no-control")
    assert (done.exit_code, records(tmp_path)) == (1, 3)


@pytest.mark.parametrize(("tolerated", "exit_code"), [("50%", 0), ("1", 0), ("0", 1), ("49%", 1)])
def test_a_gate_tolerates_what_it_says(flaky: FlakyFleets, tolerated: str, exit_code: int) -> None:
    flaky.failing = frozenset({1})
    done = run_once("--repeat", "2", "--tolerate", tolerated, "--quiet", "--no-control")
    assert done.exit_code == exit_code
    assert ("tolerated: " in done.stderr) is (exit_code == 0)


def test_a_harness_that_breaks_ends_the_repetition_and_is_never_tolerated(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.crash = FleetError("the world is gone")
    done = run_once("--repeat", "5", "--tolerate", "99%", "--quiet", "--no-control")
    assert (done.exit_code, records(tmp_path)) == (ExitCode.BROKEN, 1)
    assert "the world is gone" in done.stderr


def test_an_interrupt_ends_the_repetition_after_its_summary(
    flaky: FlakyFleets, tmp_path: Path
) -> None:
    flaky.interrupted_at_s = 5.0
    done = run_once("--repeat", "5", "--quiet", "--no-control")
    assert (done.exit_code, records(tmp_path)) == (ExitCode.INTERRUPTED, 1)
    assert "1 run:" in done.stdout


def test_tolerance_without_repetition_is_refused(flaky: FlakyFleets, tmp_path: Path) -> None:
    done = run_once("--tolerate", "5%")
    assert done.exit_code == 2
    assert "--repeat" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "asked", [("--repeat", "2", "--tolerate", "2"), ("--until-failure", "--tolerate", "1")]
)
def test_a_tolerance_that_no_run_can_exceed_is_refused(
    flaky: FlakyFleets, tmp_path: Path, asked: tuple[str, ...]
) -> None:
    done = run_once(*asked)
    assert done.exit_code == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("text", ["many", "100%", "-1", "", "1.5"])
def test_a_tolerance_is_a_number_of_runs_or_a_share_below_all(text: str) -> None:
    with pytest.raises(PlanError, match="--tolerate"):
        allowed(text)


def test_a_percentage_is_a_share_and_a_bare_number_counts_runs() -> None:
    assert (allowed("5%"), allowed("0%"), allowed("2")) == (0.05, 0.0, 2)
    assert isinstance(allowed("2"), int)
