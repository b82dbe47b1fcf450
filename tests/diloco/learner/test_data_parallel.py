"""Steps that learners make together, by real processes with JAX's collectives."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from chaoslab.diloco.learner.data_parallel import DataParallel
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings, LearnerState
from chaoslab.diloco.learner.replica import CommunicatorLost
from chaoslab.diloco.model.fragments import Layout
from chaoslab.diloco.model.gpt import Preset, Shape, TextTask
from chaoslab.diloco.model.task import Batch
from chaoslab.diloco.wire import wire_pb2 as pb

pytestmark = pytest.mark.deep

TEXT = np.random.default_rng(0).integers(97, 123, 60_000, dtype=np.uint8)
TASK = TextTask(Preset(shape=Shape(16, 1, 2, 24), batch=4, sequence=16), TEXT)
LIMIT_S = 120


@pytest.fixture(scope="module")
def inner() -> Inner:
    inner = Inner(TASK, InnerSettings(warmup_steps=2, decay_steps=100), is_split=True)
    inner.cut(Layout.balance(inner.specs, 1))
    inner.compile()
    return inner


@pytest.fixture
def learners(inner: Inner) -> Iterator[list[DataParallel]]:
    both = [DataParallel(inner, "127.0.0.1") for _ in range(2)]
    yield both
    for learner in both:
        learner.close()


def batch(shard: int) -> Batch:
    return next(TASK.batches(shard, 2, seed=0, position=0))


def together(learners: list[DataParallel], payloads: list[bytes], number: int = 1) -> list[bytes]:
    """What each has once they have formed a communicator."""
    address = learners[0].address
    orders = [
        pb.Communicator(number=number, rank=rank, size=len(learners), address=address)
        for rank in range(len(learners))
    ]
    with ThreadPoolExecutor(len(learners)) as threads:
        joining = [
            threads.submit(learner.join, order, payload)
            for learner, order, payload in zip(learners, orders, payloads, strict=True)
        ]
        return [each.result(LIMIT_S) for each in joining]


def stepped(learners: list[DataParallel], state: LearnerState) -> list[LearnerState]:
    """What each has after a step on data of its own."""
    with ThreadPoolExecutor(len(learners)) as threads:
        steps = [
            threads.submit(learner.step, state, batch(shard))
            for shard, learner in enumerate(learners)
        ]
        return [each.result(LIMIT_S)[0] for each in steps]


@pytest.mark.gate
def test_all_take_the_same_step_by_the_mean_of_their_gradients(
    inner: Inner, learners: list[DataParallel]
) -> None:
    first = inner.pack(inner.init(1))
    received = together(learners, [first, bytes(len(first))])
    assert received == [first, first]
    state = inner.unpack(first)
    mean = (inner.gradients(state, batch(0)) + inner.gradients(state, batch(1))) / np.float32(2)
    expected, _ = inner.update(state, mean)
    before = [learner.received_bytes for learner in learners]
    for mine in stepped(learners, state):
        for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(one, other)
    for learner, earlier in zip(learners, before, strict=True):
        assert isinstance(learner.received_bytes, int), "the kernel does not count"
        assert isinstance(earlier, int)
        assert earlier >= len(first), "the state that they began with"
        came = learner.received_bytes - earlier
        assert came == pytest.approx(4 * mean.size, rel=0.05), "2 (M - 1) / M of its size"


@pytest.mark.gate
def test_a_lost_learner_is_noticed_and_the_next_communicator_works(
    inner: Inner, learners: list[DataParallel]
) -> None:
    state = inner.init(1)
    together(learners, [b"abcd", b"...."])
    assert learners[0].meeting == ""
    learners[1].leave()
    with pytest.raises(CommunicatorLost):
        learners[0].step(state, batch(0))
    learners[0].leave()
    assert learners[0].meeting
    before = learners[0].received_bytes
    assert before
    assert together(learners, [b"next", b"...."], number=2) == [b"next", b"next"]
    one, other = stepped(learners, state)
    np.testing.assert_array_equal(jax.tree.leaves(one)[0], jax.tree.leaves(other)[0])
    assert learners[0].received_bytes > before


def test_a_learner_that_waits_is_called_back(inner: Inner, learners: list[DataParallel]) -> None:
    together(learners, [b"abcd", b"...."])
    asked: list[bool] = []

    def may_wait() -> bool:
        asked.append(True)
        return len(asked) < 3

    learners[0].may_wait = may_wait
    with pytest.raises(CommunicatorLost):
        learners[0].step(inner.init(1), batch(0))
    assert len(asked) == 3


def test_one_learner_alone_needs_nobody(inner: Inner, learners: list[DataParallel]) -> None:
    alone, state = learners[0], inner.init(1)
    assert together([alone], [b"abcd"]) == [b"abcd"]
    (mine,) = stepped([alone], state)
    expected, _ = inner.update(state, inner.gradients(state, batch(0)))
    np.testing.assert_array_equal(jax.tree.leaves(mine)[0], jax.tree.leaves(expected)[0])
    assert alone.received_bytes == 0
