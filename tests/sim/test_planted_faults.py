"""Faults planted in the real learner are found in a simulated run, as in a real one.

`chaoslab research selftest` finds most of them in real runs. The real methods are replaced for one
simulation; without that it passes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.payloads import LearnerStep
from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.learner.exchange import Handover, Snapshot
from chaoslab.diloco.learner.joining import Joining
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.learner.round_wait import RoundWait
from chaoslab.diloco.learner.training_thread import Learner
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.faults.evidence.codes import Code as Evidence
from chaoslab.selftest.trial import PLANS
from tests.sim.test_runs import simulate

Plant = Callable[[pytest.MonkeyPatch], None]


def loses_its_donors_moments(patch: pytest.MonkeyPatch) -> None:
    real = Replica.take_over

    def take_over(replica: Replica, handover: Handover) -> None:
        real(replica, handover)
        replica._keep(replica._state._replace(moments=("", 0)))

    patch.setattr(Replica, "take_over", take_over)


def begins_its_schedule_anew(patch: pytest.MonkeyPatch) -> None:
    real = Replica.take_over

    def take_over(replica: Replica, handover: Handover) -> None:
        real(replica, handover)
        replica._keep(replica._inner.at_step(replica._state, 0))

    patch.setattr(Replica, "take_over", take_over)


def begins_its_data_anew(patch: pytest.MonkeyPatch) -> None:
    real = Replica.cut

    def cut(replica: Replica, layout: Any, **given: Any) -> None:
        real(replica, layout, **{**given, "data_position": 0})

    patch.setattr(Replica, "cut", cut)


def counts_nothing_as_committed(patch: pytest.MonkeyPatch) -> None:
    real = Counters.adopted

    def adopted(counters: Counters, index: int, **given: Any) -> Counters:
        return real(counters, index, **{**given, "committed_tokens": 0})

    patch.setattr(Counters, "adopted", adopted)


def trains_on_initial_values(patch: pytest.MonkeyPatch) -> None:
    real = Joining._take_in

    async def take_in(joining: Joining, inbox: Any) -> bool:
        is_whole = await real(joining, inbox)
        if is_whole and joining.donor:
            joining.replica.init()
        return is_whole

    patch.setattr(Joining, "_take_in", take_in)


def leaves_in_mid_training(patch: pytest.MonkeyPatch) -> None:
    real = Learner._note_step

    def note_step(learner: Learner) -> None:
        real(learner)
        if learner._replica.counters.step > 120:
            learner._leaving = "stopped"

    patch.setattr(Learner, "_note_step", note_step)


def says_nothing_of_a_notice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Learner, "_tell_notice", lambda _: None)


def answers_nothing_after_its_return(patch: pytest.MonkeyPatch) -> None:
    real = Messenger._push

    def push(messenger: Messenger, snapshot: Snapshot, pull: pb.Pull) -> None:
        if messenger.whose["incarnation"] == 1:
            real(messenger, snapshot, pull)

    patch.setattr(Messenger, "_push", push)


PLANTED: dict[str, tuple[Plant, str, str]] = {
    "loses its donor's moments": (loses_its_donors_moments, "real_work", Code.MOMENTS_WRONG),
    "begins its schedule anew": (begins_its_schedule_anew, "real_work", Code.LEARNING_RATE_WRONG),
    "begins its data anew": (begins_its_data_anew, "real_work", Code.DATA_REPEATED),
    "counts nothing as committed": (counts_nothing_as_committed, "ledger", Code.COMMITTED_DIFFER),
    "trains on initial values": (
        trains_on_initial_values, "agreement", Code.JOINED_WITH_OTHER_STATE,
    ),
    "leaves in mid-training": (leaves_in_mid_training, "unasked", Code.LEFT_EARLY),
    "says nothing of a notice": (says_nothing_of_a_notice, "evidence", Evidence.NO_NOTICE),
    "answers nothing after its return": (
        answers_nothing_after_its_return, "rejoin", Code.NOTHING_ACCEPTED,
    ),
}  # fmt: skip
"""By what the learner does wrong: the fault, and the check and code that show it."""


PREEMPTED = """
version: 1
name: preempted
seed: 1
training: {learners: 3, sync_every: 12, stop: {rounds: 60}}
twin: false
baseline: {warmup: 4 rounds, window: 8 rounds}
settle: 12s
limits: {min_alive: 0, max_affected: 100%, timeout: 2m}
faults:
  - {id: gone, fault: process.preempt, notice: 1s, grace: 2s, target: {learners: [learner-1]},
     at: {round: 20}, for: 5s}
expect: [{check: rejoin}, {check: ledger}, {check: cleanup}]
"""


def found(check: str, root: Path) -> set[tuple[str, str]]:
    """Check and code of everything that is not as it should be in a simulated run."""
    plan = PLANS / "killed.yaml"
    if check == "evidence":  # of a notice
        plan = root / "preempted.yaml"
        plan.write_text(PREEMPTED)
    verdict = simulate(str(plan), root / "runs").verdict
    return {
        (one.check, code)
        for one in verdict.findings
        if one.outcome is not Outcome.PASS
        for code in one.codes
    }


LONG = {"answers nothing after its return"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name in LONG)) for name in PLANTED]
)
def test_a_planted_fault_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, check, code = PLANTED[name]
    plant(monkeypatch)
    assert (check, code) in found(check, tmp_path)


@pytest.mark.parametrize("check", ["rejoin", "evidence"])
def test_without_one_nothing_is_found(check: str, tmp_path: Path) -> None:
    assert found(check, tmp_path) == set()


@pytest.mark.parametrize("waits", [True, False])
def test_synchronous_learners_wait_for_a_round_when_the_real_rule_says_so(
    waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not waits:
        monkeypatch.setattr(RoundWait, "is_needed", lambda *_: False)
    settings = ("faults=[]", "training.algorithm=diloco", "training.stop={rounds: 12}")
    history = simulate(str(PLANS / "calm.yaml"), tmp_path, *settings).history
    assert any(event.payload.waited_s for event in history.of(LearnerStep)) is waits
