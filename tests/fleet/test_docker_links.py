"""Links that lie in containers keep the contract: a gateway's, and packets beside a proxy."""

import ipaddress
from collections.abc import Iterator
from contextlib import closing

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.links.base import Counters, Links
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Freeze,
    LinkAbility,
    Refuse,
    Reset,
)
from chaoslab.links.netem.links import ABILITIES, NetemLinks
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.links.proxied.http_api import Endpoint, call
from chaoslab.links.proxied.links import ProxiedLinks
from chaoslab.undo.base import NoUndoLog
from tests.contracts.link_kit import LinkKit
from tests.contracts.link_measures import BOTH, DOWN, UP, Stage, dropped_share, stage_of
from tests.contracts.link_stage import (
    Upstream,
    dial,
    how_it_ends,
    is_open,
    is_silent,
    read_exactly,
    transfer,
)
from tests.engine import IS_REQUIRED, LIMITS, Engine, base_here, engine_or_skip

from chaoslab.fleet.docker.images import images  # isort: skip  # after the engine, which may skip all this
from chaoslab.fleet.docker.run_resources import RunResources  # isort: skip
from chaoslab.fleet.docker.engine.engine import ContainerSpec  # isort: skip
from chaoslab.fleet.docker.gateway import ContainerGateway  # isort: skip
from chaoslab.fleet.docker.proxy import ContainerProxyHost  # isort: skip

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.docker]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """One that has the image of the tools."""
    with closing(engine_or_skip()) as engine:
        if engine.image_id(images.tools_image()) is None and not IS_REQUIRED:
            pytest.skip("the image of the tools is missing: chaoslab doctor images build")
        yield engine


@pytest.fixture(scope="module")
def run_resources(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunResources]:
    """A run's network, and nothing of it afterwards."""
    folder = tmp_path_factory.mktemp("run")
    run_resources = RunResources(
        engine=engine, run_directory=folder.resolve(), undo_log=NoUndoLog()
    )
    run_resources.open()
    yield run_resources
    run_resources.close()


@pytest.fixture(scope="module")
def host(run_resources: RunResources) -> str:
    """Where containers on it reach this machine."""
    return this_machine_on(run_resources.engine, run_resources.network)


def this_machine_on(engine: Engine, network: str) -> str:
    (found,) = engine._client.api.inspect_network(network)["IPAM"]["Config"]
    first = next(ipaddress.ip_network(found["Subnet"]).hosts())
    return str(found.get("Gateway", first))  # not told of a bridge that the engine has just made


@pytest.fixture
def gateway(run_resources: RunResources) -> ContainerGateway:
    return ContainerGateway(run_resources.run_directory, Engine.connect())


@pytest.fixture
def links(gateway: ContainerGateway) -> Iterator[NetemLinks]:
    with NetemLinks(gateway) as links:
        yield links


@pytest.fixture
def stage(links: NetemLinks, host: str) -> Iterator[Stage]:
    with closing(Upstream(host)) as upstream:
        yield stage_of(links, upstream)


# ---------------------------------------------------------------- a gateway


@pytest.mark.soak
class TestNetemLinks(LinkKit):
    @pytest.fixture
    def host(self, host: str) -> str:
        return host

    @pytest.fixture
    def links(self, links: NetemLinks) -> NetemLinks:
        return links

    def end_the_proxy(self, links: Links) -> None:
        assert isinstance(links, NetemLinks)
        links.gateway.close()


@pytest.mark.gate
def test_a_gateway_holds_refuses_and_breaks_off_what_it_forwards(stage: Stage) -> None:
    pair = stage.connect()
    assert is_open(pair)
    stage.link.shape("injection-0", UP, Freeze())
    pair.learner.sendall(b"later")
    assert is_silent(pair.syncer)
    assert transfer(pair, DOWN, 100_000).size == 100_000
    stage.link.clear("injection-0")
    assert read_exactly(pair.syncer, 5) == b"later"
    stage.link.shape("injection-1", BOTH, Blackhole())
    pair.syncer.sendall(b"never")
    assert is_silent(pair.learner)
    stage.link.clear("injection-1")
    assert [how_it_ends(end) for end in (pair.learner, pair.syncer)] == ["reset", "reset"]
    other = stage.connect()
    stage.link.shape("injection-2", BOTH, Refuse())
    assert [how_it_ends(end) for end in (other.learner, other.syncer)] == ["reset", "reset"]
    with pytest.raises(ConnectionRefusedError):
        dial(stage.link.address)
    stage.link.clear("injection-2")
    last = stage.connect()
    assert stage.link.counters().connections == 1
    stage.link.shape("injection-3", BOTH, Reset())
    assert [how_it_ends(end) for end in (last.learner, last.syncer)] == ["reset", "reset"]
    assert stage.link.counters() == Counters(
        up_bytes=None, down_bytes=None, connections=0, opened=3
    )
    assert not stage.links.troubles()


def test_what_somebody_else_does_to_a_gateway_is_noticed(stage: Stage) -> None:
    assert isinstance(stage.links, NetemLinks)
    stage.link.shape("injection-0", UP, Bandwidth(rate_bytes_per_s=1e6))
    assert not stage.links.troubles()
    stage.links.gateway.run("iptables", "-t", "mangle", "-F")
    assert ["gateway" in trouble for trouble in stage.links.troubles()] == [True]


# ---------------------------------------------------------------- packets


SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("embedded", UP),
        ("embedded", DOWN),
        ("netem", DOWN),
        pytest.param("netem", UP, marks=SOAK),
        pytest.param("toxiproxy", UP, marks=SOAK),
        pytest.param("toxiproxy", DOWN, marks=SOAK),
    ],
)
def test_lost_packets_are_counted_and_sent_again(
    run_resources: RunResources, host: str, kind: str, way: Direction
) -> None:
    with closing(Upstream(host)) as upstream, links_of(kind, run_resources) as links:
        stage = stage_of(links, upstream)
        share, is_whole = dropped_share(stage, way, 0.1, size=20_000_000)
        assert is_whole
        assert 0.04 < share < 0.2
        assert not links.troubles()


def test_what_a_kernel_can_do_is_known_before_anything_is_started(
    run_resources: RunResources,
) -> None:
    before = run_resources.engine.names(run_resources.own)
    beside, netem = links_of("embedded", run_resources), links_of("netem", run_resources)
    assert LinkAbility.LOSS in beside.abilities & netem.abilities
    assert LinkAbility.DUPLICATE not in beside.abilities
    assert "netem" in beside.why_not(LinkAbility.DUPLICATE)
    assert all(netem.why_not(ability) for ability in ABILITIES - netem.abilities)
    assert run_resources.engine.names(run_resources.own) == before


# ---------------------------------------------------------------- control

_ASKING = """
import urllib.request, urllib.error
for port in (8474, 8475):
    try:
        print(urllib.request.urlopen(f"http://proxy:{port}/proxies", timeout=10).read())
    except urllib.error.HTTPError as error:
        print(error.code)
    except urllib.error.URLError as error:
        print(type(error.reason).__name__)
"""


@pytest.mark.parametrize("kind", ["toxiproxy", "embedded"])
def test_no_node_of_the_run_changes_links(run_resources: RunResources, kind: str) -> None:
    engine = run_resources.engine
    with closing(ContainerProxyHost(run_resources.run_directory, Engine.connect())) as proxy_host:
        api = proxy_host.open(kind)
        assert call(api, "GET", "/proxies") == {}
        with pytest.raises(FleetError):
            call(Endpoint(address=api.address), "GET", "/proxies")
        node = ContainerSpec(
            name=run_resources.helper("learner-0", "asks"), image=base_here(engine),
            command=("python3", "-S", "-c", _ASKING), limits=LIMITS,
            network=run_resources.network, labels=run_resources.labels,
        )  # fmt: skip
        assert " ".join(engine.run(node, 60.0).split()) == "401 ConnectionRefusedError"
        assert not proxy_host.ended()
    assert not [one for one in engine.names(run_resources.own) if "proxy" in one]


def test_a_restarted_server_is_behind_the_same_gate(run_resources: RunResources) -> None:
    with closing(ContainerProxyHost(run_resources.run_directory, Engine.connect())) as proxy_host:
        api = proxy_host.open("toxiproxy")
        call(api, "POST", "/proxies", {"name": "learner-0", "upstream": "127.0.0.1:9"})
        proxy_host.restart()
        assert call(api, "GET", "/proxies") == {}
        assert not proxy_host.ended()


def links_of(kind: str, run_resources: RunResources) -> NetemLinks | ProxiedLinks:
    directory, engine = run_resources.run_directory, Engine.connect()
    if kind == "netem":
        return NetemLinks(ContainerGateway(directory, engine))
    proxy_host = ContainerProxyHost(directory, engine)
    if kind == "embedded":
        return EmbeddedLinks(directory, proxy_host=proxy_host)
    from chaoslab.links.toxiproxy.links import ToxiproxyLinks  # noqa: PLC0415 - an optional extra

    return ToxiproxyLinks(directory, proxy_host=proxy_host)
