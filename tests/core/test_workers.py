"""Worker processes: they share a calculation, and end with the process that began them."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

_CALLER = """
import os, time
from chaoslab.core.workers import workers

if __name__ == "__main__":
    with workers(2) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(300)
"""


@pytest.mark.deep
def test_workers_end_if_the_process_that_began_them_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "caller.py"
    path.write_text(_CALLER)
    caller = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    worker = psutil.Process(int(caller.stdout.readline()))
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    caller.stdout.close()
    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
