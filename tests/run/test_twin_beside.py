"""The twin of a simulation, made by a process of its own: the same twin, and nothing is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaoslab.record.journal_file import JOURNAL
from chaoslab.run.twin import TWINS

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="nothing is made beside the run on one core"
)

_JOURNALS = (
    f"kill_half/2*/{JOURNAL}", f"kill_half/2*/twin/{JOURNAL}", f"{TWINS}/*/{JOURNAL}",
)  # fmt: skip
_SIMULATE = """
import os, sys
from pathlib import Path
from chaoslab.core.events import Kind
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.judged_run import run_and_judge
root, cores, *settings = sys.argv[1:]
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(cores)])
seen = []
class Observer:
    def see(self, event):
        seen.append(event.kind)
short = ("training.stop.rounds=40", "baseline.window=8 rounds",
         "faults.half-dies.at={round: 16}", "faults.half-dies.for=2s")
asked = Asked(plan="kill_half", fleet="sim", settings=(*short, *settings))
run_and_judge(prepare(asked), Path(root), [Observer()])
sys.stdout.write(f"{seen.count(Kind.RUN_STARTED)} {len(os.listdir('/proc/self/task'))}")
"""

_BESIDE = """
import os, sys, time
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import PaceSet
from chaoslab.run.interrupts import Interrupts
from chaoslab.run.twin_beside import TwinBeside
def paced(step_s):
    data = {"step_s": step_s, "measured_s": {}}
    return Event(seq=0, time_s=0.0, wall="", source="harness", kind=Kind.PACE_SET, data=data)
def make(orders):
    sys.stdout.write(f"begins with {orders.next()}\\n")
    sys.stdout.write(f"goes on to {orders.next()}\\n")
    sys.stdout.flush()
"""


def simulated(root: Path, cores: int, *settings: str, first: str = "") -> str:
    """Runs that observers saw, and threads at the end; `first` is what the process does first."""
    words = [sys.executable, "-c", first + _SIMULATE, str(root), str(cores), *settings]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def said(script: str) -> list[str]:
    """What a process that has a twin beside it prints."""
    words = [sys.executable, "-c", _BESIDE + script]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


@pytest.mark.gate
def test_it_is_the_twin_that_would_have_been_made_after_the_run(tmp_path: Path) -> None:
    assert simulated(tmp_path / "beside", 2) == "1 1"  # nobody is shown the twin
    assert simulated(tmp_path / "after", 1) == "2 1"
    beside, after = (
        [journal.read_bytes() for place in _JOURNALS for journal in (tmp_path / name).glob(place)]
        for name in ("beside", "after")
    )
    assert len(beside) == 3
    assert beside == after


@pytest.mark.gate
def test_a_run_that_is_not_completed_has_no_twin(tmp_path: Path) -> None:
    simulated(tmp_path, 2, "limits.timeout=8s")
    (directory,) = tmp_path.glob("kill_half/2*")
    assert not (directory / "twin").exists()
    assert not list(tmp_path.glob(f"{TWINS}/*"))


def test_it_begins_with_the_pace_of_the_run_and_goes_on_for_as_long() -> None:
    assert said("""
beside = TwinBeside(make)
beside.see(paced(0.25))
print(beside.finish(7.5, Interrupts()), beside.abandon())
""") == ["begins with 0.25", "goes on to 7.5", "True False"]  # fmt: skip


def test_it_is_not_made_if_the_pace_is_measured_again() -> None:
    assert said("""
beside = TwinBeside(make)
beside.see(paced(0.25))
beside.see(paced(0.5))
print(beside.finish(7.5, Interrupts()), beside.abandon())
""")[-1] == "False False"  # fmt: skip


def test_one_that_fails_was_not_made_and_the_run_goes_on() -> None:
    assert said("""
beside = TwinBeside(lambda orders: 1 / 0)
os.waitid(os.P_PID, beside._pid, os.WEXITED | os.WNOWAIT)
beside.see(paced(0.25))
print(beside.finish(7.5, Interrupts()))
""") == ["False"]  # fmt: skip


def test_an_interrupt_is_passed_on_while_it_is_waited_for() -> None:
    assert said("""
import signal
told, can_obey = os.pipe()
def obey(orders):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    os.write(can_obey, b".")
    time.sleep(60)
    os._exit(2)
beside = TwinBeside(obey)
os.read(told, 1)
print(beside.finish(7.5, Interrupts(count=1)))
""") == ["True"]  # fmt: skip


@pytest.mark.parametrize(
    "work", ["orders.next()", "while True: orders.see(paced(0.25))"], ids=["waiting", "at work"]
)
def test_it_ends_with_a_run_that_is_killed(work: str) -> None:
    script = f"""
def make(orders):
    orders.next()
    {work}
beside = TwinBeside(make)
beside.see(paced(0.25))
print(beside._pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", _BESIDE + script], stdout=subprocess.PIPE, text=True
    ) as run:
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
    until_s = time.monotonic() + 60
    while _lives(pid) and time.monotonic() < until_s:
        time.sleep(0.02)
    is_left = _lives(pid)
    if is_left:
        os.kill(pid, signal.SIGKILL)
    assert not is_left


@pytest.mark.gate
def test_it_looks_at_each_event_whether_the_run_is_gone(tmp_path: Path) -> None:
    ends = """
import os
from chaoslab.run.twin_beside import Orders
Orders.see = lambda orders, event: os._exit(1)
"""
    assert simulated(tmp_path, 2, first=ends) == "2 1"  # so the run made the twin itself


def test_it_may_have_any_file_descriptors() -> None:
    assert said("""
import resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, most), most))
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
beside = TwinBeside(make)
beside.see(paced(0.25))
print(beside.finish(7.5, Interrupts()))
""")[-1] == "True"  # fmt: skip


def test_nothing_is_left_where_no_process_can_be_had() -> None:
    assert said("""
def refused():
    raise BlockingIOError
os.fork = refused
before = os.listdir("/proc/self/fd")
try:
    TwinBeside(make)
except OSError as error:
    print(type(error).__name__, os.listdir("/proc/self/fd") == before)
""") == ["BlockingIOError True"]  # fmt: skip


@pytest.mark.gate
def test_a_run_for_which_no_process_can_be_had_makes_its_twin_itself(tmp_path: Path) -> None:
    refuse = """
import os
def refused():
    raise BlockingIOError
os.fork = refused
"""
    assert simulated(tmp_path, 2, first=refuse) == "2 1"
    assert len(list(tmp_path.glob(f"{TWINS}/*"))) == 1


def test_nothing_is_forked_where_others_wait_for_children() -> None:
    assert said("""
import signal
from chaoslab.run.twin_beside import can_fork
before = can_fork()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(before, can_fork())
""") == ["True False"]  # fmt: skip


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_is_forked_where_another_thread_runs() -> None:
    assert said("""
import threading
from chaoslab.run.twin_beside import can_fork
held = threading.Event()
before = can_fork()
other = threading.Thread(target=held.wait)
other.start()
print(before, can_fork())
held.set()
""") == ["True False"]  # fmt: skip
