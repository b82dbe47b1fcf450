"""Faults of a container engine: the kit, and what their evidence makes of records."""

from chaoslab.core.events import Kind, data_of
from chaoslab.core.payloads import LinkCounted, NodeStarted, RunStarted, ScriptStarted
from chaoslab.faults.container import ContainerReplace, NetworkDisconnect
from chaoslab.faults.evidence.codes import Code
from tests.faults.fault_record import Case, FaultRecord, case, each_of
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


def unplugged(*, rate: int, after: int | None, until_s: float = 30.0) -> FaultRecord:
    """A script's container whose network carried so many bytes a second until second 20, and later
    so many more; None: it had none then.
    """
    record = FaultRecord(NetworkDisconnect(), "worker-1", for_s=10.0)
    about = RunStarted(
        plan="it", seed=1, fleet="compose", algorithm="script", learners=("worker-1",), stop={},
        version="0", is_twin=False, script=ScriptStarted(max_pause_s=60.0, says_saved=True),
    )  # fmt: skip
    record.say(0.0, Kind.RUN_STARTED, "harness", **data_of(about))
    started = NodeStarted(node="worker-1", incarnation=1, pid=0, role="learner")
    record.say(1.0, Kind.NODE_STARTED, "worker-1", **data_of(started))

    def count(time_s: float, sent: int | None) -> None:
        counted = LinkCounted(link="worker-1", up_bytes=sent, down_bytes=sent)
        record.say(time_s, Kind.LINK_COUNTED, "engine", **data_of(counted))

    for second in range(2, 20):
        count(second, rate * second)
    record.begin(20.0)
    record.say(
        20.2, Kind.ENGINE_REPORTED, "engine", node="worker-1", incarnation=1, action="disconnect",
        exit_code=None, signal=None,
    )  # fmt: skip
    count(21.0, rate * 19)  # the engine counts late
    for second in range(24, int(until_s)):
        count(second, None if after is None else rate * 19 + after * (second - 20))
    return record.fault_event(30.0, Kind.FAULT_HEALING)


@each_of(
    case(
        "a script's container is proved by the engine and by what its network carried",
        unplugged(rate=5000, after=None),
        Code.AS_ASKED,
        usual_up_bytes_per_s=5000,
    ),
    case(
        "so is one that keeps a network which is silent",
        unplugged(rate=5000, after=0),
        Code.AS_ASKED,
    ),
    case("one that nobody talks to is not", unplugged(rate=20, after=None), Code.NO_TRAFFIC_BEFORE),
    case("one whose network carries on is not", unplugged(rate=5000, after=4000), Code.NO_EFFECT),
    case(
        "one of which nothing is known later is not",
        unplugged(rate=5000, after=None, until_s=25.0),
        Code.NO_LINK_REPORT,
    ),
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
