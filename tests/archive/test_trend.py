"""Margins over runs: which fall, by how much, and what is no part of the trend."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaoslab.archive.index import index
from chaoslab.archive.trend import RUNS_LEAST, Direction, LeftOut, Trend, slope, trend
from chaoslab.checks.base import Outcome
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.undo.log import UndoLogFile
from tests.archive.records import HOST, PLAN, record


def over(root: Path, margins: Sequence[float | Outcome], *, last: int = 30) -> Trend:
    for day, margin in enumerate(margins):
        record(root, {"rejoin": margin, "ledger": None}, day=day)
    return trend(index(root), last=last)


# ---------------------------------------------------------------- the slope


@pytest.mark.parametrize(
    ("margins", "per_run", "falls"),
    [
        ([1.0, 0.9, 0.8, 0.7, 0.6, 0.5], -0.1, True),
        ([0.5, 0.5, 0.5, 0.1, 0.5, 0.5, 0.5, 0.5], 0.0, False),
    ],
)
def test_a_straight_line_has_its_slope_and_one_unlucky_run_is_no_trend(
    margins: list[float], per_run: float, falls: bool
) -> None:
    found = slope(margins)
    assert (found.per_run, found.falls) == (pytest.approx(per_run), falls)
    assert slope(margins[: RUNS_LEAST - 1]) is None


@pytest.mark.parametrize("drift", [0.0, -0.02])
@pytest.mark.parametrize("runs", [6, 12])
def test_the_interval_holds_the_true_slope_as_often_as_it_says(runs: int, drift: float) -> None:
    chance, held, tries = random.Random(7), 0, 400
    for _ in range(tries):
        found = slope([0.5 + drift * run + chance.gauss(0, 0.1) for run in range(runs)])
        held += found.low <= drift <= found.high
    assert held / tries >= 0.975


# ---------------------------------------------------------------- the trend


def test_a_green_gate_that_erodes_has_so_many_runs_left(tmp_path: Path) -> None:
    found = over(tmp_path, [0.8, 0.72, 0.65, 0.6, 0.51, 0.44, 0.38])
    (rejoin,) = found.eroding(0.1)
    assert (rejoin.check, rejoin.direction) == ("rejoin", Direction.FALLING)
    assert rejoin.runs_left == pytest.approx(0.38 / 0.07, rel=0.05)


@pytest.mark.parametrize(
    ("margins", "most", "direction", "code"),
    [
        ([0.8, 0.72, 0.65, 0.6, 0.51, 0.44, 0.38], 0.1, Direction.FALLING, ExitCode.FAIL),
        ([0.99 - 0.005 * run for run in range(8)], 0.1, Direction.FALLING, ExitCode.PASS),
        ([0.99 - 0.005 * run for run in range(8)], 0.01, Direction.FALLING, ExitCode.FAIL),
        ([0.5, 0.7, 0.4, 0.6, 0.45, 0.65, 0.5, 0.55], 0.1, Direction.STEADY, ExitCode.PASS),
        ([0.1 * run for run in range(1, 9)], 0.1, Direction.RISING, ExitCode.PASS),
        ([*[0.5] * 7, -0.1], 0.1, Direction.STEADY, ExitCode.FAIL),
        ([*[0.5] * 7, Outcome.UNKNOWN], 0.1, Direction.STEADY, ExitCode.UNKNOWN),
    ],
)
def test_a_gate_is_green_while_its_newest_run_passes_and_no_margin_falls_too_far(
    tmp_path: Path, margins: Sequence[float | Outcome], most: float, direction: Direction,
    code: ExitCode,
) -> None:  # fmt: skip
    found = over(tmp_path, margins)
    assert (found.margins[0].direction, found.exit_code(most)) == (direction, code)


def test_too_few_runs_are_unknown_and_how_many_are_missing_is_told(tmp_path: Path) -> None:
    found = over(tmp_path, [0.9, 0.5, 0.1])
    assert found.exit_code(0.1) is ExitCode.UNKNOWN
    assert found.runs_missing == RUNS_LEAST - 3


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("run.json", "{", LeftOut.DAMAGED),
        ("verdict.json", "{", LeftOut.UNREADABLE),
        ("verdict.json", None, LeftOut.NOT_JUDGED),
    ],
)
def test_a_gate_whose_newest_run_has_no_verdict_is_not_green(
    tmp_path: Path, file: str, text: str | None, why: LeftOut
) -> None:
    assert over(tmp_path, [0.5] * 7).exit_code(0.1) is ExitCode.PASS
    newest = record(tmp_path, {"rejoin": 0.5}, day=8)
    path = newest.directory.path / file
    path.unlink()
    if text is not None:
        path.write_text(text)
    record(tmp_path, {"rejoin": 0.5}, day=-1)
    with UndoLogFile(record(tmp_path, day=9).directory.path):
        found = trend(index(tmp_path), last=30)
    assert (found.without_verdict[0].directory.id, found.without_verdict[1]) == (
        newest.directory.id, why,
    )  # fmt: skip
    assert found.exit_code(0.1) is ExitCode.UNKNOWN


def test_a_run_that_goes_on_leaves_the_gate_green(tmp_path: Path) -> None:
    over(tmp_path, [0.5] * 7)
    broken = record(tmp_path, {"rejoin": 0.5}, day=-1)
    (broken.directory.path / "run.json").write_text("{")
    with UndoLogFile(record(tmp_path, day=8).directory.path):
        assert trend(index(tmp_path), last=30).exit_code(0.1) is ExitCode.PASS
    assert trend(index(tmp_path), last=30).exit_code(0.1) is ExitCode.UNKNOWN


def test_checks_without_margins_need_no_more_runs(tmp_path: Path) -> None:
    record(tmp_path, {"ledger": None, "agreement": None})
    found = trend(index(tmp_path), last=30)
    assert (found.has_margins, found.runs_missing) == (False, 0)
    assert found.exit_code(0.1) is ExitCode.PASS


def test_only_runs_like_the_newest_count_and_the_others_are_told(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.9}, day=-1, text=PLAN.replace("5s", "9s"))
    record(tmp_path, {"rejoin": 0.9}, day=-2, host={**HOST, "cores": 2})
    record(tmp_path, {"rejoin": 0.9}, day=-3, fleet="docker")
    record(tmp_path, day=20)
    broken = record(tmp_path, {"rejoin": 0.9}, day=-4)
    (broken.directory.path / "verdict.json").write_text("{}")
    damaged = record(tmp_path, {"rejoin": 0.9}, day=-5)
    (damaged.directory.path / "run.json").write_text("")
    record(tmp_path, {"rejoin": 0.9}, day=-6, seed=9, text=PLAN.replace("seed: 1", "seed: 9"),
           host={**HOST, "release": "7.0"})  # fmt: skip
    found = over(tmp_path, [0.5] * 6)
    assert found.margins[0].margins == pytest.approx((0.9, *[0.5] * 6)), "other seeds and kernels"
    assert found.left_out == {
        LeftOut.OTHER_PLAN: 1, LeftOut.OTHER_MACHINE: 1, LeftOut.OTHER_FLEET: 1,
        LeftOut.NOT_JUDGED: 1, LeftOut.UNREADABLE: 1, LeftOut.DAMAGED: 1,
    }  # fmt: skip


def test_an_unknown_finding_has_no_place_in_a_series(tmp_path: Path) -> None:
    found = over(tmp_path, [0.5, Outcome.UNKNOWN, 0.25])
    assert found.margins[0].margins == (0.5, 0.25)


def test_the_last_runs_are_the_newest(tmp_path: Path) -> None:
    found = over(tmp_path, [0.1 * run for run in range(1, 9)], last=3)
    assert found.margins[0].margins == pytest.approx((0.6, 0.7, 0.8))


def test_a_plan_without_a_judged_run_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    (record(tmp_path).directory.path / "run.json").write_text("{")
    with pytest.raises(PlanError, match=r"run\.json"):
        trend(index(tmp_path), last=5)
    whole = record(tmp_path, day=-1).directory.path
    with pytest.raises(PlanError, match=rf"chaoslab show .*{whole.name}"):
        trend(index(tmp_path), last=5)
