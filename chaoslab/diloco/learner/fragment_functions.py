"""Compiled functions of one fragment's tensors: its outer gradient, and its blend at an adoption.

    base, params ─► delta: base - params, raveled and joined, f32 [n_p] ─► to the syncer
    params, version ─► blended: share * params + (1 - share) * version, tensor by tensor

Fragments whose tensors have equal shapes share a function. The inner step is `inner_steps`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from chaoslab.diloco.learner.executables import Executables
from chaoslab.diloco.learner.sharding import Sharding
from chaoslab.diloco.model.fragments import Layout
from chaoslab.diloco.model.task import Params

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]


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
