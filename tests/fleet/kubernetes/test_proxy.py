"""The pod that carries links: its manifests, how its end is told, and calls of its proxy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import proxy_links
from chaoslab.fleet.kubernetes.manifests import Manifests, PodSettings
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster
from chaoslab.fleet.kubernetes.proxy_host import PodEndpoint, PodProxyHost, ProxyWatch
from chaoslab.fleet.kubernetes.proxy_links import ForeignProxy, PodLinks, PodProxyClient
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.links.effects import LinkAbility
from chaoslab.links.proxied.http_api import NoSuchName, Unreachable
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.undo.base import NoUndoLog
from tests.fleet.kubernetes.fake_cluster import FakeCluster, ended, pod

API = PodEndpoint(
    address="proxy-x:8474", token="word", server="https://10.0.0.1:6443", context="test",
    namespace="chaos", pod="proxy-x",
)  # fmt: skip


# ---------------------------------------------------------------- manifests


@pytest.fixture
def manifests() -> Manifests:
    settings = PodSettings(image="chaoslab-node:1", others={"nodeSelector": {"pool": "cpu"}})
    return Manifests(run="3fa9c2e1b0", directory="/runs/x", settings=settings, owner="uid-1")


def test_the_proxy_belongs_to_the_run_and_is_none_of_its_nodes(manifests: Manifests) -> None:
    job: Any = manifests.proxy()
    for one in (job, manifests.proxy_secret("word")):
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["name"], owner["uid"]) == ("chaoslab-3fa9c2e1b0", "uid-1")
        assert one["metadata"]["name"] == "chaoslab-3fa9c2e1b0-proxy"
    for labels in (job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        assert labels["chaoslab/run"] == "3fa9c2e1b0"
        assert "chaoslab/node" not in labels
    assert job["spec"]["backoffLimit"] == 0


def test_the_proxy_is_confined_and_its_token_is_in_no_manifest(manifests: Manifests) -> None:
    pod: Any = manifests.proxy()["spec"]
    spec = pod["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["nodeSelector"] == {"pool": "cpu"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True, "runAsUser": 10001,
    }  # fmt: skip
    (token,) = container["env"]
    assert token["valueFrom"]["secretKeyRef"]["name"] == "chaoslab-3fa9c2e1b0-proxy"
    assert "--host" not in container["command"], "its API is on the pod's loopback alone"


# ---------------------------------------------------------------- its end


KILLED, EVICTED = ended(137), {"phase": "Failed", "reason": "Evicted"}


@pytest.mark.parametrize(("after", "why"), [
    (pod("proxy-x", KILLED, container="proxy", phase="Failed"), "137"),
    (pod("proxy-x", container="proxy", **EVICTED), "Evicted"),
    (None, "proxy-x"),
])  # fmt: skip
def test_the_end_of_the_proxy_is_told_with_its_reason(
    after: dict[str, Any] | None, why: str
) -> None:
    watch = ProxyWatch(FakeCluster(), "job-uid")
    addresses = [{"ip": "fd00::7"}, {"ip": "10.1.2.3"}]
    assert (watch.ended, watch.address) == ("", "")
    watch._see(pod("proxy-x", container="proxy", podIPs=addresses))
    assert (watch.ended, watch.address) == ("", "10.1.2.3")
    if after is None:
        watch._lose(*watch._there)
    else:
        watch._see(after)
    assert why in watch.ended


# ---------------------------------------------------------------- calls


class Proxy:
    """Answers of a proxy, in order; an exception is raised."""

    def __init__(self, *answers: Json | Exception) -> None:
        self._answers = [*answers]
        self.calls: list[str] = []

    def __call__(self, _api: object, method: str, path: str, *_: object, **__: object) -> Json:
        self.calls.append(f"{method} {path}")
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Proxy]:
    """Put a proxy with these answers behind all calls."""

    def put(*answers: Json | Exception) -> Proxy:
        proxy = Proxy(*answers)
        monkeypatch.setattr(proxy_links, "call", proxy)
        return proxy

    return put


@pytest.mark.parametrize(("method", "error", "times"), [
    ("GET", FleetError("cut off"), 2), ("POST", FleetError("cut off"), 1),
    ("GET", NoSuchName("no"), 1), ("GET", Unreachable("no"), 1), ("GET", Missing("no"), 1),
])  # fmt: skip
def test_what_only_reads_is_asked_again_and_what_changes_is_not(
    says: Callable[..., Proxy], method: str, error: FleetError, times: int
) -> None:
    proxy, client = says(*[error] * times), PodProxyClient(API, 1, FakeCluster())
    with pytest.raises(type(error)):
        client.ask(method, "/proxies")
    assert proxy.calls == [f"{method} /proxies"] * times


def test_a_pod_that_is_gone_has_taken_its_effects_with_it(says: Callable[..., Proxy]) -> None:
    says(Missing("no pod"))
    proxy = ForeignProxy(
        cluster=FakeCluster(), pod="proxy-x", token="word", proxy="learner-0", injection=""
    )
    with pytest.raises(Unreachable):
        proxy.ask("GET", "/proxies/learner-0")


class EndedHost(PodProxyHost):
    """A pod that says how it has ended."""

    how = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeCluster, lambda: PodSettings(image="x"), 1.0)

    @property
    def cluster(self) -> ForwardingCluster:
        return FakeCluster()

    def open(self, kind: str) -> PodEndpoint:
        assert kind == "embedded"
        return API

    def ended(self) -> str:
        return self.how


def test_the_proxy_is_looked_at_now_and_then_and_at_once_after_a_failure(
    tmp_path: Path, says: Callable[..., Proxy]
) -> None:
    host = EndedHost(tmp_path)
    with PodLinks(tmp_path, undo_log=NoUndoLog(), seed=1, proxy_host=host) as links:
        assert LinkAbility.BANDWIDTH in links.abilities
        assert LinkAbility.LOSS not in links.abilities
        proxy = says({}, FleetError("cut off"), {})
        assert not links.troubles()
        assert not links.troubles()
        assert proxy.calls == ["GET /proxies"]
        with pytest.raises(FleetError):
            links._open_client().ask("DELETE", "/proxies/learner-0")
        assert not links.troubles()
        assert proxy.calls[2:] == ["GET /proxies"]
        says(FleetError("cut off"), {}, FleetError("silent"), FleetError("silent"))
        links._look_s = 0.0
        assert not links.troubles()
        links._look_s = 0.0
        assert links.troubles() == ("silent",)
        host.how = "its pod proxy-x is gone"
        (trouble,) = links.troubles()
        assert trouble.endswith(host.how)


@pytest.mark.parametrize("kind", ["netem", "toxiproxy"])
def test_links_that_pods_cannot_have_are_refused_where_they_are_written(
    tmp_path: Path, kind: str
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "version: 1\nname: x\nfleet:\n  kind: kubernetes\n"
        f"  links: {kind}\ntraining: {{learners: 2}}\nfaults: []\n"
    )
    with pytest.raises(AbilityError) as refused:
        prepare(Asked(plan=str(plan)))
    assert refused.value.key == "fleet.links"
    assert refused.value.where.startswith(f"{plan}:5:")
