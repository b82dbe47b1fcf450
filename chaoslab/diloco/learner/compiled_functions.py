"""Compiled functions of a learner: of a step, and of one fragment's tensors.

    key ─► fresh ─► params, moments ─► step(batch) ─► params, moments, loss
                                    └► gradients(batch) ─► flat ─► update ─► the same
    base, params ─► delta: base - params, raveled and joined, f32 [n_p] ─► to the syncer
    params, version ─► blended: share * params + (1 - share) * version, tensor by tensor

Fragments whose tensors have equal shapes share a function. Who calls them is `inner_steps`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding

from chaoslab.diloco.learner.executables import Executables
from chaoslab.diloco.learner.sharding import Sharding
from chaoslab.diloco.model.fragments import Layout
from chaoslab.diloco.model.task import Batch, Params, Task

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]


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
        shapes = jax.eval_shape(self._make_fresh, key)
        like = jax.tree.map(lambda leaf: _like(leaf, sharding.of(leaf.shape)), shapes)
        self.params_like, self.moments_like = like
        """Shapes and dtypes, with their shardings."""
        fresh = jax.tree.map(lambda leaf: leaf.sharding, like)
        self.fresh = jax.jit(self._make_fresh, out_shardings=fresh)
        after = (*fresh, sharding.replicated)
        self._jitted_step = jax.jit(self._advance, out_shardings=after)
        self.step: Any = self._jitted_step  # Any: a jitted function, then its compiled form
        self.gradients: Any = jax.jit(self._differentiate, out_shardings=sharding.replicated)
        self.update: Any = jax.jit(self._take, out_shardings=after)

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


class FragmentFunctions:
    """Functions of every fragment of a layout, compiled when this is made."""

    def __init__(
        self,
        layout: Layout,
        names: Sequence[str],
        sharding: Sharding,
        executables: Executables,
        *,
        blend: float = 0.0,
    ) -> None:
        """`names`: those of all tensors, in the order of the pytree.

        `blend`: share of trained values in `blended`, 0 to below 1; 0: it is not compiled.
        """
        places = {name: place for place, name in enumerate(names)}
        self.places = [[places[spec.name] for spec in f.tensors] for f in layout.fragments]
        """Of each fragment's tensors among all."""
        self.blend = blend
        self._sharding, self._executables = sharding, executables
        shapes = [tuple(spec.shape for spec in f.tensors) for f in layout.fragments]
        deltas = {each: self._delta(each) for each in dict.fromkeys(shapes)}
        self._deltas = [deltas[each] for each in shapes]
        blends = {each: self._blended(each) for each in dict.fromkeys(shapes if blend else ())}
        self._blends = [blends[each] for each in shapes if blend]

    def delta(
        self, fragment: int, base: Sequence[jax.Array], params: Sequence[jax.Array]
    ) -> jax.Array:
        """Outer gradient base - params, f32 [n_p], on every device."""
        difference: jax.Array = self._deltas[fragment](base, params)
        return difference

    def blended(
        self, fragment: int, params: Sequence[jax.Array], version: Sequence[jax.Array]
    ) -> Sequence[jax.Array]:
        """`version` with the share of `params` that is kept; `version` itself if that is 0.

        Eq. of the overlapped merge in Streaming DiLoCo (Douillard et al., arXiv 2501.18512), with
        `blend` as alpha.
        """
        if not self.blend:
            return version
        tensors: Sequence[jax.Array] = self._blends[fragment](params, version)
        return tensors

    def leaves(self, tree: Params, fragment: int) -> list[jax.Array]:
        """Tensors of one fragment."""
        leaves = jax.tree.leaves(tree)
        return [leaves[place] for place in self.places[fragment]]

    def replaced(self, tree: Params, fragment: int, arrays: Sequence[jax.Array]) -> Params:
        """The same tree with other tensors of one fragment."""
        leaves, structure = jax.tree.flatten(tree)
        for place, array in zip(self.places[fragment], arrays, strict=True):
            leaves[place] = array
        return jax.tree.unflatten(structure, leaves)

    # ------------------------------------------------------------ compiling

    def _delta(self, shapes: _Shapes) -> Any:  # a compiled function, as below
        function = jax.jit(_difference, out_shardings=self._sharding.replicated)
        return self._compiled("delta", function, shapes)

    def _blended(self, shapes: _Shapes) -> Any:
        shardings = [self._sharding.of(shape) for shape in shapes]
        function = jax.jit(partial(_blended, self.blend), out_shardings=shardings)
        return self._compiled(f"blend {self.blend!r}", function, shapes)

    def _compiled(self, name: str, function: Any, shapes: _Shapes) -> Any:
        """Compiled `function` of two lists of tensors; `name` has its inputs beside its code."""
        like = [self._sharding.like(shape) for shape in shapes]
        return self._executables.get(name, function, (like, like))


def _difference(base: Sequence[jax.Array], params: Sequence[jax.Array]) -> jax.Array:
    return jnp.concatenate([jnp.ravel(old - new) for old, new in zip(base, params, strict=True)])


def _blended(
    share: float, params: Sequence[jax.Array], version: Sequence[jax.Array]
) -> list[jax.Array]:
    pairs = zip(params, version, strict=True)
    return [share * own + (1 - share) * theirs for own, theirs in pairs]
