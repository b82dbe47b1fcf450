"""A stand-in for the harness in a cluster: janitor, undo log and a fleet of two pods.

    python -m tests.fleet.kubernetes.killed_harness RUN_DIR [--second]

It says `opened`, starts two nodes, says `started`; when both step it pauses one of them, says
`paused`, and waits to be killed, at any of these moments. With `--second` both are on the second
machine of the cluster, which it drains instead: it says `drained`.
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


SECOND = {
    "nodeSelector": {"chaoslab-test/second": ""},
    "tolerations": [{"key": "chaoslab-test/second", "operator": "Exists"}],
}
"""Where pods have to be for `--second`."""


def main(run_directory: Path, *, is_on_second: bool) -> None:
    """Start two nodes, pause one or drain their machine, poll for ever."""
    clock = WallClock()
    place = {"learners": SECOND} if is_on_second else {}
    cluster = Cluster.connect(CONTEXT, NAMESPACE)
    with (
        start_janitor(run_directory),
        UndoLogFile(run_directory) as undo_log,
        small_fleet(run_directory, clock, cluster, undo_log, **place) as fleet,
    ):
        say("opened")
        for name in ("learner-0", "learner-1"):
            fleet.start(replace(learner(name), keeps="state"))
        say("started")
        stepping: set[str] = set()
        while len(stepping) < 2:
            observed = fleet.poll(clock.now_s() + 1.0)
            stepping |= {one.source for one in observed if one.kind is Kind.LEARNER_STEP}
        if is_on_second:
            fleet.drain("injection-0", "learner-0", "learner-1")
            say("drained")
        else:
            fleet.pause("learner-1")
            say("paused")
        while True:
            fleet.poll(clock.now_s() + 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_on_second="--second" in sys.argv)
