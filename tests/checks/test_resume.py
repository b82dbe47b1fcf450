"""Does a script's worker go on from where it was, with what it had learnt?"""

from collections.abc import Callable

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.resume import Resume
from chaoslab.checks.verdict import judge
from chaoslab.core.payloads import (
    LineKind,
    Need,
    PhaseEntered,
    StorageDamaged,
    StorageFilled,
    StorageFreed,
)
from tests.trainers.script_story import STEP_S, ScriptStory, broken, usual_loss


@pytest.mark.parametrize(
    ("story", "code"),
    [
        (broken(0).train(60), Code.BEGAN_ANEW),
        (broken(20).train(60), Code.RESUMED_FROM_OLDER),
        (broken(50).train(60), Code.STEPS_SKIPPED),
        (broken(0, says=30).train(60), Code.RESUMED_OTHERWISE),
        (broken(0, says_saved=False).train(60), Code.BEGAN_ANEW),
    ],
)
def test_a_worker_that_does_not_go_on_from_its_newest_checkpoint_fails(
    story: ScriptStory, code: Code
) -> None:
    finding = Resume().judge(story.end().history())
    assert (finding.outcome, finding.codes, finding.culprits) == (
        Outcome.FAIL, (code,), ("worker-0",),
    )  # fmt: skip


@pytest.mark.parametrize(("first", "codes"), [(30, ()), (29, (Code.RESUMED_OTHERWISE,))])
def test_the_first_report_may_be_of_the_step_at_which_one_goes_on(
    first: int, codes: tuple[Code, ...]
) -> None:
    """As of one that counts from 0, or reports a step before it is done."""
    story = ScriptStory().train(30).measure().train(5).kill("worker-0").train(3)
    story.heal("worker-0", at=first - 1, says=30).train(60)
    assert Resume().judge(story.end().history()).codes == codes


def test_one_that_counts_from_0_and_begins_anew_has_said_nothing_else() -> None:
    story = ScriptStory().train(30).measure().train(5).kill("worker-0").train(3)
    story.heal("worker-0", at=-1, is_silent=True).train(60)
    assert Resume().judge(story.end().history()).codes == (Code.BEGAN_ANEW,)


@pytest.mark.parametrize(
    ("workers", "at", "continued"), [(["worker-0"], 0, True), (None, 0, False), (None, 20, True)]
)
def test_training_did_not_continue_once_all_workers_have_begun_anew(
    workers: list[str] | None, at: int, continued: bool
) -> None:
    story = ScriptStory().train(30).measure().train(5)
    for worker in workers or story.workers:
        story.kill(worker).train(3).heal(worker, at=at).train(20)
    verdict = judge(story.train(40).end().history(), [])
    assert verdict.training_continued is continued
    (finding,) = (one for one in verdict.findings if one.check == "resume")
    assert finding.outcome is Outcome.FAIL


@pytest.mark.parametrize("at", [30, 33, 35])
def test_a_worker_that_goes_on_from_its_newest_checkpoint_passes(at: int) -> None:
    """Or from a later step that it had made: a checkpoint that it had no time to tell of."""
    finding = Resume().judge(broken(at).train(60).end().history())
    assert finding.outcome is Outcome.PASS
    assert finding.numbers["lost_steps"] == 35 - at


@pytest.mark.parametrize(("at", "outcome"), [(30, Outcome.PASS), (27, Outcome.FAIL)])
def test_a_checkpoint_without_a_step_is_of_the_time_at_which_its_file_was_written(
    at: int, outcome: Outcome
) -> None:
    """However late the file was found."""
    story = ScriptStory().train(30, saves=False).measure().train(5, saves=False)
    story.tell("worker-0", LineKind.SAVED, None, age_s=5 * STEP_S).kill("worker-0").train(3)
    story.heal("worker-0", at=at, is_silent=True).train(60, saves=False)
    assert Resume().judge(story.end().history()).outcome is outcome


@pytest.mark.parametrize(("at", "outcome"), [(30, Outcome.PASS), (20, Outcome.FAIL)])
def test_a_file_that_was_written_on_a_full_disk_is_no_checkpoint(at: int, outcome: Outcome) -> None:
    story = ScriptStory().train(30).measure().train(5)
    space = {"node": "worker-0", "total_bytes": 5000, "free_bytes": 0}
    story.say(StorageFilled(**space))
    story.train(5, saves=False).tell("worker-0", LineKind.SAVED, 40, age_s=STEP_S)
    story.say(StorageFreed(**space))
    story.kill("worker-0").train(3).heal("worker-0", at=at).train(60)
    assert Resume().judge(story.end().history()).outcome is outcome


def test_one_that_says_when_it_saves_may_begin_anew_before_that_without_a_pattern_for_it() -> None:
    story = ScriptStory(says_saved=False).train(8).measure().kill("worker-0")
    story.heal("worker-0", at=0).train(20).tell("worker-0", LineKind.SAVED, 20)
    assert Resume().judge(story.end().history()).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("at", "files", "untouched", "node", "outcome"),
    [
        (20, ["30"], ["20", "10"], "worker-0", Outcome.PASS),
        (10, ["30"], ["20", "10"], "worker-0", Outcome.FAIL),
        (10, ["30"], ["20"], "worker-0", Outcome.FAIL),
        (10, ["30", "20"], ["10"], "worker-0", Outcome.PASS),
        (0, ["30", "20", "10"], [], "worker-0", Outcome.PASS),
        (0, ["last"], [], "worker-0", Outcome.PASS),
        (20, ["30"], ["20", "10"], "worker-1", Outcome.FAIL),
    ],
)
def test_what_a_fault_has_damaged_is_no_newest_checkpoint(
    at: int, files: list[str], untouched: list[str], node: str, outcome: Outcome
) -> None:
    """Nor is what the trainer has removed itself, as one that keeps the last alone."""
    story = ScriptStory().train(30).measure().train(5).kill("worker-0")
    for file in files:
        story.say(
            StorageDamaged(
                node=node, file=file, how="lose", bytes_before=1, digest_before="1",
                bytes_after=None, digest_after=None, untouched=tuple(untouched),
            )
        )  # fmt: skip
    story.train(3).heal("worker-0", at=at).train(60)
    assert Resume().judge(story.end().history()).outcome is outcome


@pytest.mark.parametrize(("at", "outcome"), [(50, Outcome.PASS), (0, Outcome.FAIL)])
def test_a_training_that_was_attached_to_begins_anew_at_its_own_beginning(
    at: int, outcome: Outcome
) -> None:
    story = ScriptStory(says_saved=False, without=(Need.WHOLE,))
    for worker in story.workers.values():
        worker.step = 60
    story.train(8).measure().train(20).kill("worker-0").train(3).heal("worker-0", at=at)
    assert Resume().judge(story.train(90).end().history()).outcome is outcome


def test_one_that_trains_apart_from_the_others_may_be_far_behind_them() -> None:
    story = ScriptStory(learning_rate=0.1).train(12).measure().train(3).kill("worker-0")
    verdict = judge(story.train(30).heal("worker-0", at=10).train(60).end().history(), [])
    assert not [one for one in verdict.findings if one.outcome is Outcome.FAIL]


def test_one_that_is_killed_twice_between_two_checkpoints_does_not_begin_anew() -> None:
    story = ScriptStory(says_saved=False).train(50).measure().kill("worker-0")
    story.heal("worker-0", at=40).train(5).kill("worker-0").heal("worker-0", at=40)
    assert Resume().judge(story.train(60).end().history()).outcome is Outcome.PASS


def test_a_checkpoint_without_a_step_is_of_the_report_before_it() -> None:
    story = ScriptStory(says_saved=False).train(30).measure().tell("worker-0", LineKind.SAVED, None)
    story.train(5).kill("worker-0").train(3).heal("worker-0", at=0).train(60)
    finding = Resume().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.BEGAN_ANEW,))


def test_one_that_had_saved_nothing_may_begin_anew() -> None:
    story = ScriptStory().train(8).measure().kill("worker-0").heal("worker-0", at=0).train(20)
    assert Resume().judge(story.end().history()).outcome is Outcome.PASS


@pytest.mark.parametrize("is_again", [False, True])
def test_one_that_never_gets_beyond_where_it_was_is_no_pass(is_again: bool) -> None:
    """Nor if it gets beyond where it died again."""
    story = broken(30)
    if is_again:
        story.train(2).kill("worker-0").heal("worker-0", at=30)
    finding = Resume().judge(story.train(3).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_checkpoints_of_another_worker_count_for_one_that_never_says_so() -> None:
    story = ScriptStory(workers=1, is_one_for_all=True).train(35)
    story.measure().kill("worker-0").heal("worker-0", at=10).train(60)
    assert Resume().judge(story.end().history()).codes == (Code.RESUMED_FROM_OLDER,)


def seldom(at: int, says: int | None) -> ScriptStory:
    """One that reports as seldom as it saves: every 10 steps, with 30 saved when it is killed."""
    story = ScriptStory(reports_every=10).train(30).measure().train(5)
    return story.kill("worker-0").train(3).heal("worker-0", at=at, says=says).train(60)


@pytest.mark.parametrize(
    ("says", "outcome"),
    [(20, Outcome.FAIL), (29, Outcome.PASS), (30, Outcome.PASS), (31, Outcome.PASS)],
)
def test_one_that_says_where_it_goes_on_is_judged_by_that_and_not_by_its_reports(
    says: int, outcome: Outcome
) -> None:
    assert Resume().judge(seldom(says, says).end().history()).outcome is outcome


def test_one_that_says_when_it_saves_and_never_does_cannot_go_on() -> None:
    story = ScriptStory().train(30, saves=False).measure().train(5, saves=False).kill("worker-0")
    story.heal("worker-0", at=0).train(60, saves=False)
    finding = Resume().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.START_UNKNOWN,))


@pytest.mark.parametrize(
    ("at", "is_silent", "saves", "outcome"),
    [
        (55, False, False, Outcome.PASS),  # as of torchft, whose replicas heal from their peers
        (90, False, False, Outcome.FAIL),  # further than any had come
        (55, True, False, Outcome.FAIL),
        (55, False, True, Outcome.FAIL),  # with checkpoints it goes on from one
    ],
)
def test_one_that_goes_on_from_the_state_of_another_has_skipped_nothing(
    at: int, is_silent: bool, saves: bool, outcome: Outcome
) -> None:
    story = ScriptStory(says_saved=saves).train(30, saves=saves).measure().train(5, saves=saves)
    story.kill("worker-0").train(20, saves=saves).heal("worker-0", at=at, is_silent=is_silent)
    assert Resume().judge(story.train(60, saves=saves).end().history()).outcome is outcome


@pytest.mark.parametrize("who", ["worker-0", "worker-1"])
def test_steps_that_are_skipped_after_a_fault_fail(who: str) -> None:
    """As of an epoch that is passed over at its boundary, by one that was killed or another."""
    story = broken(30).train(20)
    story.workers[who].step += 100
    finding = Resume().judge(story.train(40).end().history())
    assert (finding.outcome, finding.codes, finding.culprits) == (
        Outcome.FAIL, (Code.STEPS_SKIPPED,), (who,),
    )  # fmt: skip


def run_at(times: int, story: ScriptStory) -> ScriptStory:
    """It trains so many times as fast."""
    for _ in range(30):
        story.train(1)
        for _ in range(times - 1):
            story.now_s -= STEP_S
            story.train(1)
    return story.end()


@pytest.mark.parametrize(("times", "codes"), [(30, (Code.STEPS_SKIPPED,)), (4, ())])
def test_steps_that_come_far_too_fast_are_none(times: int, codes: tuple[Code, ...]) -> None:
    """As of one that has no data any more; some faster is one that has more cores."""
    finding = Resume().judge(run_at(times, broken(30)).history())
    assert finding.codes == codes


@pytest.mark.parametrize(
    ("is_full", "twin", "codes"),
    [
        (True, None, ()),
        (True, 1, (Code.STEPS_SKIPPED,)),
        (True, 30, ()),
        (False, 30, ()),
    ],
)
def test_a_pace_out_of_reach_is_that_of_a_baseline_with_all_cores_or_of_the_twin(
    is_full: bool, twin: int | None, codes: tuple[Code, ...]
) -> None:
    story = ScriptStory(twin=None if twin is None else run_at(twin, ScriptStory())).train(30)
    if is_full:
        story.sample()
    story.measure().train(5).kill("worker-0").train(3).heal("worker-0", at=30)
    assert Resume().judge(run_at(30, story).history()).codes == codes


def test_a_busy_machine_excuses_no_resume_from_an_older_checkpoint() -> None:
    """Reports of its time say nothing of a pace, and yet of which step a checkpoint is."""
    story = ScriptStory(workers=1)
    story.say(PhaseEntered(phase="baseline"))
    story.train(30, saves=False).sample().measure().train(20, saves=False)
    story.train(10, saves=False).sample(others_cores=1.9)
    story.tell("worker-0", LineKind.SAVED, None).train(5, saves=False)
    story.kill("worker-0").train(3).heal("worker-0", at=50).train(60, saves=False)
    verdict = judge(story.end().history(), [])
    (finding,) = (one for one in verdict.findings if one.check == "resume")
    assert finding.outcome is Outcome.FAIL
    assert Code.RESUMED_FROM_OLDER in finding.codes


@pytest.mark.parametrize(
    ("loss", "without", "code"),
    [
        (lambda step: usual_loss(step - 30), (), Code.BEGAN_ANEW),
        (lambda _: 9.0, (Need.WHOLE,), Code.BEGAN_ANEW),
        (lambda step: 1.1 * usual_loss(step), (), None),
        (lambda _: None, (), None),
    ],
)
def test_one_that_goes_on_with_its_step_and_not_with_what_it_learnt_begins_anew(
    loss: Callable[[int], float | None], without: tuple[Need, ...], code: Code | None
) -> None:
    story = broken(30, without=without)
    story.workers["worker-0"].loss = loss
    finding = Resume().judge(story.train(60).end().history())
    assert finding.codes == (() if code is None else (code,))


@pytest.mark.parametrize(("steps", "codes"), [(60, (Code.NOT_SAVED_AGAIN,)), (25, ())])
def test_one_that_is_back_and_saves_no_more_fails(steps: int, codes: tuple[Code, ...]) -> None:
    story = broken(30).train(steps, saves=False)
    assert Resume().judge(story.end().history()).codes == codes


def test_one_that_saves_no_more_after_a_fault_that_left_it_alive_fails() -> None:
    story = ScriptStory().train(40).measure().kill("worker-1").train(3).heal("worker-1", at=40)
    verdict = judge(story.train(60, saves=False).end().history(), ())
    (finding,) = (one for one in verdict.findings if one.check == "resume")
    assert finding.culprits == ("worker-0", "worker-1")


# ---------------------------------------------------------------- in every verdict


def test_a_pause_beside_a_fault_may_take_a_start_and_no_more() -> None:
    def paused(for_s: float) -> bool | None:
        story = ScriptStory(workers=1).train(30).measure().kill("worker-0")
        story.now_s += 2
        story.heal("worker-0", at=30)
        story.now_s += for_s
        return judge(story.train(60).end().history(), ()).training_continued

    assert paused(50)
    assert paused(90) is False


def test_a_pause_without_a_fault_ends_training_sooner() -> None:
    story = ScriptStory().train(30).measure().train(60)
    story.now_s += 8
    assert judge(story.train(60).end().history(), ()).training_continued is False


def test_an_odd_line_far_ahead_forgives_no_start_from_nothing() -> None:
    """As of a bar that begins at 0 and jumps to where it goes on."""
    story = broken(0).tell("worker-0", LineKind.PROGRESS, 1, 4.0)
    story.workers["worker-0"].step = 45
    finding = Resume().judge(story.train(60).end().history())
    assert (finding.outcome, finding.codes[0]) == (Outcome.FAIL, Code.BEGAN_ANEW)


@pytest.mark.parametrize(("steps", "told"), [(20, True), (90, False)])
def test_a_training_that_ends_by_itself_far_before_its_twin_is_no_pass(
    steps: int, told: bool
) -> None:
    story = ScriptStory(workers=1, twin=ScriptStory(workers=1).train(120).end())
    story.train(30).measure().train(5).kill("worker-0").train(3).heal("worker-0", at=30)
    verdict = judge(story.train(steps).exit("worker-0", code=0).end().history(), ())
    found = [one for one in verdict.findings if one.check == "stop"]
    assert [one.codes for one in found] == ([(Code.STOPPED_EARLY,)] if told else [])


@pytest.mark.parametrize(
    ("at", "overlap_s", "outcome", "codes"),
    [
        (40, 1.05, Outcome.PASS, ()),
        (30, 1.05, Outcome.UNKNOWN, (Code.LIVES_OVERLAPPED,)),
        (20, 1.05, Outcome.FAIL, (Code.RESUMED_FROM_OLDER,)),
        (0, 1.05, Outcome.FAIL, (Code.BEGAN_ANEW,)),
        (30, 0.1, Outcome.FAIL, (Code.RESUMED_FROM_OLDER,)),
    ],
)
def test_what_the_last_pod_saved_beside_the_next_one_need_not_be_found(
    at: int, overlap_s: float, outcome: Outcome, codes: tuple[Code, ...]
) -> None:
    """Step 40 is saved 0.2 s before the end of the last, 30 was 1.2 s before it."""
    story = ScriptStory(overlap_s=overlap_s).train(30).measure().train(12).kill("worker-0")
    finding = Resume().judge(story.heal("worker-0", at=at).train(60).end().history())
    assert (finding.outcome, finding.codes) == (outcome, codes)
