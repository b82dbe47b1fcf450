"""What a fleet does with links: make them, report what is done to them, notice their loss."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.node_links import INITIAL, NodeLinks
from chaoslab.links.base import Remade
from chaoslab.links.effects import Direction, Freeze, Latency
from chaoslab.undo.base import NoUndoLog
from tests.fake_links import FakeLinks
from tests.virtual_clock import VirtualClock

UP = "127.0.0.1:5005"


@pytest.fixture
def links() -> FakeLinks:
    return FakeLinks()


@pytest.fixture
def node_links(links: FakeLinks) -> NodeLinks:
    return NodeLinks(clock=VirtualClock(), made_by=links)


def kinds(observed: list[Observation]) -> list[Kind]:
    return [observation.kind for observation in observed]


def test_without_links_a_node_dials_its_upstream_and_nothing_is_counted() -> None:
    node_links = NodeLinks(clock=VirtualClock())
    with node_links.made_by:
        assert node_links.create("learner-0", UP).address == UP
        node_links.count("learner-0")
        node_links.count("syncer")
    (started,) = node_links.observed()
    assert (started.kind, started.data["kind"]) == (Kind.LINK_STARTED, "none")


def test_what_is_done_to_a_link_is_reported_in_order(node_links: NodeLinks) -> None:
    node_links.create("learner-0", UP)
    link = node_links.links["learner-0"]
    link.shape("injection-3", Direction.UP, Latency(mean_s=0.2))
    node_links.count("learner-0")
    link.clear("injection-3")
    started, shaped, counted, cleared = node_links.observed()
    assert started.data["address"] == "127.0.0.1:9000"
    assert shaped.data == {
        "link": "learner-0",
        "injection": "injection-3",
        "direction": "up",
        "effect": "latency",
        "settings": {"mean_s": 0.2, "jitter_s": 0.0, "shape": "uniform"},
    }
    assert (counted.kind, counted.data["up_bytes"]) == (Kind.LINK_COUNTED, 10)
    assert (cleared.kind, cleared.data["injection"]) == (Kind.LINK_CLEARED, "injection-3")
    assert not node_links.observed()


def test_clearing_what_never_was_is_not_reported(node_links: NodeLinks) -> None:
    node_links.create("learner-0", UP).clear("injection-3")
    assert kinds(node_links.observed()) == [Kind.LINK_STARTED]


def test_an_initial_effect_is_on_the_link_before_anybody_dials(links: FakeLinks) -> None:
    effect = Latency(mean_s=0.04)
    initial_effects = {"learner-1": ((Direction.BOTH, effect),)}
    node_links = NodeLinks(clock=VirtualClock(), made_by=links, initial_effects=initial_effects)
    for name in ("learner-0", "learner-1"):
        node_links.create(name, UP)
    assert links.made["learner-1"].effects == {(INITIAL, Direction.BOTH, "latency"): effect}
    assert not links.made["learner-0"].effects


def test_a_loss_is_noticed_within_half_a_second_and_reported_once(links: FakeLinks) -> None:
    clock = VirtualClock()
    node_links = NodeLinks(clock=clock, made_by=links)
    node_links.create("learner-0", UP)
    node_links.observed()
    links.broken = "process 7 has ended with SIGKILL"
    clock.advance_to(0.4)
    assert not node_links.observed()
    clock.advance_to(0.6)
    (lost,) = node_links.observed()
    assert lost.kind is Kind.LINK_LOST
    assert lost.data == {"kind": "fake", "links": ("learner-0",), "reason": links.broken}
    clock.advance_to(2.0)
    assert not node_links.observed()


def test_a_link_that_was_made_anew_is_reported_with_the_streams_that_it_cost() -> None:
    links = StuckLinks()
    node_links = NodeLinks(clock=VirtualClock(), made_by=links)
    node_links.create("learner-0", UP)
    node_links.observed()
    links.told = [Remade(link="learner-0", streams=2, reason="no answer")]
    (remade,) = node_links.observed()
    assert remade.kind is Kind.LINK_REMADE
    assert remade.data == {"link": "learner-0", "streams": 2, "reason": "no answer"}


class StuckLinks(FakeLinks):
    """Links that had to be made anew."""

    told: Sequence[Remade] = ()

    def remade(self) -> Sequence[Remade]:
        return self.told


def test_on_lost_links_a_heal_has_nothing_to_undo_and_a_fault_cannot_be(
    node_links: NodeLinks, links: FakeLinks
) -> None:
    link = node_links.create("learner-0", UP)
    link.shape("injection-0", Direction.BOTH, Freeze())
    links.broken = "gone"
    link.clear("injection-0")
    node_links.count("learner-0")
    with pytest.raises(FleetError):
        link.shape("injection-1", Direction.BOTH, Freeze())
    assert kinds(node_links.observed()) == [
        Kind.LINK_STARTED,
        Kind.LINK_SHAPED,
        Kind.LINK_LOST,
        Kind.LINK_CLEARED,
    ]


def test_a_refusal_of_links_that_are_well_is_an_error(
    node_links: NodeLinks, links: FakeLinks
) -> None:
    link = node_links.create("learner-0", UP)
    link.shape("injection-0", Direction.BOTH, Freeze())

    def refuse() -> None:
        raise FleetError("not now")

    links.answer = refuse  # type: ignore[method-assign]  # for once
    with pytest.raises(FleetError, match="not now"):
        link.clear("injection-0")
    with pytest.raises(FleetError, match="not now"):
        node_links.count("learner-0")


def test_entering_and_leaving_a_fleet_reach_what_carries_its_links(
    node_links: NodeLinks, links: FakeLinks, tmp_path: Path
) -> None:
    with LocalFleet(tmp_path, WallClock(), undo_log=NoUndoLog(), node_links=node_links):
        assert links.entered == 1
    assert links.entered == 0
