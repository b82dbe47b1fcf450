"""What becomes of a learner's state and tokens when it goes back, with steps that only count."""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from chaoslab.diloco.learner.exchange import Adoption
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.replica import Replica, Steps
from chaoslab.diloco.model.fragments import Fragment, Layout, TensorSpec
from chaoslab.diloco.node.waits import run_now
from tests.diloco.known import WHOSE

TOKENS = 10
LAYOUT = Layout((Fragment(0, (TensorSpec(name="w", shape=(1,), is_averaged=False),)),))


@dataclass(frozen=True)
class State:
    """Parameters, and how many steps the moments have seen."""

    version: int = -1
    moments: int = 0


class Counting:
    """Steps of one learner whose state is a pair of numbers; with others they are the same."""

    number, meeting, waited_s, received_bytes = 1, "", 0.0, 0

    def cut(self, layout: Layout, *, blend: float) -> None:
        pass

    def init(self, seed: int) -> State:
        return State()

    def at_step(self, state: State, step: int) -> State:
        return state

    def step(self, state: State, batch: object) -> tuple[State, float]:
        return replace(state, moments=state.moments + 1), 1.0

    def adopt(self, state: State, fragment: int, flat: np.ndarray, *, has_work: bool) -> State:
        return replace(state, version=int(flat[0]))

    def digest(self, state: State, fragment: int) -> str:
        return str(state.version)

    def rate(self, state: State) -> float | None:
        return None

    def moments_digest(self, payload: bytes) -> str:
        return str(payload[1])

    def moments_digest_of_state(self, state: State) -> str:
        return str(state.moments)

    def pack(self, state: State) -> bytes:
        return bytes([state.version, state.moments])


def adoption(version: int, committed_tokens: int) -> Adoption:
    return Adoption(
        fragment=0, version=version, committed_tokens=committed_tokens, digest="",
        values=np.full(1, version, np.float32),
    )  # fmt: skip


@pytest.fixture
def replica() -> Replica:
    """It holds version 0, and trains with others."""
    steps = cast("Any", Counting())
    made = Replica(cast("Steps[Any]", steps), TOKENS, Pace(), seed=0, parallel=steps)
    made.cut(LAYOUT, step=0, data_position=0)
    made.init()
    made.adopt(adoption(0, 0))
    return made


def trained(replica: Replica, steps: int) -> None:
    for _ in range(steps):
        run_now(replica.step({}))


def columns(replica: Replica) -> tuple[float, float, float]:
    """Committed, discarded and in flight."""
    final = replica.final(WHOSE)
    return final.committed["0"], final.discarded["0"], final.in_flight["0"]


def test_going_back_gives_up_moments_and_keeps_count_of_the_tokens(replica: Replica) -> None:
    trained(replica, 3)
    replica.go_back()
    assert replica.pack() == bytes([0, 0])
    assert replica.counters.c_steps(0) == 0
    assert columns(replica) == (0, 0, 30)
    trained(replica, 2)
    said = replica.adopt(adoption(1, 20))
    assert said is not None
    assert said["discarded_tokens"] == 30
    assert replica.pack() == bytes([1, 2])
    assert columns(replica) == (20, 30, 0)


def test_going_back_twice_gives_up_both(replica: Replica) -> None:
    for _ in range(2):
        trained(replica, 2)
        replica.go_back()
    assert replica.pack() == bytes([0, 0])
    replica.adopt(adoption(1, 0))
    assert columns(replica) == (0, 40, 0)


def test_work_that_was_merged_after_all_keeps_its_moments(replica: Replica) -> None:
    trained(replica, 3)
    replica.go_back()
    replica.adopt(adoption(1, 30))
    assert replica.pack() == bytes([1, 3])
    assert columns(replica) == (30, 0, 0)
    trained(replica, 1)
    replica.go_back()
    assert replica.pack() == bytes([1, 3])


def test_a_clock_that_a_fault_changed_changes_no_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal passed_s
        passed_s += seconds

    class Working(Counting):
        def step(self, state: State, batch: object) -> tuple[State, float]:
            nonlocal passed_s
            passed_s += 0.1
            return super().step(state, batch)

    pace = Pace(speed=0.5, now_s=lambda: passed_s, sleep=sleep)
    replica = Replica(cast("Steps[Any]", Working()), TOKENS, pace, seed=0)
    replica.cut(LAYOUT, step=0, data_position=0)
    replica.init()
    monkeypatch.setattr("time.monotonic", lambda: 1e6 + passed_s)
    trained(replica, 1)
    assert passed_s == replica.counters.step_s == pytest.approx(0.2)
