"""A training on several hosts that runs already: which node is where, and found again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.attached.found import Found, of_script
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.remote.adopting import AdoptingFleet, Search
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.settings import Reading
from chaoslab.trainers.reading import OWN_LINES
from tests.fleet.fake_agents import FakeHost, fake_ground
from tests.fleet.local_stage import Remembered
from tests.waiting import wait_until

READING = Reading(patterns=OWN_LINES, is_elsewhere=False, restarts="supervisor")


def process(pid: int, rank: int | None = None) -> Found:
    return replace(of_script("worker-0", f"process {pid}: train", str(pid)), rank=rank)


class Far:
    """A fleet that was entered, on fake hosts."""

    def __init__(self, fleet: AdoptingFleet, hosts: list[FakeHost]) -> None:
        self.fleet, self.hosts = fleet, hosts

    @property
    def places(self) -> dict[str, list[str]]:
        """Hosts of each node."""
        return {name: self.fleet.hosts_of(name) for name in self.fleet.nodes}


Make = Callable[..., Far]


@pytest.fixture
def make(tmp_path: Path, undo_log: Remembered) -> Iterator[Make]:
    with ExitStack() as stack:

        def one(*there: Sequence[Found], learners: Sequence[str] = ()) -> Far:
            hosts = [FakeHost(f"host-{number}") for number in range(len(there))]
            for host, found in zip(hosts, there, strict=True):
                host.found = list(found)
            ground = fake_ground(hosts, Terms(), {host.name: [host.name] for host in hosts})
            fleet = AdoptingFleet(
                Place(run_directory=tmp_path, clock=WallClock(), undo_log=undo_log),
                ground,
                kind="hosts",
            )
            search = Search(pattern="train", hosts=len(hosts), learners=learners, reading=READING)
            fleet.use_search(search)
            return Far(stack.enter_context(fleet), hosts)

        yield one


def test_workers_on_several_hosts_are_numbered_by_their_ranks(make: Make) -> None:
    far = make([process(7, rank=1), process(8, rank=0)], [process(7, rank=2)])
    nodes = far.fleet.adopt({"worker-2": {"region": "eu"}})
    assert far.places == {"worker-0": ["host-0"], "worker-1": ["host-0"], "worker-2": ["host-1"]}
    assert all(node.is_alive and node.incarnation == 1 for node in nodes)
    far.fleet.kill("worker-2")
    assert [host.calls.count("signal") for host in far.hosts] == [0, 1]


def test_workers_without_ranks_are_numbered_in_the_order_of_their_hosts(make: Make) -> None:
    far = make([process(9)], [process(7), process(8)])
    far.fleet.adopt({})
    assert far.places == {"worker-0": ["host-0"], "worker-1": ["host-1"], "worker-2": ["host-1"]}


@pytest.mark.parametrize(
    "there",
    [
        ([process(7)], []),
        ([process(7, rank=0)], [process(7, rank=0)]),
        ([process(7, rank=0)], [process(7)]),
    ],
    ids=["nothing", "one rank twice", "a rank missing"],
)
def test_what_is_no_training_is_not_taken_up(make: Make, there: Sequence[Sequence[Found]]) -> None:
    far = make(*there)
    with pytest.raises(AbilityError):
        far.fleet.adopt({})
    assert not any("adopt" in host.calls for host in far.hosts)


def test_a_plan_for_another_number_of_workers_is_refused(make: Make) -> None:
    far = make([process(7)], [process(8)], learners=("worker-0",))
    with pytest.raises(AbilityError):
        far.fleet.adopt({})
    assert not any("adopt" in host.calls for host in far.hosts)


def test_nodes_of_a_lost_agent_are_found_again_once_it_is_back(make: Make) -> None:
    """They go on meanwhile: what is taken up then is their next life for the record."""
    far = make([process(7, rank=0)], [process(8, rank=2), process(9, rank=1)])
    far.fleet.adopt({})
    far.fleet.lost("worker-1", "its agent was killed")
    wait_until(lambda: not far.fleet.poll(0.0) and not far.fleet.nodes["worker-2"].is_alive)
    far.hosts[1].found = [process(9, rank=1)]

    def is_back() -> bool:
        try:
            return far.fleet.restart("worker-1").is_alive
        except FleetError:
            return False

    wait_until(lambda: far.hosts[1].calls.count("find") > 1 or is_back())
    assert not is_back(), "one of the two does not run"
    far.hosts[1].found.append(process(10, rank=2))
    wait_until(is_back)
    assert {name: node.incarnation for name, node in far.fleet.nodes.items()} == {
        "worker-0": 1, "worker-1": 2, "worker-2": 2,
    }  # fmt: skip
    assert far.places["worker-2"] == ["host-1"]
