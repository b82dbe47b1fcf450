"""Kills at every file operation of a save: the operations that are found, and what is judged."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import LineKind
from chaoslab.trainers.crash_points import (
    AFTER_THE_LAST,
    Outcome,
    Program,
    SaveWindow,
    Sweep,
    constant_name,
    spread,
    sweep,
)
from chaoslab.trainers.file_calls import BLIND, FileCall, Traced, why_not
from chaoslab.trainers.reading import Patterns, TrainerLine

TRAINER = Path(__file__).with_name("saving.py")
PATTERNS = Patterns.of(
    progress=r"^step (?P<step>\d+) loss (?P<loss>\S+)",
    saved=r"saved step (?P<step>\d+)",
    resumed=r"resumed from step (?P<step>\d+)",
)


# ---------------------------------------------------------------- which save


def windows(number: int, story: str) -> Iterator[tuple[bool, bool]]:
    """After each word of a story: whether the save is open, and whether it is over."""
    window = SaveWindow(number=number)
    for word in story.split():
        what = LineKind.SAVED if word.startswith("s") else LineKind.PROGRESS
        window.see(TrainerLine(what=what, step=int(word[1:])))
        yield window.is_open, window.is_over


def test_a_save_lies_between_the_progress_after_the_one_before_and_the_progress_after_it() -> None:
    found = list(windows(2, "p1 p2 s2 p3 p4 s4 p5"))
    assert [is_open for is_open, _ in found] == [False, False, False, True, True, True, False]
    assert [is_over for _, is_over in found] == [False] * 6 + [True]


def test_the_first_save_begins_with_the_first_progress() -> None:
    assert [is_open for is_open, _ in windows(1, "p1 s1 p2")] == [True, True, False]


def test_several_lines_about_one_save_count_once() -> None:
    assert [is_over for _, is_over in windows(2, "p1 s1 s1 p2 s2 s2 p3")] == [False] * 6 + [True]


def test_a_window_knows_the_distance_of_reports_and_the_newest_checkpoint() -> None:
    window = SaveWindow(number=1)
    for step in (10, 15, 25):
        window.see(TrainerLine(what=LineKind.PROGRESS, step=step))
    window.see(TrainerLine(what=LineKind.SAVED, step=None))
    assert (window.stride, window.saved) == (5, 25)


def test_without_a_word_a_save_is_where_files_are_created_or_replaced() -> None:
    window = SaveWindow(number=2, is_implied=True)
    log, rename = FileCall(call="write", file="log"), FileCall(call="rename", file="state")

    def move(step: int, *calls: FileCall) -> tuple[int, int | None]:
        window.see(TrainerLine(what=LineKind.PROGRESS, step=step))
        for call in calls:
            window.touch(call)
        return window.saves, window.saved

    window.touch(rename)  # at the start, before any progress
    assert [move(1, log), move(2, log, rename), move(3, log)] == [(0, None), (0, None), (1, 2)]
    assert (window.is_open, move(4, rename), window.is_over) == (True, (1, 2), False)
    assert (move(5), window.is_over) == ((2, 4), True)


def test_a_save_that_a_file_tells_is_complete_with_the_first_progress_beyond_its_step() -> None:
    """A bar shows the step of the checkpoint in the midst of its save: each ends with the next."""
    window = SaveWindow(number=1)
    window.see(TrainerLine(what=LineKind.PROGRESS, step=19))
    window.wrote(20)
    window.see(TrainerLine(what=LineKind.PROGRESS, step=20))
    assert (window.is_open, window.saved) == (True, None)
    window.wrote(None)
    window.see(TrainerLine(what=LineKind.PROGRESS, step=21))
    window.wrote(20)  # its last bytes, found late
    window.see(TrainerLine(what=LineKind.PROGRESS, step=22))
    assert (window.is_over, window.saves, window.saved) == (True, 1, 20)


@pytest.mark.parametrize(("count", "most"), [(3, 9), (100, 7), (10, 1), (50, 49)])
def test_points_are_spread_evenly_with_the_first_and_the_last(count: int, most: int) -> None:
    found = spread(count, most)
    assert len(set(found)) == len(found) == min(count, most)
    assert found[0] == 0
    assert most == 1 or found[-1] == count - 1


def test_names_are_the_same_for_all_saves() -> None:
    assert constant_name("step-000025/.tmp1234abcd.pt") == "step-*/.tmp*.pt"
    assert constant_name("optimizer.pt") == "optimizer.pt"


def test_a_machine_without_tracing_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert "aarch64" in why_not()


# ---------------------------------------------------------------- sweeps


def swept(
    folder: Path,
    how: str,
    where: str = "itself",
    *,
    save: int = 2,
    patterns: Patterns = PATTERNS,
    checkpoints: str = "",
) -> Sweep:
    """A sweep of the second save, of step 6; step 3 is complete before it."""
    if reason := why_not():
        pytest.skip(reason)

    def start(place: Path) -> Program:
        return Program(
            command=(sys.executable, "-u", "-I", "-S", str(TRAINER), how, where, str(place)),
            environment={},
            patterns=patterns,
            max_pause_s=60.0,
            checkpoints=checkpoints,
        )

    return sweep(start, folder, save=save, points=50, on_progress=lambda _done, _every: None)


def told(found: Sweep) -> list[tuple[str, Outcome]]:
    """The call of each point, and what came of it."""
    return [(point.call, point.outcome) for point in found.points]


OK, LOST, STUCK = Outcome.OK, Outcome.LOST, Outcome.STUCK
LAST = AFTER_THE_LAST.call


@pytest.mark.gate
def test_a_checkpoint_that_is_overwritten_cannot_be_loaded_after_a_kill(tmp_path: Path) -> None:
    found = swept(tmp_path, "in_place")
    assert told(found) == [("openat", OK), ("write", STUCK), ("write", STUCK), (LAST, OK)]
    assert (found.step, [point.complete for point in found.points]) == (6, [3, 3, 3, 6])
    assert "JSONDecodeError" in found.points[1].words
    kept = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert kept == {
        "point-002/killed.log", "point-002/resumed.log", "point-002/checkpoints/state.json",
        "point-003/killed.log", "point-003/resumed.log",
    }  # fmt: skip


@pytest.mark.gate
def test_a_traced_command_ends_while_another_child_of_the_thread_runs_on(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with subprocess.Popen(["sleep", "600"]) as other:
        sleeping = Traced(
            ["sleep", "600"], folder=tmp_path, environment={}, output=tmp_path / "out"
        )
        with sleeping:
            sleeping.next_call()
        assert sleeping.exit_code == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


@pytest.mark.deep
@pytest.mark.parametrize("where", ["itself", "thread", "child"])
def test_a_checkpoint_that_is_replaced_survives_every_kill(where: str, tmp_path: Path) -> None:
    found = swept(tmp_path, "atomic", where)
    calls = ["openat", "write", "fsync", "rename", LAST]
    assert told(found) == [(call, OK) for call in calls]
    assert [point.resumed for point in found.points] == [3, 3, 3, 3, 6]
    assert all(point.is_repeated for point in found.points)
    assert not any(tmp_path.iterdir())


@pytest.mark.deep
def test_a_checkpoint_that_is_deleted_too_early_is_lost(tmp_path: Path) -> None:
    found = swept(tmp_path, "early")
    assert told(found) == [
        ("unlink", OK), ("openat", LOST), ("write", LOST), ("fsync", LOST), ("rename", LOST),
        (LAST, OK),
    ]  # fmt: skip


@pytest.mark.deep
def test_what_cannot_be_loaded_and_is_passed_over_is_lost(tmp_path: Path) -> None:
    found = swept(tmp_path, "emptied")
    assert [outcome for _, outcome in told(found)] == [OK, LOST, LOST, OK]


@pytest.mark.deep
def test_a_training_that_says_nothing_of_checkpoints_is_judged_by_its_files(tmp_path: Path) -> None:
    steps_alone = Patterns.of(progress=r"^step (?P<step>\d+)")
    found = swept(tmp_path, "emptied", patterns=steps_alone)
    assert [outcome for _, outcome in told(found)] == [OK, LOST, LOST, OK]
    assert (found.step, found.is_implied) == (6, True)


@pytest.mark.deep
def test_a_file_that_tells_of_a_checkpoint_tells_it_from_a_log(tmp_path: Path) -> None:
    steps_alone = Patterns.of(progress=r"^step (?P<step>\d+)")
    found = swept(tmp_path, "logged", patterns=steps_alone, checkpoints="state*.json")
    assert {outcome for _, outcome in told(found)} == {OK}
    assert [call for call, _ in told(found)][-5:] == ["openat", "write", "fsync", "rename", LAST]
    assert (found.step, found.is_implied, found.operations) == (6, False, 8)


@pytest.mark.deep
def test_before_the_first_save_there_is_nothing_to_lose(tmp_path: Path) -> None:
    assert {outcome for _, outcome in told(swept(tmp_path, "emptied", save=1))} == {OK}


@pytest.mark.deep
def test_files_that_are_written_as_memory_are_named_as_not_seen(tmp_path: Path) -> None:
    found = swept(tmp_path, "mapped")
    assert told(found) == [("openat", OK), ("ftruncate", STUCK), (LAST, OK)]
    assert found.blind == [BLIND["mmap"]]


@pytest.mark.deep
def test_a_training_that_ends_before_the_save_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="exit code 0"):
        swept(tmp_path, "atomic", save=9)
    assert not any(tmp_path.iterdir())
