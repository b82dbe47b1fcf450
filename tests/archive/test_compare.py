"""Two runs side by side: which findings got worse, and what changed in between."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.archive.compare import Area, Pair, Regression, changes, compare
from chaoslab.checks.base import Outcome
from chaoslab.checks.pacing import NOISE
from chaoslab.core.errors import ExitCode
from tests.archive.records import PLAN, finding, record

UNKNOWN, FAIL = Outcome.UNKNOWN, Outcome.FAIL


@pytest.mark.parametrize(
    ("before", "after", "regression"),
    [
        (0.5, 0.5, Regression.NONE),
        (0.5, 0.41, Regression.NONE),
        (0.5, 0.39, Regression.WORSE),
        (0.5, -0.1, Regression.WORSE),
        (-0.1, -0.3, Regression.WORSE),
        (-0.1, -0.15, Regression.NONE),
        (-0.1, 0.5, Regression.NONE),
        (0.05, -0.01, Regression.WORSE),
        (0.5, UNKNOWN, Regression.UNKNOWN),
        (UNKNOWN, UNKNOWN, Regression.NONE),
        (UNKNOWN, 0.1, Regression.NONE),
        (UNKNOWN, FAIL, Regression.WORSE),
    ],
)
def test_a_margin_may_fall_by_so_much_and_no_more(
    before: float | Outcome, after: float | Outcome, regression: Regression
) -> None:
    pair = Pair(check="c", before=finding("c", before), after=finding("c", after))
    assert pair.regression(0.1) is regression


def test_a_check_that_only_one_run_has_is_worse_if_it_fails_and_open_if_it_is_gone() -> None:
    passed, failed = finding("c", 0.5), finding("c", FAIL)
    assert Pair(check="c", before=None, after=failed).regression(0.1) is Regression.WORSE
    assert Pair(check="c", before=None, after=passed).regression(0.1) is Regression.NONE
    assert Pair(check="c", before=passed, after=None).regression(0.1) is Regression.UNKNOWN
    assert Pair(check="c", before=failed, after=None).regression(0.1) is Regression.NONE


def test_a_pair_has_the_noise_of_both_baselines() -> None:
    quiet = replace(finding("recovery", 0.5), numbers={NOISE: 0.01})
    assert Pair(check="recovery", before=quiet, after=None).noises == (0.01, None)
    noisy = replace(quiet, numbers={NOISE: 0.2})
    assert Pair(check="recovery", before=quiet, after=noisy).noises == (0.01, 0.2)


def test_the_worst_finding_decides(tmp_path: Path) -> None:
    good = record(tmp_path, {"rejoin": 0.5, "ledger": None})
    worse = record(tmp_path, {"rejoin": 0.1, "ledger": UNKNOWN})
    open_ = record(tmp_path, {"rejoin": 0.6, "ledger": UNKNOWN})
    assert compare(good, good).exit_code(0.1) is ExitCode.PASS
    assert compare(good, worse).exit_code(0.1) is ExitCode.FAIL
    assert compare(good, open_).exit_code(0.1) is ExitCode.UNKNOWN


# ---------------------------------------------------------------- what changed


def test_equal_runs_have_no_changes(tmp_path: Path) -> None:
    assert changes(record(tmp_path), record(tmp_path, day=1)) == ()


def test_every_part_of_a_run_that_differs_is_told(tmp_path: Path) -> None:
    found = changes(
        record(tmp_path),
        record(
            tmp_path, seed=2, schedule_hash="0f", code={"code": "beef"}, versions={"jax": "0.7"},
            host={"system": "Linux", "machine": "x86_64", "cores": 4, "release": "6.1"},
        ),
    )  # fmt: skip
    told = [(one.area, one.what, one.before, one.after) for one in found]
    assert (Area.SEED, "seed", "1", "2") in told
    assert (Area.SCHEDULE, "targets and times", "", "others") in told
    assert (Area.CODE, "sources", "c0de", "beef") in told
    assert (Area.CODE, "jax", "0.6", "0.7") in told
    assert (Area.MACHINE, "cores", "8", "4") in told


def test_a_plan_is_compared_key_by_key_and_what_is_new_as_a_whole(tmp_path: Path) -> None:
    more = PLAN.replace("5s", "6s") + "- id: waits\n  fault: process.pause\n"
    found = changes(record(tmp_path), record(tmp_path, text=more))
    assert [(one.what, one.before, one.after) for one in found] == [
        ("faults[dies].for", "5s", "6s"),
        ("faults[waits]", "", "{id: waits, fault: process.pause}"),
    ]
