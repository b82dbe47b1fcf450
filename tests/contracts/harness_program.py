"""A stand-in for the harness: janitor, undo log and a fleet of two nodes with children and keys.

    python -m tests.contracts.harness_program RUN_DIR FLEET [--no-janitor]

It prints a line when they run, and then waits to be killed. FLEET: as plans name it.
"""

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.settings import FleetRequest
from chaoslab.prepare.kinds import kinds
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.contracts.fleet_kit import learner

KEY = b"the key of a node"


def main(run_directory: Path, kind: str, *, with_janitor: bool) -> None:
    """Start them, say so, poll for ever."""
    clock = WallClock()
    fleets = kinds().fleets[kind]().factory(FleetRequest())
    with ExitStack() as stack:
        if with_janitor:
            stack.enter_context(start_janitor(run_directory))
        undo_log = stack.enter_context(UndoLogFile(run_directory))
        links = NodeLinks(clock=clock)
        fleet = stack.enter_context(
            fleets(run_directory, clock, undo_log=undo_log, node_links=links)
        )
        for name in ("learner-0", "learner-1"):
            fleet.start(replace(learner(name, "--children", "1"), private_files={"key.pem": KEY}))
        stepping: set[str] = set()
        while len(stepping) < 2:
            observed = fleet.poll(clock.now_s() + 1.0)
            stepping |= {one.source for one in observed if one.kind is Kind.LEARNER_STEP}
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            fleet.poll(clock.now_s() + 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], with_janitor="--no-janitor" not in sys.argv)
