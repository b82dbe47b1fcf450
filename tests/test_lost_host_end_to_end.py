"""Whole runs in which a host is switched off, for ever and for a while."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import RunFinished, RunOutcome
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.judged_run import JudgedRun, run_and_judge
from chaoslab.undo.janitor import heal
from tests.fleet.sshd import SshHost, switch_off, switched_on
from tests.ssh_runs import fleet_of_hosts, left_on

pytestmark = [pytest.mark.deep, pytest.mark.alone]
PLAN = """
version: 1
name: lost_host
training: {{learners: 2, model: nano, quorum: 1, stop: {{rounds: 120}}}}
twin: false
baseline: {{max_variation: 80%}}
settle: {settle}s
limits: {{min_alive: 1, timeout: 5m}}
faults:
  - {{id: dies, fault: process.kill, target: {{region: eu}}, at: {{round: 30}}, for: 2s}}
expect:
  - {{check: continuity, max_gap: 20s}}
  - {{check: rejoin, within: {within}s, contributions: 3}}
  - {{check: cleanup}}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[Path, list[SshHost]]]:
    """The syncer's host, that of the learner in `eu`, and another one."""
    with fleet_of_hosts(tmp_path, 1, 1) as found:
        yield found


def judged_run(
    folder: Path,
    inventory: Path,
    within_s: int,
    then: Callable[[Event], object],
) -> JudgedRun:
    """A run whose lost learner has so long to come back."""
    plan = folder / "lost_host.yaml"
    plan.write_text(PLAN.format(within=within_s, settle=within_s + 5))
    settings = (f"fleet.inventory={inventory}", "fleet.lease=6s")
    asked = Asked(plan=str(plan), settings=settings, fleet="ssh")
    return run_and_judge(prepare(asked), folder / "runs", [_Watching(then)])


class _Watching:
    """Does something at an event of the run, before the next one."""

    def __init__(self, then: Callable[[Event], object]) -> None:
        self._then = then

    def see(self, event: Event) -> None:
        self._then(event)


def is_end_of_first_life(event: Event) -> bool:
    """Whether it is that of the learner that a fault kills."""
    is_its = event.kind is Kind.NODE_EXITED and event.source == "learner-0"
    return is_its and event.data["incarnation"] == 1


def has_gone_to_its_end(judged: JudgedRun) -> bool:
    """Whether the run was carried out, and no rule ended it: a harness that waits for a host stands
    still.
    """
    finished = judged.history.last(RunFinished)
    is_completed = finished is not None and finished.payload.outcome is RunOutcome.COMPLETED
    return judged.error is None and is_completed


def test_a_host_that_never_comes_back_fails_its_learner_and_not_the_run(
    fleet: tuple[Path, list[SshHost]], tmp_path: Path
) -> None:
    inventory, (_, lost, _) = fleet

    def then(event: Event) -> None:
        if is_end_of_first_life(event):
            switch_off(lost)

    judged = judged_run(tmp_path, inventory, 15, then)
    found = {one.check: one for one in judged.verdict.findings}
    assert has_gone_to_its_end(judged)
    assert judged.verdict.outcome is Outcome.FAIL, judged.verdict.explain()
    assert found["continuity"].outcome is Outcome.PASS, judged.verdict.explain()
    assert found["rejoin"].culprits == ("learner-0",)
    assert Code.NOT_RESTARTED in found["rejoin"].codes, "a FAIL, or UNKNOWN on a busy machine"
    assert Code.LEFT_OVER in found["cleanup"].codes, "nobody can look what is left there"
    assert judged.verdict.exit_code is ExitCode.BROKEN
    for run in (lost.home / ".chaoslab/runs").iterdir():
        assert not heal(run).remaining


def test_a_host_that_comes_back_takes_its_learner_back(
    fleet: tuple[Path, list[SshHost]], tmp_path: Path
) -> None:
    """It is on again once the heal has failed without it."""
    inventory, (syncer, lost, other) = fleet
    with switched_on(lost) as on:

        def then(event: Event) -> None:
            if is_end_of_first_life(event):
                switch_off(lost)
            elif event.kind is Kind.FAULT_HEAL_FAILED:
                on()

        judged = judged_run(tmp_path, inventory, 60, then)
        assert has_gone_to_its_end(judged)
        told = {one.check: one.outcome for one in judged.verdict.findings}
        assert told["rejoin"] is told["continuity"] is told["cleanup"] is Outcome.PASS, (
            judged.verdict.explain()
        )
        assert left_on([syncer, lost, other]) == []
