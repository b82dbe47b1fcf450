"""Connection to one namespace of a Kubernetes cluster, by lightkube's settings and transport.

    kubeconfig, context ─► Cluster ─┬─ create, delete, patch, get, list     JSON, strict
                                    ├─ exec                                 a command in a pod
                                    └─ lines                                a watch or a log

Objects are created from JSON, so that what a user writes into a pod template reaches the server as
it is, and the server refuses what it does not know. Pods are read as lightkube's models. Whatever
fails is a FleetError that says what was asked; a server that does not answer is asked again for a
while, because the training goes on meanwhile. Streams have a deadline for each read: the caller
opens them again.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, Final, Self, TypeVar, cast

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import KINDS, PODS, Resource

try:
    import httpx2
    from lightkube.config import client_adapter
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig
    from lightkube.core.exceptions import ApiError, ConfigError
    from lightkube.core.generic_client import BasicRequest
    from lightkube.core.websocket import WebsocketDriver
    from lightkube.models.core_v1 import Pod

    from chaoslab.fleet.kubernetes.answers import (
        FAILURES,
        failed,
        json_of,
        may_pass,
        said,
    )
    from chaoslab.fleet.kubernetes.streams import LINE_MOST, ClusterClient, split, wake
except ImportError as error:
    raise AbilityError(
        "the kubernetes fleet needs lightkube: pip install 'chaoslab[kubernetes]', or use "
        "--fleet local, which needs nothing"
    ) from error

PATIENCE_S: Final = 90.0
"""Time for which a server that does not answer is asked again."""
_ASK_S: Final = 15.0
_AGAIN_S: Final = 0.5
_CLOSED_S: Final = 2.0
"""Time limit of the end of streams that are closed."""
_LOOK_S: Final = 0.02
_STRICT: Final = {"fieldValidation": "Strict"}
_METADATA: Final = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
_Answer = TypeVar("_Answer")


class Cluster:
    """One namespace of a cluster, with the rights of one user. Thread-safe."""

    def __init__(self, config: SingleConfig, namespace: str) -> None:
        params = client_adapter.ConnectionParams(timeout=httpx2.Timeout(_ASK_S))
        self._http = ClusterClient(  # a log stream for each node: any number of connections
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            **params.httpx_params(config),
        )
        self._streams: set[httpx2.Response] = set()
        self._guard = threading.Lock()
        _prepare_models()
        self.is_closing = False
        self.context, self.namespace = config.context_name, namespace
        self.server, self.cluster_name = config.cluster.server, config.context.cluster

    @classmethod
    def connect(cls, context: str = "", namespace: str = "") -> Self:
        """The cluster of a context of the kubeconfig, by default the current one.

        AbilityError if there is no such context, or it cannot be used.
        """
        try:
            config = KubeConfig.from_env().get(context or None)
            if config is not None and config.user is not None:
                return cls(config, namespace or config.namespace)
        except (ConfigError, OSError, ValueError, KeyError) as error:
            raise AbilityError(
                f"no cluster is known here ({error}): `kubectl config get-contexts` lists those of "
                "the kubeconfig, which KUBECONFIG names"
            ) from error
        raise AbilityError("the kubeconfig has no context with a user: name one as fleet.context")

    def close(self) -> None:
        """End all streams and connections."""
        self.is_closing = True
        with self._guard:
            streams = tuple(self._streams)
        for stream in streams:
            wake(stream.extensions.get("network_stream"))
        deadline = time.monotonic() + _CLOSED_S
        while self._streams and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        self._http.close()

    # ---------------------------------------------------------------- objects

    def version(self) -> str:
        """Version of the server; FleetError at once if it does not answer."""
        with said(f"reach the cluster of context {self.context}"):
            return str(json_of(self._http.get("version")).get("gitVersion", "unknown"))

    def serves(self, resource: Resource) -> bool:
        """Whether there may be such objects: those of a CRD only where that is installed."""
        try:
            self._ask(f"look for {resource.plural}", lambda: json_of(self._http.get(resource.api)))
        except Missing:
            return False
        return True

    def create(self, manifest: Mapping[str, Json], *, is_trial: bool = False) -> Mapping[str, Json]:
        """Create an object; as the server has it. With `is_trial` the server only checks it."""
        resource = KINDS[str(manifest["kind"])]
        name = str(cast("Mapping[str, Json]", manifest["metadata"])["name"])
        params = {**_STRICT, **({"dryRun": "All"} if is_trial else {})}
        tries = count(1)

        def created() -> Mapping[str, Json]:
            is_first = next(tries) == 1
            try:
                answer = self._http.post(self._url(resource), params=params, json={**manifest})
                return json_of(answer)
            except ApiError as error:
                if is_first or error.status.reason != "AlreadyExists":
                    raise
                return self._get(resource, name)  # the answer to an earlier try was lost

        return self._ask(f"create {resource.singular} {name}", created)

    def get(self, resource: Resource, name: str) -> Mapping[str, Json]:
        """Get an object. Missing: there is none."""
        return self._ask(f"get {resource.singular} {name}", lambda: self._get(resource, name))

    def pod(self, name: str) -> Pod:
        """Get a pod. Missing: there is none."""
        return pod_of(self.get(PODS, name))

    def pods(self, selector: str) -> Sequence[Pod]:
        """Pods with these labels."""
        return [pod_of(one) for one in self.list(PODS, selector)[0]]

    def list(
        self, resource: Resource, selector: str, *, in_full: bool = True
    ) -> tuple[Sequence[Mapping[str, Json]], str]:
        """Objects with these labels, or their metadata alone, and the version to watch from."""
        url, params = self._url(resource), {"labelSelector": selector}
        headers = {} if in_full else _METADATA
        answer = self._ask(
            f"list {resource.plural}",
            lambda: json_of(self._http.get(url, params=params, headers=headers)),
        )
        version = mapping(answer, "metadata").get("resourceVersion")
        return mappings(answer, "items"), str(version or "")

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        is_forced: bool = False,
        is_last: bool = False,
        **only: str,
    ) -> bool:
        """Delete an object and what it owns; whether it was there. `is_forced`: without grace.

        `is_last`: it stays until what it owns is gone. True as well if it is gone after a try whose
        answer was lost. `only`: Refused unless it has this `uid`, or `resourceVersion`.
        """
        policy = "Foreground" if is_last else "Background"
        options: dict[str, Json] = {"propagationPolicy": policy, "preconditions": {**only}}
        if is_forced:
            options["gracePeriodSeconds"] = 0
        tries = 0

        def deleted() -> Mapping[str, Json]:
            nonlocal tries
            tries += 1
            url = f"{self._url(resource)}/{name}"
            return json_of(self._http.request("DELETE", url, json=options))

        try:
            self._ask(f"delete {resource.singular} {name}", deleted)
        except Missing:
            return tries > 1
        return True

    def patch(
        self, resource: Resource, name: str, changes: Mapping[str, Json], *, kind: str = "merge"
    ) -> Mapping[str, Json]:
        """Merge changes into an object, `NAME/PART` a part of it; as the server has it then."""
        url, content = f"{self._url(resource)}/{name}", json.dumps(changes).encode()
        headers = {"Content-Type": f"application/{kind}-patch+json"}

        def patched() -> Mapping[str, Json]:
            return json_of(self._http.patch(url, content=content, headers=headers))

        return self._ask(f"patch {resource.singular} {name}", patched)

    def evict(self, pod: str, **only: str) -> None:
        """Evict a pod as a drain does. FleetError if a budget forbids it. `only`: see `delete`."""
        body: dict[str, Json] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
            "deleteOptions": {"preconditions": {**only}},
        }
        with said(f"evict pod {pod}"):
            json_of(self._http.post(f"{self._url(PODS)}/{pod}/eviction", json=body))

    def may(
        self, verb: str, resource: str, group: str, below: str = "", *, everywhere: bool = False
    ) -> bool:
        """Whether this user may do it in this namespace, or in the whole cluster, by its word."""
        attributes = {"namespace": "" if everywhere else self.namespace, "verb": verb,
                      "resource": resource, "group": group, "subresource": below}  # fmt: skip
        body: dict[str, Json] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes}},
        }
        url = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self._ask(f"ask whether {verb} {resource} is allowed",
                           lambda: json_of(self._http.post(url, json=body)))  # fmt: skip
        return mapping(answer, "status").get("allowed") is True

    # ---------------------------------------------------------------- pods

    def exec(
        self,
        pod: str,
        command: Sequence[str],
        *,
        container: str = CONTAINER,
        stdin: bytes | None = None,
        within_s: float = 20.0,
    ) -> str:
        """Output of a command in a pod. Missing if the pod or its container is gone.

        FleetError if the command fails; it is not repeated once it may have begun.
        """
        params: dict[str, Any] = {"command": [*command], "stdout": True, "stderr": True,
                                  "container": container}  # fmt: skip
        if stdin is not None:
            params["stdin"] = True

        def done() -> str:
            url = f"{self._url(PODS)}/{pod}/exec"
            request = BasicRequest(method="exec", url=url, params=params)
            driver = WebsocketDriver(self._http, request, timeout=within_s)
            told = driver.write_and_read(stdin=stdin, stdout=True, stderr=True)
            out, complaint = _text(told.stdout), _text(told.stderr)
            if told.exit_code:
                raise FleetError(f"{command[-1]!r} in pod {pod} failed: {complaint.strip()[-300:]}")
            return out

        return self._ask(f"exec in pod {pod}", done, only_unsent=True)

    def lines(
        self, resource: Resource, name: str, params: Mapping[str, str], *, silent_s: float
    ) -> Iterator[bytes]:
        """Lines of a stream: of a watch (`name` is empty), or of a pod's log.

        It ends when the server ends it, or, if it follows, after `silent_s` without a byte. Of a
        longer line in a log its first `LINE_MOST` bytes come. Missing if there is no such pod.
        FleetError if the server refuses or does not answer, or is silent before a whole log was
        read.
        """
        is_endless = "follow" in params or "watch" in params
        what = f"watch {resource.plural}" if not name else f"read the log of pod {name}"
        url = self._url(resource) if not name else f"{self._url(resource)}/{name}/log"
        timeout = httpx2.Timeout(_ASK_S, read=silent_s)
        with said(what), self._http.stream("GET", url, params=params, timeout=timeout) as stream:
            if stream.is_error:
                stream.read()
                json_of(stream)
            with self._guard:
                self._streams.add(stream)
            try:
                most = LINE_MOST if name else sys.maxsize
                yield from split(stream.iter_raw(), most, with_rest=not is_endless)
            except httpx2.ReadTimeout:
                if not is_endless:  # else it was silent for so long that perhaps it hangs
                    raise
            finally:
                with self._guard:
                    self._streams.discard(stream)

    # ---------------------------------------------------------------- inside

    def _url(self, resource: Resource) -> str:
        return f"{resource.api}/{resource.within.format(self.namespace)}{resource.plural}"

    def _get(self, resource: Resource, name: str) -> Mapping[str, Json]:
        return json_of(self._http.get(f"{self._url(resource)}/{name}"))

    def _ask(
        self, what: str, asked: Callable[[], _Answer], *, only_unsent: bool = False
    ) -> _Answer:
        """Answer to a request, which is repeated for a while if there is none."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return asked()
            except FAILURES as error:
                is_unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                is_passing = may_pass(error) and (is_unsent or not only_unsent)
                if not is_passing or self.is_closing or time.monotonic() > deadline:
                    raise failed(what, error) from error
            time.sleep(_AGAIN_S)


@cache
def _prepare_models() -> None:
    """Build the decoder of pods: msgspec crashes if two threads do so at once."""
    Pod.from_dict({})


def pod_of(found: Mapping[str, Json]) -> Pod:
    """A pod as lightkube models it."""
    return cast("Pod", Pod.from_dict(dict(found)))


def _text(said: object) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said or "")
