"""A fault that was to hit a point of the protocol must have been there in time."""

from collections.abc import Mapping

from chaoslab.checks.codes import Code
from chaoslab.checks.moments import phase_over
from chaoslab.checks.rules import always_judged
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.journal import History

POINT: Mapping[str, Json] = {"round": 7, "fragment": 1, "version": 4}
FAULT: Mapping[str, Json] = {
    "injection": "injection-0", "fault": "syncer.kill", "spec": "now", "targets": ["syncer"],
    "takes_away": True, "reached": 0,
}  # fmt: skip


def told(*lines: tuple[Kind, str, Mapping[str, Json]]) -> History:
    return History(
        Event(seq=seq, time_s=float(seq), source=source, kind=kind, data=data)
        for seq, (kind, source, data) in enumerate(lines)
    )


def at(phase: str, *between: tuple[Kind, str, Mapping[str, Json]], who: str = "syncer") -> History:
    reached = (Kind.PHASE_REACHED, who, {"phase": phase, **POINT, "is_held": True})
    begun = [(kind, "harness", FAULT) for kind in (Kind.FAULT_INJECTING, Kind.FAULT_INJECTED)]
    return told(reached, *between, *begun)


def over(history: History) -> Event | None:
    return phase_over(history.faults[0], history)


def test_a_fault_that_follows_at_once_is_in_time() -> None:
    assert over(at("written")) is None
    assert not [f for f in always_judged(at("written")) if f.check == "phase"]


def test_a_fault_after_the_round_was_published_is_too_late() -> None:
    history = at("written", (Kind.ROUND_MERGED, "syncer", POINT))
    assert over(history) is not None
    (finding,) = [f for f in always_judged(history) if f.check == "phase"]
    assert finding.codes == (Code.INJECTED_TOO_LATE,)


def test_another_round_says_nothing() -> None:
    assert over(at("written", (Kind.ROUND_MERGED, "syncer", {**POINT, "round": 6}))) is None


def test_a_donor_is_too_late_once_its_rejoiner_has_everything() -> None:
    joined = {"learner": "learner-1", "donor": "learner-0"}
    line = (Kind.LEARNER_JOINED, "learner-1", joined)
    assert over(at("donate", line, who="learner-0")) is not None
    assert over(at("donate", line, who="learner-2")) is None


def test_a_push_is_over_when_the_syncer_took_it() -> None:
    taken = (Kind.PUSH_ACCEPTED, "syncer", {"learner": "learner-0", **POINT})
    assert over(at("push", taken, who="learner-0")) is not None
    assert over(at("push", taken, who="learner-1")) is None


def test_a_fault_without_such_a_trigger_has_no_moment_to_miss() -> None:
    fault = {key: value for key, value in FAULT.items() if key != "reached"}
    assert over(told((Kind.FAULT_INJECTING, "harness", fault))) is None
