"""Faults of a container engine: the kit, and what their evidence makes of records."""

from chaoslab.core.events import Kind
from chaoslab.faults.container import ContainerReplace, NetworkDisconnect
from chaoslab.faults.evidence.codes import Code
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_network import Record


def reported(record: Record, time_s: float, action: str) -> Record:
    return record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action=action,
        exit_code=None, signal=None,
    )  # fmt: skip


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


@each_of(
    case(
        "a disconnected node is proved by the engine and by silence",
        reported(Record(NetworkDisconnect()), 20.1, "disconnect").quiet(19.9),
        Code.AS_ASKED,
    ),
    case(
        "silence that the engine knows nothing of proves no unplugging",
        Record(NetworkDisconnect()).quiet(19.9),
        Code.NOT_APPLIED,
    ),
    case(
        "an unplugged node that goes on talking is not proved",
        reported(Record(NetworkDisconnect()), 20.1, "disconnect").until(30.0),
        Code.NO_EFFECT,
    ),
    case(
        "a replaced node is proved by the image of its next life",
        replaced("sha256:a", "sha256:b", exit_code=0),
        Code.AS_ASKED,
        image_id="sha256:b",
    ),
    case(
        "a node that was killed to be replaced is weak",
        replaced("sha256:a", "sha256:b", exit_code=None),
        Code.NOT_ORDERLY,
    ),
    case(
        "a node that comes back from the same image was not replaced",
        replaced("sha256:a", "sha256:a", exit_code=0),
        Code.NO_EFFECT,
    ),
)
def test_the_record_shows_what_became_of_the_container(case: Case) -> None:
    case.require()
