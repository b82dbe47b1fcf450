"""A stand-in for the harness on an engine: janitor, obligations and a fleet of two containers.

    python -m tests.fleet.docker_harness RUN_DIR

When both step it pauses one of them, fills its volume, puts a neighbour beside the other, says
`ready`, and waits to be killed.
"""

import sys
from dataclasses import replace
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.stressors import Neighbours
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.engine import Engine, learner, small_fleet


def main(run_directory: Path) -> None:
    """Start two nodes, break them, poll for ever."""
    clock = WallClock()
    with (
        start_janitor(run_directory),
        UndoLogFile(run_directory) as undo_log,
        small_fleet(run_directory, clock, Engine.connect(), undo_log) as fleet,
    ):
        stepping: set[str] = set()
        fleet.start(learner("learner-0"))
        fleet.start(replace(learner("learner-1"), keeps="state", has_volume=True))
        while len(stepping) < 2:
            observed = fleet.poll(clock.now_s() + 1.0)
            stepping |= {one.source for one in observed if one.kind is Kind.LEARNER_STEP}
        fleet.pause("learner-1")
        fleet.fill_disk("learner-1")
        fleet.stress("learner-0", "injection-0", Neighbours(count=1))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            fleet.poll(clock.now_s() + 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
