"""A learner's own checkpoints: the newest whole one is found, and what was passed over is told."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.learner.checkpoints import LearnerStore


def store(directory: Path, *, fingerprint: str = "nano") -> LearnerStore:
    return LearnerStore(directory, fingerprint=fingerprint, durable=False)


def saved(directory: Path, steps: int) -> list[Path]:
    """Checkpoints at steps 10, 20, …; the files that are left, oldest first."""
    for step in range(10, 10 * steps + 1, 10):
        store(directory).save(step=step, data_position=7 * step, payload=b"state %d" % step)
    return sorted(directory.iterdir())


def refused(directory: Path) -> list[str]:
    """Why files were refused when the newest was looked for."""
    told: list[Mapping[str, Json]] = []
    LearnerStore(
        directory, fingerprint="nano", durable=False, emit=lambda _, data: told.append(data)
    ).load_newest()
    return [str(one["reason"]) for one in told[0]["refused"]]


@pytest.mark.parametrize("payload", [b"", b"\n", b"state\nwith lines\n", bytes(100_000)])
def test_the_newest_comes_back_as_it_was(tmp_path: Path, payload: bytes) -> None:
    LearnerStore(tmp_path).save(step=5, data_position=99, payload=payload)
    newest = LearnerStore(tmp_path).load_newest()
    assert newest is not None
    assert (newest.step, newest.data_position, newest.payload) == (5, 99, payload)


def test_two_are_kept(tmp_path: Path) -> None:
    assert len(saved(tmp_path, 5)) == 2
    newest = store(tmp_path).load_newest()
    assert newest is not None
    assert newest.step == 50


def test_the_last_saved_is_the_newest_even_at_an_earlier_step(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    store(tmp_path).save(step=12, data_position=0, payload=b"taken over from a donor")
    newest = store(tmp_path).load_newest()
    assert newest is not None
    assert newest.step == 12


@pytest.mark.parametrize("harm", ["cut off", "changed"])
def test_a_checkpoint_harmed_at_any_byte_is_passed_over_and_said_to_be(
    tmp_path: Path, harm: str
) -> None:
    older, newest = saved(tmp_path, 3)
    whole = newest.read_bytes()
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        newest.write_bytes(whole[:at] if harm == "cut off" else changed)
        told = Told()
        found = told.store(tmp_path).load_newest()
        assert found is not None
        assert found.payload == b"state 20"
        ((kind, data),) = told.events
        assert kind is Kind.CHECKPOINT_FOUND
        assert (data["file"], data["step"]) == (older.name, 20)
        assert newest.name in str(data["refused"])


def test_when_nothing_is_whole_nothing_is_found(tmp_path: Path) -> None:
    for path in saved(tmp_path, 2):
        path.write_bytes(b"rubbish")
    assert len(refused(tmp_path)) == 2
    assert store(tmp_path).load_newest() is None


def test_a_file_that_was_never_finished_is_no_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    (tmp_path / ".00000002.checkpoint.partial").write_bytes(b"half")
    store(tmp_path).save(step=20, data_position=0, payload=b"whole")
    found = store(tmp_path).load_newest()
    assert found is not None
    assert (found.payload, refused(tmp_path)) == (b"whole", [])


def test_other_peoples_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.checkpoint").write_bytes(b"somebody's own copy")
    saved(tmp_path, 4)
    found = store(tmp_path).load_newest()
    assert found is not None
    assert (found.step, refused(tmp_path)) == (40, [])
    assert (tmp_path / "mine.checkpoint").exists()


def test_another_models_checkpoint_is_passed_over(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    store(tmp_path, fingerprint="micro").save(step=20, data_position=0, payload=b"other")
    found = store(tmp_path).load_newest()
    assert found is not None
    assert found.step == 10
    assert len(refused(tmp_path)) == 1


def test_saving_later_happens_on_another_thread_and_one_at_a_time(tmp_path: Path) -> None:
    later, makers, release = store(tmp_path), list[str](), threading.Event()

    def make(name: str) -> bytes:
        makers.append(threading.current_thread().name)
        release.wait(60)
        return name.encode()

    later.save_later(step=1, data_position=0, payload=lambda: make("first"))
    later.save_later(step=2, data_position=0, payload=lambda: make("left out"))
    release.set()
    later.close()
    later.save_later(step=3, data_position=0, payload=lambda: make("third"))
    later.close()
    newest = store(tmp_path).load_newest()
    assert newest is not None
    assert newest.payload == b"third"
    assert makers == ["checkpoint", "checkpoint"]


# ---------------------------------------------------------------- what is said


class Told:
    """What a store says."""

    def __init__(self) -> None:
        self.events: list[tuple[Kind, Mapping[str, Json]]] = []

    def store(self, directory: Path) -> LearnerStore:
        return LearnerStore(
            directory,
            fingerprint="nano",
            durable=False,
            emit=lambda kind, data: self.events.append((kind, data)),
        )


def test_what_was_saved_is_said_with_its_size(tmp_path: Path) -> None:
    told = Told()
    told.store(tmp_path).save(step=5, data_position=1, payload=bytes(1000))
    ((kind, data),) = told.events
    assert kind is Kind.CHECKPOINT_SAVED
    assert (data["file"], data["step"], data["bytes"]) == ("00000001.checkpoint", 5, 1000)


def test_a_learner_without_a_past_says_that_it_found_nothing(tmp_path: Path) -> None:
    told = Told()
    assert told.store(tmp_path / "nowhere").load_newest() is None
    assert told.events == [(Kind.CHECKPOINT_FOUND, {"file": None, "step": None, "refused": []})]


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    told = Told()
    refused = told.store(tmp_path / "file" / "checkpoints")
    refused.save_later(step=8, data_position=0, payload=lambda: b"")
    refused.close()
    ((kind, data),) = told.events
    assert (kind, data["step"]) == (Kind.CHECKPOINT_FAILED, 8)


def test_a_damaged_one_never_costs_the_whole_one_before_it(tmp_path: Path) -> None:
    older, newest = saved(tmp_path, 2)
    newest.write_bytes(b"rubbish")
    going_on = store(tmp_path)
    assert going_on.load_newest() is not None
    going_on.save(step=30, data_position=0, payload=b"state 30")
    assert older.exists()
    (tmp_path / "00000003.checkpoint").write_bytes(b"rubbish, too")
    found = store(tmp_path).load_newest()
    assert found is not None
    assert found.payload == b"state 10"
    going_on.save(step=40, data_position=0, payload=b"state 40")
    assert not newest.exists()
    assert len(list(tmp_path.iterdir())) == 2


# ---------------------------------------------------------------- the test hook


def test_a_slow_disk_holds_up_the_file_and_not_the_learner(tmp_path: Path) -> None:
    told = Told()
    slow = told.store(tmp_path)
    slow.apply_hook({"bytes_per_s": 1.0})
    slow.save_later(step=1, data_position=0, payload=lambda: bytes(10_000))
    assert not list(tmp_path.glob("*.checkpoint"))
    assert not told.events
    slow.apply_hook({})
    slow.close()
    assert [kind for kind, _ in told.events] == [Kind.CHECKPOINT_SAVED]


def test_a_slow_disk_is_as_slow_as_it_was_asked_to_be(tmp_path: Path) -> None:
    told = Told()
    slow = told.store(tmp_path)
    slow.apply_hook({"bytes_per_s": 10_000})
    slow.save(step=1, data_position=0, payload=bytes(1000))
    ((_, data),) = told.events
    assert float(str(data["took_s"])) >= 0.1
