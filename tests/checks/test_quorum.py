"""Progress with a quorum: rounds are demanded only while enough members are under no fault."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.quorum import QuorumProgress
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed


def of(quorum: int) -> QuorumProgress:
    return QuorumProgress(quorum=quorum, within_s=3.0)


def pause_under_a_fault() -> Story:
    story = Story().baseline().kill("learner-1").train(1).stall(8).train(1)
    return story.heal().train(9).end()


def pause_of_a_grown_run() -> Story:
    story = Story(learners=2, reserve=("learner-2", "learner-3")).baseline()
    return story.bring_in("learner-2", "learner-3").train(6).stall(8).train(5).settle().end()


def pause_while_a_newcomer_is_dead() -> Story:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=30.0).train(4)
    story.kill("learner-4", for_s=8.0).train(1).stall(6).train(1).heal(spec="die").train(4)
    return story.end()


CASES = {
    "a pause with a quorum under a fault": fails(of(3), pause_under_a_fault, Code.GAP_TOO_LONG),
    "a pause without a quorum": passes(of(4), pause_under_a_fault),
    "who was brought in for good counts": fails(of(3), pause_of_a_grown_run),
    "who was brought in is harmed by other faults alone": passes(
        of(5), pause_while_a_newcomer_is_dead
    ),
    "a pause after all faults": fails(
        of(4), lambda: half_killed().train(3).stall(5).train(1).end()
    ),
    "training that never merges again": fails(
        QuorumProgress(within_s=3.0), lambda: half_killed().stall(9).end()
    ),
    "a pause while a fault is open on the syncer": passes(
        QuorumProgress(within_s=3.0),
        lambda: Story().baseline().lose_syncer(for_s=6.0).stall(6).regain_syncer().train(6).end(),
    ),
    "no baseline": doubts(QuorumProgress(), lambda: Story().start(), Code.NO_BASELINE),
}


@each(CASES)
def test_quorum(case: Case) -> None:
    case.hold()


def test_a_run_that_keeps_merging_passes_and_tells_the_longest_pause() -> None:
    finding = QuorumProgress(within_s=1.0).judge(half_killed().end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 0.25), finding.reason
    assert finding.samples > 12
