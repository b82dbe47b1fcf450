"""The smallest task: two numbers, and rests between its steps.

An emulated processor compiles it within seconds and has time left for the harness.
"""

import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

REST_S = 0.2
Params = dict[str, jax.Array]
Batch = tuple[np.ndarray, np.ndarray]


class Line:
    """Find the slope and the offset of a line."""

    tokens_per_batch = 64
    averaged = ()

    def init(self, key: jax.Array) -> Params:
        """Both are zero; the key is not needed."""
        return {"slope": jnp.zeros((1,)), "offset": jnp.zeros((1,))}

    def loss(self, params: Params, batch: Batch) -> jax.Array:
        """Mean squared distance."""
        x, y = batch
        return jnp.mean((params["slope"] * x + params["offset"] - y) ** 2)

    def batches(self, shard: int, shards: int, seed: int, position: int) -> Iterator[Batch]:
        """Points on the same line for all."""
        while True:
            time.sleep(REST_S)
            x = np.random.default_rng([seed, shard, position]).normal(size=64).astype(np.float32)
            yield x, 3 * x + 1
            position += 1

    def evaluate(self, params: Params) -> float:
        """How far it is from the line's own."""
        return float((params["slope"][0] - 3) ** 2 + (params["offset"][0] - 1) ** 2)


def make() -> Line:
    """For `task:` of a plan."""
    return Line()
