"""A stand-in for the harness in a cluster: janitor, undo log and a fleet of two pods.

    python -m tests.fleet.kubernetes.killed_harness RUN_DIR [OPTION]

It says `opened`, starts two nodes, says `started`; when both step it pauses one of them, says
`paused`, and waits to be killed, at any of these moments. With `--second` both are on the second
machine of the cluster, which it drains instead: it says `drained`. With `--job-set` they are Jobs
of a JobSet. With `--links` it starts none, but puts effects on a link through a proxy in a pod, and
says `shaped`. With `--limited` it has no janitor and one node, which computes: it lowers its CPU
limit, and says `limited`.
"""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.kubernetes.settings import Kubernetes
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.stressors import Mechanism, Slowness
from chaoslab.links.effects import Direction, Latency, Refuse
from chaoslab.links.proxied.settings import Embedded
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.cluster import CONTEXT, NAMESPACE, Cluster, image, small_fleet
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


def main(run_directory: Path, *, is_on_second: bool, is_job_set: bool, has_links: bool) -> None:
    """Do what is to be left behind, and poll for ever."""
    clock = WallClock()
    place: dict[str, Any] = {"learners": SECOND} if is_on_second else {}
    if is_job_set:
        place = {"replaces": True, "in_job_sets": True}
    cluster = Cluster.connect(CONTEXT, NAMESPACE)
    with (
        start_janitor(run_directory),
        UndoLogFile(run_directory) as undo_log,
        small_fleet(
            run_directory, clock, cluster, undo_log,
            node_links=links_by_pod(run_directory, clock, undo_log) if has_links else None, **place,
        ) as fleet,
    ):  # fmt: skip
        if has_links:
            link = fleet.link("learner-0", "10.0.0.1:4600")
            link.shape("injection-0", Direction.BOTH, Latency(mean_s=0.1))
            link.shape("injection-1", Direction.BOTH, Refuse())
            say("shaped")
            while True:
                fleet.poll(clock.now_s() + 1.0)
        say("opened")
        with fleet.start_together():
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


def links_by_pod(run_directory: Path, clock: WallClock, undo_log: UndoLogFile) -> NodeLinks:
    """As a plan for this cluster has them."""
    asked = Kubernetes(context=CONTEXT, namespace=NAMESPACE, image=image(), image_pull="Never")
    made = asked.links("embedded", Embedded(), 1)(run_directory, undo_log=undo_log)
    return NodeLinks(clock=clock, made_by=made)


if __name__ == "__main__":
    asked = set(sys.argv[2:])
    if "--limited" in asked:
        limit(Path(sys.argv[1]))
    main(
        Path(sys.argv[1]), is_on_second="--second" in asked, is_job_set="--job-set" in asked,
        has_links="--links" in asked,
    )  # fmt: skip
