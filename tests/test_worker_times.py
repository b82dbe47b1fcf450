"""What is said at the end of a run of pytest about its workers."""

import time

import pytest

from tests.worker_times import WorkerTimes, group_of


def report(nodeid: str, duration: float, worker: str) -> pytest.TestReport:
    made = pytest.TestReport(
        nodeid, ("", None, ""), {}, "passed", None, "call", duration=duration,
    )  # fmt: skip
    made.worker_id = worker  # as xdist does
    return made


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/test_a.py::test_b", "others"),
        ("tests/test_a.py::test_b[user@host]", "others"),
        ("tests/test_a.py::test_b[user@host]@real", "real"),
        ("tests/test_a.py::test_b@patient tests/test_a.py", "patient"),
        ("tests/test_a.py::test_b@patient kubernetes", "patient kubernetes"),
        ("tests/test_a.py::test_b@tests/test_a.py", "others"),
        ("tests/test_a.py::test_b@site", "site"),
    ],
)
def test_a_test_belongs_to_the_group_behind_its_name(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_each_worker_and_each_group_has_a_line() -> None:
    times = WorkerTimes()
    for nodeid, spent_s, worker in (
        ("tests/test_a.py::test_b@real", 70.0, "gw0"), ("tests/test_a.py::test_c", 1.0, "gw0"),
        ("tests/test_d.py::test_e@real", 50.0, "gw0"), ("tests/test_a.py::test_f", 2.0, "gw1"),
        ("tests/test_a.py::test_g", 9.0, ""),
    ):  # fmt: skip
        times.pytest_runtest_logreport(report(nodeid, spent_s, worker))
    now_s = time.monotonic()
    assert times.lines(now_s + 30) == [
        "gw0: real 120 s, others 1 s; nothing to do for the last 30 s",
        "gw1: others 2 s; nothing to do for the last 30 s",
        "longest of others: tests/test_a.py 3 s",
        "longest of real: tests/test_a.py 70 s, tests/test_d.py 50 s",
    ]
