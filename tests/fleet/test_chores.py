"""Chores of a fleet and verbs: what waits for what, and where errors are raised."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.fleet.chores import Chores
from chaoslab.fleet.node_links import NodeLinks
from tests.fake_links import FakeLinks
from tests.virtual_clock import VirtualClock


class Later:
    """Workers that begin only when they are told to."""

    def __init__(self, chores: Chores) -> None:
        self.works = list[tuple[Future[None], Callable[[], object]]]()
        chores.workers = self.keep

    def keep(self, _nodes: frozenset[str], work: Callable[[], object]) -> "Future[None]":
        self.works.append((Future(), work))
        return self.works[-1][0]

    def do_all(self) -> None:
        for done, work in self.works:
            try:
                work()
            except (FleetError, HarnessBug) as error:
                done.set_exception(error)
            else:
                done.set_result(None)
        self.works.clear()


@pytest.fixture
def chores() -> Chores:
    return Chores()


@pytest.fixture
def later(chores: Chores) -> Later:
    return Later(chores)


def test_without_workers_a_chore_is_done_in_place(chores: Chores) -> None:
    done = list[str]()
    chores.begin(["a"], lambda: done.append("a"))
    assert done == ["a"]
    assert not chores.busy


def test_a_chore_is_left_while_a_verb_or_a_chore_is_at_its_node(
    chores: Chores, later: Later
) -> None:
    done = list[str]()
    with chores.acting(["a", "b"]):
        chores.begin(["b", "c"], lambda: done.append("left"))
        chores.begin(["c"], lambda: done.append("c"))
    chores.begin(["c", "d"], lambda: done.append("left"))
    assert chores.busy == {"c"}
    later.do_all()
    chores.begin(["b", "c"], lambda: done.append("bc"))
    later.do_all()
    assert done == ["c", "bc"]


def test_a_verb_waits_for_the_chores_of_its_nodes_alone(chores: Chores) -> None:
    returns, done = Event(), list[str]()

    def act(node: str) -> None:
        with chores.acting([node]):
            done.append(node)

    with ThreadPoolExecutor(3) as pool:
        chores.workers = lambda _, work: pool.submit(work)
        chores.begin(["a"], returns.wait)
        of_a, of_b = pool.submit(act, "a"), pool.submit(act, "b")
        of_b.result(5)
        assert done == ["b"]
        returns.set()
        of_a.result(5)
    assert done == ["b", "a"]


def test_a_chore_of_the_fleets_own_threads_waits_for_the_verb_of_its_node(chores: Chores) -> None:
    begun = Event()

    def own() -> None:
        with chores.alone(["a"]):
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        with chores.acting(["a"]):
            future = pool.submit(own)
            assert not begun.is_set()
        future.result(5)
    assert begun.is_set()


def test_errors_of_the_world_are_given_once_and_bugs_are_raised(
    chores: Chores, later: Later
) -> None:
    def refuse() -> None:
        raise FleetError("the engine is away")

    def break_down() -> None:
        raise HarnessBug("a rule was broken")

    chores.begin(["a"], refuse)
    assert chores.failed() == []
    later.do_all()
    assert [str(one) for one in chores.failed()] == ["the engine is away"]
    assert chores.failed() == []
    chores.begin(["a"], break_down)
    later.do_all()
    with pytest.raises(HarnessBug):
        chores.failed()


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_what_is_found_of_links_in_the_middle_of_a_verb_tells_nothing(
    chores: Chores, later: Later, *, is_disturbed: bool
) -> None:
    links = FakeLinks()
    node_links = NodeLinks(clock=VirtualClock(), made_by=links)
    links.broken = "its proxy has other effects than ours"
    assert node_links.observed(chores) == []
    if is_disturbed:
        with chores.acting(["learner-0"]):
            later.do_all()
    later.do_all()
    assert len(node_links.observed(chores)) == (0 if is_disturbed else 1)
