"""Faults on pods of a real cluster: proved by its own word, and failed where nothing was done.

Each is carried out twice: as it is, and broken on purpose.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.core.payloads import EngineReported, NodeStarted, Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.pod import JobRestart
from chaoslab.faults.starvation import ProcessOom
from chaoslab.fleet.kubernetes import memory_filler
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.record.journal import Journal
from chaoslab.undo.log import UndoLogFile
from tests.cluster import Cluster, small_fleet
from tests.contracts.fault_kit import VICTIMS, Director, injection_of
from tests.engine import learner

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
FOR_S = 15.0


@pytest.fixture
def director(tmp_path: Path, here: Cluster) -> Iterator[Director]:
    """Two nodes that step."""
    clock = WallClock()
    with (
        Journal(tmp_path, clock) as journal,
        UndoLogFile(tmp_path) as undo_log,
        small_fleet(tmp_path, clock, here, undo_log, memory_bytes=64 << 20) as fleet,
    ):
        for name in VICTIMS:
            fleet.start(learner(name))
        found = Director(fleet=fleet, clock=clock, journal=journal)
        found.wait_for_steps(VICTIMS)
        yield found


def words(director: Director, action: str, *, life: int = 1) -> set[tuple[str, str]]:
    """Who has the report of this action, and the cluster's reason."""
    said = [one.payload for one in director.journal.history.of(EngineReported)]
    return {
        (one.node, one.reason) for one in said if (one.action, one.incarnation) == (action, life)
    }


def come_back(director: Director) -> None:
    """Until both nodes step in their second life."""
    director.wait_for_steps(VICTIMS)
    lives = [one.payload for one in director.journal.history.of(NodeStarted)]
    assert {(one.node, one.incarnation) for one in lives} == {
        (name, life) for name in VICTIMS for life in (1, 2)
    }


@pytest.mark.gate
def test_the_kernel_kills_for_want_of_memory_and_the_cluster_says_so(director: Director) -> None:
    fault = ProcessOom()
    for piece in director.carry_out(fault, injection_of(fault, for_s=2 * FOR_S)):
        assert piece.status is Status.PROVED, piece.text
        proof = [director.journal.history.events[seq] for seq in piece.proof]
        assert {one.kind for one in proof} == {
            Kind.NODE_EXITED, Kind.NODE_COUNTED, Kind.ENGINE_REPORTED,
        }  # fmt: skip
    assert words(director, "oom") == {(name, "OOMKilled") for name in VICTIMS}
    come_back(director)


def test_a_job_that_is_deleted_is_gone_and_the_next_has_another_id(director: Director) -> None:
    fault = JobRestart()
    for piece in director.carry_out(fault, injection_of(fault, for_s=FOR_S)):
        assert piece.status is Status.PROVED, piece.text
        assert piece.measured["uid"] != piece.measured["uid_before"]
    assert {node for node, _ in words(director, "job_gone")} == set(VICTIMS)
    come_back(director)


def kill_instead(life: PodIncarnation) -> None:
    life.is_ending = True
    life.signal("SIGKILL")


@pytest.mark.parametrize(("fault", "code"), [
    (ProcessOom(), Code.STILL_RUNNING),
    (JobRestart(), Code.NOT_APPLIED),
])  # fmt: skip
def test_a_fault_that_does_nothing_is_not_taken_for_one(
    fault: Fault, code: Code, director: Director, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = tmp_path / "idle.py"
    idle.write_text("")
    monkeypatch.setattr(memory_filler, "__file__", str(idle))
    monkeypatch.setattr(PodIncarnation, "delete_job", kill_instead)
    pieces = director.carry_out(fault, injection_of(fault, for_s=FOR_S))
    assert [piece.code for piece in pieces] == [code, code]
