"""A run whose syncer dies: it goes on while an injection brings the syncer back, and only then."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.faults.process import ProcessKill
from chaoslab.faults.syncer import SyncerKill
from chaoslab.plan.model import Injection, Trigger
from chaoslab.prepare.preflight import fault_of, refuse_wrong_roles
from tests.stage import Stage, ending, the

CRASH = Injection(
    number=0,
    spec="crash",
    fault="syncer.kill",
    settings=SyncerKill(),
    targets=("syncer",),
    trigger=Trigger(round=20),
    for_s=4.0,
)


def test_the_run_goes_on_with_the_syncers_next_life(tmp_path: Path) -> None:
    history = Stage(tmp_path, [CRASH]).execute()

    assert ending(history) == ("completed", "")
    assert [e.payload.is_recovered for e in history.of(Kind.SYNCER_READY)] == [False, True]
    assert history.faults[0].status == "proved"


def test_settling_waits_until_every_learner_contributes_to_the_new_life(tmp_path: Path) -> None:
    history = Stage(tmp_path, [CRASH]).execute()

    settled = the(history, Kind.RUN_SETTLED)
    merged = [e for e in history.of(Kind.ROUND_MERGED) if e.time_s > 0]
    back = next(e for e in merged if e.seq > history.of(Kind.SYNCER_READY)[1].seq)
    assert settled.payload.is_settled
    assert settled.seq > back.seq


def test_nobody_is_believed_to_be_a_member_while_there_is_no_syncer(tmp_path: Path) -> None:
    history = Stage(tmp_path, [CRASH]).execute()

    window = history.faults[0]
    assert window.healing is not None
    counts = history.between(
        window.injecting.time_s + 0.5, window.healing.time_s, Kind.COUNTS_SAMPLED
    )
    assert {event.payload.believed for event in counts} == {0}


# ---------------------------------------------------------------- what is refused


def refused(injection: Injection) -> str:
    with pytest.raises(PlanError) as caught:
        refuse_wrong_roles(injection, fault_of(injection))
    return str(caught.value)


def test_a_fault_on_processes_is_not_for_the_syncer() -> None:
    text = refused(replace(CRASH, fault="process.kill", settings=ProcessKill()))
    assert "syncer.kill" in text


def test_a_fault_on_the_syncer_is_not_for_learners() -> None:
    assert "target: {syncer: all}" in refused(replace(CRASH, targets=("learner-1",)))


def test_a_syncer_must_be_given_back() -> None:
    assert "for: 5s" in refused(replace(CRASH, for_s=None))
