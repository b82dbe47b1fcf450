"""A namespace of a cluster in memory: it keeps what is put there, and remembers what was asked.

create, patch, delete ─► objects ─► get, list, pod, pods
every call that changes something ─► calls ─► the test, unless `refuses` has an error for it
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import KINDS, PODS, Resource

STARTED, ENDED = "2026-11-27T10:00:00Z", "2026-11-27T10:00:09Z"
RUNNING: Mapping[str, Any] = {"running": {"startedAt": STARTED}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    """The state of a container that has ended."""
    facts = {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": ENDED}
    return {"terminated": facts}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The state of a container that does not run yet."""
    return {"waiting": {"reason": reason, "message": message}}


def pod(
    name: str = "p",
    state: Mapping[str, Any] | None = RUNNING,
    *,
    machine: str = "",
    container: str = CONTAINER,
    labels: Mapping[str, str] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A pod whose container is in this state; its unique id is its name."""
    own = {"name": container, "image": "i", "imageID": "sha256:1", "ready": True, "restartCount": 0}
    statuses = [] if state is None else [{**own, "state": state}]
    return {
        "metadata": {"name": name, "uid": name, "labels": {**(labels or {})}},
        "spec": {"nodeName": machine, "containers": []},
        "status": {"phase": "Running", "containerStatuses": statuses, **status},
    }


class FakeCluster(ForwardingCluster):
    """Public fields may be changed by a test at any time."""

    def __init__(self, *pods: Mapping[str, Any]) -> None:
        self.server, self.context, self.namespace = "https://here", "here", "chaos"
        self.is_closing = False
        self.objects = {f"pods/{one['metadata']['name']}": deepcopy(one) for one in pods}
        """By plural and name: `jobs/a`."""
        self.calls: list[str] = []
        """What was asked for that may change something, such as `delete jobs/a`."""
        self.listed: list[str] = []
        """Selectors of what was listed."""
        self.refuses: dict[str, Exception] = {}
        """By such a call: the error that it ends with."""
        self.logs: dict[str, Sequence[bytes]] = {}
        """By pod: its lines."""
        self.has_job_sets = True
        self.allows = ""
        """The one verb that this user has the right to; by default all."""

    def close(self) -> None:
        self.is_closing = True

    def version(self) -> str:
        return "v1.34.4"

    def serves(self, resource: Resource) -> bool:
        return resource.plural != "jobsets" or self.has_job_sets

    def may(self, verb: str, *_: object, **__: object) -> bool:
        return verb == (self.allows or verb)

    def create(self, manifest: Mapping[str, Any], *, is_trial: bool = False) -> Mapping[str, Any]:
        path = f"{KINDS[manifest['kind']].plural}/{manifest['metadata']['name']}"
        self._do("try" if is_trial else "create", path)
        made = deepcopy({"spec": {}, **manifest})
        made["metadata"]["uid"] = "uid"
        if manifest["kind"] == "Service":
            made["spec"].setdefault("clusterIP", "10.0.0.9")
        if not is_trial:
            self.objects[path] = made
        return made

    def get(self, resource: Resource, name: str) -> Mapping[str, Any]:
        if (path := f"{resource.plural}/{name}") not in self.objects:
            raise Missing(f"no {path}")
        return self.objects[path]

    def list(
        self, resource: Resource, selector: str, *, in_full: bool = True
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        self.listed.append(selector)
        return [one for one in self.of(resource.plural) if _fits(one, selector)], "1"

    def of(self, plural: str) -> Sequence[dict[str, Any]]:
        """All objects of a kind."""
        return [one for path, one in self.objects.items() if path.startswith(f"{plural}/")]

    def delete(
        self, resource: Resource, name: str, *, is_forced: bool = False, is_last: bool = False,
        **only: str,
    ) -> bool:  # fmt: skip
        assert is_forced is (resource is PODS), "pods are deleted without grace"
        path = f"{resource.plural}/{name}"
        self._do("delete", f"{path}, last" if is_last else path)
        return self.objects.pop(path, None) is not None

    def patch(
        self, resource: Resource, name: str, changes: Mapping[str, Any], *, kind: str = "merge"
    ) -> Mapping[str, Any]:
        assert kind == "merge"
        self._do("patch", path := f"{resource.plural}/{name}")
        if (found := self.objects.get(path)) is None:
            raise Missing(f"no {path}")
        _merge(found, changes)
        return found

    def evict(self, pod: str, **only: str) -> None:
        self._do("evict", f"pods/{pod}")

    def exec(
        self, pod: str, command: Sequence[str], *, stdin: bytes | None = None, **_: object
    ) -> str:
        self._do("exec", f"pods/{pod}: {command[-1] if stdin is None else stdin.decode().strip()}")
        return ""

    def lines(self, resource: Resource, name: str, *_: object, **__: object) -> Iterator[bytes]:
        self._do("read", f"{resource.plural}/{name}")
        yield from self.logs.get(name, ())

    def _do(self, verb: str, what: str) -> None:
        self.calls.append(f"{verb} {what}")
        if (error := self.refuses.get(self.calls[-1])) is not None:
            raise error


def _fits(one: Mapping[str, Any], selector: str) -> bool:
    """Whether an object has the labels: `a=b,c,!d`."""
    labels = one["metadata"].get("labels", {})
    for term in filter(None, selector.split(",")):
        key, is_equal, value = term.partition("=")
        found = labels.get(key.removeprefix("!"))
        if (found is None) is not key.startswith("!") or (is_equal and found != value):
            return False
    return True


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """As a server merges."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            _merge(into.setdefault(key, {}), value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value
