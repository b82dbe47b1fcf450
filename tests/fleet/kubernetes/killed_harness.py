"""A stand-in for the harness in a cluster: janitor, undo log and a fleet of two pods.

    python -m tests.fleet.kubernetes.killed_harness RUN_DIR [--second | --links]

It says `opened`, starts two nodes, says `started`; when both step it pauses one of them, says
`paused`, and waits to be killed, at any of these moments. With `--second` both are on the second
machine of the cluster, which it drains instead: it says `drained`. With `--links` it starts none,
but puts effects on a link through a proxy in a pod, and says `shaped`.
"""

import sys
from dataclasses import replace
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.kubernetes.settings import Kubernetes
from chaoslab.fleet.node_links import NodeLinks
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


def main(run_directory: Path, *, is_on_second: bool, has_links: bool) -> None:
    """Do what is to be left behind, and poll for ever."""
    clock = WallClock()
    place = {"learners": SECOND} if is_on_second else {}
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


def links_by_pod(run_directory: Path, clock: WallClock, undo_log: UndoLogFile) -> NodeLinks:
    """As a plan for this cluster has them."""
    asked = Kubernetes(context=CONTEXT, namespace=NAMESPACE, image=image(), image_pull="Never")
    made = asked.links("embedded", Embedded(), 1)(run_directory, undo_log=undo_log)
    return NodeLinks(clock=clock, made_by=made)


if __name__ == "__main__":
    asked = set(sys.argv[2:])
    main(Path(sys.argv[1]), is_on_second="--second" in asked, has_links="--links" in asked)
