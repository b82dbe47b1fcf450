"""Compiled functions of an inner step: initial values, a step, and a step in two halves.

    key ─► fresh ─► params, moments ─► step(batch) ─► params, moments, loss
                                    └► gradients(batch) ─► flat ─► update ─► params, moments, loss

Those of one fragment's tensors are `fragment_functions`; who calls them is `inner_steps`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding

from chaoslab.diloco.learner.executables import Executables
from chaoslab.diloco.learner.sharding import Sharding
from chaoslab.diloco.model.task import Batch, Params, Task


class StepFunctions:
    """Functions of parameters and moments; each is compiled by `compile`, or by its first call."""

    def __init__(
        self,
        task: Task,
        optimizer: optax.GradientTransformation,
        sharding: Sharding,
        executables: Executables,
    ) -> None:
        self._task, self._optimizer = task, optimizer
        self._sharding, self._executables = sharding, executables
        key = jax.eval_shape(jax.random.key, 0)  # nothing is computed
        params, moments = jax.eval_shape(self._make_fresh, key)
        self.params_like, self.moments_like = self._placed(params), self._placed(moments)
        """Shapes and dtypes, with their shardings."""
        like = (self.params_like, self.moments_like)
        fresh = jax.tree.map(lambda leaf: leaf.sharding, like)
        self.fresh = jax.jit(self._make_fresh, out_shardings=fresh)
        after_step = (*fresh, sharding.replicated)
        self._jitted_step = jax.jit(self._advance, out_shardings=after_step)
        self.step: Any = self._jitted_step  # Any: a jitted function, then its compiled form
        self.gradients: Any = jax.jit(self._differentiate, out_shardings=sharding.replicated)
        self.update: Any = jax.jit(self._take, out_shardings=after_step)

    def compile(self, batch: Batch, *, is_split: bool) -> None:
        """Compile `step` for batches like this one; if it `is_split`, the two halves."""
        params, moments = self.params_like, self.moments_like
        batch_like = jax.tree.map(lambda leaf: _like(leaf, self._sharding.spread), batch)
        get = self._executables.get
        if not is_split:
            self.step = get("step", self._jitted_step, (params, moments, batch_like))
            return
        size = 1 + sum(leaf.size for leaf in jax.tree.leaves(params))
        flat = jax.ShapeDtypeStruct((size,), jnp.float32, sharding=self._sharding.replicated)
        self.gradients = get("gradients", self.gradients, (params, batch_like))
        self.update = get("update", self.update, (params, moments, flat))

    def _placed(self, tree: Any) -> Any:
        return jax.tree.map(lambda leaf: _like(leaf, self._sharding.of(leaf.shape)), tree)

    # ------------------------------------------------------------ what is compiled

    def _make_fresh(self, key: jax.Array) -> tuple[Params, optax.OptState]:
        params = self._task.init(key)
        return params, self._optimizer.init(params)

    def _advance(
        self, params: Params, moments: optax.OptState, batch: Batch
    ) -> tuple[Params, optax.OptState, jax.Array]:
        loss, gradients = jax.value_and_grad(self._task.loss)(params, batch)
        return (*self._descend(params, moments, gradients), loss)

    def _descend(
        self, params: Params, moments: optax.OptState, gradients: Params
    ) -> tuple[Params, optax.OptState]:
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes its i32 count with floats
            updates, moments = self._optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), moments

    def _differentiate(self, params: Params, batch: Batch) -> jax.Array:
        loss, gradients = jax.value_and_grad(self._task.loss)(params, batch)
        return jnp.concatenate([*map(jnp.ravel, jax.tree.leaves(gradients)), loss.reshape(1)])

    def _take(
        self, params: Params, moments: optax.OptState, flat: jax.Array
    ) -> tuple[Params, optax.OptState, jax.Array]:
        like, tree = jax.tree.flatten(self.params_like)
        pieces = jnp.split(flat, np.cumsum([leaf.size for leaf in like]))
        leaves = [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, like, strict=False)]
        gradients = jax.tree.unflatten(tree, leaves)
        return (*self._descend(params, moments, gradients), flat[-1])


def _like(leaf: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
