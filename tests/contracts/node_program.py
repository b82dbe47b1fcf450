"""A stand-in for a learner: pure Python, starts in a blink, keeps the node contract, does no work.

    python node_program.py --name learner-1 --incarnation 1 [--deaf] [--stubborn] [--spew] …
    python node_program.py --name learner-1 --incarnation 1 --hosts 2 --test-hooks

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


class Hooks:
    """What the signals asked for.

    No `threading.Event`: a handler that runs while its own thread holds the event's lock waits for
    it for ever.
    """

    def __init__(self) -> None:
        self.leaves = self.is_wedged = False


def main() -> None:
    """Step until told to leave."""
    asked = arguments()
    hooks = Hooks()
    if not asked.deaf:
        signal.signal(signal.SIGUSR1, lambda *_: setattr(hooks, "is_wedged", True))
        signal.signal(signal.SIGUSR2, lambda *_: setattr(hooks, "is_wedged", False))
        signal.signal(signal.SIGHUP, lambda *_: notice(asked))
        signal.signal(signal.SIGTERM, lambda *_: setattr(hooks, "leaves", not asked.stubborn))
    for _ in range(asked.children):
        start_child(asked)
    for _ in range(asked.orphans):
        start_orphan()
    for line in asked.say:
        os.write(1, line.encode() + b"\n")
    if asked.private:
        show(asked, asked.private)
    if asked.test_hooks:
        threading.Thread(target=lose_hosts, args=(asked,), daemon=True).start()
    if asked.echo:
        threading.Thread(target=echo, args=(asked,), daemon=True).start()
    for host in range(asked.hosts if asked.hosts > 1 else 0):
        say(asked, "host.started", host=host, pid=os.getpid())
    say(asked, "learner.started", devices=1, parameters=0)
    step_on(asked, hooks)
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
    parser.add_argument("--hatch", action="store_true", help="start one more child at a notice")
    parser.add_argument("--orphans", type=int, default=0, help="children whose parent died")
    parser.add_argument("--say", action="append", default=[], help="print this line first")
    parser.add_argument("--echo", action="store_true", help="report what it is told")
    parser.add_argument("--private", help="report the files of this folder")
    parser.add_argument("--hosts", type=int, default=1, help="say that it has so many")
    parser.add_argument("--test-hooks", action="store_true", help="take up `host` and `chip`")
    parser.add_argument("--steps", type=int, default=1_000_000, help="leave after so many")
    parser.add_argument("--last-lines", type=int, default=0, help="print so many steps at the end")
    return parser.parse_args()


def step_on(asked: argparse.Namespace, hooks: Hooks) -> None:
    """One step every 20 ms while neither wedged nor told to leave."""
    for step in range(1, asked.steps + 1):
        time.sleep(STEP_S)
        while hooks.is_wedged and not hooks.leaves:
            time.sleep(STEP_S)
        if hooks.leaves:
            return
        say_step(asked, step)
        if asked.spew:
            sys.stdout.write("x" * 300_000 + "\n" * (step % 50 == 0))
            sys.stdout.flush()


def echo(asked: argparse.Namespace) -> None:
    """What it is told becomes the reason of a `learner.fenced`."""
    for line in sys.stdin:
        say(asked, "learner.fenced", epoch=1, reason=line.strip())


def show(asked: argparse.Namespace, folder: str) -> None:
    """Owner, modes and contents of the private files become the reason of a `learner.fenced`."""
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    seen = [os.stat(path) for path in (folder, *paths)]
    report = {
        "is_own": {one.st_uid for one in seen} == {os.getuid()},
        "modes": [oct(one.st_mode & 0o777) for one in seen],
        "contents": {os.path.basename(path): content(path) for path in paths},
    }
    say(asked, "learner.fenced", epoch=1, reason=json.dumps(report))


def content(path: str) -> str:
    """Of a file, reversed: what it holds must appear nowhere else."""
    with open(path, encoding="latin-1") as file:
        return file.read()[::-1]


def lose_hosts(asked: argparse.Namespace) -> None:
    """End as a learner does that loses a host."""
    for line in sys.stdin:
        request = json.loads(line)
        if "index" not in request:
            continue
        name = "SIGABRT" if request["do"] == "chip" else request["signal"]
        if asked.hosts > 1:
            said = {"host": request["index"], "reason": f"ended by {name}", "signal": name}
            say(asked, "host.lost", **said)
        signal.raise_signal(signal.Signals[name])
        os._exit(128 + signal.Signals[name])  # the first process of a container gets no such signal


def notice(asked: argparse.Namespace) -> None:
    """Say that it came, after starting one more child if asked to."""
    if asked.hatch:
        start_child(asked)
    say(asked, "learner.noticed", step=0)


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
