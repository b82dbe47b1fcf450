"""Scale of the kubernetes fleet: hundreds of learners' Jobs made, watched, deleted and removed.

    docker/start_kubernetes.sh kwok 200
    KUBECONFIG=… python benchmarks/kubernetes_scale.py [--sizes 10,100,500] [--json]

    plan ─► its fleet ─ claim, Secret, Job of each learner ─► cluster ─► pods on fake nodes
              ▲ poll: starts, lines, ends                                  │
              └────────────── two watches, a log for each pod ─────────────┘

The harness's own code and a real control plane, but kwok instead of kubelets: a pod on a fake node
runs as soon as it is scheduled, without a container. So it measures what harness and control plane
need for so many learners, and no training. Each size is a process of its own, whose memory and
processor time are those of a harness. While all pods run, each prints a line a second: all of them
the same, since kwok has one log for all. Not covered, because fake nodes refuse commands in pods:
signals, test hooks, stressors.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx2
from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from trainings import BenchmarkError, workplace

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.kubernetes.settings import connect
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.run_name import run_name
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.prepare.preflight import fault_of
from chaoslab.undo.log import UndoLogFile

SIZES: Final = (10, 100, 500)
LINES: Final = 20
"""That each pod prints, one a second."""
WITHIN_S: Final = 900.0
"""How long a phase may take."""
STATE: Final = Path(os.environ.get("CHAOSLAB_KUBERNETES_STATE", "/var/lib/chaoslab-kubernetes"))
CONTEXT: Final = "chaoslab-test"
PLAN: Final = """
version: 1
name: scale
seed: 3
training: {{learners: {learners}, model: nano, step_time: 100ms, stop: {{rounds: 60}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds}}
twin: false
limits: {{min_alive: 1, max_affected: 100%}}
fleet:
  kind: kubernetes
  context: {context}
  namespace: {namespace}
  image: "{image}"
  disk: 10MB
  start_within: 15m
  pod:
    nodeSelector: {{type: kwok}}
    tolerations: [{{key: kwok.x-k8s.io/node, operator: Exists}}]
faults:
  - {{id: dies, fault: pod.delete, target: {{learners: {deleted}}}, at: {{round: 24}}, for: 6s}}
expect: [{{check: rejoin}}]
"""
HEADS: Final = {
    "learners": "learners",
    "made_s": "made (s)",
    "running_s": "all running (s)",
    "requests": "requests until then",
    "requests_per_s": "per second",
    "deleted": "deleted",
    "gone_s": "reported gone (s)",
    "exited_s": "ends seen (s)",
    "removed_s": "removed (s)",
    "rss_mb": "memory (MB)",
    "threads": "threads",
    "files": "files",
    "cpu_s": "processor (s)",
    "cores": "cores while they print",
    "lines": "lines",
}
"""Of the rows, in their order."""


def main() -> int:
    """Measure all sizes and print the table; the exit code."""
    options = _options()
    if options.one is not None:
        return _measure_here(options.one, options)
    load = MachineLoad()
    try:
        rows = [_measure(size, options) for size in options.sizes]
    except BenchmarkError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    return finish([_result(rows, load.place())], options)


def _result(rows: Sequence[Mapping[str, float]], place: Mapping[str, Cell]) -> Result:
    figures = tuple(
        Figure(name=f"{name}, {row['learners']} learners", observed=row[key], unit=unit)
        for row in rows
        for name, key, unit in (
            ("all Jobs are made", "made_s", "s"),
            ("all learners run", "running_s", "s"),
            ("the run is removed", "removed_s", "s"),
            ("memory of the harness", "rss_mb", "MB"),
        )
    )
    return Result(
        number=16,
        name="a cluster with fake nodes",
        what="the kubernetes fleet with pods on fake nodes",
        command="python benchmarks/kubernetes_scale.py",
        figures=figures,
        rows=tuple({head: row[key] for key, head in HEADS.items()} for row in rows),
        place=place,
    )


# ---------------------------------------------------------------- one size


def _measure(size: int, options: argparse.Namespace) -> Mapping[str, float]:
    """One size, in a process of its own."""
    words = [sys.executable, __file__, "--one", str(size), "--namespace", options.namespace]
    words += ["--image", options.image, "--log", options.log]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{size} learners: exit code {done.returncode}")
    row: Mapping[str, float] = json.loads(done.stdout)
    print(f"{size} learners: {row}", file=sys.stderr)
    return row


def _measure_here(size: int, options: argparse.Namespace) -> int:
    """One size in this process; prints its row."""
    try:
        with workplace() as folder:
            print(json.dumps(_row(size, folder, options)))
    except (AbilityError, BenchmarkError, FleetError, PlanError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def _row(size: int, folder: Path, options: argparse.Namespace) -> Mapping[str, float]:
    namespace, log = options.namespace, Path(options.log)
    if not log.exists():
        raise BenchmarkError(f"{log} is missing: docker/start_kubernetes.sh kwok 200")
    log.write_bytes(b"")  # no pod prints what those of another run did
    file = folder / "scale.yaml"
    deleted = max(1, size // 10)
    text = PLAN.format(
        learners=size, deleted=deleted, context=CONTEXT, namespace=namespace, image=options.image
    )
    file.write_text(text, encoding="utf-8")
    requests = _counted_requests()
    prepared = prepare(Asked(plan=str(file)))
    _ = prepared.fleet_setup.fleet.abilities  # asks the server whether all of it is allowed
    directory = folder / "run"
    directory.mkdir()
    with UndoLogFile(directory) as undo_log:
        clock = WallClock()
        fleet = prepared.fleet_setup.fleet(
            directory, clock, undo_log=undo_log, node_links=NodeLinks(clock=clock)
        )
        if not isinstance(fleet, KubernetesFleet):
            raise BenchmarkError(f"the plan's fleet is {fleet.kind}")
        with fleet:
            measured = _Measurement(fleet=fleet, clock=clock, prepared=prepared, requests=requests)
            measured.make(directory)
            measured.print_lines(log)
            measured.delete()
            measured.leave_them()
            began_s = time.monotonic()
    removed_s = time.monotonic() - began_s
    with closing(connect(CONTEXT, namespace)) as cluster:
        if left := remains(cluster, run_name(directory)):
            raise BenchmarkError(f"{len(left)} objects are left, {left[0]} among them")
    lines = sum(
        one.read_bytes().count(b"\n") for one in directory.glob("nodes/learner-*/*/stdout.log")
    )
    return {
        **measured.row,
        "removed_s": round(removed_s, 1),
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
        "cpu_s": round(time.process_time(), 1),
        "lines": lines,
    }


def _counted_requests() -> list[str]:
    """Methods of all requests that this process makes from now on."""
    made: list[str] = []
    handle = httpx2.HTTPTransport.handle_request

    def handled(transport: httpx2.HTTPTransport, request: httpx2.Request) -> httpx2.Response:
        made.append(request.method)
        return handle(transport, request)

    httpx2.HTTPTransport.handle_request = handled  # type: ignore[method-assign, assignment]
    return made


@dataclass(slots=True, kw_only=True)
class _Measurement:
    """What is done with one fleet, and how long it takes."""

    fleet: KubernetesFleet
    clock: WallClock
    prepared: Prepared
    requests: list[str]
    row: dict[str, float] = field(default_factory=dict)
    _seen: dict[tuple[Kind, str], set[str]] = field(default_factory=dict)
    """By kind of report, and what the cluster says: the nodes."""

    def make(self, directory: Path) -> None:
        """Start all learners as a run does, and wait until they run."""
        plan, fleet = self.prepared.plan, self.fleet
        launch = Launch(
            plan=plan, snapshots=directory / "snapshots", tokens=directory / "tokens",
            node_site=fleet.node_site,
        )  # fmt: skip
        fleet.enlist(launch.syncer())  # nothing trains: there is no more of it than its address
        names = plan.training.learner_names
        upstream = {name: fleet.link(name, fleet.node_site.listen).address for name in names}
        before, began_s = len(self.requests), time.monotonic()
        for spec in launch.learners(upstream):
            fleet.start(spec)
        made_s = time.monotonic() - began_s
        self._await(Kind.NODE_STARTED, "", names)
        running_s, requests = time.monotonic() - began_s, len(self.requests) - before
        self.row |= {
            "learners": len(names),
            "made_s": round(made_s, 1),
            "running_s": round(running_s, 1),
            "requests": requests,
            "requests_per_s": round(requests / running_s),
        }

    def print_lines(self, log: Path) -> None:
        """Let all pods print a line a second for a while."""
        cpu_s, began_s = time.process_time(), time.monotonic()
        with log.open("a", encoding="utf-8") as file:
            for number in range(LINES):
                at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
                said = json.dumps({"line": number, "text": "x" * 200})
                file.write(f"{at} stdout F {said}\n")
                file.flush()
                self._poll_for(1.0)
        took_s = time.monotonic() - began_s
        self.row |= {
            "cores": round((time.process_time() - cpu_s) / took_s, 2),
            "threads": threading.active_count(),
            "files": len(os.listdir("/proc/self/fd")),
        }

    def delete(self) -> None:
        """Inject the plan's fault, and wait for the ends of its targets."""
        (injection,) = self.prepared.schedule.injections
        began_s = time.monotonic()
        fault_of(injection).inject(injection, self.fleet)
        self._await(Kind.ENGINE_REPORTED, "gone", injection.targets)
        gone_s = time.monotonic() - began_s
        self._await(Kind.NODE_EXITED, "", injection.targets)
        self.row |= {
            "deleted": len(injection.targets),
            "gone_s": round(gone_s, 1),
            "exited_s": round(time.monotonic() - began_s, 1),
        }

    def leave_them(self) -> None:
        """Follow no pod any more: the fleet would kill each by a command, which kwok refuses."""
        for life in self.fleet._lives.values():  # noqa: SLF001
            life.abandon()

    def _await(self, kind: Kind, action: str, names: Sequence[str]) -> None:
        """Poll as a run does, until this was reported of all of these nodes."""
        wanted = set(names)
        self._poll_until(lambda: wanted <= self._seen.get((kind, action), set()), WITHIN_S)
        seen = self._seen.get((kind, action), set())
        if missing := sorted(wanted - seen):
            what = f"{kind} {action}".rstrip()
            raise BenchmarkError(f"no {what} of {len(missing)} nodes, {missing[0]} among them")

    def _poll_for(self, length_s: float) -> None:
        self._poll_until(lambda: False, length_s)

    def _poll_until(self, is_enough: Callable[[], bool], within_s: float) -> None:
        until_s = self.clock.now_s() + within_s
        while not is_enough() and (now_s := self.clock.now_s()) < until_s:
            for one in self.fleet.poll(min(until_s, now_s + 1.0)):
                self._note(one)

    def _note(self, one: Observation) -> None:
        key = (one.kind, str(one.data.get("action", "")))
        self._seen.setdefault(key, set()).add(str(one.data.get("node", one.source)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--sizes", type=_sizes, default=SIZES, metavar="10,100", help="numbers of learners"
    )
    parser.add_argument("--namespace", default="chaoslab-tests", help="an existing one")
    parser.add_argument(
        "--image", default="", help="of the nodes; default: that of this source, once it is loaded"
    )
    parser.add_argument(
        "--log", default=str(STATE / "kwok" / "pods.log"), help="the log of the fake pods"
    )
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    add_options(parser)
    return parser.parse_args()


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
