"""A stand-in for the harness in a cluster: janitor, undo log and a fleet of two pods.

    python -m tests.fleet.kubernetes.killed_harness RUN_DIR

It says `opened`, starts two nodes, says `started`; when both step it pauses one of them, says
`paused`, and waits to be killed, at any of these moments.
"""

import sys
from dataclasses import replace
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.cluster import CONTEXT, NAMESPACE, Cluster, small_fleet
from tests.engine import learner


def say(word: str) -> None:
    """Tell whoever is to kill this process how far it is."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(run_directory: Path) -> None:
    """Start two nodes, pause one, poll for ever."""
    clock = WallClock()
    with (
        start_janitor(run_directory),
        UndoLogFile(run_directory) as undo_log,
        small_fleet(run_directory, clock, Cluster.connect(CONTEXT, NAMESPACE), undo_log) as fleet,
    ):
        say("opened")
        for name in ("learner-0", "learner-1"):
            fleet.start(replace(learner(name), keeps="state"))
        say("started")
        stepping: set[str] = set()
        while len(stepping) < 2:
            observed = fleet.poll(clock.now_s() + 1.0)
            stepping |= {one.source for one in observed if one.kind is Kind.LEARNER_STEP}
        fleet.pause("learner-1")
        say("paused")
        while True:
            fleet.poll(clock.now_s() + 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
