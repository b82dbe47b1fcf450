"""Checkpoints: what learners keep on disk is what they resume from, and they go on keeping it.

    checkpoint.saved ─────────► checkpoint.found      what is resumed is the newest whole one
    storage.damaged ── file ──► checkpoint.found      the damaged file is refused, never taken up
    checkpoint.failed ────────► checkpoint.saved      once the disk has room, the next one is whole

A checkpoint that was said to be saved is on the disk, also after a kill or a power cut: only damage
that the record shows excuses a start that does not find it. No node waits for a checkpoint; whether
training waits for a disk is a matter for `survivors`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import training_end_s
from chaoslab.checks.violations import Doubt, Violation, conclude, time_left
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    CheckpointFailed,
    CheckpointFound,
    CheckpointSaved,
    StorageDamaged,
    StorageFreed,
)
from chaoslab.core.units import Duration, plural
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Starts resume the newest whole checkpoint, no damaged one, and saving outlives trouble."""

    name: ClassVar[str] = "checkpoints"
    summary: ClassVar[str] = "starts resume the newest whole checkpoint; saving outlives trouble"

    again_within_s: Duration = 30.0
    """Longest time from the heal of a disk without room to the next whole checkpoint."""

    def judge(self, history: History) -> Finding:
        """Look at every file that was damaged, and at every checkpoint that failed."""
        saved = history.of(CheckpointSaved)
        damaged = history.of(StorageDamaged)
        failed = history.of(CheckpointFailed)
        found = [e for e in history.of(CheckpointFound) if e.payload.file is not None]
        refused = sum(len(e.payload.refused) for e in history.of(CheckpointFound))
        return conclude(
            self.name,
            [*_believed(history), *_passed_over(history), *self._never_again(history)],
            nothing=Doubt(Code.NOTHING_TO_JUDGE, "no learner reported a checkpoint"),
            passed=f"{plural(len(saved), 'checkpoint was', 'checkpoints were')} saved, and "
            f"{plural(len(found), 'start')} resumed the "
            f"newest whole one; none of {len(damaged)} damaged or lost files was loaded, and "
            f"saving continued after {len(failed)} refused writes",
            samples=len(saved) + len(failed),
            numbers={
                "saved": len(saved),
                "failed": len(failed),
                "damaged": len(damaged),
                "refused_files": refused,
                "found_whole": len(found),
            },
        )

    def _never_again(self, history: History) -> Iterator[Violation | Doubt]:
        """Learners that lived on for long enough after trouble and did not save again."""
        end_s = training_end_s(history)
        for learner, (trouble, since_s) in _troubles(history).items():
            saved = (e for e in history.of(CheckpointSaved) if e.seq > trouble.seq)
            if any(event.payload.learner == learner for event in saved):
                continue
            text = f"{learner} could not save at {trouble.time_s:.1f} s and never saved again"
            if end_s - since_s >= self.again_within_s:
                yield Violation.at(trouble, Code.NOT_SAVED_AGAIN, text, learner)
            else:
                left = f"but {time_left(end_s - since_s)} for that"
                yield Doubt(Code.TOO_LITTLE_TIME, f"{text}, {left}")


def _troubles(history: History) -> Mapping[str, tuple[Event[CheckpointFailed], float]]:
    """Last failed write of each learner, and when its disk had room again or it failed."""
    freed_s = {e.payload.node: e.time_s for e in history.of(StorageFreed)}
    last = {event.payload.learner: event for event in history.of(CheckpointFailed)}
    return {
        name: (event, max(event.time_s, freed_s.get(name, 0.0))) for name, event in last.items()
    }


def _believed(history: History) -> Iterator[Violation]:
    """Files that a learner took for whole after they were damaged, before it wrote them anew."""
    damaged: dict[tuple[str, str], StorageDamaged] = {}
    for event in history.of(StorageDamaged, CheckpointSaved, CheckpointFound):
        said = event.payload
        if isinstance(said, StorageDamaged):
            damaged[said.node, said.file] = said
            continue
        place = said.learner, str(said.file)
        if isinstance(said, CheckpointSaved):
            damaged.pop(place, None)
        elif place in damaged:
            text = f"{place[0]} took {place[1]} for whole at {event.time_s:.1f} s, which had"
            how = f"been damaged ({damaged[place].how})"
            yield Violation.at(event, Code.DAMAGED_FILE_BELIEVED, f"{text} {how}", place[0])


def _passed_over(history: History) -> Iterator[Violation]:
    """Starts that did not find what had been saved last and was never damaged."""
    whole: dict[str, list[tuple[str, float]]] = {}
    """Files that each learner reported as saved, oldest first, without those that were damaged, or
    are known to be gone."""
    for event in history.of(StorageDamaged, CheckpointSaved, CheckpointFound):
        said = event.payload
        learner = said.node if isinstance(said, StorageDamaged) else said.learner
        known, file = whole.get(learner, []), said.file
        others = [(name, saved_s) for name, saved_s in known if name != file]
        if isinstance(said, CheckpointSaved):
            whole[learner] = [*others, (said.file, event.time_s)]
        elif isinstance(said, StorageDamaged):  # others that are gone were removed by the learner
            whole[learner] = [one for one in others if one[0] in said.untouched]
        elif known and known[-1] in others and (file is None or len(others) < len(known)):
            newest, saved_s = known[-1]
            text = (
                f"{learner} resumed from {file or 'no checkpoint'} at {event.time_s:.1f} s; it had "
                f"saved {newest} at {saved_s:.1f} s, and nothing damaged that"
            )
            yield Violation.at(event, Code.OLDER_FILE_RESUMED, text, learner)
            whole[learner] = []
