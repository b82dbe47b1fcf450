"""A learner's own checkpoints: the newest whole one is found, and what was passed over is told."""

import threading
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.learner.checkpoints import LearnerStore
from chaoslab.diloco.node.waits import run_now
from tests.diloco.hand_learner import Told
from tests.diloco.known import WHOSE


class ToldStore(LearnerStore):
    """One that keeps what it says."""

    def __init__(self, directory: Path, *, fingerprint: str = "nano") -> None:
        self.said = Told()
        super().__init__(
            directory, WHOSE, fingerprint=fingerprint, durable=False, emit=self.said.emit
        )


def saved(directory: Path, steps: int) -> list[Path]:
    """Checkpoints at steps 10, 20, …; the files that are left, oldest first."""
    for step in range(10, 10 * steps + 1, 10):
        run_now(
            ToldStore(directory).save(step=step, data_position=7 * step, payload=b"state %d" % step)
        )
    return sorted(directory.iterdir())


def found_in(directory: Path) -> tuple[int | None, list[str]]:
    """Step of the newest one that is whole, as it is said to be, and the files that are refused."""
    store = ToldStore(directory)
    found = store.load_newest()
    (said,) = store.said.of(Kind.CHECKPOINT_FOUND)
    assert said["step"] == (found.step if found else None)
    return said["step"], [one["file"] for one in said["refused"]]


@pytest.mark.parametrize("payload", [b"", b"\n", b"state\nwith lines\n", bytes(100_000)])
def test_the_newest_comes_back_as_it_was(tmp_path: Path, payload: bytes) -> None:
    run_now(LearnerStore(tmp_path, WHOSE).save(step=5, data_position=99, payload=payload))
    newest = LearnerStore(tmp_path, WHOSE).load_newest()
    assert newest is not None
    assert (newest.step, newest.data_position, newest.payload) == (5, 99, payload)


def test_two_are_kept_and_other_peoples_files_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine.checkpoint"
    mine.write_bytes(b"somebody's own copy")
    assert len(saved(tmp_path, 5)) == 2 + 1
    assert found_in(tmp_path) == (50, [])
    assert mine.exists()


def test_the_last_saved_is_the_newest_even_at_an_earlier_step(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    run_now(ToldStore(tmp_path).save(step=12, data_position=0, payload=b"taken over from a donor"))
    assert found_in(tmp_path) == (12, [])


@pytest.mark.parametrize("harm", ["cut off", "changed"])
def test_a_checkpoint_harmed_at_any_byte_is_passed_over_and_said_to_be(
    tmp_path: Path, harm: str
) -> None:
    _, newest = saved(tmp_path, 3)
    whole = newest.read_bytes()
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        newest.write_bytes(whole[:at] if harm == "cut off" else changed)
        assert found_in(tmp_path) == (20, [newest.name])


def test_when_nothing_is_whole_nothing_is_found(tmp_path: Path) -> None:
    assert found_in(tmp_path / "nowhere") == (None, [])
    files = saved(tmp_path, 2)
    for path in files:
        path.write_bytes(b"rubbish")
    assert found_in(tmp_path) == (None, [path.name for path in reversed(files)])


def test_another_models_checkpoint_is_passed_over(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    run_now(
        ToldStore(tmp_path, fingerprint="micro").save(step=20, data_position=0, payload=b"other")
    )
    assert found_in(tmp_path) == (10, ["00000002.checkpoint"])


def test_saving_later_happens_on_another_thread_and_one_at_a_time(tmp_path: Path) -> None:
    later, makers, release = ToldStore(tmp_path), list[str](), threading.Event()

    def make(name: str) -> bytes:
        makers.append(threading.current_thread().name)
        release.wait(60)
        return name.encode()

    later.save_later(step=1, data_position=0, payload=lambda: make("first"))
    later.save_later(step=2, data_position=0, payload=lambda: make("left out"))
    release.set()
    run_now(later.close())
    later.save_later(step=3, data_position=0, payload=lambda: make("third"))
    run_now(later.close())
    assert found_in(tmp_path) == (3, [])
    assert makers == ["checkpoint", "checkpoint"]
    assert [said["bytes"] for said in later.said.of(Kind.CHECKPOINT_SAVED)] == [5, 5]


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    refused = ToldStore(tmp_path / "file" / "checkpoints")
    refused.save_later(step=8, data_position=0, payload=lambda: b"")
    run_now(refused.close())
    assert [said["step"] for said in refused.said.of(Kind.CHECKPOINT_FAILED)] == [8]
    assert not refused.said.of(Kind.CHECKPOINT_SAVED)


def test_a_damaged_one_never_costs_the_whole_one_before_it(tmp_path: Path) -> None:
    older, newest = saved(tmp_path, 2)
    newest.write_bytes(b"rubbish")
    going_on = ToldStore(tmp_path)
    assert going_on.load_newest() is not None
    run_now(going_on.save(step=30, data_position=0, payload=b"state 30"))
    assert older.exists()
    (tmp_path / "00000003.checkpoint").write_bytes(b"rubbish, too")
    assert found_in(tmp_path)[0] == 10
    run_now(going_on.save(step=40, data_position=0, payload=b"state 40"))
    assert not newest.exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_slow_disk_holds_up_the_file_and_not_the_learner(tmp_path: Path) -> None:
    """The test hook."""
    slow = ToldStore(tmp_path)
    slow.apply_hook({"bytes_per_s": 1.0})
    slow.save_later(step=1, data_position=0, payload=lambda: bytes(10_000))
    assert not list(tmp_path.glob("*.checkpoint"))
    assert not slow.said.of(Kind.CHECKPOINT_SAVED)
    slow.apply_hook({})
    run_now(slow.close())
    assert slow.said.of(Kind.CHECKPOINT_SAVED)


def test_a_slow_disk_is_as_slow_as_it_was_asked_to_be(tmp_path: Path) -> None:
    slow = ToldStore(tmp_path)
    slow.apply_hook({"bytes_per_s": 10_000})
    run_now(slow.save(step=1, data_position=0, payload=bytes(1000)))
    (told,) = slow.said.of(Kind.CHECKPOINT_SAVED)
    assert told["took_s"] >= 0.1
