"""NetworkChaos objects: what effects become, and how a link follows what Chaos Mesh says of them.

The server here only answers; that Chaos Mesh does what it says is tested in a real cluster, by
`tests/test_kubernetes_chaos_mesh.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.fleet.base import Ability
from chaoslab.fleet.kubernetes import chaos_mesh_links
from chaoslab.fleet.kubernetes.chaos_mesh_links import (
    ChaosMeshLink,
    ChaosMeshLinks,
    remove,
)
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.network_chaos import (
    EffectKey,
    NetworkChaosManifests,
    is_injected,
    state_of,
)
from chaoslab.fleet.kubernetes.refusals import Missing, Refused
from chaoslab.fleet.kubernetes.resources import (
    JOBS,
    NETWORK_CHAOS,
    POD_NETWORK_CHAOS,
    PODS,
    Resource,
)
from chaoslab.fleet.run_name import run_name
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Corrupt,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    Latency,
    Loss,
    Refuse,
    Reorder,
)
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.undo.log import UndoLogFile, open_undos

UP, DOWN, BOTH = Direction.UP, Direction.DOWN, Direction.BOTH


# ---------------------------------------------------------------- manifests


@pytest.fixture
def manifests() -> NetworkChaosManifests:
    return NetworkChaosManifests(
        run="3fa9c2e1b0", directory="/runs/x", settings=PodSettings(image=""), owner="uid-1",
        namespace="chaos",
    )  # fmt: skip


def specs(
    manifests: NetworkChaosManifests, *effects: tuple[Direction, Effect]
) -> Mapping[str, Any]:
    """Of a learner on which each injection has one effect; by the first two words of the part."""
    asked = {
        EffectKey(f"injection-{number}", "learner-0", way, effect.kind): effect
        for number, (way, effect) in enumerate(effects)
    }
    found = manifests.specs("10.231.1.7", asked)
    return {" ".join(part.split()[:2]): spec for part, spec in found.items()}


def test_an_object_belongs_to_the_run_and_goes_with_its_keeper(
    manifests: NetworkChaosManifests,
) -> None:
    (part, spec) = next(iter(specs(manifests, (UP, Freeze())).items()))
    made: Any = manifests.network_chaos(manifests.name_of(part, 3), spec)
    assert (made["apiVersion"], made["kind"]) == ("chaos-mesh.org/v1alpha1", "NetworkChaos")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("chaoslab-3fa9c2e1b0", "uid-1")
    assert made["metadata"]["labels"]["chaoslab/run"] == "3fa9c2e1b0"
    assert made["metadata"]["name"] == "chaoslab-3fa9c2e1b0-net-up-freeze-3"


def test_each_way_is_what_one_end_sends_to_the_other(manifests: NetworkChaosManifests) -> None:
    found = specs(manifests, (UP, Freeze()), (DOWN, Freeze()))
    up, down = found["up freeze"], found["down freeze"]

    def pods(node: str) -> Json:
        return {
            "namespaces": ["chaos"], "podPhaseSelectors": ["Running"],
            "labelSelectors": {"chaoslab/run": "3fa9c2e1b0"},
            "expressionSelectors": [
                {"key": "chaoslab/node", "operator": "In", "values": [node]}
            ],
        }  # fmt: skip

    assert up == {
        "action": "partition",
        "direction": "to",
        "mode": "all",
        "selector": pods("learner-0"),
        "target": {"mode": "all", "selector": pods("syncer")},
        "externalTargets": ["10.231.1.7"],
    }, "a learner dials the Service, whose address becomes that of a pod outside of its own network"
    assert down == {
        "action": "partition", "direction": "to", "mode": "all", "selector": pods("syncer"),
        "target": {"mode": "all", "selector": pods("learner-0")},
    }  # fmt: skip


def test_all_that_needs_a_queue_shares_one(manifests: NetworkChaosManifests) -> None:
    late, later = Latency(mean_s=0.2, jitter_s=0.03), Latency(mean_s=0.1, jitter_s=0.04)
    twice, slow = Duplicate(share=0.1), Bandwidth(rate_bytes_per_s=1e6)
    found = specs(
        manifests, (UP, late), (UP, later), (UP, twice), (UP, twice), (UP, Corrupt(share=0.005)),
        (UP, Bandwidth(rate_bytes_per_s=2e6)), (UP, slow),
        (DOWN, Reorder(share=0.25, delay_s=0.01)),
    )  # fmt: skip
    assert set(found) == {"up queue", "down queue"}
    up = found["up queue"]
    assert up["action"] == "netem"
    assert up["delay"] == {"latency": "300000us", "jitter": "50000us", "correlation": "0"}
    assert up["duplicate"] == {"duplicate": "19", "correlation": "0"}
    assert up["corrupt"] == {"corrupt": "0.5", "correlation": "0"}
    assert up["rate"] == {"rate": "1045580bps"}, "of frames: the stream has 1,000,000 B/s of it"
    assert found["down queue"]["delay"] == {
        "latency": "10000us", "jitter": "0us", "correlation": "0",
        "reorder": {"reorder": "25", "correlation": "0", "gap": 0},
    }  # fmt: skip


def test_a_rate_alone_is_a_bucket_with_a_short_queue(manifests: NetworkChaosManifests) -> None:
    found = specs(manifests, (DOWN, Bandwidth(rate_bytes_per_s=1e6)))["down queue"]
    assert found["action"] == "bandwidth"
    assert found["bandwidth"] == {"rate": "1045580bps", "limit": 261395, "buffer": 16384}


# ---------------------------------------------------------------- status


def with_status(*conditions: str, **experiment: Json) -> dict[str, Any]:
    """An object of which Chaos Mesh says `AllInjected=True` and so on."""
    told = [dict(zip(("type", "status"), one.split("="), strict=True)) for one in conditions]
    return {"metadata": {}, "status": {"conditions": told, "experiment": experiment}}


FAILED = {
    "id": "chaos/learner-0-x", "selectorKey": ".", "phase": "Not Injected/Wait",
    "events": [
        {"type": "Succeeded", "operation": "Apply"},
        {"type": "Failed", "operation": "Apply", "message": "exit status 2:\n  Specified qdisc"},
    ],
}  # fmt: skip


def test_only_the_whole_of_an_object_is_in_force() -> None:
    assert is_injected(with_status("Selected=True", "AllInjected=True"))
    assert not is_injected(with_status("Selected=True", "AllInjected=False"))
    assert not is_injected({"metadata": {}})
    ending = with_status("AllInjected=True")
    assert not is_injected({**ending, "metadata": {"deletionTimestamp": "2026-11-28T00:00:00Z"}})


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"metadata": {}}, "chaos-controller-manager"),
        (with_status("Selected=False", "AllInjected=False"), "no pod"),
        (
            with_status("Selected=True", "AllInjected=False", containerRecords=[FAILED]),
            "chaos/learner-0-x: exit status 2: Specified qdisc",
        ),
        (
            with_status("Selected=True", "AllInjected=False", containerRecords=[{"events": []}]),
            "AllInjected=False, Selected=True",
        ),
    ],
)
def test_the_status_says_why_an_object_is_not_in_force(
    found: Mapping[str, Json], says: str
) -> None:
    assert says in state_of(found)


# ---------------------------------------------------------------- links


class Server(Cluster):
    """A server that keeps objects, and says of each what it was told to say."""

    def __init__(self) -> None:
        self.server, self.context, self.namespace = "https://10.0.0.1:6443", "test", "chaos"
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.says: Callable[[], dict[str, Any]] = lambda: with_status("AllInjected=True")
        self.is_stuck = False
        """Whether nobody lets deleted objects go."""
        self.refuses: Exception | None = None
        self.rights = True
        self.phase = "Running"
        """Of every pod."""

    def close(self) -> None:
        """Nothing is open."""

    def may(
        self, verb: str, resource: str, group: str, below: str = "", *, everywhere: bool = False
    ) -> bool:
        assert (group, below, everywhere) == ("chaos-mesh.org", "", False)
        return self.rights or (resource, verb) != ("networkchaos", "delete")

    def create(self, manifest: Mapping[str, Any], *, is_trial: bool = False) -> Mapping[str, Json]:
        if self.refuses is not None:
            raise self.refuses
        if not is_trial:
            name = manifest["metadata"]["name"]
            self.calls.append(f"create {name}")
            self.objects[name] = {**manifest, **self.says()}
            self.objects[name]["metadata"] = dict(manifest["metadata"])
        return manifest

    def get(self, resource: Resource, name: str) -> Mapping[str, Json]:
        if resource is JOBS:
            return {"metadata": {"name": name, "uid": "uid-1"}}
        if resource is PODS:
            return {"status": {"phase": self.phase}}
        if name not in self.objects:
            raise Missing(f"no {name}")
        return self.objects[name]

    def list(
        self, resource: Resource, selector: str, *, in_full: bool = True
    ) -> tuple[Sequence[Mapping[str, Json]], str]:
        assert resource is NETWORK_CHAOS
        assert selector.startswith("chaoslab/run=")
        assert in_full
        return [*self.objects.values()], "1"

    def delete(
        self, resource: Resource, name: str, *, is_forced: bool = False, **only: str
    ) -> bool:
        assert (is_forced, only) == (False, {})
        if resource is POD_NETWORK_CHAOS:
            self.calls.append(f"forget {name}")
            self.objects = {}
            return True
        assert resource is NETWORK_CHAOS
        if name not in self.objects:
            return False
        self.calls.append(f"delete {name}")
        if self.is_stuck:
            self.objects[name]["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
            return True
        del self.objects[name]
        return True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    for deadline in ("_INJECTED_S", "_GONE_S", "_BEGUN_GONE_S", "_ALIVE_S", "_PAUSE_S"):
        monkeypatch.setattr(chaos_mesh_links, deadline, 0.0)
    return Server()


@pytest.fixture
def links(server: Server, tmp_path: Path) -> Iterator[ChaosMeshLinks]:
    with (
        UndoLogFile(tmp_path) as undo_log,
        ChaosMeshLinks(tmp_path, undo_log=undo_log, connect=lambda: server) as links,
    ):
        yield links


def link_of(links: ChaosMeshLinks) -> ChaosMeshLink:
    return links.create("learner-0", "10.231.1.7:4600")


def names(run: Path, *parts: str) -> list[str]:
    return [f"chaoslab-{run_name(run)}-net-{part}" for part in parts]


def test_a_learner_dials_the_syncer_itself(links: ChaosMeshLinks) -> None:
    assert link_of(links).address == "10.231.1.7:4600"
    with pytest.raises(FleetError, match="fd00::7"):
        links.create("learner-1", "[fd00::7]:4600")


def test_how_to_undo_is_written_down_before_and_settled_after(
    links: ChaosMeshLinks, server: Server, tmp_path: Path
) -> None:
    link, one = link_of(links), names(tmp_path, "up-freeze-1")[0]
    seen = []

    def says() -> dict[str, Any]:
        seen.append([owed.facts["chaos"] for owed in open_undos(tmp_path)])
        return with_status("AllInjected=True")

    server.says = says
    link.shape("injection-0", UP, Freeze())
    assert seen == [[one]]
    (owed,) = open_undos(tmp_path)
    assert (owed.do, owed.facts["namespace"]) == ("delete_network_chaos", "chaos")
    link.clear("injection-0")
    assert server.calls == [f"create {one}", f"delete {one}"]
    assert not open_undos(tmp_path)
    link.clear("injection-0")
    assert len(server.calls) == 2


def test_another_strength_replaces_the_object_before_the_old_one_goes(
    links: ChaosMeshLinks, server: Server, tmp_path: Path
) -> None:
    link = link_of(links)
    first, second, third = names(tmp_path, "up-queue-1", "up-queue-2", "up-queue-3")
    link.shape("injection-0", UP, Latency(mean_s=0.1))
    link.shape("injection-1", UP, Bandwidth(rate_bytes_per_s=1e6))
    link.shape("injection-1", UP, Bandwidth(rate_bytes_per_s=1e6))  # it holds already
    link.clear("injection-0")
    assert server.calls == [
        f"create {first}", f"create {second}", f"delete {first}", f"create {third}",
        f"delete {second}",
    ]  # fmt: skip
    assert server.objects[third]["spec"]["action"] == "bandwidth"


def test_links_that_are_told_beforehand_share_their_objects(
    links: ChaosMeshLinks, server: Server, tmp_path: Path
) -> None:
    pair = [link_of(links), link_of_another(links)]
    for link in pair:
        link.foretell("injection-0", BOTH, Freeze())
    assert not server.calls
    for link in pair:
        link.shape("injection-0", BOTH, Freeze())
    both = names(tmp_path, "up-freeze-1", "down-freeze-2")
    assert [*server.objects] == both
    (who,) = server.objects[both[0]]["spec"]["selector"]["expressionSelectors"]
    assert who["values"] == ["learner-0", "learner-1"]
    pair[0].shape("injection-1", UP, Latency(mean_s=0.1))
    for link in pair:
        link.foretell_end("injection-0")
    for link in pair:
        link.clear("injection-0")
    assert [*server.objects] == names(tmp_path, "up-queue-3")
    assert len(server.calls) == 5


def test_an_injection_that_fails_on_one_link_is_asked_of_no_other(
    links: ChaosMeshLinks, server: Server
) -> None:
    pair = [link_of(links), link_of_another(links)]
    for link in pair:
        link.foretell("injection-0", BOTH, Freeze())
    server.says = dict
    with pytest.raises(FleetError, match="NetworkChaos"):
        pair[0].shape("injection-0", BOTH, Freeze())
    server.says = lambda: with_status("AllInjected=True")
    pair[1].shape("injection-1", UP, Latency(mean_s=0.1))
    assert [one["spec"]["action"] for one in server.objects.values()] == ["netem"]


def test_two_injections_that_freeze_a_link_never_heal_each_other(
    links: ChaosMeshLinks, server: Server
) -> None:
    link = link_of(links)
    link.shape("injection-0", BOTH, Freeze())
    link.shape("injection-1", BOTH, Freeze())
    assert len(server.objects) == 4
    link.clear("injection-0")
    assert len(server.objects) == 2
    link.clear("injection-1")
    assert not server.objects


def test_what_is_not_in_force_in_time_is_an_error_and_is_deleted(
    links: ChaosMeshLinks, server: Server, tmp_path: Path
) -> None:
    link = link_of(links)
    link.shape("injection-0", UP, Latency(mean_s=0.1))
    server.says = lambda: with_status("Selected=True", containerRecords=[FAILED])
    with pytest.raises(FleetError, match="chaos/learner-0-x: exit status 2"):
        link.shape("injection-1", BOTH, Freeze())
    assert [*server.objects] == names(tmp_path, "up-queue-1"), "what held before goes on"
    link.clear("injection-1")
    link.clear("injection-0")
    assert not server.objects
    assert not open_undos(tmp_path)


def test_what_is_not_taken_back_is_an_error_and_stays_owed(
    links: ChaosMeshLinks, server: Server, tmp_path: Path
) -> None:
    link = link_of(links)
    link.shape("injection-0", UP, Freeze())
    server.is_stuck = True
    for _ in range(2):
        with pytest.raises(FleetError, match=names(tmp_path, "up-freeze-1")[0]):
            link.clear("injection-0")
    assert len(open_undos(tmp_path)) == 1
    server.is_stuck = False
    link.clear("injection-0")
    assert not open_undos(tmp_path)


def test_what_chaos_mesh_keeps_of_a_pod_that_has_ended_is_forgotten(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_mesh_links, "_ALIVE_S", -1.0)
    record = {"id": "chaos/learner-0-x", "phase": "Injected/Wait", "events": []}
    back = {"id": "chaos/syncer-x", "phase": "Not Injected", "events": []}
    server.is_stuck = True
    server.objects["x"] = with_status("AllInjected=False", containerRecords=[record, back])
    with pytest.raises(FleetError, match="x"):
        remove(server, ["x"], within_s=0.01)
    server.phase = "Failed"
    assert remove(server, ["x", "y"], within_s=10.0) == ("x",)
    assert "forget learner-0-x" in server.calls
    assert "forget syncer-x" not in server.calls


def test_an_object_that_somebody_else_takes_away_is_missed(
    links: ChaosMeshLinks, server: Server, tmp_path: Path
) -> None:
    link = link_of(links)
    assert not links.troubles()
    link.shape("injection-0", UP, Freeze())
    assert not links.troubles()
    (one,) = names(tmp_path, "up-freeze-1")
    for change in ({"status": {}}, {"metadata": {"name": one, "deletionTimestamp": "x"}}):
        server.objects[one] |= change
        links._look_s = 0.0
        assert one in links.troubles()[0]
    server.objects.clear()
    links._look_s = 0.0
    (said,) = links.troubles()
    assert one in said


def test_leaving_takes_away_what_is_left(server: Server, tmp_path: Path) -> None:
    with (
        UndoLogFile(tmp_path) as undo_log,
        ChaosMeshLinks(tmp_path, undo_log=undo_log, connect=lambda: server) as links,
    ):
        link_of(links).shape("injection-0", BOTH, Freeze())
    assert not server.objects
    assert not open_undos(tmp_path)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("effect", "instead"),
    [
        (Loss(share=0.1), "loss"), (Blackhole(), "network.freeze"), (Refuse(), "links: embedded"),
    ],
)  # fmt: skip
def test_what_network_chaos_cannot_express_is_refused(
    links: ChaosMeshLinks, effect: Effect, instead: str
) -> None:
    with pytest.raises(AbilityError, match=instead):
        link_of(links).shape("injection-0", BOTH, effect)
    with pytest.raises(PlanError, match="up"):
        link_of_another(links).shape("injection-0", UP, Refuse())


def link_of_another(links: ChaosMeshLinks) -> ChaosMeshLink:
    return links.create("learner-1", "10.231.1.7:4600")


PLAN = """
version: 1
name: x
fleet:
  kind: kubernetes
  namespace: chaos
  image: node
  links: chaos-mesh
  regions: {eu: 2}
training: {learners: 2, model: nano}
faults: [{id: split, fault: network.partition, target: {learners: 1}, at: {time: 30s}, for: 8s}]
"""


def preflight(tmp_path: Path, server: Server, text: str = PLAN) -> None:
    """As `chaoslab plan` and a run do it, with a fleet that can everything."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(text)
    prepared = prepare(Asked(plan=str(plan)))
    assert prepared.links.ask().kind == "chaos-mesh"
    for_server = prepared.links.__class__(
        factory=lambda directory, *, undo_log: ChaosMeshLinks(
            directory, undo_log=undo_log, connect=lambda: server
        ),
        standing=prepared.links.standing,
    )
    able_fleet: Any = SimpleNamespace(kind="kubernetes", abilities=frozenset(Ability))
    refuse_impossible(prepared.plan, prepared.schedule, able_fleet, for_server)


def test_a_cluster_without_chaos_mesh_is_told_before_anything_starts(
    tmp_path: Path, server: Server
) -> None:
    preflight(tmp_path, server)
    server.refuses = Missing("the server could not find the requested resource")
    with pytest.raises(AbilityError, match="context test"):
        preflight(tmp_path, server)
    server.refuses = Refused("failed calling webhook: connection refused")
    with pytest.raises(AbilityError, match="controller-manager"):
        preflight(tmp_path, server)
    server.refuses, server.rights = None, False
    with pytest.raises(AbilityError, match="delete networkchaos"):
        preflight(tmp_path, server)


def test_profiles_of_regions_are_refused_for_they_hold_from_before_the_pods(
    tmp_path: Path, server: Server
) -> None:
    with pytest.raises(AbilityError, match=r"fleet\.profiles"):
        preflight(tmp_path, server, PLAN.replace("{eu: 2}", "{eu: 2}\n  profiles: {eu: cross-us}"))


def test_on_other_fleets_there_is_no_chaos_mesh(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace("kind: kubernetes", "kind: local").replace(
        "  namespace: chaos\n  image: node\n", ""))  # fmt: skip
    with pytest.raises(AbilityError, match=r"chaos-mesh"):
        prepare(Asked(plan=str(plan))).links.ask()
