"""Fault plans as tests: the decorator `chaos` and the fixture `chaos_run`.

    from chaoslab.pytest_plugin import chaos

    @chaos("fault_plans/kill_half.yaml")                  one run, one test for each finding
    def test_half_of_the_learners_die(chaos_verdict):     the body: once, after a PASS
        assert chaos_verdict.longest_gap_s < 2

    def test_training_survives_a_dead_learner(chaos_run):
        verdict = chaos_run("fault_plans/kill_one.yaml", set={"training.learners": 3})
        assert verdict.outcome == "PASS", verdict.explain()

pytest loads this module for every test session where chaoslab is installed, so it imports nothing
else of it until a test asks for a run. `pytest_plugin.runs` makes the runs.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from chaoslab.checks.verdict import Verdict
    from chaoslab.pytest_plugin.runs import Part, SharedRuns

_MARK = "chaos: made by the decorator chaoslab.pytest_plugin.chaos, which runs a fault plan"
_PART = "chaoslab_plugin"
"""Fixture that only this plugin has; its value for a decorated test is the `Part` of it."""
_GROUP = "chaoslab"
"""Group of pytest-xdist: with `--dist loadgroup` one worker makes all runs, and no other waits."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for all runs of a session."""
    group = parser.getgroup("chaoslab", "fault plans as tests")
    group.addoption(
        "--chaos-fleet",
        metavar="NAME",
        help="Run all fault plans on this fleet, such as docker, in place of the plans' own.",
    )
    group.addoption(
        "--chaos-out",
        metavar="DIR",
        help="Keep run records and twins here instead of in pytest's temporary folders.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


# ---------------------------------------------------------------- the decorator

_Test = TypeVar("_Test", bound=Callable[..., object] | type)


def chaos(
    plan: str | Path,
    *,
    set: Mapping[str, object] | None = None,  # noqa: A002  # as in `chaoslab run --set`
    seed: int | None = None,
    twin: bool = True,
) -> Callable[[_Test], _Test]:
    """Run this fault plan, with one test for each finding and one for the verdict.

    The arguments are those of `ChaosRun.__call__`. Where pytest has not loaded this plugin, as with
    `-p no:chaoslab`, the test is an error: it asks for a fixture that is not there.
    """
    guard = pytest.mark.usefixtures(_PART)
    mark = pytest.mark.chaos(plan, set=set, seed=seed, twin=twin)

    def decorated(test: _Test) -> _Test:
        marked: _Test = guard(mark(test))
        return marked

    return decorated


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each finding that the plan's `expect` will give, then one for the verdict."""
    marks = list(metafunc.definition.iter_markers("chaos"))
    if not marks:
        return
    from chaoslab.pytest_plugin.runs import parts  # noqa: PLC0415  # heavy, see above

    group = []
    if hasattr(metafunc.config, "workerinput"):  # of pytest-xdist
        group.append(pytest.mark.xdist_group(_GROUP))
    metafunc.parametrize(
        _PART,
        [pytest.param(part, id=part.id, marks=group) for part in parts(marks, metafunc.config)],
        indirect=True,
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the decorator where it would do nothing, as on a method of unittest, and a mark
    without it, which does nothing in a session without this plugin.
    """
    for item in items:
        if item.get_closest_marker("chaos") is None:
            continue
        if _part(item) is None:
            raise pytest.UsageError(
                f"{item.nodeid}: `chaos` works on functions and on methods of plain classes; make "
                "it one, or use the fixture chaos_run"
            )
        if not any(_PART in mark.args for mark in item.iter_markers("usefixtures")):
            raise pytest.UsageError(
                f"{item.nodeid}: in the place of @pytest.mark.chaos(…) write "
                "`from chaoslab.pytest_plugin import chaos` and @chaos(…): the test fails then "
                "where pytest does not load chaoslab"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run the plan, unless another test did, and fail for a finding that is not PASS.

    The body is called for the verdict alone.
    """
    part = _part(pyfuncitem)
    if part is None:
        return None
    if part.why_skipped:
        pytest.skip(f"not judged: {part.why_skipped}")
    made = _runs(pyfuncitem.config).run(part.asked)
    pyfuncitem.user_properties.append(("chaoslab_record", str(made.record)))
    if problem := part.problem(made):
        pytest.fail(problem, pytrace=False)
    return None if part.is_verdict else True


@pytest.fixture(name=_PART, autouse=True)  # only such a fixture may be added to a test by a hook
def chaos_part(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Subject of a test that `chaos` decorates."""
    if _part(request.node) is not None and _RUNS not in request.config.stash:
        from chaoslab.pytest_plugin.runs import SharedRuns  # noqa: PLC0415  # heavy, see above

        temporary = tmp_path_factory.getbasetemp()
        request.config.stash[_RUNS] = SharedRuns.of(request.config, temporary)


@pytest.fixture
def chaos_verdict(request: pytest.FixtureRequest) -> "Verdict":
    """The verdict of the run that `chaos` makes for this test."""
    part = _part(request.node)
    if part is None:
        pytest.fail("chaos_verdict: decorate the test with @chaos(PLAN)", pytrace=False)
    return _runs(request.config).run(part.asked).verdict


_RUNS = pytest.StashKey["SharedRuns"]()


def _runs(config: pytest.Config) -> "SharedRuns":
    return config.stash[_RUNS]


def _part(item: pytest.Item) -> "Part | None":
    """Subject of a test; None if it is not one of a marked function."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(_PART)


# ---------------------------------------------------------------- the fixture


class ChaosRun:
    """Runs plans below a folder; its records stay there."""

    def __init__(self, root: Path, config: pytest.Config) -> None:
        """`root` takes the records; relative paths of plans start at the session's root."""
        self.root, self._config = root, config

    def __call__(
        self,
        plan: str | Path,
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002  # as in `chaoslab run --set`
        seed: int | None = None,
        twin: bool = True,
    ) -> "Verdict":
        """Run a plan and return its verdict.

        `plan`: path of a plan from the root of the project, or the name of an included one.
        `set`: values for keys of the plan by dotted key, as `chaoslab run --set` takes them.
        `seed`: in place of the plan's. `twin=False` skips the fault-free twin.

        Of the verdict, `outcome` is PASS, FAIL or UNKNOWN, `findings` has what each check found
        (`by_name` by the check's name), `training_continued`, `longest_gap_s` and
        `learners_rejoined` are the first answers, and `explain()` is a text for an assertion.

        PlanError and AbilityError if the plan cannot work here; FleetError or HarnessBug if the
        harness broke. What happened goes to stderr, which pytest shows when the test fails; which
        phase the run is in is shown at once, unless with -q. One run at a time is made on a
        machine.
        """
        __tracebackhide__ = True
        from chaoslab.pytest_plugin import runs  # noqa: PLC0415  # heavy, see above

        home, fleet = self._config.rootpath, self._config.getoption("--chaos-fleet")
        asked = runs.asked_for(plan, set=set, seed=seed, twin=twin, home=home, fleet=fleet)
        judged = runs.make(asked, self.root, partial(runs.tell, self._config))
        if judged.error is not None:
            raise judged.error
        return judged.verdict


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest, tmp_path: Path) -> ChaosRun:
    """Run fault plans, and get their verdicts; records go below --chaos-out, or `tmp_path`.

    Call it with a plan, and if need be `set`, `seed`, `twin`; `ChaosRun.__call__` explains them
    and the fields of the verdict, and so does docs/ci.md.
    """
    config = request.config
    out = config.getoption("--chaos-out")
    root = config.invocation_params.dir / out if out else tmp_path / "runs"
    return ChaosRun(root, config)
