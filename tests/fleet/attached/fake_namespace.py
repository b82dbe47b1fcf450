"""A namespace whose pods are stand-ins on this machine, and a cluster that shows them.

It has what an attached fleet asks of `kubernetes.cluster.Cluster`: list, get, exec, lines, delete,
create, patch. The kubelet and the owners of pods are the test: `restart_in_place`, `another_pod`.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.attached import pod_program
from chaoslab.fleet.attached.pods import NamespaceFleet
from chaoslab.fleet.kubernetes.cluster import pod_of
from chaoslab.fleet.kubernetes.refusals import Missing, Refused
from chaoslab.fleet.kubernetes.resources import LEASES, PODS, Resource
from chaoslab.fleet.storage import disk
from tests.waiting import wait_until

PROGRAM = Path(__file__).with_name("stand_in.py")
FILES = Path(disk.__file__).read_text(encoding="utf-8")
_NUMBERS = count(1)


def now() -> str:
    return datetime.now(UTC).isoformat()


class Container:
    """One life of a container: its process, and what that printed with the times."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.id = f"containerd://{next(_NUMBERS)}"
        self.started = now()
        self.lines: list[bytes] = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(f"{now()} ".encode() + line.rstrip(b"\n"))

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def state(self) -> dict[str, Any]:
        if not self.has_ended:
            return {"running": {"startedAt": self.started}}
        code = self.process.returncode
        return {"terminated": {"exitCode": 128 - code if code < 0 else code, "reason": "Error",
                               "containerID": self.id, "startedAt": self.started,
                               "finishedAt": now()}}  # fmt: skip


class Pod:
    """A pod with one container."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, owner: str) -> None:
        self.name, self.command, self.folder, self.owner = name, command, folder, owner
        self.uid = f"uid-{next(_NUMBERS)}"
        self.is_gone = False
        self.deleted: str | None = None
        """Since when it is being deleted; it takes its time."""
        self.lives = [Container(command, folder)]

    @property
    def manifest(self) -> dict[str, Any]:
        """As the cluster shows it."""
        now_, *before = reversed(self.lives)
        status = {
            "name": "main", "image": "i", "imageID": "i@1", "ready": True,
            "containerID": now_.id, "restartCount": len(before), "state": now_.state,
            "lastState": before[0].state if before else {},
        }  # fmt: skip
        owners = [{"kind": self.owner, "name": "o", "controller": True, "uid": "o",
                   "apiVersion": "apps/v1"}]  # fmt: skip
        return {
            "metadata": {"name": self.name, "uid": self.uid, "deletionTimestamp": self.deleted,
                         "ownerReferences": owners if self.owner else []},
            "spec": {"containers": [{"name": "main", "command": list(self.command)}]},
            "status": {"phase": "Running", "containerStatuses": [status]},
        }  # fmt: skip


class FakeNamespace:
    """A syncer and two learners in pods, and their cluster."""

    server, context, namespace = "https://fake", "fake", "day"

    def __init__(self, folder: Path, *, owner: str = "StatefulSet") -> None:
        pod_of({})  # as a cluster does: its models are not to be built by two threads at once
        self._folder, self._owner = folder, owner
        self.is_closing = self.is_away = False
        self.fleets: list[NamespaceFleet] = []
        """Those that were entered, for whoever ends them."""
        self.lease: dict[str, Any] | None = None
        self.refusals: list[FleetError] = []
        """What the next commands in pods fail with, in order."""
        self.pods: dict[str, Pod] = {}
        self._former: list[Pod] = []
        self._one_at_a_time = threading.Lock()
        """Standard output is one for all threads."""
        self.processes: list[int] = []
        """Of the container that is looked into, as `pod_program.pids` is to show them."""
        port = folder / "port"
        self._add("syncer", "syncer", "--port-file", str(port))
        wait_until(port.exists)
        for name in ("learner-0", "learner-1"):
            self._add(name, "learner", "--syncer", f"127.0.0.1:{port.read_text()}")
        wait_until(lambda: all(pod.lives[-1].lines for pod in self.pods.values()))

    def _add(self, name: str, role: str, *flags: str) -> None:
        program = (sys.executable, "-I", "-S", str(PROGRAM), f"chaoslab.diloco.{role}")
        command = (*program, "--name", name, *flags)
        self.pods[name] = Pod(f"{name}-pod", command, self._folder, self._owner)

    def life(self, name: str) -> Container:
        """The newest life of a node."""
        return self.pods[name].lives[-1]

    def restart_in_place(self, name: str) -> None:
        """As the kubelet does."""
        pod = self.pods[name]
        pod.lives.append(Container(pod.command, self._folder))

    def another_pod(self, name: str) -> None:
        """As its owner does."""
        before = self.pods[name]
        self._former.append(before)
        self.pods[name] = Pod(before.name, before.command, self._folder, self._owner)

    def end(self) -> None:
        for pod in (*self.pods.values(), *self._former):
            for life in pod.lives:
                life.process.kill()
                life.process.wait(30)

    # ---------------------------------------------------------------- what a fleet asks

    def close(self) -> None:
        self.is_closing = True

    def _named(self, name: str) -> Pod:
        for pod in self.pods.values():
            if pod.name == name and not pod.is_gone:
                return pod
        raise Missing(f"no pod {name}")

    def version(self) -> str:
        return "v1.34.4"

    def list(self, resource: Resource, selector: str) -> tuple[Sequence[Mapping[str, Json]], str]:
        assert (resource, selector) == (PODS, "")
        return [p.manifest for p in self.pods.values() if not p.is_gone], "1"

    def get(self, resource: Resource, name: str) -> Mapping[str, Json]:
        if resource == PODS:
            if self.is_away:
                raise FleetError("no answer")
            return self._named(name).manifest
        if self.lease is None:
            raise Missing("no lease")
        return self.lease

    def create(self, manifest: Mapping[str, Json]) -> Mapping[str, Json]:
        if self.lease is not None:
            raise Refused("it exists")
        made: dict[str, Any] = json.loads(json.dumps(manifest))
        made["metadata"] |= {"uid": f"uid-{next(_NUMBERS)}", "resourceVersion": "1"}
        self.lease = made
        return made

    def patch(self, _: Resource, __: str, changes: Mapping[str, Any]) -> Mapping[str, Json]:
        if self.lease is None:
            raise Missing("no lease")
        if changes["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Refused("it was changed")
        self.lease["spec"] |= changes["spec"]
        self.lease["metadata"]["resourceVersion"] += "1"
        changed: dict[str, Any] = self.lease
        return changed

    def delete(
        self, resource: Resource, name: str, *, is_forced: bool = False, **only: str
    ) -> bool:
        if resource == LEASES:
            assert self.lease is not None
            if any(self.lease["metadata"][key] != value for key, value in only.items()):
                raise Refused("it is another one")
            self.lease = None
            return True
        pod = self._named(name)
        assert (is_forced, only) == (True, {"uid": pod.uid})
        pod.is_gone = True
        pod.lives[-1].process.kill()
        return True

    def evict(self, pod: str, **only: str) -> None:
        found = self._named(pod)
        if only != {"uid": found.uid}:
            raise Refused("it is another one")
        found.lives[-1].process.terminate()

    def exec(
        self, pod: str, command: Sequence[str], *, container: str, within_s: float = 20.0
    ) -> str:
        """The program itself, on `processes` alone; that of files on those of this machine."""
        life = self._named(pod).lives[-1]
        assert container == "main"
        if self.refusals:
            raise self.refusals.pop(0)
        if life.has_ended:
            raise Missing("no container")
        if command[command.index("-c") + 1] == FILES:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout
        with self._one_at_a_time, redirect_stdout(StringIO()) as output:
            self.processes = [life.process.pid]
            pod_program.main(list(command[command.index("-c") + 2 :]))
        return output.getvalue()

    def lines(
        self, resource: Resource, name: str, params: Mapping[str, str], *, silent_s: float
    ) -> Iterator[bytes]:
        if not name:  # a watch, in which nothing happens
            time.sleep(0.05)
            return
        assert silent_s
        lives = self._named(name).lives
        life = lives[-2] if "previous" in params else lives[-1]
        told = 0
        while True:
            has_ended = life.has_ended
            yield from life.lines[told:]
            told = len(life.lines)
            if "follow" not in params or has_ended or self.is_closing:
                return
            time.sleep(0.01)
