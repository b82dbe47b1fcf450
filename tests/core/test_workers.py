"""Worker processes: they share a calculation, and end with the process that began them."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from chaoslab.core.workers import workers

_CALLER = """
import os, time
from chaoslab.core.workers import workers

if __name__ == "__main__":
    with workers(2) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(300)
"""


@pytest.mark.deep
def test_workers_compute_in_processes_of_their_own() -> None:
    with workers(2) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()


@pytest.mark.deep
def test_workers_end_if_the_process_that_began_them_is_killed(tmp_path: object) -> None:
    path = f"{tmp_path}/caller.py"
    with open(path, "w", encoding="utf-8") as file:
        file.write(_CALLER)
    caller = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    worker = psutil.Process(int(caller.stdout.readline()))
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    caller.stdout.close()
    deadline = time.monotonic() + 60
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"worker {worker.pid} outlives its parent"
        time.sleep(0.05)
