"""A named point of the protocol is announced once, when it was asked for; the node may wait."""

import json
import math
import threading
from collections.abc import Callable

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.protocol import Phase
from chaoslab.diloco.node.hooks import Hooks
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now
from tests.diloco.hand_learner import Told
from tests.diloco.known import NODE

PATIENCE_S = 60.0


class Node:
    """The points of one node, and a harness that asks for them."""

    def __init__(self) -> None:
        self.told = Told()
        self.hooks = Hooks()
        self.phases = Phases(self.told.emit, NODE)
        self.phases.register(self.hooks)

    def ask(self, do: str, **facts: object) -> None:
        self.hooks.handle_line(json.dumps({"do": do, **facts}))


@pytest.fixture
def node() -> Node:
    return Node()


def in_thread(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_a_watched_point_is_announced_once_with_its_place(node: Node) -> None:
    node.ask("watch", phase="quorum")
    node.ask("watch")  # no more
    node.ask("watch", phase="written")
    run_now(node.phases.reach(Phase.QUORUM, round=3))
    run_now(node.phases.reach(Phase.WRITTEN, round=3, fragment=1))
    run_now(node.phases.reach(Phase.WRITTEN, round=4, fragment=0))
    assert node.told.of(Kind.PHASE_REACHED) == [
        {
            **NODE,
            "phase": "written",
            "round": 3,
            "fragment": 1,
            "version": None,
            "is_waiting": False,
        }
    ]


@pytest.mark.parametrize(
    ("wait_s", "word"), [(600, "go"), (600, "watch"), (1e300, "go"), (math.inf, "go")]
)
def test_a_held_point_waits_for_the_word(node: Node, wait_s: float, word: str) -> None:
    node.ask("watch", phase="publish", wait_s=wait_s)
    waiting = in_thread(lambda: run_now(node.phases.reach(Phase.PUBLISH)))
    assert node.told.wait(Kind.PHASE_REACHED)["is_waiting"]
    assert waiting.is_alive()
    node.ask(word)
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_a_held_point_lets_go_by_itself_when_its_time_is_over(node: Node) -> None:
    node.ask("watch", phase="push", wait_s=0.05)
    waiting = in_thread(lambda: run_now(node.phases.reach(Phase.PUSH)))
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
