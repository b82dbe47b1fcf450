"""A stand-in for the harness in a cluster: janitor, undo log and a fleet of two pods.

    python -m tests.fleet.kubernetes.killed_harness RUN_DIR [OPTION]

It starts two nodes; when both step it pauses one of them, says `paused`, and waits to be killed.
With `--second` both are on the second machine of the cluster, which it drains instead: it says
`drained`. With `--job-set` they are Jobs of a JobSet. With `--limited` it has no janitor and one
node, which computes: it lowers its CPU limit, and says `limited`.
"""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.stressors import Mechanism, Slowness
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


def main(run_directory: Path, *, is_on_second: bool, is_job_set: bool) -> None:
    """Do what is to be left behind, and poll for ever."""
    clock = WallClock()
    place: dict[str, Any] = {"learners": SECOND} if is_on_second else {}
    if is_job_set:
        place = {"replaces": True, "in_job_sets": True}
    cluster = Cluster.connect(CONTEXT, NAMESPACE)
    with (
        start_janitor(run_directory),
        UndoLogFile(run_directory) as undo_log,
        small_fleet(run_directory, clock, cluster, undo_log, **place) as fleet,
    ):
        with fleet.start_together():
            for name in ("learner-0", "learner-1"):
                fleet.start(replace(learner(name), keeps="state"))
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


def limit(run_directory: Path) -> None:
    """Lower the CPU limit of a node as soon as it is known what that uses, and poll for ever."""
    from tests.fleet.kubernetes.test_quota import busy  # noqa: PLC0415  # needs a cluster

    clock, is_limited = WallClock(), False
    slowness = Slowness(factor=4.0, mechanism=Mechanism.CGROUP)
    with (
        UndoLogFile(run_directory) as undo_log,
        small_fleet(
            run_directory, clock, Cluster.connect(CONTEXT, NAMESPACE), undo_log, cpus=0.5,
            measures_cpu=True,
        ) as fleet,
    ):  # fmt: skip
        fleet.start(busy("learner-0"))
        while True:
            fleet.poll(clock.now_s() + 1.0)
            if not is_limited:
                with (
                    undo_log.due_within(1.0),
                    suppress(FleetError),
                ):  # nobody knows yet what it uses
                    fleet.stress("learner-0", "injection-0", slowness)
                    is_limited = True
                    say("limited")


if __name__ == "__main__":
    asked = set(sys.argv[2:])
    if "--limited" in asked:
        limit(Path(sys.argv[1]))
    main(Path(sys.argv[1]), is_on_second="--second" in asked, is_job_set="--job-set" in asked)
