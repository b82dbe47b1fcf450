"""Faults on checkpoints and disks: their contract, and what the record must show of each."""

import pytest

from chaoslab.core.events import Json, Kind, data_of
from chaoslab.core.payloads import RunStarted, ScriptStarted
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.storage import (
    StorageDamageCheckpoint,
    StoragePowerLoss,
)
from chaoslab.faults.storage_room import StorageDiskFull, StorageSlowDisk
from chaoslab.fleet.base import Damage
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_process import Record

NEWEST, OLDER = "00000004.checkpoint", "00000003.checkpoint"


def struck(fault: Fault, *, after: str | None = "beef", size: int | None = 100) -> Record:
    """A learner that was killed at second 10, and whose newest checkpoint was damaged then."""
    record = Record(fault).add(1.0, Kind.NODE_STARTED).begin(10.0)
    record.add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    before: dict[str, Json] = {"bytes_before": 100, "digest_before": "abcd"}
    left: dict[str, Json] = {"bytes_after": size, "digest_after": after}
    left["untouched"] = [OLDER]
    record.add(10.2, Kind.STORAGE_DAMAGED, file=NEWEST, how="corrupt", **before, **left)
    return record.add(10.3, Kind.NODE_STARTED, incarnation=2)


def looked(record: Record, file: str | None, *refused: str) -> Record:
    """The next life said what it found."""
    about: list[Json] = [{"file": one, "reason": "is damaged"} for one in refused]
    return record.add(12.0, Kind.CHECKPOINT_FOUND, incarnation=2, file=file, step=30, refused=about)


def filled(free_bytes: int) -> Record:
    record = Record(StorageDiskFull()).add(1.0, Kind.NODE_STARTED).begin(10.0)
    return record.add(10.1, Kind.STORAGE_FILLED, total_bytes=5000, free_bytes=free_bytes)


def of_script(record: Record) -> Record:
    about = RunStarted(
        plan="it", seed=1, fleet="local", algorithm="script", learners=("learner-1",), stop={},
        version="0", is_twin=False, script=ScriptStarted(max_pause_s=60.0, says_saved=True),
    )  # fmt: skip
    return record.say(0.0, Kind.RUN_STARTED, "harness", **data_of(about))


def went_on(step: int, how: Damage) -> Record:
    """A script that saved at steps 20 and 40, lost the newer one, and goes on from a step."""
    record = of_script(Record(StorageDamageCheckpoint(how=how))).add(1.0, Kind.NODE_STARTED)
    for saved in (20, 40):
        record.add(2.0, Kind.TRAINER_SAID, what="saved", step=saved)
    record.begin(10.0).add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    left: dict[str, Json] = {"bytes_before": 100, "digest_before": "abcd", "untouched": [OLDER]}
    left |= {"bytes_after": None, "digest_after": None}
    record.add(10.2, Kind.STORAGE_DAMAGED, file=NEWEST, how=how.value, **left)
    record.add(10.3, Kind.NODE_STARTED, incarnation=2)
    return record.add(
        12.5, Kind.LEARNER_JOINED, incarnation=2, epoch=2, source="checkpoint", step=step,
        data_position=None, versions={},
    )  # fmt: skip


def saving(*times_s: float, age_s: float = 0.0, filled_s: float = 10.1) -> Record:
    """A script that saved every 2 s until the fault began at second 10, and then at these."""
    record = of_script(Record(StorageDiskFull())).add(1.0, Kind.NODE_STARTED)
    for time_s in sorted((6.0, 8.0, 10.0, filled_s, *times_s)):
        if time_s == 10.0:
            record.begin(10.0)
        elif time_s == filled_s:
            record.add(time_s, Kind.STORAGE_FILLED, total_bytes=5000, free_bytes=0)
        else:
            record.add(time_s, Kind.TRAINER_SAID, what="saved", step=70, age_s=age_s)
    return record.fault_event(20.0, Kind.FAULT_HEALING)


def crawling(*took_s: float, before_s: float = 0.01) -> Record:
    """Checkpoints of 100 kB, one before the fault, the others from second 10 on."""
    record = Record(StorageSlowDisk(rate_bytes_per_s=50e3)).add(1.0, Kind.NODE_STARTED)
    record.add(5.0, Kind.CHECKPOINT_SAVED, file=OLDER, step=10, bytes=100_000, took_s=before_s)
    record.begin(10.0)
    now_s = 10.5
    for one in took_s:
        now_s += one
        record.add(now_s, Kind.CHECKPOINT_SAVED, file=NEWEST, step=9, bytes=100_000, took_s=one)
    return record


def without_power(*lost: Json, refused: str | None = "Input/output error") -> Record:
    """A learner that was killed at second 10, and whose disk was cut off then."""
    record = Record(StoragePowerLoss()).add(1.0, Kind.NODE_STARTED).begin(10.0)
    record.add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    record.add(10.2, Kind.STORAGE_POWER_LOST, refused=refused, files=3, lost=list(lost))
    return record.add(15.0, Kind.NODE_STARTED, incarnation=2)


LOST: dict[str, Json] = {"file": "commits.jsonl", "bytes_before": 900, "bytes_after": 512}
BACK: dict[str, Json] = {"file": NEWEST, "bytes_before": None, "bytes_after": 100}


@each_of(
    case(
        "a corrupt checkpoint is proved by its hash and by who refused it",
        looked(struck(StorageDamageCheckpoint()), OLDER, NEWEST).add(
            12.5, Kind.LEARNER_JOINED, incarnation=2, donor="learner-3"
        ),
        Code.AS_ASKED,
        found=OLDER,
        is_read=True,
    ),
    case(
        "a learner that believes the damage does not unprove it",
        looked(struck(StorageDamageCheckpoint()), NEWEST),
        Code.AS_ASKED,
    ),
    case(
        "a damaged file that nobody looked at is weak",
        struck(StorageDamageCheckpoint()),
        Code.NOT_USED,
    ),
    case(
        "a file whose hash did not change is not damaged",
        looked(struck(StorageDamageCheckpoint(), after="abcd"), NEWEST),
        Code.NOT_APPLIED,
    ),
    case(
        "a truncated file is told with its length",
        looked(struck(StorageDamageCheckpoint(how=Damage.TRUNCATE), size=50), OLDER, NEWEST),
        Code.AS_ASKED,
    ),
    case(
        "a lost file is proved by a life that found none",
        looked(struck(StorageDamageCheckpoint(how=Damage.LOSE), after=None, size=None), None),
        Code.AS_ASKED,
    ),
    case(
        "a file that the next life found was not lost",
        looked(struck(StorageDamageCheckpoint(how=Damage.LOSE), after=None, size=None), NEWEST),
        Code.NOT_USED,
    ),
    case(  # it had just been started when the fault came, and its line arrived a moment later
        "what the life before the damage found proves nothing",
        struck(StorageDamageCheckpoint(how=Damage.LOSE), after=None, size=None).add(
            10.4, Kind.CHECKPOINT_FOUND, incarnation=1, file=OLDER, step=20, refused=[]
        ),
        Code.NOT_USED,
    ),
    case(
        "a full disk is proved by the kernel and by a write that it refused",
        filled(0).add(12.0, Kind.CHECKPOINT_FAILED, step=70, reason="No space left on device"),
        Code.AS_ASKED,
        free_bytes=0,
        total_bytes=5000,
        refused=1,
    ),
    case("a full disk to which nobody wrote is weak", filled(0), Code.NOT_USED),
    case("a script that goes on from an older one met it", went_on(20, Damage.LOSE), Code.AS_ASKED),
    case("one that has a copy did not", went_on(39, Damage.TRUNCATE), Code.NOT_USED),
    case("one that believes what is corrupt did", went_on(39, Damage.CORRUPT), Code.AS_ASKED),
    case("a full disk is proved by a script that saves no more", saving(), Code.AS_ASKED),
    case("one that overwrites its files goes on saving", saving(12.0), Code.NOT_USED),
    case("a file is of the time when it was written", saving(10.2, age_s=0.3), Code.AS_ASKED),
    case(
        "what is saved before its disk is full is not", saving(10.5, filled_s=10.8), Code.AS_ASKED
    ),
    case(
        "a disk with room is not full whatever failed",
        filled(4096).add(12.0, Kind.CHECKPOINT_FAILED, step=70, reason="something"),
        Code.NOT_APPLIED,
    ),
    case(
        "a slow disk is proved by what it took to write",
        crawling(2.0, 2.1),
        Code.AS_ASKED,
        bytes_per_s=pytest.approx(50_000),
    ),
    case("a disk that was less slow than asked is weak", crawling(1.0), Code.OUT_OF_TOLERANCE),
    case(
        "a disk that was as slow before is not slowed down",
        crawling(2.0, before_s=2.0),
        Code.NO_EFFECT,
    ),
    case(
        "a disk to which nothing was written is not known to be slow",
        crawling(),
        Code.NOT_MEASURED,
    ),
    case(
        "what was begun before the fault does not count",
        crawling().add(10.4, Kind.CHECKPOINT_SAVED, file=NEWEST, step=9, bytes=100_000, took_s=4.0),
        Code.NOT_MEASURED,
    ),
    case(
        "a power cut is proved by the exit and by the kernel's refusal",
        without_power(),
        Code.AS_ASKED,
        files_lost=0,
        refused="Input/output error",
    ),
    case(
        "what a power cut took is told file by file",
        without_power(LOST, BACK),
        Code.AS_ASKED,
        files_lost=2,
    ),
    case(
        "a disk that still takes what is written was not cut off",
        without_power(refused=None),
        Code.NOT_APPLIED,
    ),
    case(
        "a kill without a power cut is no power cut",
        Record(StoragePowerLoss())
        .add(1.0, Kind.NODE_STARTED)
        .begin(10.0)
        .add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None),
        Code.NOT_APPLIED,
    ),
)
def test_the_record_shows_the_disk_and_its_files(case: Case) -> None:
    case.require()
