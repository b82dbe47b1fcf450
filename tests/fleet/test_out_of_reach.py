"""Hosts that fall silent or are gone: no verb waits for them for long, and none of them ends a run.

The agents are fakes in this process, so that a host goes at the very moment that a test names, and
the clock of their connections goes forward at a test's word.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.base import Hosts
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.protocols import Pausable, SliceAct, able
from chaoslab.fleet.remote import client, contact
from chaoslab.fleet.remote.contact import OutOfReach, Terms
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.links import AgentLinks, AgentProxyHost
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.tpu.fleet import TpuVmFleet
from chaoslab.links.proxied import embedded
from chaoslab.links.proxied import links as proxied_links
from tests.contracts.fleet_kit import wait_until
from tests.fleet.fake_agents import FakeHost, fake_ground
from tests.fleet.local_stage import Remembered
from tests.fleet.test_local import learner
from tests.fleet.tpu.fake_provider import FakeProvider

EVER_S = 1e6
SOON = Terms(lease_s=EVER_S, lost_s=EVER_S, answer_s=0.1)
"""Calls are given up at once, and no host is lost during a test by itself."""
PATIENT = Terms(lease_s=EVER_S, lost_s=EVER_S, answer_s=EVER_S)
NODE = "learner-0"
_PACE_S = 0.1


class Far:
    """A fleet of fake hosts, of which the first has the node."""

    def __init__(self, fleet: RemoteFleet, hosts: list[FakeHost]) -> None:
        self.fleet, self.hosts = fleet, hosts
        self.seen: list[Observation] = []
        self._ahead_s = 0.0

    def now_s(self) -> float:
        """By the clock of the connections, which goes ahead of the machine's."""
        return time.monotonic() + self._ahead_s

    def pass_by(self, seconds: float) -> None:
        """Let so much time go by for all connections, in which everybody is awake."""

        async def pace() -> None:
            for _ in range(round(seconds / _PACE_S)):
                self._ahead_s += _PACE_S
                await asyncio.sleep(0.001)

        self.fleet.ground.loop.run(pace(), within_s=60.0)

    def stand_still(self, seconds: float) -> None:
        """Let so much time go by in which nobody here does anything; to be called on the loop."""
        self._ahead_s += seconds

    @property
    def host(self) -> FakeHost:
        return self.hosts[0]

    def on_loop(self, work: Callable[[], Any]) -> None:
        async def now() -> None:
            work()

        self.fleet.ground.loop.run(now(), within_s=60.0)

    def lose(self, host: FakeHost) -> None:
        """Switch it off for ever, and wait until the fleet knows."""
        self.on_loop(host.switch_off)
        self.fleet.lost(NODE, "its plug was pulled")
        wait_until(lambda: self.exited)

    @property
    def exited(self) -> bool:
        return Kind.NODE_EXITED in self.kinds

    @property
    def kinds(self) -> set[Kind]:
        """Of all that was seen until now."""
        self.seen += self.fleet.poll(self.fleet._clock.now_s())
        return {one.kind for one in self.seen}


Make = Callable[..., Far]


@pytest.fixture
def make(tmp_path: Path, undo_log: Remembered, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    with ExitStack() as stack:

        def one(
            count: int = 1,
            terms: Terms = SOON,
            kind: type[RemoteFleet] = RemoteFleet,
            spare: int = 0,
        ) -> Far:
            hosts = [FakeHost(f"host-{number}") for number in range(count + spare)]
            place = {NODE: [host.name for host in hosts[:count]]}
            ground = fake_ground(hosts, terms, place)
            fleet = kind(
                Place(run_directory=tmp_path, clock=WallClock(), undo_log=undo_log),
                ground,
                kind="ssh",
            )
            if isinstance(fleet, TpuVmFleet):
                fleet.look_s = 0.05
                fleet.use_slices(FakeProvider(), no_delivery)
            far = Far(fleet, hosts)
            for module in (client, contact):
                monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=far.now_s))
            monkeypatch.setattr(ground.loop._loop, "time", far.now_s)
            stack.enter_context(fleet)
            spec = learner(NODE)
            if count > 1:
                spec = replace(spec, hosts=Hosts(count=count, flags=(), secret="SHARED"))
            fleet.start(spec)
            stack.callback(_be_heard, hosts)
            return far

        yield one


def _be_heard(hosts: list[FakeHost]) -> None:
    """The end of the test waits for no silence."""
    for host in hosts:
        host.is_mute = False


async def no_delivery(name: str, hosts: Sequence[HostAddress]) -> None:
    """The hosts have all they need."""


def test_a_node_on_a_silent_host_is_in_an_unknown_state_and_no_fault_is_waited_for(
    make: Make,
) -> None:
    far = make()
    assert far.fleet.probe(NODE).data["state"] == "S"
    far.host.is_mute = True
    assert far.fleet.probe(NODE).data["state"] == "unknown"
    with pytest.raises(OutOfReach, match="host-0"):
        able(far.fleet, Pausable).pause(NODE)
    far.host.is_mute = False
    wait_until(lambda: far.fleet.probe(NODE).data["state"] == "S")


def test_a_silence_over_a_connection_that_does_not_break_is_noted_with_its_host(make: Make) -> None:
    """As a network does that drops packets for a while: what was said meanwhile is stamped late."""
    far = make(terms=Terms())
    agent = _host(far, "host-0").agent
    far.host.is_mute = True
    far.pass_by(3.0)
    far.host.is_mute = False
    far.pass_by(1.0)
    wait_until(lambda: Kind.HARNESS_STALLED in far.kinds)
    (noted,) = [one for one in far.seen if one.kind is Kind.HARNESS_STALLED]
    assert noted.data["host"] == "host-0"
    assert noted.data["silent_s"] >= 2.0
    assert agent.cuts == 0


def test_a_harness_that_stalled_notes_no_silence_of_its_hosts(make: Make) -> None:
    far = make(terms=Terms())
    far.on_loop(lambda: far.stand_still(2.0))
    assert far.fleet.probe(NODE).data["state"] == "S"
    far.pass_by(2.0)
    assert Kind.HARNESS_STALLED not in far.kinds


@pytest.mark.parametrize("verb", ["probe", "kill"])
def test_what_is_harmless_is_done_although_the_host_is_lost_meanwhile(
    make: Make, verb: str
) -> None:
    far = make(terms=Terms(lost_s=0.3, answer_s=60.0))
    far.on_loop(far.host.switch_off)
    seen = getattr(far.fleet, verb)(NODE)
    assert seen is None or seen.data["state"] == "gone"
    wait_until(lambda: far.exited)


def test_a_slice_that_is_gone_before_the_provider_says_so_ends_no_probe_with_an_error(
    make: Make,
) -> None:
    """The provider is asked every few seconds: its last word is still `up`."""
    far = make(kind=TpuVmFleet)
    far.on_loop(far.host.switch_off)
    assert far.fleet.probe(NODE).data["state"] == "unknown"
    far.lose(far.host)
    assert far.fleet.probe(NODE).data["state"] == "gone"


def test_an_agent_is_started_again_while_the_fleet_is_used(make: Make) -> None:
    """A host that takes long to come back holds nobody up."""
    far = make()
    far.lose(far.host)
    with pytest.raises(FleetError, match="is being started again"):
        far.fleet.restart(NODE)
    wait_until(lambda: _refusal(far) == "host-0: no way leads there")
    far.on_loop(far.host.may_start.clear)
    far.host.is_off = False
    wait_until(lambda: "is being started again" in _refusal(far))
    began = far.host.started
    assert "is being started again" in _refusal(far)
    far.on_loop(far.host.may_start.set)
    wait_until(lambda: not _refusal(far))
    assert far.host.started == began + 1, "each attempt was waited for"
    assert (far.fleet.nodes[NODE].incarnation, far.fleet.nodes[NODE].is_alive) == (2, True)


def _refusal(far: Far) -> str:
    """Why the node cannot be restarted; empty if it can."""
    try:
        far.fleet.restart(NODE)
    except FleetError as error:
        return str(error)
    return ""


def test_the_rest_of_a_node_is_killed_later_where_a_host_is_silent(make: Make) -> None:
    """One of its processes has ended; that of the silent host cannot be told."""
    far = make(count=2)
    far.hosts[1].is_mute = True
    far.fleet._placed[NODE].exits_of_host(_host(far, "host-0"), "lost", far.fleet._clock.now_s())
    far.fleet.poll(far.fleet._clock.now_s())
    assert "kill" not in far.hosts[1].calls
    assert far.fleet.nodes[NODE].is_alive


def _host(far: Far, name: str) -> Any:
    return far.fleet.ground.hosts[name]


def test_what_may_be_left_on_a_host_that_is_gone_keeps_its_entry_and_is_no_error(
    make: Make, undo_log: Remembered
) -> None:
    far = make()
    far.lose(far.host)
    far.fleet.__exit__(None, None, None)
    assert not undo_log.closed


def test_no_entry_stays_open_for_a_slice_that_the_provider_has_taken(
    make: Make, undo_log: Remembered
) -> None:
    far = make(kind=TpuVmFleet)
    assert isinstance(far.fleet, TpuVmFleet)
    far.fleet.act_on_slices(SliceAct.TAKE, NODE)
    far.on_loop(far.host.switch_off)
    wait_until(lambda: far.exited)
    far.fleet.__exit__(None, None, None)
    assert sorted(undo_log.closed) == [0]


def test_a_node_that_moves_leaves_a_host_that_is_only_silent(
    make: Make, undo_log: Remembered
) -> None:
    """Its slice was replaced sooner than the old host counted as lost."""
    far = make(spare=1)
    far.host.is_mute = True
    far.fleet._placed[NODE].node = replace(far.fleet.nodes[NODE], is_alive=False)
    far.fleet.rehost(NODE, [HostAddress(address="host-1")])
    assert (far.fleet.hosts_of(NODE), [*far.fleet.ground.hosts]) == (["host-1"], ["host-1"])
    assert sorted(undo_log.closed) == [0]
    assert far.fleet.restart(NODE).incarnation == 2


def test_a_harness_that_stalled_for_a_lease_has_ended_its_nodes_itself(make: Make) -> None:
    """Its agents were gone before it went on: what they had is not lost by the outside world."""
    far = make(terms=Terms(lease_s=30.0, lost_s=EVER_S))

    def stand_still() -> None:
        far.stand_still(31.0)
        far.host.switch_off()

    far.on_loop(stand_still)
    wait_until(lambda: far.exited)
    (exited,) = [one for one in far.seen if one.kind is Kind.NODE_EXITED]
    assert exited.data["lease_over"] is True


def links_of(far: Far, undo_log: Remembered) -> AgentLinks:
    at = AgentProxyHost(_host(far, "host-0"), far.fleet.ground.loop)
    return AgentLinks(at, Path(), undo_log=undo_log, seed=0)


def test_a_call_of_a_proxy_ends_when_its_host_falls_silent(
    make: Make, undo_log: Remembered
) -> None:
    """As other calls do, and not when nobody has answered for as long as a proxy may take."""
    far = make()
    with socket.create_server(("127.0.0.1", 0)) as proxy_that_is_silent:
        far.host.proxy = f"127.0.0.1:{proxy_that_is_silent.getsockname()[1]}"
        with links_of(far, undo_log) as links:
            far.host.is_mute = True
            with pytest.raises(OutOfReach, match="host-0"):
                links._open_client().switch("learner-0", is_on=False)
            assert links.confirmed_troubles() == [], "nobody knows how its links are"


@pytest.mark.parametrize(("unanswered", "is_told"), [(1, False), (2, True)])
def test_a_proxy_counts_as_broken_when_it_does_not_answer_twice(
    make: Make,
    undo_log: Remembered,
    monkeypatch: pytest.MonkeyPatch,
    unanswered: int,
    is_told: bool,
) -> None:
    """Its host may have been silent during the first look, too shortly to be noticed."""
    calls: list[str] = []

    def call(_: object, method: str, path: str, *__: object, **___: object) -> Json:
        calls.append(f"{method} {path}")
        if len(calls) <= unanswered:
            raise FleetError("the proxy does not answer")
        return {}

    monkeypatch.setattr(embedded, "call", call)
    monkeypatch.setattr(proxied_links, "_ENDED_S", 0.0)
    far = make(terms=PATIENT)
    far.host.proxy = "127.0.0.1:1"
    with links_of(far, undo_log) as links:
        told = links.confirmed_troubles()
    assert ["host-0" in one for one in told] == [True] * is_told
    assert len(calls) == 2
