"""Faults on checkpoints and disks: their contract, and what the record must show of each."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.storage import (
    StorageCorruptCheckpoint,
    StorageLoseCheckpoint,
    StoragePowerLoss,
    StorageTruncateCheckpoint,
)
from chaoslab.faults.storage_room import StorageDiskFull, StorageSlowDisk
from tests.faults.test_process import Record

NEWEST, OLDER = "00000004.checkpoint", "00000003.checkpoint"


# ---------------------------------------------------------------- damaged checkpoints


def struck(fault: Fault, *, after: str | None = "beef", size: int | None = 100) -> Record:
    """A learner that was killed at second 10, and whose newest checkpoint was damaged then."""
    record = Record(fault).add(1.0, Kind.NODE_STARTED).begin(10.0)
    record.add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    before: dict[str, Json] = {"bytes_before": 100, "digest_before": "abcd"}
    left: dict[str, Json] = {"bytes_after": size, "digest_after": after}
    record.add(10.2, Kind.STORAGE_DAMAGED, file=NEWEST, how="corrupt", **before, **left)
    return record.add(10.3, Kind.NODE_STARTED, incarnation=2)


def looked(record: Record, file: str | None, *refused: str) -> Record:
    """The next life said what it found."""
    about: list[Json] = [{"file": one, "reason": "is damaged"} for one in refused]
    return record.add(12.0, Kind.CHECKPOINT_FOUND, incarnation=2, file=file, step=30, refused=about)


def test_a_corrupt_checkpoint_is_proved_by_its_hash_and_by_who_refused_it() -> None:
    record = looked(struck(StorageCorruptCheckpoint()), OLDER, NEWEST)
    record.add(12.5, Kind.LEARNER_JOINED, incarnation=2, donor="learner-3")
    found = record.evidence
    assert (found.status, found.measured["found"]) == (Status.PROVED, OLDER)
    assert found.measured["is_read"] is True


def test_what_the_life_before_the_damage_found_proves_nothing() -> None:
    """It had just been started when the fault came, and its line arrived a moment later."""
    lost = struck(StorageLoseCheckpoint(), after=None, size=None)
    lost.add(10.4, Kind.CHECKPOINT_FOUND, incarnation=1, file=OLDER, step=20, refused=[])
    assert lost.evidence.code is Code.NOT_USED
    assert looked(lost, NEWEST).evidence.code is Code.NOT_USED


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            looked(struck(StorageCorruptCheckpoint()), NEWEST),
            Status.PROVED,
            id="a learner that believes the damage does not unprove it",
        ),
        pytest.param(
            struck(StorageCorruptCheckpoint()),
            Code.NOT_USED,
            id="a damaged file that nobody looked at is weak",
        ),
        pytest.param(
            looked(struck(StorageCorruptCheckpoint(), after="abcd"), NEWEST),
            Code.NOT_APPLIED,
            id="a file whose hash did not change is not damaged",
        ),
        pytest.param(
            looked(struck(StorageTruncateCheckpoint(), size=50), OLDER, NEWEST),
            Status.PROVED,
            id="a truncated file is told with its length",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_file(record: Record, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)


def test_a_lost_file_is_proved_by_a_life_that_found_another_or_none() -> None:
    lost = struck(StorageLoseCheckpoint(), after=None, size=None)
    assert looked(lost, None).evidence.status is Status.PROVED
    again = struck(StorageLoseCheckpoint(), after=None, size=None)
    assert looked(again, NEWEST).evidence.code is Code.NOT_USED


# ---------------------------------------------------------------- disks in trouble


def filled(free_bytes: int) -> Record:
    record = Record(StorageDiskFull()).add(1.0, Kind.NODE_STARTED).begin(10.0)
    return record.add(10.1, Kind.STORAGE_FILLED, total_bytes=5000, free_bytes=free_bytes)


def test_a_full_disk_is_proved_by_the_kernel_and_by_a_write_that_it_refused() -> None:
    record = filled(0).add(12.0, Kind.CHECKPOINT_FAILED, step=70, reason="No space left on device")
    assert record.evidence.status is Status.PROVED
    assert record.evidence.measured == {"free_bytes": 0, "total_bytes": 5000, "refused": 1}


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


def test_a_slow_disk_is_proved_by_what_it_took_to_write() -> None:
    found = crawling(2.0, 2.1).evidence
    assert (found.status, found.measured["bytes_per_s"]) == (Status.PROVED, pytest.approx(50_000))


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(filled(0), Code.NOT_USED, id="a full disk to which nobody wrote is weak"),
        pytest.param(
            filled(4096).add(12.0, Kind.CHECKPOINT_FAILED, step=70, reason="something"),
            Code.NOT_APPLIED,
            id="a disk with room is not full whatever failed",
        ),
        pytest.param(
            crawling(1.0), Code.OUT_OF_TOLERANCE, id="a disk that was less slow than asked is weak"
        ),
        pytest.param(
            crawling(2.0, before_s=2.0),
            Code.NO_EFFECT,
            id="a disk that was as slow before is not slowed down",
        ),
        pytest.param(
            crawling(),
            Code.NOT_MEASURED,
            id="a disk to which nothing was written is not known to be slow",
        ),
        pytest.param(
            crawling().add(
                10.4, Kind.CHECKPOINT_SAVED, file=NEWEST, step=9, bytes=100_000, took_s=4.0
            ),
            Code.NOT_MEASURED,
            id="what was begun before the fault does not count",
        ),
    ],
)
def test_the_record_shows_the_disk(record: Record, shown: Code) -> None:
    assert record.evidence.code is shown


# ---------------------------------------------------------------- power cuts


def without_power(*lost: Json, refused: str | None = "Input/output error") -> Record:
    """A learner that was killed at second 10, and whose disk was cut off then."""
    record = Record(StoragePowerLoss()).add(1.0, Kind.NODE_STARTED).begin(10.0)
    record.add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    record.add(10.2, Kind.STORAGE_POWER_LOST, refused=refused, files=3, lost=list(lost))
    return record.add(15.0, Kind.NODE_STARTED, incarnation=2)


def test_a_power_cut_is_proved_by_the_exit_and_by_the_kernels_refusal() -> None:
    found = without_power().evidence
    assert (found.status, found.measured["files_lost"]) == (Status.PROVED, 0)
    assert found.measured["refused"] == "Input/output error"


def test_what_a_power_cut_took_is_told_file_by_file() -> None:
    gone: Json = {"file": "tape.jsonl", "bytes_before": 900, "bytes_after": 512}
    back: Json = {"file": NEWEST, "bytes_before": None, "bytes_after": 100}
    assert without_power(gone, back).evidence.measured["files_lost"] == 2


def test_a_disk_that_still_takes_what_is_written_was_not_cut_off() -> None:
    assert without_power(refused=None).evidence.code is Code.NOT_APPLIED


def test_a_kill_without_a_power_cut_is_no_power_cut() -> None:
    record = Record(StoragePowerLoss()).add(1.0, Kind.NODE_STARTED).begin(10.0)
    record.add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    assert record.evidence.code is Code.NOT_APPLIED
