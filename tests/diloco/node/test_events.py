"""The time of a node's events begins with its process, also if that is a fork."""

import subprocess
import sys

_PROGRAM = """
import os
from chaoslab.diloco.node import events
events._born_s -= 100
if os.fork() == 0:
    print(events.now_s(), flush=True)
    os._exit(0)
os.wait()
print(events.now_s())
"""


def test_a_fork_counts_from_its_own_start() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    forked_s, own_s = map(float, said.stdout.split())
    assert 0 <= forked_s < 50
    assert own_s >= 100
