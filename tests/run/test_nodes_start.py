"""Nodes of a run are started one after another, or as one where the fleet knows the address."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from chaoslab.fleet.base import Fleet
from chaoslab.prepare.launch import Launch
from chaoslab.run.nodes_start import start_nodes

T = TypeVar("T")
NAMES = ("learner-0", "learner-1")


class OneByOne:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self, spec: SimpleNamespace) -> None:
        self.calls.append(f"start {spec.name} {spec.told}")

    def enlist(self, spec: SimpleNamespace) -> None:
        self.calls.append(f"enlist {spec.name} {spec.told}")


class AsOne(OneByOne):
    """The same, with all of the start at once."""

    def __init__(self, known: str | None) -> None:
        super().__init__()
        self.known = known

    @contextmanager
    def start_together(self) -> Iterator[str | None]:
        yield self.known
        self.calls.append("ask for all")


def launch() -> Launch:
    def told(names: tuple[str, ...]) -> Callable[[dict[str, str]], tuple[SimpleNamespace, ...]]:
        return lambda addresses: tuple(
            SimpleNamespace(name=name, told=f"of {addresses[name]}") for name in names
        )

    training = SimpleNamespace(roster=(*NAMES, "learner-2"), script=None)
    found: Any = SimpleNamespace(
        plan=SimpleNamespace(training=training),
        syncer=lambda keeps_training: SimpleNamespace(name="syncer", told=keeps_training),
        learners=told(NAMES), reserve=told(("learner-2",)),
    )  # fmt: skip
    return cast("Launch", found)


def calls_of(fleet: OneByOne) -> list[str]:
    def address() -> str:
        fleet.calls.append("await")
        return "a:1"

    def call(_names: object, verb: Callable[[], T], _what: str) -> T:
        return verb()

    start_nodes(cast("Fleet", fleet), launch(), True, call, address)
    return fleet.calls


@pytest.mark.parametrize(("fleet", "at_the_end"), [
    (OneByOne(), []), (AsOne(known=None), ["ask for all"]),
])  # fmt: skip
def test_learners_are_told_where_a_syncer_that_is_ready_listens(
    fleet: OneByOne, at_the_end: list[str]
) -> None:
    assert calls_of(fleet) == [
        "start syncer True", "await", "start learner-0 of a:1", "start learner-1 of a:1",
        "enlist learner-2 of a:1", *at_the_end,
    ]  # fmt: skip


def test_all_are_asked_for_at_once_where_that_is_known_before() -> None:
    assert calls_of(AsOne(known="b:2")) == [
        "start syncer True", "start learner-0 of b:2", "start learner-1 of b:2",
        "enlist learner-2 of b:2", "ask for all", "await",
    ]  # fmt: skip
