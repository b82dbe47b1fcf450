"""A stand-in for a learner that computes: in each step 20 ms of CPU time, and a rest of 180 ms.

    python busy_learner.py NAME INCARNATION

It prints a `learner.step` after each step. Others on a busy machine take little from it: most of a
step is rest. Pure Python, which travels on the command line.
"""

import json
import os
import sys
import time

WORK_S, REST_S = 0.02, 0.18


def main(name: str, incarnation: int) -> None:
    """Step for ever."""
    step = 0
    while True:
        began_s, used_s = time.monotonic(), time.process_time()
        while time.process_time() - used_s < WORK_S:
            sum(range(1000))
        time.sleep(REST_S)
        step += 1
        say(
            learner=name, incarnation=incarnation, epoch=1, step=step, steps=1, loss=1.0,
            step_s=time.monotonic() - began_s, tokens=step, data_position=step,
        )  # fmt: skip


def say(**data: object) -> None:
    """Print one step."""
    line = json.dumps({"kind": "learner.step", "node_s": time.monotonic(), "data": data})
    os.write(1, line.replace('{"kind": ', '{"kind":', 1).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
