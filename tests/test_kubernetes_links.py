"""Links through a proxy in a pod of a real cluster: what they carry, a whole run, and their end."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from chaoslab.core.payloads import LinkCounted
from chaoslab.links.base import Links
from chaoslab.links.effects import Bandwidth, Latency, Refuse
from chaoslab.links.proxied.http_api import Way
from chaoslab.undo.base import NoUndoLog, UndoLog
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.cluster import CONTEXT, NAMESPACE, Cluster, cluster, image
from tests.contracts.fleet_kit import wait_until
from tests.contracts.link_kit import LinkKit
from tests.contracts.link_measures import BOTH, DOWN, UP, rate_mb_per_s, stage_of
from tests.contracts.link_stage import Upstream, dial, fastest_delay_s, is_open
from tests.whole_runs import passed

from chaoslab.fleet.kubernetes.resources import JOBS, PODS  # isort: skip  # after lightkube, see tests.cluster
from chaoslab.fleet.kubernetes.manifests import PodSettings  # isort: skip
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster  # isort: skip
from chaoslab.fleet.kubernetes.proxy_host import PodProxyHost  # isort: skip
from chaoslab.fleet.kubernetes.proxy_links import PodLinks  # isort: skip
from chaoslab.fleet.kubernetes.run_objects import RunObjects, remains  # isort: skip
from chaoslab.fleet.run_name import run_name  # isort: skip
from chaoslab.undo.actions import leftovers, undo  # isort: skip

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
THIS_MACHINE = "10.231.0.1"
"""Where pods of the test cluster reach it: the address of their bridge."""
PLAN = f"""
version: 1
name: pod-links
seed: 3
fleet:
  {{kind: kubernetes, context: {CONTEXT}, namespace: {NAMESPACE}, image_pull: Never, disk: 10MB}}
training: {{learners: 2, model: nano, suspect_after: 2s, drop_after: 5s, stop: {{rounds: 90}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
twin: false
limits: {{min_alive: 0, max_affected: 100%, timeout: 10m}}
faults:
  - {{id: far, fault: network.latency, mean: 200ms, target: {{learners: [learner-1]}},
     at: {{round: 24}}, for: 8s}}
  - {{id: split, fault: network.partition, target: {{learners: [learner-0]}},
     at: {{after: far, offset: 3s}}, for: 8s}}
expect:
  - {{check: participation, min_share: 5%}}  # a pod gets what the other tests leave of the cores
  - {{check: rejoin, within: 60s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: agreement}}
  - {{check: versions}}
  - {{check: cleanup}}
"""


def test_a_far_link_and_a_partition_between_pods_are_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(monkeypatch) as here:
        ran = passed(PLAN, tmp_path)
        assert remains(here, run_name(ran.record)) == ()
    assert ran.statuses == ["proved", "proved"]
    counted = [event.payload for event in ran.history.of(LinkCounted)]
    assert {one.link for one in counted} == {"learner-0", "learner-1"}
    assert not open_undos(ran.record)


# ---------------------------------------------------------------- without a training


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with cluster(monkeypatch) as found:
        yield found


@pytest.fixture
def directory(here: Cluster, tmp_path: Path) -> Iterator[Path]:
    """Directory of a run whose owner Job is there; nothing of it is afterwards."""
    objects = RunObjects(here, tmp_path, NoUndoLog(), settings(), lease_s=60.0)
    objects.open()
    yield tmp_path
    objects.close()
    assert remains(here, run_name(tmp_path)) == ()


def settings() -> PodSettings:
    return PodSettings(image=image(), pull="Never")


def links_of(run_directory: Path, undo_log: UndoLog) -> PodLinks:
    def connect() -> ForwardingCluster:
        return ForwardingCluster.connect(CONTEXT, NAMESPACE)

    proxy_host = PodProxyHost(run_directory, connect, settings, start_s=60.0)
    return PodLinks(run_directory, undo_log=undo_log, seed=1, proxy_host=proxy_host)


def end_the_proxy(here: Cluster, run_directory: Path) -> None:
    selector = f"job-name=chaoslab-{run_name(run_directory)}-proxy"
    (pod,) = here.list(PODS, selector)[0]
    here.delete(PODS, pod["metadata"]["name"], is_forced=True)


def test_links_by_a_pod_are_shaped_healed_by_others_and_missed(
    here: Cluster, directory: Path
) -> None:
    with ExitStack() as stack:
        undo_log = stack.enter_context(UndoLogFile(directory))
        links = stack.enter_context(links_of(directory, undo_log))
        upstream = stack.enter_context(closing(Upstream(THIS_MACHINE)))
        stage = stage_of(links, upstream)
        pair = stage.connect()
        stage.link.shape("injection-0", DOWN, Bandwidth(rate_bytes_per_s=2e6))
        stage.link.shape("injection-1", UP, Latency(mean_s=0.2))
        # a busy machine is slower still
        assert rate_mb_per_s(pair, way=DOWN, size=1_000_000) < 2.4
        assert fastest_delay_s(pair, UP) > 0.19
        counters = stage.link.counters()
        assert (counters.connections, counters.opened) == (1, 1)
        assert (counters.down_bytes or 0) >= 1_000_000
        # another process undoes its open entries, as if this one were dead
        stage.link.shape("injection-2", BOTH, Refuse())
        with pytest.raises(ConnectionRefusedError):
            dial(stage.link.address)
        entries = open_undos(directory)
        assert [one.do for one in entries] == [
            "clear_pod_effects", "clear_pod_effects", "enable_pod_proxy",
        ]  # fmt: skip
        assert all(map(leftovers, entries))
        assert [undo(one).remaining for one in entries] == [(), (), ()]
        assert not any(map(leftovers, entries))
        assert is_open(stage.connect())
        # what somebody else did to the links is told, and so is the end of the proxy
        assert links.troubles()
        end_the_proxy(here, directory)
        wait_until(lambda: any("carries no link any more" in one for one in links.troubles()))
        assert [undo(one).remaining for one in entries] == [(), (), ()]
    assert not here.list(JOBS, f"chaoslab/run={run_name(directory)},!chaoslab/node")[0][1:]


@pytest.mark.soak
class TestPodLinks(LinkKit):
    @pytest.fixture
    def host(self) -> str:
        return THIS_MACHINE

    @pytest.fixture
    def links(self, here: Cluster, directory: Path) -> Iterator[PodLinks]:
        self.here, self.directory = here, directory
        with links_of(directory, NoUndoLog()) as links:
            yield links

    def way_to_the_proxy(self, links: Links) -> Way:
        assert isinstance(links, PodLinks)
        pod, _, port = links.api.address.partition(":")
        return links.host.cluster.way(pod, int(port))

    def end_the_proxy(self, links: Links) -> None:
        assert isinstance(links, PodLinks)
        end_the_proxy(self.here, self.directory)
        wait_until(lambda: bool(links.host.ended()))
