"""A stand-in for the harness: janitor, obligations and a local fleet of nodes with children, keys.

    python -m tests.contracts.harness_program RUN_DIR [--no-janitor]

It prints the pids of everything that must not outlive it and then waits to be killed.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.contracts import node_program


def main(run_directory: Path, *, with_janitor: bool) -> None:
    """Start two nodes with a child each, tell who they are, poll for ever."""
    clock = WallClock()
    with ExitStack() as stack:
        if with_janitor:
            stack.enter_context(start_janitor(run_directory))
        undo_log = stack.enter_context(UndoLogFile(run_directory))
        fleet = stack.enter_context(LocalFleet(run_directory, clock, undo_log=undo_log))
        program = (sys.executable, "-S", node_program.__file__)
        for name in ("learner-0", "learner-1"):
            command = (*program, "--name", name, "--incarnation", "1", "--children", "1")
            files = {"key.pem": b"the key of a node"}
            fleet.start(
                NodeSpec(name=name, role=Role.LEARNER, command=command, private_files=files)
            )
        stepping: set[str] = set()
        while len(stepping) < 2:
            observed = fleet.poll(clock.now_s() + 1.0)
            stepping |= {one.source for one in observed if one.kind is Kind.LEARNER_STEP}
            for one in observed:
                if one.kind is Kind.NODE_STARTED:
                    sys.stdout.write(f"{one.data['pid']}\n")
        for log in run_directory.glob("nodes/*/1/stdout.log"):
            words = log.read_text().split()
            sys.stdout.write(f"{words[words.index('child') + 1]}\n")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            fleet.poll(clock.now_s() + 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), with_janitor="--no-janitor" not in sys.argv)
