"""The program that runs in a pod, on processes of this machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chaoslab.fleet.attached import pod_program

PROGRAM = Path(pod_program.__file__)
NODE = Path(__file__).with_name("stand_in.py")
WORDS = [sys.executable, "-I", "-S", str(NODE), "chaoslab.diloco.learner", "--name", "learner-0"]


def said(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM.read_text(), *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def found(words: list[str], parent: int) -> list[dict[str, Any]]:
    """Of all nodes on this machine, those with this command line below a process."""
    return [
        one for one in said("find")["nodes"]
        if one["words"] == words and pod_program.parent_of(one["pid"]) == parent
    ]  # fmt: skip


@pytest.fixture
def started() -> Iterator["subprocess.Popen[bytes]"]:
    """A node behind a program that starts it, as an init process does."""
    code = f"import subprocess; subprocess.run({WORDS!r})"
    starter = [sys.executable, "-I", "-S", "-c", code, *WORDS]
    with subprocess.Popen(starter, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert b"joined" in process.stdout.readline()
            yield process
        finally:
            for pid in reversed(pod_program.tree(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_what_starts_a_node_is_none(started: "subprocess.Popen[bytes]") -> None:
    nodes = [one["pid"] for one in said("find")["nodes"]]
    assert started.pid not in nodes
    (node,) = found(WORDS, started.pid)
    assert node["stopped"] == []


def test_all_of_a_tree_is_stopped_and_goes_on(started: "subprocess.Popen[bytes]") -> None:
    whom = str(started.pid), pod_program.stat(started.pid)[19]
    stopped = said("send", *whom, "STOP", "all")["stopped"]
    assert len(stopped) == 2
    assert said("show", *whom)["state"] == "T"
    assert said("send", *whom, "CONT", "all")["stopped"] == []
    assert said("show", *whom)["stopped"] == []


def test_another_process_of_the_same_number_is_never_met(
    started: "subprocess.Popen[bytes]",
) -> None:
    assert said("send", str(started.pid), "1", "KILL", "all") == {"is_gone": True}
    assert started.poll() is None


def test_a_kill_says_that_it_was_deadly(started: "subprocess.Popen[bytes]") -> None:
    (node,) = found(WORDS, started.pid)
    whom = str(node["pid"]), str(node["ticks"])
    assert said("send", *whom, "KILL", "all") == {"stopped": [], "is_dead": True}
    assert said("show", *whom) == {"is_gone": True}


def test_a_signal_of_which_it_would_die_is_not_sent() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        whom = str(process.pid), pod_program.stat(process.pid)[19]
        assert said("send", *whom, "USR2", "main") == {"is_sent": False}
        assert said("send", *whom, "HUP", "main") == {"is_sent": True}
        assert process.wait(30) == -signal.SIGHUP


@pytest.mark.parametrize(("mounts", "cgroup", "is_elsewhere"), [
    ("mnt:[2]", "/pod/b", True),
    ("mnt:[2]", "/pod/a", False),  # it has mounts of its own in the same container
    ("mnt:[1]", "/pod/a/below", False),
    ("", "/pod/b", False),  # another user's: nobody can tell
])  # fmt: skip
def test_a_process_of_another_container_of_the_pod_is_left_out(
    monkeypatch: pytest.MonkeyPatch, mounts: str, cgroup: str, *, is_elsewhere: bool
) -> None:
    cgroups = {"/proc/self/cgroup": "/pod/a", "/proc/7/cgroup": cgroup}
    monkeypatch.setattr(
        pod_program, "mount_namespace", lambda pid: mounts if pid == 7 else "mnt:[1]"
    )
    monkeypatch.setattr(pod_program, "read", cgroups.__getitem__)
    assert pod_program.is_elsewhere(7) is is_elsewhere


def test_the_program_of_a_container_is_that_for_which_all_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
    shell = ["sh", "-c", '"$@"; exit $?', "sh", *train]
    with subprocess.Popen(shell, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            there = pod_program.tree(process.pid)
            monkeypatch.setattr(pod_program, "pids", lambda: there)
            (found,) = pod_program.find_main()
        finally:
            for pid in reversed(there):
                os.kill(pid, signal.SIGKILL)
    assert isinstance(found, dict)
    assert (found["pid"], found["words"]) == (there[-1], train)
