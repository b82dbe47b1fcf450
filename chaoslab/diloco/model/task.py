"""Tasks: the `Task` protocol (model, loss, data), and whether an object keeps it.

    load ─► Task ─► init, loss, batches ─► learner: inner_steps
              └───► evaluate ────────────► evaluate (after the run)

A user's object is checked by tracing it, before anything is compiled or connected. Nothing here
depends on learners, fragments or networks.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Params: TypeAlias = Any
"""A pytree (dicts, tuples, lists, registered classes) of float32 arrays."""
Batch: TypeAlias = Any
"""A pytree of numpy arrays with the batch as their common leading axis."""


class TaskError(ValueError):
    """A task that cannot be trained; the message says what to change."""


class Task(Protocol):
    """A model, its loss and its data: all that learners, evaluator and syncer need of it."""

    @property
    def tokens_per_batch(self) -> int:
        """Tokens (or samples) in one batch of `batches`; the unit of all token counts."""
        ...

    @property
    def averaged(self) -> tuple[str, ...]:
        """Names of the tensors merged by weighted average, such as the embedding.

        A tensor's name is its path in the pytree, joined by dots: {"mlp": {"up": x}} is "mlp.up".
        All other tensors are merged by rda (`merge`).
        """
        ...

    def init(self, key: jax.Array) -> Params:
        """Initial parameters; the same key gives the same values. Traced by `jax.jit`."""
        ...

    def loss(self, params: Params, batch: Batch) -> jax.Array:
        """Mean loss per token, f32 []. Traced by `jax.jit`; the batch may span several devices."""
        ...

    def batches(self, shard: int, shards: int, seed: int, position: int) -> Iterator[Batch]:
        """Endless stream of the batches of shard `shard` of `shards`, from batch `position` on.

        Shards are disjoint and contain nothing that `evaluate` uses. The stream from position k
        equals the stream from 0 without its first k batches, so a restarted learner continues
        exactly where it was. An array that was yielded must not be changed later.
        """
        ...

    def evaluate(self, params: Params) -> float:
        """Mean held-out loss per token; equal parameters must give equal numbers."""
        ...


def check(task: Task, spec: str) -> None:
    """Trace `task` once, without compiling it; TaskError says which member is wrong and how."""
    _check_members(task, spec)
    try:
        params = jax.eval_shape(task.init, jax.random.key(0))
    except (TypeError, ValueError) as error:
        raise TaskError(f"{spec}: init(key) cannot be traced by jax: {error}") from error
    tensors = tensors_of(params)
    for name, leaf in tensors.items():
        if leaf.dtype != jnp.float32:
            raise TaskError(f"{spec}: tensor {name!r} of init must be float32, got {leaf.dtype}")
    if unknown := [name for name in task.averaged if name not in tensors]:
        names = tuple(tensors)
        raise TaskError(f"{spec}: averaged: must name tensors of init ({names}), got {unknown}")
    batch = next(task.batches(0, 1, seed=0, position=0), None)
    if batch is None:
        raise TaskError(f"{spec}: batches: must be endless, got none")
    check_batch(batch, spec)
    try:
        loss = jax.eval_shape(task.loss, params, batch)
    except (TypeError, ValueError) as error:
        raise TaskError(f"{spec}: loss(params, batch) cannot be traced by jax: {error}") from error
    if getattr(loss, "shape", None) != () or loss.dtype != jnp.float32:
        raise TaskError(f"{spec}: loss: must return one float32, the mean per token, got {loss}")


def check_batch(batch: Batch, spec: str) -> int:
    """Length of the leading axis of all arrays of `batch`; TaskError if they differ."""
    leaves = jax.tree.leaves(batch)
    if not leaves or not all(isinstance(leaf, np.ndarray) and leaf.ndim for leaf in leaves):
        raise TaskError(f"{spec}: batches: must yield numpy arrays with the batch as leading axis")
    lengths = {len(leaf) for leaf in leaves}
    if len(lengths) != 1:
        raise TaskError(f"{spec}: batches: leading axes must be equal, got {sorted(lengths)}")
    return lengths.pop()


def tensors_of(params: Params) -> Mapping[str, Any]:
    """Every leaf by its tensor's name, in the order of the pytree. TaskError if two are equal."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    if not names:
        raise TaskError("init: must return a pytree of float32 arrays, got no arrays")
    if len(set(names)) != len(names):
        raise TaskError(f"tensor names: must be different, got {names}; rename one of their keys")
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def _check_members(task: Task, spec: str) -> None:
    wanted = ("init", "loss", "batches", "evaluate", "tokens_per_batch", "averaged")
    if missing := [name for name in wanted if not hasattr(task, name)]:
        raise TaskError(
            f"{spec}: the {type(task).__name__} it returned lacks {', '.join(missing)}; "
            "`chaoslab init --trains task` writes a complete one"
        )
    if uncallable := [name for name in wanted[:4] if not callable(getattr(task, name))]:
        raise TaskError(f"{spec}: must be methods: {', '.join(uncallable)}")
    tokens: object = task.tokens_per_batch
    if not isinstance(tokens, int) or tokens < 1:
        raise TaskError(f"{spec}: tokens_per_batch: must be an int of at least 1, got {tokens!r}")
    averaged: object = task.averaged
    if not isinstance(averaged, tuple):
        raise TaskError(f"{spec}: averaged: must be a tuple of names, maybe (), got {averaged!r}")
