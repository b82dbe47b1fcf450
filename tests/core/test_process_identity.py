"""A process stays the same one when the wall clock is set; one of another boot never is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from chaoslab.core import process_identity, process_tree
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import (
    NODE_MARK,
    Identity,
    cpu_s,
    identify,
    identity_of,
    is_same,
    names_process,
    node_mark,
    send,
)
from chaoslab.undo.janitor import heal
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.contracts.fleet_kit import wait_until

MARK = "/runs/kill_half/1/learner-0/1"
NOBODY = 2**22 + 1
"""A pid above the greatest that a kernel gives."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with our mark that would sleep for ten minutes, in a group of its own."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
        process_group=0,
        env={**os.environ, NODE_MARK: MARK},
    ) as process:
        yield process
        process.kill()


def set_the_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """What the kernel calls the date of the boot moves with the wall clock; nothing else does."""
    booted_s = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: booted_s + by_s)


def known(process: subprocess.Popen[bytes]) -> Identity:
    who = identify(process.pid)
    assert who is not None
    return who


@pytest.mark.parametrize("by_s", [-3600.0, 2.0])
def test_setting_the_clock_makes_nobody_another(
    monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes], by_s: float
) -> None:
    who = known(sleeper)
    set_the_clock(monkeypatch, by_s)
    assert is_same(who)
    assert process_tree.look(who).state != "gone"
    assert sleeper.pid in process_tree.living(who, "")
    assert send(who, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM


def test_a_process_of_another_boot_or_start_is_gone_and_gets_no_signal(
    sleeper: subprocess.Popen[bytes],
) -> None:
    who = known(sleeper)
    others = (
        replace(who, boot_id="another"),
        replace(who, start_ticks=who.start_ticks + 1),
        replace(who, pid=NOBODY),
    )
    for other in others:
        assert not is_same(other)
        assert not send(other, signal.SIGKILL)
    assert identity_of(others[0].facts) == others[0]
    assert sleeper.poll() is None


def test_without_pidfds_a_signal_still_meets_nobody_else(
    monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    who = known(sleeper)
    assert not send(replace(who, start_ticks=1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert send(who, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_name_with_brackets_and_blanks_hides_no_start(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-S", "-c", "import time; time.sleep(600)"]) as process:
        usual = identify(os.getpid())
        who = identify(process.pid)
        process.kill()
    assert usual is not None
    assert who is not None
    assert who.start_ticks >= usual.start_ticks


def test_the_mark_is_seen_from_the_first_moment_of_a_program() -> None:
    """While execve replaces the program, the kernel shows an empty environment."""
    for _ in range(50):
        with subprocess.Popen(["sleep", "600"], env={**os.environ, NODE_MARK: MARK}) as process:
            seen = node_mark(process.pid)
            process.kill()
        assert seen == MARK


def test_a_process_without_a_mark_has_none(sleeper: subprocess.Popen[bytes]) -> None:
    assert node_mark(sleeper.pid) == MARK
    sleeper.kill()
    wait_until(lambda: process_tree.look(known(sleeper)).state == "Z")
    assert node_mark(sleeper.pid) is None
    assert node_mark(NOBODY) is None
    with subprocess.Popen(["sleep", "600"], env={}) as bare:
        assert node_mark(bare.pid) is None
        bare.kill()


# ---------------------------------------------------------------- another namespace


def test_the_processor_time_of_a_process_is_its_own(sleeper: subprocess.Popen[bytes]) -> None:
    ours = identify(os.getpid())
    its = identify(sleeper.pid)
    assert ours is not None
    assert its is not None
    assert cpu_s(ours) == pytest.approx(time.process_time(), abs=0.1)
    assert cpu_s(its) < cpu_s(ours)
    assert cpu_s(replace(ours, start_ticks=ours.start_ticks - 1)) == 0.0
    assert cpu_s(replace(ours, pid=NOBODY)) == 0.0


def test_a_process_is_found_although_its_pid_was_anothers_when_it_was_looked_for_last(
    sleeper: subprocess.Popen[bytes],
) -> None:
    kept = next(one for one in psutil.process_iter() if one.pid == sleeper.pid)
    kept._ident = (sleeper.pid, -1.0)  # as of another process with this pid
    found = next(one for one in process_tree.processes() if one.pid == sleeper.pid)
    assert found.ppid() == os.getpid()


def test_a_process_that_ends_while_it_is_looked_at_is_gone(
    monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]
) -> None:
    who = known(sleeper)

    def is_same_and_ends(_: Identity) -> bool:
        sleeper.kill()
        sleeper.wait()
        return True

    monkeypatch.setattr(process_tree, "is_same", is_same_and_ends)
    assert process_tree.look(who) == process_tree.GONE


def test_a_process_is_seen_with_those_that_it_started(sleeper: subprocess.Popen[bytes]) -> None:
    ours, its = identify(os.getpid()), known(sleeper)
    assert ours is not None
    alone, whole = process_tree.look(ours), process_tree.look_with_children(ours)
    assert whole.rss_bytes >= alone.rss_bytes / 2 + process_tree.look(its).rss_bytes
    assert whole.cpu_s >= alone.cpu_s
    assert process_tree.look_with_children(its).state != "gone"
    gone = replace(ours, start_ticks=ours.start_ticks - 1)
    assert process_tree.look_with_children(gone) == process_tree.GONE


def test_a_process_of_another_namespace_is_reported_and_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    with UndoLogFile(tmp_path) as log:
        log.open("end_process", node="learner-0", **known(sleeper).facts)
    monkeypatch.setattr(process_identity, "_namespaces", lambda: "pid:[1] time:[1]")
    assert len(heal(tmp_path).remaining) == 1
    assert open_undos(tmp_path)
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"pid": 1},
        {"pid": "1", "start_ticks": 1},
        {"pid": True, "start_ticks": 1},
        {"pid": 1, "start_ticks": 1.5},
    ],
)
def test_what_names_no_process_is_refused(facts: dict[str, Json]) -> None:
    assert not names_process(facts)
    with pytest.raises(FleetError):
        identity_of(facts)
