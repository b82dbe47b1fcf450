"""Detection: victims are missed in time, and nobody else is dropped."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.detection import Detection
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed


def test_victims_that_are_dropped_at_once_pass() -> None:
    finding = Detection().judge(half_killed().end().history())
    assert (finding.outcome, finding.observed, finding.samples) == (Outcome.PASS, 0.25, 2)


def test_a_paused_victim_is_missed_when_it_is_suspected() -> None:
    story = Story().baseline().pause("learner-2", for_s=9).train(9).heal().train(9).end()
    finding = Detection().judge(story.history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 2.0)


def test_a_victim_missed_too_late_fails() -> None:
    story = Story().baseline().pause("learner-2", for_s=9).train(9).heal().train(9).end()
    finding = Detection(within_s=1.5).judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.MISSED_TOO_LATE,)


def test_a_victim_that_is_never_missed_fails() -> None:
    story = Story().baseline().pause("learner-2", for_s=20).train(20).heal().train(9).end()
    story.without(Kind.MEMBER_SUSPECTED).without(Kind.MEMBER_LEFT)
    finding = Detection().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_MISSED,))


def test_the_delay_counts_from_the_exit_and_not_from_a_notice_before_it() -> None:
    story = Story().baseline().touch("learner-1", for_s=20, fault="process.preempt")
    story.altered(Kind.FAULT_INJECTING, lambda _: {"takes_away": True})
    story.train(12).exit("learner-1", code=0).train(3)
    assert Detection(within_s=5).judge(story.heal().train(9).end().history()).observed == 0.25


def test_a_victim_that_was_away_for_less_than_the_bound_need_not_be_missed() -> None:
    story = Story().baseline().pause("learner-2", for_s=1).train(1).heal().train(9).end()
    finding = Detection().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.NO_FAULT,))


def test_dropping_a_learner_that_no_fault_targeted_fails() -> None:
    story = Story().baseline().kill("learner-1").train(2).drop("learner-2").train(4)
    finding = Detection().judge(story.heal().train(9).end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.DROPPED_WRONGLY,)


def test_a_suspicion_that_passes_is_counted_and_fails_only_if_asked() -> None:
    history = half_killed().suspect("learner-2").train(1).end().history()
    lenient = Detection().judge(history)
    assert (lenient.outcome, lenient.numbers["false_suspicions"]) == (Outcome.PASS, 1)
    assert Detection(allow_suspicion=False).judge(history).outcome is Outcome.FAIL


def test_dropping_a_learner_that_somebody_killed_is_no_false_drop() -> None:
    story = Story().baseline().kill("learner-1").train(2).strike("learner-2").train(4)
    assert Detection().judge(story.heal().train(9).end().history()).outcome is Outcome.PASS


def test_a_victim_that_was_no_member_yet_cannot_be_missed() -> None:
    story = Story(rejoin_s=9.0).baseline().kill("learner-1").train(2).heal().train(4)
    story.kill("learner-1", for_s=15).train(15).heal().train(20).end()
    finding = Detection().judge(story.history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 1)


def test_members_that_leave_when_a_run_is_cut_short_are_no_false_drops() -> None:
    story = half_killed()
    for name in story.learners:
        story.drop(name, "said_goodbye").exit(name, code=0)
    assert Detection().judge(story.finish("interrupted").history()).outcome is Outcome.PASS


def test_a_goodbye_at_the_end_is_no_drop_whichever_word_arrives_first() -> None:
    story = half_killed()
    for name, learner in story.learners.items():
        story.drop(name, "said_goodbye")
        story.say(Kind.LEARNER_LEFT, name, **learner.who, step=learner.step, reason="stopped: done")
        story.exit(name, code=0)
    assert Detection().judge(story.finish().history()).outcome is Outcome.PASS


def test_without_victims_nothing_is_known() -> None:
    finding = Detection().judge(Story().baseline().train(9).end().history())
    assert finding.outcome is Outcome.UNKNOWN
