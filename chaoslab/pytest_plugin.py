"""A fault plan as a test: the `chaos_run` fixture.

    def test_training_survives_a_dead_learner(chaos_run):
        verdict = chaos_run("fault_plans/kill_one.yaml", set={"training.learners": 3})
        assert verdict.outcome == "PASS", verdict.explain()

pytest loads this module for every test session where chaoslab is installed, so it imports nothing
else of it until a test asks for a run.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chaoslab.checks.verdict import Verdict


class ChaosRun:
    """Runs plans below a folder; its records stay there."""

    def __init__(self, root: Path, home: Path) -> None:
        """`root` takes the records; relative paths of plans start at `home`."""
        self.root, self._home = root, home

    def __call__(
        self,
        plan: str | Path,
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002  # as in `chaoslab run --set`
        seed: int | None = None,
        control: bool = True,
    ) -> "Verdict":
        """Run a plan, by path or by the bare name of a bundled one, and return its verdict.

        `control=False` skips the fault-free twin. PlanError and AbilityError if the plan cannot
        work here; FleetError or HarnessBug if the harness broke. What happened goes to stderr,
        which pytest shows when the test fails.
        """
        from chaoslab.core.errors import ExitCode  # noqa: PLC0415
        from chaoslab.prepare.plans import Asked, prepare  # noqa: PLC0415
        from chaoslab.report.console import Plain  # noqa: PLC0415
        from chaoslab.report.view import ViewModel  # noqa: PLC0415
        from chaoslab.run.judged_run import carry_out  # noqa: PLC0415  # heavy, see above

        settings = [f"{key}={value}" for key, value in (set or {}).items()]
        settings += [] if control else ["control=none"]
        near = self._home / plan
        path = str(near if near.is_file() else plan)
        prepared = prepare(Asked(plan=path, settings=settings, seed=seed))
        judged = carry_out(prepared, self.root, [Plain(sys.stderr, ViewModel())])
        sys.stderr.write(f"the record lies in {judged.directory.path}\n")
        if judged.error is not None:
            raise judged.error
        if judged.verdict.exit_code is ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        return judged.verdict


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest, tmp_path: Path) -> ChaosRun:
    """Run fault plans and get their verdicts; records go below `tmp_path`."""
    return ChaosRun(tmp_path / "runs", request.config.rootpath)
