"""Checkpoints: damage is never believed, and saving goes on after trouble."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.checkpoints import Checkpoints
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from tests.histories import Story

FILE, OLDER = "00000002.checkpoint", "00000001.checkpoint"


def saving() -> Story:
    """Learner-1 has saved two checkpoints; a baseline was measured."""
    story = Story().baseline()
    return saves(saves(story, OLDER), FILE)


def saves(story: Story, file: str) -> Story:
    told: dict[str, Json] = {"file": file, "step": 10, "bytes": 1000, "took_s": 0.1}
    return story.say(Kind.CHECKPOINT_SAVED, "learner-1", learner="learner-1", incarnation=1, **told)


def damaged(story: Story) -> Story:
    changed: dict[str, Json] = {"digest_before": "a", "digest_after": "b"}
    return story.say(
        Kind.STORAGE_DAMAGED, "learner-1", node="learner-1", file=FILE, how="corrupt", **changed
    )


def finds(story: Story, file: str | None, *refused: str) -> Story:
    about: list[Json] = [{"file": one, "reason": "is damaged"} for one in refused]
    told: dict[str, Json] = {"file": file, "step": 10, "refused": about}
    return story.say(Kind.CHECKPOINT_FOUND, "learner-1", learner="learner-1", incarnation=2, **told)


def fails(story: Story) -> Story:
    told: dict[str, Json] = {"step": 20, "reason": "No space left on device"}
    return story.say(
        Kind.CHECKPOINT_FAILED, "learner-1", learner="learner-1", incarnation=1, **told
    )


def test_a_damaged_file_that_was_refused_passes() -> None:
    finding = Checkpoints().judge(finds(damaged(saving()), OLDER, FILE).train(5).end().history())
    assert (finding.outcome, finding.numbers["refused_files"]) == (Outcome.PASS, 1)


def test_a_damaged_file_that_was_believed_fails() -> None:
    finding = Checkpoints().judge(finds(damaged(saving()), FILE).train(5).end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.DAMAGED_FILE_BELIEVED,)


def test_a_file_that_was_written_anew_may_be_believed() -> None:
    story = finds(saves(damaged(saving()), FILE), FILE).train(5).end()
    assert Checkpoints().judge(story.history()).outcome is Outcome.PASS


def test_a_learner_that_saves_again_after_a_refused_write_passes() -> None:
    finding = Checkpoints().judge(saves(fails(saving()).train(5), FILE).train(5).end().history())
    assert (finding.outcome, finding.numbers["failed"]) == (Outcome.PASS, 1)


def test_a_learner_that_never_saves_again_fails_if_it_had_the_time() -> None:
    story = fails(saving()).train(12).end()
    finding = Checkpoints(again_within_s=10.0).judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_SAVED_AGAIN,))
    assert Checkpoints(again_within_s=60.0).judge(story.history()).outcome is Outcome.UNKNOWN


def test_the_time_counts_from_when_the_disk_had_room_again() -> None:
    story = fails(saving()).train(12)
    story.say(Kind.STORAGE_FREED, "learner-1", node="learner-1", total_bytes=9, free_bytes=8)
    finding = Checkpoints(again_within_s=10.0).judge(story.train(2).end().history())
    assert finding.outcome is Outcome.UNKNOWN


def test_learners_that_say_nothing_of_checkpoints_are_unknown() -> None:
    assert Checkpoints().judge(Story().baseline().end().history()).outcome is Outcome.UNKNOWN


def test_a_start_that_finds_the_newest_one_passes() -> None:
    finding = Checkpoints().judge(finds(saving(), FILE).train(5).end().history())
    assert finding.outcome is Outcome.PASS


def test_a_start_may_find_one_that_was_whole_before_it_could_be_said() -> None:
    story = finds(saving(), "00000003.checkpoint").train(5).end()
    assert Checkpoints().judge(story.history()).outcome is Outcome.PASS


def test_a_start_from_an_older_one_than_was_saved_fails() -> None:
    finding = Checkpoints().judge(finds(saving(), OLDER, FILE).train(5).end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.OLDER_FILE_RESUMED,)


def test_a_start_from_nothing_after_something_was_saved_fails() -> None:
    finding = Checkpoints().judge(finds(saving(), None).train(5).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.OLDER_FILE_RESUMED,))


def test_a_start_from_nothing_after_all_was_damaged_passes() -> None:
    story = damaged(saves(Story().baseline(), FILE))
    assert Checkpoints().judge(finds(story, None, FILE).train(5).end().history()).outcome is (
        Outcome.PASS
    )


def test_what_another_learner_saved_does_not_count() -> None:
    story = saving()
    told: dict[str, Json] = {"file": None, "step": None, "refused": []}
    story.say(Kind.CHECKPOINT_FOUND, "learner-2", learner="learner-2", incarnation=1, **told)
    assert Checkpoints().judge(story.train(5).end().history()).outcome is Outcome.PASS
