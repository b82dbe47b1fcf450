"""Faults that hit what is beside their targets: all of it counts, before anything is done."""

from dataclasses import dataclass, replace
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Obstacle
from chaoslab.fleet.base import Fleet
from chaoslab.plan.model import Injection, Limits
from tests.fake_faults import FakeKill
from tests.stage import HALF, PLAN, Stage, the


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOnMachine(FakeKill):
    """A kill of all that is on the machine of its targets."""

    there: tuple[str, ...] = ("learner-1", "learner-2")
    refuses: str = ""

    def all_hit(self, injection: Injection, fleet: Fleet) -> tuple[str, ...]:
        assert set(injection.targets) <= set(fleet.nodes)
        if self.refuses:
            raise FleetError(self.refuses)
        return self.there


ONE = replace(HALF, settings=KillOnMachine(), targets=("learner-1",))


def test_what_is_beside_the_targets_is_a_target_in_the_record(tmp_path: Path) -> None:
    history = Stage(tmp_path, [ONE]).execute()
    (story,) = history.faults
    assert story.targets == ("learner-1", "learner-2")
    assert {e.payload.target for e in story.evidence} == {"learner-1", "learner-2"}
    assert story.healed is not None


def test_limits_count_what_is_beside_the_targets_before_anything_is_done(tmp_path: Path) -> None:
    for limits in (Limits(min_alive=3), Limits(max_affected=0.25)):
        stage = Stage(tmp_path, [ONE], plan=replace(PLAN, limits=limits))
        skipped = the(stage.execute(), Kind.FAULT_SKIPPED)
        assert skipped.payload.obstacle is Obstacle.LIMITS
        assert skipped.payload.targets == ("learner-1", "learner-2")
        assert not [verb for _, verb, _ in stage.fleet.calls if verb == "SIGKILL"]


def test_one_that_must_not_be_hit_forbids_it_all(tmp_path: Path) -> None:
    fault = KillOnMachine(refuses="syncer is on the same machine")
    stage = Stage(tmp_path, [replace(ONE, settings=fault)])
    skipped = the(stage.execute(), Kind.FAULT_SKIPPED).payload
    assert (skipped.obstacle, skipped.reason) == (Obstacle.PLACEMENT, fault.refuses)
    assert not [verb for _, verb, _ in stage.fleet.calls if verb == "SIGKILL"]
