"""Faults of a container engine: the kit, and what their evidence makes of records."""

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.container import ContainerReplace, NetworkDisconnect
from chaoslab.faults.evidence.codes import Code
from tests.faults.test_network import SILENT, Record


def reported(record: Record, time_s: float, action: str) -> Record:
    return record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action=action, at_s=0.0,
        exit_code=None, signal=None,
    )  # fmt: skip


def test_an_unplugged_node_is_proved_by_the_engine_and_by_silence() -> None:
    record = reported(Record(NetworkDisconnect()), 20.1, "disconnect")
    for second in range(21, 31):
        record.reported(float(second), **{**SILENT, "silent_s": second - 19.9})
    assert record.evidence.status is Status.PROVED


def test_silence_that_the_engine_knows_nothing_of_proves_no_unplugging() -> None:
    record = Record(NetworkDisconnect())
    for second in range(21, 31):
        record.reported(float(second), **{**SILENT, "silent_s": second - 19.9})
    assert record.evidence.code is Code.NOT_APPLIED


def replaced(before: str, after: str, *, exit_code: int | None) -> Record:
    """A learner that left and came back from an image."""
    record = Record(ContainerReplace())
    started = {"node": "learner-1", "incarnation": 1, "image_id": before}
    record.history = type(record.history)(())
    record.add(1.0, Kind.NODE_STARTED, **started)
    record.begin(20.0)
    died_by = None if exit_code is not None else "SIGKILL"
    record.add(21.0, Kind.NODE_EXITED, node="learner-1", incarnation=1, exit_code=exit_code,
               signal=died_by)  # fmt: skip
    again = {"node": "learner-1", "incarnation": 2, "image_id": after}
    return record.add(21.5, Kind.NODE_STARTED, **again)


def test_a_replaced_node_is_proved_by_the_image_of_its_next_life() -> None:
    evidence = replaced("sha256:a", "sha256:b", exit_code=0).evidence
    assert (evidence.status, evidence.measured["image_id"]) == (Status.PROVED, "sha256:b")


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            reported(Record(NetworkDisconnect()), 20.1, "disconnect").until(30.0),
            Code.NO_EFFECT,
            id="an unplugged node that goes on talking is not proved",
        ),
        pytest.param(
            replaced("sha256:a", "sha256:b", exit_code=None),
            Code.NOT_ORDERLY,
            id="a node that was killed to be replaced is weak",
        ),
        pytest.param(
            replaced("sha256:a", "sha256:a", exit_code=0),
            Code.NO_EFFECT,
            id="a node that comes back from the same image was not replaced",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_container(record: Record, shown: Code) -> None:
    assert record.evidence.code is shown
