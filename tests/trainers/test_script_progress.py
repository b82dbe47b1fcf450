"""What `ScriptProgress` derives from the words of workers: members, steps, rounds, the end."""

from itertools import pairwise

from chaoslab.core.payloads import (
    LearnerJoined,
    LearnerStep,
    LineKind,
    MemberLeft,
    PushAccepted,
    RoundMerged,
    SyncerFinal,
    SyncerStopped,
    SyncerStopRuleMet,
)
from chaoslab.core.protocol import LeaveReason
from tests.trainers.script_story import ScriptStory


def test_a_round_is_a_report_of_every_worker() -> None:
    history = ScriptStory(workers=3).train(5).history()
    rounds = [event.payload for event in history.of(RoundMerged)]
    contributors = [{one.learner for one in merged.contributors} for merged in rounds]
    assert contributors[1:] == [{"worker-0", "worker-1", "worker-2"}] * (len(rounds) - 1)
    tokens = sum(one.c_tokens for merged in rounds for one in merged.contributors)
    assert tokens == rounds[-1].committed_tokens == 1 + 3 * (len(rounds) - 1)


def test_rounds_go_on_without_a_worker_that_is_silent() -> None:
    story = ScriptStory(workers=2).train(5)
    story.workers["worker-1"].is_alive = False  # it hangs: nobody sees it exit
    history = story.train(6).history()
    late = [event.payload for event in history.of(RoundMerged)][-4:]
    assert [merged.missed for merged in late] == [("worker-1",)] * 4
    assert {merged.members for merged in late} == {2}


def test_contributions_of_a_life_follow_each_other() -> None:
    history = ScriptStory().train(8).kill("worker-0").heal("worker-0", at=0).train(8).history()
    for life in {push.payload.life for push in history.of(PushAccepted)}:
        own = [e.payload for e in history.of(PushAccepted) if e.payload.life == life]
        assert own[0].tokens_from == 0
        assert all(one.tokens_to == two.tokens_from for one, two in pairwise(own))
        assert all(one.c_steps == one.tokens_to - one.tokens_from for one in own)


def test_a_step_that_is_said_twice_counts_once() -> None:
    story = ScriptStory(workers=1).train(3)
    history = story.tell("worker-0", LineKind.PROGRESS, 3, 2.0).history()
    assert [event.payload.step for event in history.of(LearnerStep)] == [1, 2, 3]


def test_lines_without_a_step_are_counted() -> None:
    story = ScriptStory(workers=1)
    for _ in range(3):
        story.tell("worker-0", LineKind.PROGRESS, None, 2.0)
    assert [event.payload.step for event in story.history().of(LearnerStep)] == [1, 2, 3]


def test_an_earlier_step_after_a_fault_begins_a_membership_anew() -> None:
    """In the same process."""
    story = ScriptStory(workers=1).train(30).kill()
    story.workers["worker-0"].step = 20
    history = story.train(3).history()
    joins = [event.payload for event in history.of(LearnerJoined)]
    assert [(one.incarnation, one.step) for one in joins] == [(1, 0), (1, 20)]
    assert [event.payload.reason for event in history.of(MemberLeft)] == [LeaveReason.FENCED]


def test_one_reports_for_all_that_run() -> None:
    story = ScriptStory(workers=3, is_one_for_all=True).train(4).kill("worker-2").train(4)
    history = story.history()
    steps = [event.payload for event in history.of(LearnerStep)]
    assert {one.learner: one.is_inferred for one in steps} == {
        "worker-0": False, "worker-1": True, "worker-2": True,
    }  # fmt: skip
    last = history.of(RoundMerged)[-1].payload
    assert {one.learner for one in last.contributors} == {"worker-0", "worker-1"}


def test_training_ends_when_the_furthest_worker_has_finished() -> None:
    story = ScriptStory(stop={"steps": 10}).train(10)
    history = story.exit("worker-0", code=0).exit("worker-1", code=0).history()
    (met,), (stopped,) = history.of(SyncerStopRuleMet), history.of(SyncerStopped)
    assert met.seq < stopped.seq
    assert {event.payload.reason for event in history.of(MemberLeft)} == {LeaveReason.SAID_GOODBYE}
    (final,) = history.of(SyncerFinal)
    assert (final.payload.was_asked, final.payload.committed_tokens) == (False, 20)


def test_a_worker_that_ends_far_behind_the_others_does_not_end_training() -> None:
    history = ScriptStory().train(5).kill("worker-0").train(20).heal("worker-0", at=0).history()
    assert not history.of(SyncerStopped)
    story = ScriptStory().train(5).kill("worker-0").train(20).heal("worker-0", at=0).train(1)
    history = story.exit("worker-0", code=0).history()
    assert not history.of(SyncerStopped)
    assert history.of(MemberLeft)[-1].payload.reason is LeaveReason.CLOSED


def test_a_word_of_a_former_life_counts_for_nothing() -> None:
    story = ScriptStory(workers=1).train(5).kill("worker-0")
    before = len(story.history().of(LearnerStep))
    history = story.tell("worker-0", LineKind.PROGRESS, 6, 2.0).history()
    assert len(history.of(LearnerStep)) == before


def test_a_stop_rule_by_loss_or_time_is_met_once() -> None:
    for stop in ({"loss": 3.5}, {"time_s": 1.0}):
        history = ScriptStory(stop=stop).train(40).history()
        (met,) = history.of(SyncerStopRuleMet)
        assert 5 < met.seq < len(history.events)


def test_a_line_of_a_launcher_counts_for_all_workers() -> None:
    story = ScriptStory(workers=2).tell_of_launcher(LineKind.PROGRESS, 1).exit("worker-1")
    history = story.tell_of_launcher(LineKind.PROGRESS, 2).history()
    said = [(e.payload.learner, e.payload.step) for e in history.of(LearnerStep)]
    assert said == [("worker-0", 1), ("worker-1", 1), ("worker-0", 2)]


def test_a_launcher_that_ends_well_ends_training() -> None:
    story = ScriptStory(workers=2).tell_of_launcher(LineKind.PROGRESS, 1)
    story.exit("worker-0").exit("worker-1")
    assert not story.history().of(SyncerFinal)
    assert story.exit("launcher", code=0).history().of(SyncerFinal)


def test_what_is_read_late_and_together_makes_no_rounds_without_the_others() -> None:
    story = ScriptStory().train(20)
    story.now_s += 1.2
    for worker in story.workers.values():
        for _ in range(12):
            worker.step += 1
            story.tell(worker.name, LineKind.PROGRESS, worker.step, 2.0)
    history = story.train(5).end().history()
    rounds = [event.payload for event in history.of(RoundMerged)]
    assert [one.missed for one in rounds if one.missed] == []
    assert sum(one.c_steps for merged in rounds for one in merged.contributors) == 2 * 37
