"""Detection: victims are missed in time, and nobody else is dropped."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.detection import Detection
from chaoslab.core.events import Kind
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed

CHECK = Detection()


def paused(for_s: float) -> Story:
    return Story().baseline().pause("learner-2", for_s=for_s).train(for_s).heal().train(9).end()


def never_missed() -> Story:
    return paused(20).without(Kind.MEMBER_SUSPECTED).without(Kind.MEMBER_LEFT)


def dropped(*, is_dead: bool) -> Story:
    story = Story().baseline().kill("learner-1").train(2)
    story = story.strike("learner-2") if is_dead else story.drop("learner-2")
    return story.train(4).heal().train(9).end()


def hampered(*, is_dropped: bool) -> Story:
    """A fault that leaves its target at work."""
    story = Story().baseline().touch("learner-2", for_s=20, fault="network.bandwidth").train(8)
    if is_dropped:
        story.drop("learner-2", "no_progress")
    return story.heal().train(9).end()


def goodbyes(*, says_so: bool) -> Story:
    story = half_killed()
    for name, learner in story.learners.items():
        story.drop(name, "said_goodbye")
        if says_so:
            left = {**learner.who, "step": learner.step, "reason": "stopped"}
            story.say(Kind.LEARNER_LEFT, name, **left)
        story.exit(name, code=0)
    return story.finish("completed" if says_so else "interrupted")


CASES = {
    "a victim missed too late": fails(
        Detection(within_s=1.5), lambda: paused(9), Code.MISSED_TOO_LATE, of=("learner-2",)
    ),
    "a victim that is never missed": fails(CHECK, never_missed, Code.NOT_MISSED),
    "a victim that was away for less than the bound": doubts(
        CHECK, lambda: paused(1), Code.NO_FAULT
    ),
    "a learner that no fault targeted": fails(
        CHECK, lambda: dropped(is_dead=False), Code.DROPPED_WRONGLY, of=("learner-2",)
    ),
    "a learner that somebody killed": passes(CHECK, lambda: dropped(is_dead=True)),
    "one at work behind a thin link, dropped": fails(
        CHECK, lambda: hampered(is_dropped=True), Code.DROPPED_WRONGLY, of=("learner-2",)
    ),
    "one at work behind a thin link, kept": passes(CHECK, lambda: hampered(is_dropped=False)),
    "members that leave when a run is cut short": passes(CHECK, lambda: goodbyes(says_so=False)),
    "a goodbye at the end, whichever word arrives first": passes(
        CHECK, lambda: goodbyes(says_so=True)
    ),
    "no victims": doubts(CHECK, lambda: Story().baseline().train(9).end()),
}


@each(CASES)
def test_detection(case: Case) -> None:
    case.hold()


def test_victims_are_missed_when_they_are_dropped_or_suspected() -> None:
    finding = CHECK.judge(half_killed().end().history())
    assert (finding.outcome, finding.observed, finding.samples) == (Outcome.PASS, 0.25, 2)
    finding = CHECK.judge(paused(9).history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 2.0)


def test_the_delay_counts_from_the_exit_and_not_from_a_notice_before_it() -> None:
    story = Story().baseline().touch("learner-1", for_s=20, fault="process.preempt")
    story.altered(Kind.FAULT_INJECTING, lambda _: {"takes_away": True})
    story.train(12).exit("learner-1", code=0).train(3)
    assert Detection(within_s=5).judge(story.heal().train(9).end().history()).observed == 0.25


def test_a_suspicion_that_passes_is_counted_and_fails_only_if_asked() -> None:
    history = half_killed().suspect("learner-2").train(1).end().history()
    lenient = CHECK.judge(history)
    assert (lenient.outcome, lenient.numbers["false_suspicions"]) == (Outcome.PASS, 1)
    assert Detection(allow_suspicion=False).judge(history).outcome is Outcome.FAIL


def test_a_victim_that_was_no_member_yet_cannot_be_missed() -> None:
    story = Story(rejoin_s=9.0).baseline().kill("learner-1").train(2).heal().train(4)
    story.kill("learner-1", for_s=15).train(15).heal().train(20).end()
    finding = CHECK.judge(story.history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 1)
