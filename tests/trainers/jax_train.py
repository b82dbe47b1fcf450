# ruff: noqa: T201 - a trainer prints
"""A small trainer in JAX that knows nothing of chaoslab: a perceptron, saved every 20 steps.

python jax_train.py FOLDER
"""

import os
import pickle
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

SIZES = (16, 64, 1)
SCHEDULE = optax.warmup_cosine_decay_schedule(0.0, 3e-3, warmup_steps=50, decay_steps=2000)
OPTIMIZER = optax.adam(SCHEDULE)


def init(key):
    keys = jax.random.split(key, len(SIZES) - 1)
    return [
        (jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n))
        for k, m, n in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]


def loss_of(parameters, inputs, wanted):
    for weights, bias in parameters[:-1]:
        inputs = jnp.tanh(inputs @ weights + bias)
    weights, bias = parameters[-1]
    return jnp.mean((inputs @ weights + bias - wanted) ** 2)


@jax.jit
def step_of(parameters, moments, step):
    inputs = jax.random.normal(jax.random.key(step), (64, SIZES[0]))
    wanted = jnp.sin(inputs.sum(axis=1, keepdims=True))
    loss, gradients = jax.value_and_grad(loss_of)(parameters, inputs, wanted)
    updates, moments = OPTIMIZER.update(gradients, moments)
    return optax.apply_updates(parameters, updates), moments, loss


def main(folder):
    folder.mkdir(exist_ok=True)
    newest = folder / "newest.pickle"
    parameters = init(jax.random.key(0))
    moments, first = OPTIMIZER.init(parameters), 0
    if newest.exists():
        first, parameters, moments = pickle.loads(newest.read_bytes())
        print(f"Restored checkpoint of step {first}", flush=True)
    for step in range(first + 1, 1_000_000):
        parameters, moments, loss = step_of(parameters, moments, step)
        print(f"[{time.strftime('%H:%M:%S')}] iter {step}: loss={loss:.6f}", flush=True)
        if step % 20 == 0:
            partial = newest.with_suffix(".partial")
            partial.write_bytes(pickle.dumps((step, parameters, moments)))
            os.replace(partial, newest)
            print(f"Checkpoint of step {step} is complete", flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
