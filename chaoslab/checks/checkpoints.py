"""Is what learners keep on disk what they believe in, and do they go on keeping it?

    checkpoint.saved ─────────► checkpoint.found      what is resumed is the newest whole one
    storage.damaged ── file ──► checkpoint.found      the damaged file is refused, never taken up
    checkpoint.failed ────────► checkpoint.saved      once the disk has room, the next one is whole

A checkpoint that was said to be saved is on the disk, also after a kill or a power cut: only damage
that the record shows excuses a start that does not find it. Nobody waits for a checkpoint; whether
training waits for a disk is a matter for `survivors`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import training_end_s
from chaoslab.checks.violations import Doubt, Violation, conclude
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    CheckpointFailed,
    CheckpointFound,
    CheckpointSaved,
    StorageDamaged,
    StorageFreed,
)
from chaoslab.record.journal import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Starts resume the newest whole checkpoint, no damaged one, and saving outlives trouble."""

    name: ClassVar[str] = "checkpoints"
    summary: ClassVar[str] = "starts resume the newest whole checkpoint; saving outlives trouble"

    again_within_s: float = 30.0
    """Longest time from the heal of a disk without room to the next whole checkpoint."""

    def judge(self, history: History) -> Finding:
        """Look at every file that was damaged, and at every checkpoint that failed."""
        saved = history.of(CheckpointSaved)
        damaged = history.of(StorageDamaged)
        failed = history.of(CheckpointFailed)
        found = [e for e in history.of(CheckpointFound) if e.payload.file is not None]
        refused = sum(len(e.payload.refused) for e in history.of(CheckpointFound))
        silent = list(self._never_again(history))
        return conclude(
            self.name,
            [
                *_believed(history),
                *_passed_over(history),
                *(one for one in silent if isinstance(one, Violation)),
            ],
            doubts=[one for one in silent if isinstance(one, Doubt)]
            if saved or failed
            else [Doubt(Code.NOTHING_TO_JUDGE, "no learner said a word of checkpoints")],
            passed=f"{len(saved)} checkpoints were saved, and {len(found)} starts resumed the "
            f"newest whole one; of {len(damaged)} damaged or lost files none was believed, and "
            f"after {len(failed)} refused writes saving went on",
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
            again = [
                event
                for event in history.of(CheckpointSaved)
                if event.payload.learner == learner and event.seq > trouble.seq
            ]
            if again:
                continue
            text = f"{learner} could not save at {trouble.time_s:.1f} s and never saved again"
            if end_s - since_s >= self.again_within_s:
                yield Violation(
                    code=Code.NOT_SAVED_AGAIN, seq=trouble.seq, text=text, culprit=learner
                )
            else:
                left = f"but only {max(0.0, end_s - since_s):.1f} s were left for that"
                yield Doubt(Code.TOO_LITTLE_TIME, f"{text}, {left}")


def _troubles(history: History) -> Mapping[str, tuple[Event[CheckpointFailed], float]]:
    """By learner: its last failed write, and when its disk had room again or it failed."""
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
            yield Violation(
                code=Code.DAMAGED_FILE_BELIEVED,
                seq=event.seq,
                text=f"{place[0]} took {place[1]} for whole at {event.time_s:.1f} s, which had "
                f"been damaged ({damaged[place].how})",
                culprit=place[0],
            )


def _passed_over(history: History) -> Iterator[Violation]:
    """Starts that did not find what had been saved last and was never damaged."""
    whole: dict[str, list[Event[CheckpointSaved]]] = {}
    """By learner: what it said that it saved and that no damage has hit since, oldest first."""
    for event in history.of(StorageDamaged, CheckpointSaved, CheckpointFound):
        said = event.payload
        learner = said.node if isinstance(said, StorageDamaged) else said.learner
        known, file = whole.get(learner, []), said.file
        others = [saved for saved in known if saved.payload.file != file]
        if _is_saved(event):
            whole[learner] = [*others, event]
        elif isinstance(said, StorageDamaged):
            whole[learner] = others
        elif known and known[-1] in others and (file is None or len(others) < len(known)):
            yield _older(event, learner, file, known[-1])
            whole[learner] = []


def _is_saved(event: Event) -> TypeGuard[Event[CheckpointSaved]]:
    return isinstance(event.payload, CheckpointSaved)


def _older(
    found: Event, learner: str, file: str | None, newest: Event[CheckpointSaved]
) -> Violation:
    return Violation(
        code=Code.OLDER_FILE_RESUMED,
        seq=found.seq,
        text=f"{learner} resumed from {file or 'no checkpoint'} at {found.time_s:.1f} s; it had "
        f"saved {newest.payload.file} at {newest.time_s:.1f} s, and nothing damaged that",
        culprit=learner,
    )
