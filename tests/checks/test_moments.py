"""A fault that was to hit a point of the protocol must have been there in time."""

from collections.abc import Mapping

import pytest

from chaoslab.checks.codes import Code
from chaoslab.checks.moot import phase_over
from chaoslab.checks.rules import always_judged
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.history import History

POINT: Mapping[str, Json] = {"round": 7, "fragment": 1, "version": 4}
FAULT: Mapping[str, Json] = {
    "injection": "injection-0", "fault": "process.kill", "spec": "now", "targets": ["syncer"],
    "takes_away": True, "reached": 0,
}  # fmt: skip


def told(*lines: tuple[Kind, str, Mapping[str, Json]]) -> History:
    return History(
        Event(seq=seq, time_s=float(seq), source=source, kind=kind, data=data)
        for seq, (kind, source, data) in enumerate(lines)
    )


def at(phase: str, *between: tuple[Kind, str, Mapping[str, Json]], who: str = "syncer") -> History:
    reached = (Kind.PHASE_REACHED, who, {"phase": phase, **POINT, "is_waiting": True})
    begun = [(kind, "harness", FAULT) for kind in (Kind.FAULT_INJECTING, Kind.FAULT_INJECTED)]
    return told(reached, *between, *begun)


Line = tuple[Kind, str, Mapping[str, Json]]
JOINED: Line = (Kind.LEARNER_JOINED, "learner-1", {"learner": "learner-1", "donor": "learner-0"})
TAKEN: Line = (Kind.PUSH_ACCEPTED, "syncer", {"learner": "learner-0", **POINT})


@pytest.mark.parametrize(
    ("phase", "who", "line", "is_over"),
    [
        ("written", "syncer", None, False),
        ("written", "syncer", (Kind.ROUND_MERGED, "syncer", POINT), True),
        ("written", "syncer", (Kind.ROUND_MERGED, "syncer", {**POINT, "round": 6}), False),
        ("donate", "learner-0", JOINED, True),
        ("donate", "learner-2", JOINED, False),
        ("push", "learner-0", TAKEN, True),
        ("push", "learner-1", TAKEN, False),
    ],
)
def test_a_fault_is_too_late_once_what_it_was_to_hit_is_over(
    phase: str, who: str, line: Line | None, is_over: bool
) -> None:
    history = at(phase, *([line] if line else []), who=who)
    codes = [f.codes for f in always_judged(history) if f.check == "phase"]
    assert codes == ([(Code.INJECTED_TOO_LATE,)] if is_over else [])


def test_a_fault_without_such_a_trigger_has_no_moment_to_miss() -> None:
    fault = {key: value for key, value in FAULT.items() if key != "reached"}
    history = told((Kind.FAULT_INJECTING, "harness", fault))
    assert phase_over(history.faults[0], history) is None
