"""Which tests a run of pytest takes, and what its last lines say."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.deep import options

pytest_plugins = ["pytester"]

CONFTEST = "from tests.conftest import *\n"
SETTINGS = (
    "[pytest]\ntestpaths = test_cases\nmarkers =\n  gate:\n  deep:\n  alone:\n  soak:\n  docker:\n"
)
TESTS = """
import pytest

def test_quick(): pass

@pytest.mark.gate
def test_gate(): pass

@pytest.mark.deep
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.gate), "a@b"])
def test_deep(n): pass

@pytest.mark.deep
@pytest.mark.docker
def test_docker(): assert FAILS == 0

FAILS = 1
"""
MORE = """
import pytest
pytestmark = [pytest.mark.deep, pytest.mark.docker]

def test_more(): pass
"""
RUN = """
import json, pytest
pytestmark = pytest.mark.gate

@pytest.mark.parametrize("n", range(RUNS))
def test_run(tmp_path, n):
    (tmp_path / "journal.jsonl").touch()
    finding = {"check": "rejoin", "outcome": "OUTCOME", "reason": "late", "codes": ["CODE"]}
    verdict = {"outcome": "OUTCOME", "findings": [finding]}
    (tmp_path / "verdict.json").write_text(json.dumps(verdict))
    assert verdict["outcome"] == "PASS", "the verdict is OUTCOME"
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(SETTINGS)
    for folder in ("test_cases", "docker"):
        (pytester.path / folder).mkdir()
    (pytester.path / "test_cases" / "conftest.py").write_text(CONFTEST)
    write(pytester, "marks", TESTS)
    return pytester


def write(suite: pytest.Pytester, name: str, text: str, **values: object) -> None:
    """A module of tests, each NAME in its text replaced."""
    for word, value in values.items():
        text = text.replace(word, str(value))
    (suite.path / "test_cases" / f"test_{name}.py").write_text(text)


def run(suite: pytest.Pytester, *words: str, workers: int = 0) -> tuple[int, Sequence[str]]:
    """Exit code and lines of a run of pytest; one with workers is a process of its own."""
    start = suite.runpytest_subprocess if workers else suite.runpytest_inprocess
    done = start("-q", "-rfE", "-p", "no:cacheprovider", "-n", str(workers), *words)
    return int(done.ret), done.outlines


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], "1 passed, 5 deselected"),
        (["test_cases"], "1 passed, 5 deselected"),
        (["--tier", "gate"], "2 passed, 4 deselected"),
        (["--tier", "deep", "--part", "others"], "2 passed, 4 deselected"),
        (["test_cases/test_marks.py", "-k", "not docker"], "5 passed, 1 deselected"),
    ],
)
def test_a_run_takes_one_tier_unless_a_file_is_named(
    suite: pytest.Pytester, words: list[str], count: str
) -> None:
    code, lines = run(suite, *words)
    assert code == 0
    assert count in lines[-1]


def test_a_quick_test_that_needs_more_than_python_is_refused(suite: pytest.Pytester) -> None:
    write(suite, "engine", "import pytest\n@pytest.mark.docker\ndef test_engine(): pass\n")
    code, lines = run(suite)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert not [line for line in lines if "passed" in line]


@pytest.mark.gate
def test_a_part_goes_on_with_what_has_not_passed(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    passed = suite.path / "docker.passed"
    write(suite, "more", MORE)
    again = options("docker", passed)
    code, lines = run(suite, *again, workers=2)
    assert (code, "1 failed, 1 passed" in lines[-1]) == (1, True)
    write(suite, "marks", TESTS.replace("FAILS = 1", "FAILS = 0"))
    code, lines = run(suite, *again, workers=2)
    assert (code, "1 passed" in lines[-1]) == (0, True)
    assert json.loads(passed.with_suffix(".json").read_text())["passed"] == 1
    assert len(passed.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("outcome", "code", "runs", "exit_code", "counted"),
    [
        ("UNKNOWN", "machine_stalled", 2, 0, "2 disturbed"),
        ("UNKNOWN", "machine_stalled", 3, 1, "3 disturbed"),
        ("UNKNOWN", "not_proved", 1, 1, "1 failed"),
        ("FAIL", "machine_stalled", 1, 1, "1 failed"),
    ],
)
def test_a_run_that_others_disturbed_neither_passes_nor_fails(
    suite: pytest.Pytester, outcome: str, code: str, runs: int, exit_code: int, counted: str
) -> None:
    write(suite, "runs", RUN, OUTCOME=outcome, CODE=code, RUNS=runs)
    found, lines = run(suite, "test_cases/test_runs.py")
    assert found == exit_code
    assert counted in lines[-1]


def test_the_last_lines_of_a_red_run_name_test_verdict_and_record(suite: pytest.Pytester) -> None:
    write(suite, "runs", RUN, OUTCOME="FAIL", CODE="late", RUNS=1)
    _, lines = run(suite, "test_cases/test_runs.py")
    *last, record, _ = lines[-5:]
    assert last == [
        "FAILED test_cases/test_runs.py::test_run[0]",
        "  verdict FAIL",
        "  FAIL rejoin: late",
    ]
    assert record.startswith("  record ")
    assert (Path(record.split()[1]) / "verdict.json").exists()


def test_the_last_lines_name_a_module_that_cannot_be_imported(suite: pytest.Pytester) -> None:
    write(suite, "broken", "import no_such_module")
    code, lines = run(suite)
    assert code == pytest.ExitCode.INTERRUPTED
    assert "FAILED test_cases/test_broken.py" in lines
