"""Checkpoints: damage is never believed, and saving goes on after trouble."""

from dataclasses import replace

from chaoslab.checks.checkpoints import Checkpoints
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, doubts, each, passes
from tests.checks.cases import fails as failing
from tests.histories import Story

FILE, OLDER = "00000002.checkpoint", "00000001.checkpoint"


def saving() -> Story:
    """Learner-1 has saved two checkpoints; a baseline was measured."""
    story = Story().baseline()
    return saves(saves(story, OLDER), FILE)


def saves(story: Story, file: str) -> Story:
    told: dict[str, Json] = {"file": file, "step": 10, "bytes": 1000, "took_s": 0.1}
    return story.say(Kind.CHECKPOINT_SAVED, "learner-1", learner="learner-1", incarnation=1, **told)


def damaged(story: Story, *untouched: str) -> Story:
    changed: dict[str, Json] = {"digest_before": "a", "digest_after": "b"}
    told: dict[str, Json] = {"file": FILE, "how": "corrupt", "untouched": list(untouched)}
    return story.say(Kind.STORAGE_DAMAGED, "learner-1", node="learner-1", **told, **changed)


def finds(story: Story, file: str | None, *refused: str) -> Story:
    about: list[Json] = [{"file": one, "reason": "is damaged"} for one in refused]
    told: dict[str, Json] = {"file": file, "step": 10, "refused": about}
    return story.say(Kind.CHECKPOINT_FOUND, "learner-1", learner="learner-1", incarnation=2, **told)


def fails(story: Story) -> Story:
    told: dict[str, Json] = {"step": 20, "reason": "No space left on device"}
    return story.say(
        Kind.CHECKPOINT_FAILED, "learner-1", learner="learner-1", incarnation=1, **told
    )


def freed() -> Story:
    """The disk has room again just before the end."""
    return fails(saving()).train(12).say(
        Kind.STORAGE_FREED, "learner-1", node="learner-1", total_bytes=9, free_bytes=8
    )  # fmt: skip


def another_starts() -> Story:
    told: dict[str, Json] = {"file": None, "step": None, "refused": []}
    who: dict[str, Json] = {"learner": "learner-2", "incarnation": 1}
    return saving().say(Kind.CHECKPOINT_FOUND, "learner-2", **who, **told)


CHECK, SOON = Checkpoints(), Checkpoints(again_within_s=10.0)
CASES = {
    "a damaged file that was refused": passes(
        CHECK, lambda: finds(damaged(saving(), OLDER), OLDER, FILE)
    ),
    "a damaged file that was believed": failing(
        CHECK,
        lambda: finds(damaged(saving(), OLDER), FILE),
        Code.DAMAGED_FILE_BELIEVED,
        of=("learner-1",),
    ),
    "a file that was written anew may be believed": passes(
        CHECK, lambda: finds(saves(damaged(saving(), OLDER), FILE), FILE)
    ),
    "a learner that saves again after a refused write": passes(
        CHECK, lambda: saves(fails(saving()).train(5), FILE)
    ),
    "a learner that never saves again and had the time": failing(
        SOON, lambda: fails(saving()).train(12), Code.NOT_SAVED_AGAIN
    ),
    "a learner that never saves again and has time": doubts(
        Checkpoints(again_within_s=60.0), lambda: fails(saving()).train(12)
    ),
    "the time counts from when the disk had room again": doubts(SOON, freed),
    "nothing is said of checkpoints": doubts(CHECK, lambda: Story().baseline()),
    "a start that finds the newest one": passes(CHECK, lambda: finds(saving(), FILE)),
    "a start that finds one before it could be said": passes(
        CHECK, lambda: finds(saving(), "00000003.checkpoint")
    ),
    "a start from an older one than was saved": failing(
        CHECK,
        lambda: finds(saving(), OLDER, FILE),
        Code.OLDER_FILE_RESUMED,
        of=("learner-1",),
    ),
    "a start from nothing after something was saved": failing(
        CHECK, lambda: finds(saving(), None), Code.OLDER_FILE_RESUMED
    ),
    "a start from nothing after all was damaged": passes(
        CHECK, lambda: finds(damaged(saves(Story().baseline(), FILE)), None, FILE)
    ),
    "a start from nothing after the learner had removed the only file that was not damaged": passes(
        CHECK, lambda: finds(damaged(saving()), None, FILE)
    ),
    "a start from nothing although damage left a file": failing(
        CHECK, lambda: finds(damaged(saving(), OLDER), None, FILE), Code.OLDER_FILE_RESUMED
    ),
    "what another learner saved does not count": passes(CHECK, another_starts),
}


@each(CASES)
def test_checkpoints(case: Case) -> None:
    replace(case, tell=lambda: case.tell().train(2).end()).hold()


def test_refused_files_and_failed_writes_are_counted() -> None:
    story = saves(fails(finds(damaged(saving(), OLDER), OLDER, FILE)), FILE)
    numbers = CHECK.judge(story.train(2).end().history()).numbers
    assert (numbers["refused_files"], numbers["failed"]) == (1, 1)
