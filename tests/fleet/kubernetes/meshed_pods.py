"""Two pods of a run with a link by Chaos Mesh between them, for tests in a real cluster.

    python -m tests.fleet.kubernetes.meshed_pods RUN_DIR [--alone]

is a stand-in for a harness with a janitor: it cuts the link, says `cut`, and waits to be killed.
With `--alone` it has no janitor, and a short lease.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.fleet.kubernetes.settings import Kubernetes
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.links.base import Link, Links
from chaoslab.links.chaos_mesh import ChaosMesh
from chaoslab.links.effects import Direction, Freeze
from chaoslab.plan.model import SYNCER
from chaoslab.undo.base import UndoLog
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.cluster import CONTEXT, NAMESPACE, Cluster, image, small_fleet
from tests.engine import learner
from tests.waiting import wait_until

from chaoslab.fleet.kubernetes.fleet import KubernetesFleet  # isort: skip  # after lightkube, see tests.cluster
from chaoslab.fleet.kubernetes import names  # isort: skip
from chaoslab.fleet.kubernetes.manifests import SYNCER_PORT  # isort: skip
from chaoslab.fleet.kubernetes.resources import PODS  # isort: skip

LEARNER = "learner-0"
ECHO = f"""
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while said := self.request.recv(100):
            self.request.sendall(said)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("0.0.0.0", {SYNCER_PORT}), Echo).serve_forever()
"""
ASK = """
import socket, sys, time
began = time.monotonic()
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2.0) as one:
        one.sendall(b"x")
        print(time.monotonic() - began if one.recv(1) else "")
except OSError:
    print("")
"""


@dataclass(frozen=True, kw_only=True)
class Meshed:
    """A learner's pod, the syncer's, and what is between them."""

    fleet: KubernetesFleet
    cluster: Cluster
    links: Links
    link: Link

    @property
    def run(self) -> str:
        """Name of the run in the cluster."""
        return self.fleet._objects.run

    def is_up(self) -> bool:
        """Whether both run, after a moment."""
        self.fleet.poll(WallClock().now_s() + 0.2)
        return all(life.has_started and not life.is_over for life in self.fleet._lives.values())

    def answers_s(self) -> float | None:
        """How long the syncer's pod takes to answer the learner's; None if it does not in 2 s."""
        listed, _ = self.cluster.list(PODS, f"chaoslab/run={self.run},chaoslab/node={LEARNER}")
        pod = names.name_of(max(listed, key=names.created))
        host, _, port = self.link.address.rpartition(":")
        command = ("python3", "-S", "-c", ASK, host, port)
        said = self.cluster.exec(pod, command).strip()
        return float(said) if said else None


def chaos_mesh_links(run_directory: Path, undo_log: UndoLog) -> Links:
    """As a plan for this cluster has them."""
    asked = Kubernetes(context=CONTEXT, namespace=NAMESPACE, image=image(), image_pull="Never")
    return asked.links("chaos-mesh", ChaosMesh(), 1)(run_directory, undo_log=undo_log)


@contextmanager
def meshed(run_directory: Path, undo_log: UndoLog, *, lease_s: float = 60.0) -> Iterator[Meshed]:
    """Both run, and the learner's pod reaches the syncer's by its Service."""
    clock, links = WallClock(), chaos_mesh_links(run_directory, undo_log)
    fleet = small_fleet(
        run_directory, clock, Cluster.connect(CONTEXT, NAMESPACE), undo_log,
        lease_s=lease_s, node_links=NodeLinks(clock=clock, made_by=links),
    )  # fmt: skip
    with fleet:
        fleet.start(learner(LEARNER))
        fleet.start(replace(learner(SYNCER), command=("python3", "-S", "-c", ECHO)))
        address = f"{fleet._objects.address(SYNCER)}:{SYNCER_PORT}"
        found = Meshed(
            fleet=fleet, cluster=fleet._cluster, links=links, link=fleet.link(LEARNER, address)
        )
        wait_until(found.is_up)
        wait_until(lambda: found.answers_s() is not None)
        yield found


def main(run_directory: Path, *, is_alone: bool) -> None:
    """Cut the link, and poll for ever."""
    with (
        nullcontext() if is_alone else start_janitor(run_directory),
        UndoLogFile(run_directory) as undo_log,
        meshed(run_directory, undo_log, lease_s=10.0 if is_alone else 60.0) as found,
    ):
        found.link.shape("injection-0", Direction.BOTH, Freeze())
        assert found.answers_s() is None
        sys.stdout.write("cut\n")
        sys.stdout.flush()
        while True:
            found.fleet.poll(WallClock().now_s() + 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_alone="--alone" in sys.argv[2:])
