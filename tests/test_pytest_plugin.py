"""The `chaos_run` fixture, in a test session of its own, on a fake fleet."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "chaoslab.pytest_plugin", "-p", "no:cacheprovider")
"""By its module, and no other plugin: to load them takes longer than the tests."""

CONFTEST = """
from contextlib import contextmanager

import pytest

from chaoslab.run import experiment
from tests.virtual_clock import VirtualClock
from chaoslab.prepare import plans
from chaoslab.undo.heartbeat import Heartbeat
from tests.fakes import Troubles
from tests.cli.test_cli import PLAN, FakeFleets


@pytest.fixture
def fleets(monkeypatch, request):
    @contextmanager
    def idle(run_directory):
        yield Heartbeat()

    fakes = FakeFleets()
    fleet_setup = plans.FleetSetup(fleet=fakes, clock=VirtualClock)
    monkeypatch.setattr(plans, "fleet_setup", lambda _: fleet_setup)
    monkeypatch.setattr(experiment, "start_janitor", idle)
    (request.config.rootpath / "one_dies.yaml").write_text(PLAN)
    return fakes
"""


@pytest.fixture(autouse=True)
def no_other_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, body: str) -> pytest.RunResult:
    root = Path(__file__).parent.parent
    pytester.makeini(f"[pytest]\npythonpath = {root}\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(body)
    return pytester.runpytest_subprocess(*PLUGIN)


def test_a_verdict_is_returned_and_a_broken_harness_or_a_wrong_plan_is_raised(
    pytester: pytest.Pytester,
) -> None:
    done = run(
        pytester,
        """
        import pytest
        from chaoslab.core.errors import FleetError, PlanError
        from tests.fakes import Troubles

        def test_survives(fleets, chaos_run, tmp_path):
            verdict = chaos_run("one_dies.yaml", set={"training.learners": 4}, seed=5)
            assert verdict.outcome == "PASS", verdict.explain()
            assert verdict.training_continued
            record = tmp_path / "runs" / "latest"
            assert (record / "junit.xml").is_file()
            assert "seed: 5" in (record / "plan.resolved.yaml").read_text()
            assert "learners: 4" in (record / "plan.resolved.yaml").read_text()

        def test_fails(fleets, chaos_run):
            everybody = frozenset({"learner-0", "learner-1", "learner-2"})
            fleets.troubles = Troubles(not_back=everybody)
            verdict = chaos_run("one_dies.yaml")
            assert verdict.outcome == "PASS", verdict.explain()

        def test_broken(fleets, chaos_run):
            fleets.troubles = Troubles(crash_at_start=frozenset({"syncer"}))
            with pytest.raises(FleetError, match="syncer"):
                chaos_run("one_dies.yaml")

        def test_wrong(fleets, chaos_run):
            with pytest.raises(PlanError, match="trainin"):
                chaos_run("one_dies.yaml", set={"trainin.learners": 4})
        """,
    )
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["*the verdict is FAIL*", "*FAIL rejoin: *", "*the record lies in *"])


def test_an_interrupt_ends_the_session(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
        def test_interrupted(fleets, chaos_run):
            fleets.interrupted_at_s = 9.0
            chaos_run("one_dies.yaml")
        """,
    )
    assert done.ret == pytest.ExitCode.INTERRUPTED


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    script = (
        "import sys, chaoslab.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('chaoslab')))\n"
        "print(sorted({'jax', 'grpc', 'rich', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['chaoslab', 'chaoslab.pytest_plugin']", "[]"]
