"""A run whose syncer dies: it goes on while an injection brings the syncer back, and only then."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoslab.checks.answer_checks import TrainingContinues
from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import judge
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.faults.process import ProcessKill, Signal
from chaoslab.faults.process_pause import ProcessHang
from chaoslab.faults.storage_room import SyncerDiskFull
from chaoslab.plan.model import Injection, Trigger
from chaoslab.prepare.preflight import fault_of, refuse_wrong_roles
from tests.stage import PLAN, Stage, ending, the

CRASH = Injection(
    number=0,
    spec="crash",
    fault="process.kill",
    settings=ProcessKill(),
    targets=("syncer",),
    trigger=Trigger(round=20),
    for_s=4.0,
)


def test_the_run_goes_on_and_settles_once_all_contribute_to_the_syncers_next_life(
    tmp_path: Path,
) -> None:
    history = Stage(tmp_path, [CRASH]).execute()

    assert ending(history) == ("completed", "")
    first, second = history.of(Kind.SYNCER_READY)
    assert (first.payload.is_recovered, second.payload.is_recovered) == (False, True)
    assert history.faults[0].status == "proved"
    settled = the(history, Kind.RUN_SETTLED)
    back = next(e for e in history.of(Kind.ROUND_MERGED) if e.seq > second.seq)
    assert settled.payload.is_settled
    assert settled.seq > back.seq


def test_a_run_whose_syncer_is_away_for_good_shows_that_and_ends(tmp_path: Path) -> None:
    history = Stage(tmp_path, [replace(CRASH, for_s=None)]).execute()

    assert ending(history) == ("completed", "")
    assert history.faults[0].status == "proved"
    silent_s = the(history, Kind.RUN_FINISHED).time_s - history.of(Kind.ROUND_MERGED)[-1].time_s
    assert silent_s >= PLAN.settle_s
    verdict = judge(history, [])
    assert (verdict.training_continued, verdict.outcome) == (False, Outcome.FAIL)
    assert not {"run", "stop", "unasked"} & verdict.by_name.keys()
    assert judge(history, [TrainingContinues(expected=False)]).outcome is Outcome.PASS


def test_nobody_is_believed_to_be_a_member_while_there_is_no_syncer(tmp_path: Path) -> None:
    history = Stage(tmp_path, [CRASH]).execute()

    window = history.faults[0]
    assert window.healing is not None
    counts = history.between(
        window.injecting.time_s + 0.5, window.healing.time_s, Kind.COUNTS_SAMPLED
    )
    assert {event.payload.members for event in counts} == {0}


@pytest.mark.parametrize(("changes", "named"), [
    ({"settings": ProcessHang()}, "process.kill by SIGKILL"),
    ({"settings": ProcessKill(signal=Signal.SIGTERM)}, "process.kill by SIGKILL"),
    ({"settings": ProcessKill(signal=Signal.SIGINT)}, "process.kill by SIGKILL"),
    ({"settings": SyncerDiskFull(), "targets": ("learner-1",)}, "target:"),
], ids=["hangs", "SIGTERM", "SIGINT", "learners"])  # fmt: skip
def test_a_fault_that_does_not_act_on_its_target_is_refused(
    changes: dict[str, Any], named: str
) -> None:
    injection = replace(CRASH, **changes)
    with pytest.raises(PlanError, match=named):
        refuse_wrong_roles(injection, fault_of(injection))
