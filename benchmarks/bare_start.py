"""Start of a bare program that trains: the libraries of a learner, and one step from JAX's cache.

    python benchmarks/bare_start.py CACHE_FOLDER

It imports what a learner cannot do without, and makes one compiled step of a small regression with
Adam. `kills.py` compares the return of a killed learner with it.
"""

import sys

import grpc  # noqa: F401  # a learner imports it, too
import jax
import jax.numpy as jnp
import optax

WIDTH = 64


def main(cache: str) -> None:
    """Make the step; its loss is printed once it is there."""
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    optimizer = optax.adam(1e-3)
    weights = jnp.ones((WIDTH, WIDTH))

    def loss(weights: jax.Array, batch: jax.Array) -> jax.Array:
        return jnp.mean((batch @ weights - batch) ** 2)

    @jax.jit
    def step(
        weights: jax.Array, moments: optax.OptState, batch: jax.Array
    ) -> tuple[jax.Array, optax.OptState, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(weights, batch)
        updates, moments = optimizer.update(gradients, moments, weights)
        return weights + updates, moments, value

    *_, value = step(weights, jax.jit(optimizer.init)(weights), jnp.ones((8, WIDTH)))
    print(float(value), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
