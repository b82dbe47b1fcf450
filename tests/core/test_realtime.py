"""Being first in line: only for a while, only this thread, and nothing breaks without the right."""

import os
import subprocess
import sys

import pytest

from chaoslab.core.realtime import is_realtime_permitted, prefer_process, realtime_priority

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getscheduler"), reason="this system has no such schedulers"
)


def policy() -> int:
    return os.sched_getscheduler(0)


def test_afterwards_also_an_error_everything_is_as_before() -> None:
    before = policy()
    with pytest.raises(KeyError), realtime_priority(), realtime_priority():
        raise KeyError
    assert policy() == before


def test_what_is_not_urgent_waits_its_turn() -> None:
    before = policy()
    with realtime_priority(is_urgent=False):
        assert policy() == before


def test_children_are_not_first_in_line() -> None:
    ask = "import os; print(os.sched_getscheduler(0))"
    with realtime_priority():
        said = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True)
    assert int(said.stdout) == os.SCHED_OTHER


def test_without_the_right_to_it_the_block_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    before, ran = policy(), []
    with realtime_priority():
        ran.append(policy())
    assert ran == [before]
    assert not is_realtime_permitted()


@pytest.mark.skipif(not is_realtime_permitted(), reason="this user may not ask for it")
def test_the_block_is_first_in_line() -> None:
    with realtime_priority():
        assert policy() & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR


def test_a_process_that_is_to_be_killed_comes_before_ordinary_ones() -> None:
    if not is_realtime_permitted():
        pytest.skip("real-time priority is not permitted here")
    with subprocess.Popen(["sleep", "600"]) as process:
        prefer_process(process.pid)
        policy = os.sched_getscheduler(process.pid) & ~os.SCHED_RESET_ON_FORK
        process.kill()
    assert policy == os.SCHED_RR
    prefer_process(process.pid)  # it is gone


NICED = """
import os, subprocess, sys
from chaoslab.core.spawning import SPAWN_GUARD
read, write = os.pipe()
told = [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]
guard = [sys.executable, "-I", "-S", str(SPAWN_GUARD), str(read), str(os.getpid()), *told]
child = subprocess.Popen(guard, pass_fds=(read,), stdout=subprocess.PIPE)
os.nice(3)
os.write(write, b"g")
print(os.getpriority(os.PRIO_PROCESS, 0), int(child.communicate()[0]))
"""


def test_a_node_has_the_niceness_of_its_harness_whatever_its_fork_had() -> None:
    done = subprocess.run([sys.executable, "-c", NICED], capture_output=True, text=True, check=True)
    own, node = done.stdout.split()
    assert own == node
