"""The decorator `chaos` and the fixture `chaos_run` in sessions of their own, on a fake fleet."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.private_files import open_file
from chaoslab.prepare.plans import Asked
from chaoslab.pytest_plugin.runs import SharedRuns, make, one_run_at_a_time
from tests.cli.test_cli import PLAN

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
from tests.cli.test_cli import FakeFleets


@pytest.fixture
def fleets(monkeypatch, request):
    @contextmanager
    def idle(run_directory):
        yield Heartbeat()

    fakes = FakeFleets()
    fleet_setup = plans.FleetSetup(fleet=fakes, clock=VirtualClock)
    monkeypatch.setattr(plans, "fleet_setup", lambda _: fleet_setup)
    monkeypatch.setattr(experiment, "start_janitor", idle)
    return fakes
"""


def test_a_cache_that_cannot_be_made_is_a_harness_that_failed_and_no_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "file" / "cache"))
    shared = SharedRuns(results=tmp_path, root=tmp_path, tell=print)
    asked = Asked(plan="kill_half", fleet="sim")
    with pytest.raises(pytest.fail.Exception) as failed:
        shared.run(asked)
    assert not failed.value.pytrace
    with pytest.raises(FleetError):
        make(asked, tmp_path, print)


@pytest.fixture(autouse=True)
def no_other_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))  # and its lock


def run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    root = Path(__file__).parent.parent
    pytester.makeini(f"[pytest]\npythonpath = {root}\naddopts = --strict-markers\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(body)
    (pytester.path / "one_dies.yaml").write_text(PLAN)
    return pytester.runpytest_subprocess(*PLUGIN, *options)


@pytest.mark.gate
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


@pytest.mark.deep
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


# ---------------------------------------------------------------- the decorator

MARKED = """
    from chaoslab.pytest_plugin import chaos

    @chaos("one_dies.yaml", seed=5)
    def test_one_dies(fleets, chaos_verdict):
        assert chaos_verdict.training_continued
        with open("calls", "a") as calls:
            calls.write("called ")
"""


@pytest.mark.gate
def test_a_marked_function_is_a_test_for_each_finding_of_one_run(pytester: pytest.Pytester) -> None:
    done = run(pytester, MARKED, "-v", "--chaos-out", "kept", "--junitxml", "all.xml")
    done.assert_outcomes(passed=3)
    names = ("continuity", "rejoin", "verdict")
    done.stdout.fnmatch_lines([
        *(f"one_dies: {phase}, * s" for phase in ("baseline", "inject", "settle")),
        *(f"*::test_one_dies[[]{name}] PASSED*" for name in names),
    ])  # fmt: skip
    assert (pytester.path / "calls").read_text() == "called ", "for the verdict, once"
    (record,) = (pytester.path / "kept" / "one_dies").glob("2*")
    assert "seed: 5" in (record / "plan.resolved.yaml").read_text()
    assert (pytester.path / "all.xml").read_text().count(f'value="{record}"') == 3


@pytest.mark.gate
def test_the_test_of_a_check_that_is_left_out_is_skipped(pytester: pytest.Pytester) -> None:
    expect = "[{check: continuity}, {check: loss_parity}, {check: rejoin, within: 5s}]"
    settings = f"set={{'expect': '{expect}', 'twin': False}}"
    done = run(pytester, MARKED.replace("seed=5", settings), "-v")
    done.assert_outcomes(passed=3, skipped=1)
    done.stdout.fnmatch_lines(["*::test_one_dies[[]loss_parity] SKIPPED*"])


@pytest.mark.deep
def test_the_test_of_a_finding_that_is_not_pass_fails_and_names_the_record(
    pytester: pytest.Pytester,
) -> None:
    done = run(
        pytester,
        """
        import pytest
        from chaoslab.pytest_plugin import chaos
        from tests.fakes import Troubles

        @pytest.fixture
        def nobody_returns(fleets):
            everybody = frozenset({"learner-0", "learner-1", "learner-2"})
            fleets.troubles = Troubles(not_back=everybody)

        @chaos("one_dies.yaml")
        def test_one_dies(nobody_returns):
            raise AssertionError("the body is for runs that pass")
        """,
        "--chaos-out",
        "all kept",
    )
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*test_one_dies[[]rejoin]*",
            "FAIL rejoin: learner-*(n*)",
            "record: *",
            "next: chaoslab show '*/all kept/one_dies/*'",
        ]
    )
    done.stdout.fnmatch_lines(["the verdict is FAIL", "FAIL learners_rejoin: *"])
    assert "the body is for runs" not in done.stdout.str().partition("short test summary")[2]


@pytest.mark.deep
def test_a_broken_harness_fails_each_test_and_is_tried_once(
    pytester: pytest.Pytester,
) -> None:
    done = run(
        pytester,
        """
        import pytest
        from chaoslab.pytest_plugin import chaos
        from tests.fakes import Troubles

        @pytest.fixture
        def broken(fleets):
            fleets.troubles = Troubles(crash_at_start=frozenset({"syncer"}))

        @chaos("one_dies.yaml")
        def test_one_dies(broken):
            pass
        """,
        "--chaos-out=kept",
    )
    done.assert_outcomes(failed=3)
    done.stdout.fnmatch_lines(["*syncer*", "record: */one_dies/*"])
    assert len(list((pytester.path / "kept" / "one_dies").glob("2*"))) == 1


@pytest.mark.deep
@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        ("@chaos('none.yaml')\ndef test_a(): pass", (), "none.yaml"),
        ("@chaos('one_dies.yaml', sed=3)\ndef test_a(): pass", (), "'sed'"),
        ("@chaos()\ndef test_a(): pass", (), "'plan'"),
        ("@chaos('one_dies.yaml')\n@chaos('b')\ndef test_a(): pass", (), "one `chaos`"),
        (
            "from unittest import*\n@chaos('b')\nclass A(TestCase):\n def test_a(self): 0",
            (),
            "chaos_run",
        ),
        ("@chaos('one_dies.yaml')\ndef test_a(): pass", ("--chaos-fleet=lokal",), "`local`"),
        ("@pytest.mark.chaos('one_dies.yaml')\ndef test_a(): pass", (), "import chaos"),
    ],
    ids=[
        "no such plan",
        "unknown argument",
        "no plan",
        "two",
        "unittest",
        "unknown fleet",
        "bare mark",
    ],
)
def test_a_mark_that_cannot_work_is_refused_before_anything_runs(
    pytester: pytest.Pytester, body: str, options: tuple[str, ...], said: str
) -> None:
    imports = "import pytest\nfrom chaoslab.pytest_plugin import chaos"
    done = run(pytester, f"{imports}\n{body}", *options)
    assert done.ret in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED}
    assert said in done.stdout.str() + done.stderr.str()


@pytest.mark.gate
@pytest.mark.parametrize("argument", ["", "chaos_verdict"])
def test_where_pytest_does_not_load_the_plugin_the_gate_is_red(
    pytester: pytest.Pytester, argument: str
) -> None:
    pytester.makeini(f"[pytest]\npythonpath = {Path(__file__).parent.parent}\n")
    test = f"@chaos('kill_one')\ndef test_a({argument}): pass"
    pytester.makepyfile(f"from chaoslab.pytest_plugin import chaos\n{test}")
    pytester.runpytest_subprocess(*PLUGIN[2:]).assert_outcomes(errors=1)


@pytest.mark.deep
def test_the_verdict_of_a_mark_is_not_to_be_had_without_one(pytester: pytest.Pytester) -> None:
    done = run(pytester, "def test_a(chaos_verdict): pass")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*@chaos(PLAN)*"])


@pytest.mark.deep
@pytest.mark.parametrize("dist", ["load", "loadgroup"])
def test_workers_of_xdist_share_one_run(pytester: pytest.Pytester, dist: str) -> None:
    options = ("-p", "xdist.plugin", "-n", "2", "--dist", dist, "-v", "--chaos-out=kept")
    done = run(pytester, f"{MARKED}\n    test_again = test_one_dies\n", *options)
    done.assert_outcomes(passed=6)
    assert len(list((pytester.path / "kept" / "one_dies").glob("2*"))) == 1


def test_one_run_of_a_test_goes_on_at_a_time(tmp_path: Path) -> None:
    def is_free() -> bool:
        file = open_file(tmp_path / "cache", "one_run.lock", flags=os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(file)
        return True

    with one_run_at_a_time():
        assert not is_free()
    assert is_free()


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
