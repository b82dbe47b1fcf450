"""Cleanup: everything that was begun has ended, and nothing is left over."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.cleanup import Cleanup
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed


def test_a_run_that_healed_and_ended_everything_passes() -> None:
    finding = Cleanup().judge(half_killed().end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 1 + 7)


CHECK = Cleanup()
LEFT: dict[str, Json] = {"what": "process 4711", "where": "here", "remedy": "chaoslab heal"}
CASES = {
    "a fault for the rest of the run": passes(
        CHECK, lambda: Story().baseline().kill("learner-1", for_s=None).train(9).prove().end()
    ),
    "a heal that was never begun": fails(
        CHECK, lambda: Story().baseline().kill("learner-1").train(9).end(), Code.NOT_HEALED
    ),
    "a heal that was never finished": fails(
        CHECK, lambda: half_killed().end().without(Kind.FAULT_HEALED), Code.NOT_HEALED
    ),
    "a process that never exited": fails(
        CHECK,
        lambda: (
            half_killed()
            .end()
            .without(Kind.NODE_EXITED, lambda event: event.payload.node == "learner-2")
        ),
        of=("learner-2",),
    ),
    "residue in a record that breaks off": fails(
        CHECK, lambda: half_killed().say(Kind.RESIDUE_FOUND, **LEFT), Code.LEFT_OVER
    ),
    "a record that breaks off": doubts(CHECK, half_killed),
}


@each(CASES)
def test_cleanup(case: Case) -> None:
    case.hold()
