"""A stand-in for a learner: pure Python, starts in a blink, keeps the node contract, does no work.

    python node_program.py --name learner-1 --incarnation 1 [--deaf] [--stubborn] [--spew] …

It prints one `learner.step` every 20 ms and takes up the hooks of a local node: SIGUSR1 hang,
SIGUSR2 go on, SIGHUP notice, SIGTERM leave. The flags make it misbehave in one way each.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time

STEP_S = 0.02
LONG_LIFE = "import time; time.sleep(600)"


def main() -> None:
    """Step until told to leave."""
    asked = arguments()
    leave, go_on = threading.Event(), threading.Event()
    go_on.set()
    if not asked.deaf:
        signal.signal(signal.SIGUSR1, lambda *_: go_on.clear())
        signal.signal(signal.SIGUSR2, lambda *_: go_on.set())
        signal.signal(signal.SIGHUP, lambda *_: say(asked, "learner.noticed", step=0))
        asked_to_leave = threading.Event() if asked.stubborn else leave
        signal.signal(signal.SIGTERM, lambda *_: asked_to_leave.set())
    for _ in range(asked.children):
        start_child(asked)
    for _ in range(asked.orphans):
        start_orphan()
    for line in asked.say:
        os.write(1, line.encode() + b"\n")
    if asked.echo:
        threading.Thread(target=echo, args=(asked,), daemon=True).start()
    say(asked, "learner.started", devices=1, parameters=0)
    step_on(asked, leave, go_on)
    for step in range(asked.last_lines):
        say_step(asked, step)
    say(asked, "learner.left", step=0, reason="asked")


def arguments() -> argparse.Namespace:
    """What it was asked to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--deaf", action="store_true", help="take up no hook")
    parser.add_argument("--stubborn", action="store_true", help="do not leave when asked")
    parser.add_argument("--spew", action="store_true", help="print without end, also without lines")
    parser.add_argument("--children", type=int, default=0, help="that leave session and group")
    parser.add_argument("--orphans", type=int, default=0, help="children whose parent died")
    parser.add_argument("--say", action="append", default=[], help="print this line first")
    parser.add_argument("--echo", action="store_true", help="report what it is told")
    parser.add_argument("--steps", type=int, default=1_000_000, help="leave after so many")
    parser.add_argument("--last-lines", type=int, default=0, help="print so many steps at the end")
    return parser.parse_args()


def step_on(asked: argparse.Namespace, leave: threading.Event, go_on: threading.Event) -> None:
    """One step every 20 ms while neither wedged nor told to leave."""
    for step in range(1, asked.steps + 1):
        if leave.wait(STEP_S):
            return
        while not go_on.wait(STEP_S):
            if leave.is_set():
                return
        say_step(asked, step)
        if asked.spew:
            sys.stdout.write("x" * 300_000 + "\n" * (step % 50 == 0))
            sys.stdout.flush()


def echo(asked: argparse.Namespace) -> None:
    """What it is told becomes the reason of a `learner.fenced`."""
    for line in sys.stdin:
        say(asked, "learner.fenced", epoch=1, reason=line.strip())


def start_child(asked: argparse.Namespace) -> None:
    """A child in a session of its own that outlives its parent and holds its output open."""
    child = subprocess.Popen([sys.executable, "-S", "-c", LONG_LIFE], start_new_session=True)
    os.write(1, f"child {child.pid}\n".encode())


def start_orphan() -> None:
    """A grandchild in a session of its own whose parent is dead."""
    parent = (
        "import subprocess, sys; print('child', subprocess.Popen("
        f"[sys.executable, '-S', '-c', {LONG_LIFE!r}], start_new_session=True).pid, flush=True)"
    )
    subprocess.run([sys.executable, "-S", "-c", parent], check=True)


def say_step(asked: argparse.Namespace, step: int) -> None:
    """Print one step."""
    done = {"steps": 1, "step_s": STEP_S, "loss": 1.0, "tokens": step, "data_position": step}
    say(asked, "learner.step", epoch=1, step=step, **done)


def say(asked: argparse.Namespace, kind: str, **data: object) -> None:
    """Print one event."""
    who = {"learner": asked.name, "incarnation": asked.incarnation}
    line = json.dumps({"kind": kind, "node_s": time.monotonic(), "data": {**who, **data}})
    os.write(1, line.replace('{"kind": ', '{"kind":', 1).encode() + b"\n")


if __name__ == "__main__":
    main()
