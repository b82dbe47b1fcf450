"""A learner of two hosts without a syncer: `python -m … RESULT MEETING INDEX`.

Host 0 does what a learner does with its functions and writes what they gave to RESULT.
"""

import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from chaoslab.diloco.learner.group import Group
from chaoslab.diloco.learner.hosts.membership import membership
from chaoslab.diloco.learner.inner_steps import Inner
from tests.diloco.known import WHOSE
from tests.diloco.learner.test_inner_steps import TASK, layout

STEPS = 6
READ_STEPS = 40


def use(steps, plain: Inner) -> dict[str, np.ndarray]:
    """Results of a short training by the functions `steps`, of `Inner` or of a leader."""
    steps.compile()
    cut = layout(plain)
    steps.cut(cut, blend=0.5)
    fragments = range(len(cut.fragments))
    state = steps.at_step(steps.init(3), 5)
    batches = TASK.batches(0, 1, seed=0, position=0)
    losses = []
    for _ in range(STEPS):
        state, loss = steps.step(state, next(batches))
        losses.append(float(loss))
    earlier = state
    state = steps.adopt(state, 1, steps.adopted(state, 1) * np.float32(1.5), has_work=True)
    state = steps.adopt(state, 2, steps.adopted(state, 2) * np.float32(1.5))
    state, loss = steps.step(state, next(batches))
    losses.append(float(loss))
    donated = steps.unpack(steps.pack(state))
    return {
        "losses": np.asarray(losses),
        "rate": np.asarray(steps.rate(state)),
        "moments": np.asarray(
            [steps.moments_digest_of_state(state), steps.moments_digest(steps.pack(state))]
        ),
        "earlier": np.concatenate([np.asarray(steps.delta(earlier, p)) for p in fragments]),
        "delta": np.concatenate([np.asarray(steps.delta(state, p)) for p in fragments]),
        "adopted": np.concatenate([steps.adopted(state, p) for p in fragments]),
        "trained": np.concatenate([steps.trained(state, p) for p in fragments]),
        "forgotten": np.concatenate(
            [steps.trained(steps.without_work(state), p) for p in fragments]
        ),
        "donated": np.concatenate([steps.trained(donated, p) for p in fragments]),
        "packed": np.frombuffer(steps.pack(state), np.uint8),
        "packed_again": np.frombuffer(steps.pack(donated), np.uint8),
    }


def use_from_two_threads(steps, plain: Inner) -> np.ndarray:
    """Losses of a training during whose steps another thread reads."""
    state = steps.init(3)
    began = threading.Semaphore(0)
    first, fragments = state, len(layout(plain).fragments)

    def read() -> None:
        for step in range(READ_STEPS):
            began.acquire()
            assert not np.asarray(steps.delta(first, step % fragments)).any()
            if step % 8 == 0:
                steps.pack(first)

    losses = []
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(read)
        for batch in itertools.islice(TASK.batches(0, 1, seed=0, position=0), READ_STEPS):
            began.release()
            state, loss = steps.step(state, batch)
            losses.append(float(loss))
        reading.result()
    return np.asarray(losses)


def main(result: str, meeting: str, index: str) -> None:
    """Take part as one of the two hosts."""
    own = membership(
        hosts=2, index=int(index), meeting=meeting, timeout_s=20.0, environment=os.environ
    )
    group = Group(own, WHOSE)
    import jax  # noqa: PLC0415 - after the group is formed, as in the program

    inner = Inner(TASK, devices=jax.devices(), fully_sharded=int(os.environ["FULLY_SHARDED"]))
    if not own.is_first:
        group.follow(inner)
        return
    with group.lead(inner) as leader:
        found = use(leader, inner)
        state = leader.init(3).state
        parts = [leaf.addressable_data(0).size / leaf.size for leaf in jax.tree.leaves(state)]
        found["read"] = use_from_two_threads(leader, inner)
        np.savez(result, **found, parts=np.asarray(parts), devices=len(inner.devices))


if __name__ == "__main__":
    main(*sys.argv[1:])
