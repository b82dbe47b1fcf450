"""Inner steps on the learner's devices: AdamW, and fragments in and out of the arrays.

    task.batches ─► step ═════════════════════► params, moments     (all local devices, by a mesh)
                             base - params ─► delta ─► to the syncer
    from the syncer ─► adopt ─► base, params
    donor: base, moments ─► pack ─► bytes ─► unpack: base = params, moments

Batches are spread over the devices; everything else is replicated. No call waits for the devices
except `base_flat`, `params_flat`, `to_bytes` and `evaluate`. No buffer is donated and no array is
changed, so a `LearnerState` stays valid and any thread may read it while later steps run. Nothing
here depends on rounds, versions or the network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from chaoslab.diloco.model.compilation import enable_compilation_cache, publish_compilations
from chaoslab.diloco.model.task import Batch, Params, Task, TaskError, check_batch, tensor_names

__all__ = ["Flat", "Inner", "InnerSettings", "LearnerState", "enable_compilation_cache"]

Flat: TypeAlias = npt.NDArray[np.float32]
"""Tensors of one fragment, raveled and concatenated in the fragment's order, float32 [n_p]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerSettings:
    """AdamW settings: warm-up from zero, then a cosine down to `final_share` of `lr`."""

    lr: float = 3e-3
    warmup_steps: int = 50
    decay_steps: int = 5000
    """Steps from the start to the end of the cosine; the rate is constant afterwards."""
    final_share: float = 0.1
    weight_decay: float = 0.1
    """Applied to tensors of two or more axes."""

    def __post_init__(self) -> None:
        if not 0 <= self.warmup_steps < self.decay_steps:
            raise ValueError(
                f"warmup_steps: must be 0 to below decay_steps ({self.decay_steps}), "
                f"got {self.warmup_steps}"
            )


class LearnerState(NamedTuple):
    """Training state of a learner. Every array is immutable and replicated over the mesh."""

    params: Params  # f32 pytree: what is trained
    base: Params  # f32 pytree, same shapes: the adopted global values
    moments: optax.OptState  # AdamW: i32 counts [], f32 first and second moments


def optimizer(settings: InnerSettings) -> optax.GradientTransformation:
    """AdamW (Loshchilov and Hutter, 1711.05101) with b1 = 0.9, b2 = 0.95."""
    rate = optax.warmup_cosine_decay_schedule(
        init_value=0.0 if settings.warmup_steps else settings.lr,
        peak_value=settings.lr,
        warmup_steps=settings.warmup_steps,
        decay_steps=settings.decay_steps,
        end_value=settings.lr * settings.final_share,
    )
    return optax.adamw(rate, b1=0.9, b2=0.95, weight_decay=settings.weight_decay, mask=_matrices)


def _matrices(params: Params) -> Params:
    return jax.tree.map(lambda leaf: leaf.ndim >= 2, params)


class Inner:
    """Functions of `LearnerState` for one task, on all of `devices` (default: all local ones).

    `specs` is available at once; call `cut` before any function that takes a fragment.
    """

    def __init__(
        self,
        task: Task,
        settings: InnerSettings | None = None,
        *,
        devices: Sequence[jax.Device] | None = None,
    ) -> None:
        self.devices = tuple(devices or jax.local_devices())
        mesh = jax.make_mesh(
            (len(self.devices),), ("data",), (AxisType.Auto,), devices=self.devices
        )
        self._replicated = NamedSharding(mesh, PartitionSpec())
        self._spread = NamedSharding(mesh, PartitionSpec("data"))
        self._task = task
        self._optimizer = optimizer(settings or InnerSettings())
        self._fresh = jax.jit(self._make_fresh, out_shardings=self._replicated)
        self._step: Any = jax.jit(
            self._advance, out_shardings=self._replicated
        )  # Any: a jitted function, then its compiled form
        params, self._moments_like = jax.eval_shape(self._make_fresh, jax.random.key(0))
        leaves, self._tree = jax.tree.flatten(params)
        self.specs = [
            (name, leaf.shape, name in task.averaged)
            for name, leaf in zip(tensor_names(params), leaves, strict=True)
        ]
        """(name, shape, is_averaged) of every tensor, in the order of the pytree."""
        self._fragments: list[list[int]] = []  # indices in `specs`
        self._deltas: list[Any] = []

    @property
    def parameters(self) -> int:
        """Number of trained values."""
        return sum(math.prod(shape) for _, shape, _ in self.specs)

    # ------------------------------------------------------------ before training

    def cut(self, fragments: Sequence[Sequence[str]]) -> None:
        """Set the fragments: each an ordered list of tensor names, every tensor in exactly one.

        Compiles what `delta` needs. ValueError names missing, unknown and duplicate tensors.
        """
        places = {name: place for place, (name, _, _) in enumerate(self.specs)}
        named = [name for fragment in fragments for name in fragment]
        if sorted(named) != sorted(places):
            raise ValueError(
                f"the fragments do not hold every tensor once: missing {set(places) - set(named)}, "
                f"unknown {set(named) - set(places)}, "
                f"twice { ({name for name in named if named.count(name) > 1}) }"
            )
        self._fragments = [[places[name] for name in fragment] for fragment in fragments]
        compiled: dict[tuple[tuple[int, ...], ...], Any] = {}
        self._deltas = []
        for fragment in self._fragments:
            shapes = tuple(self.specs[place][1] for place in fragment)
            if shapes not in compiled:
                like = [self._like(jax.ShapeDtypeStruct(shape, jnp.float32)) for shape in shapes]
                compiled[shapes] = jax.jit(_difference).lower(like, like).compile()
            self._deltas.append(compiled[shapes])
        publish_compilations()

    def compile(self) -> None:
        """Compile `step` ahead of time; may run while another thread connects."""
        batch = next(self._task.batches(0, 1, seed=0, position=0))
        self._check(batch)
        like = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._spread), batch
        )
        params = [
            self._like(jax.ShapeDtypeStruct(shape, jnp.float32)) for _, shape, _ in self.specs
        ]
        self._step = (
            jax.jit(self._advance, out_shardings=self._replicated)
            .lower(
                jax.tree.unflatten(self._tree, params),
                jax.tree.map(self._like, self._moments_like),
                like,
            )
            .compile()
        )
        publish_compilations()

    def init(self, seed: int) -> LearnerState:
        """Initial parameters, base and moments; the same seed gives the same values everywhere."""
        params, moments = self._fresh(jax.random.key(seed))
        publish_compilations()
        return LearnerState(params=params, base=params, moments=moments)

    # ------------------------------------------------------------ training

    def step(self, state: LearnerState, batch: Batch) -> tuple[LearnerState, jax.Array]:
        """One AdamW step on a numpy batch; returns at once. The loss is f32 [], before the step."""
        self._check(batch)
        placed = jax.device_put(batch, self._spread)
        params, moments, loss = self._step(state.params, state.moments, placed)
        return state._replace(params=params, moments=moments), loss

    def delta(self, state: LearnerState, fragment: int) -> jax.Array:
        """Outer gradient base - params of one fragment, f32 [n_p]; starts its copy to the host."""
        base, params = self._leaves(state.base, fragment), self._leaves(state.params, fragment)
        difference: jax.Array = self._deltas[fragment](base, params)
        difference.copy_to_host_async()
        return difference

    def adopt(self, state: LearnerState, fragment: int, flat: Flat) -> LearnerState:
        """Overwrite params and base of one fragment with `flat` f32 [n_p]; moments are kept.

        `flat` is copied and may be reused. ValueError if it has another size or dtype.
        """
        shapes = [self.specs[place][1] for place in self._fragments[fragment]]
        sizes = [math.prod(shape) for shape in shapes]
        if flat.shape != (sum(sizes),) or flat.dtype != np.float32:
            raise ValueError(
                f"fragment {fragment}: must be f32 [{sum(sizes)}], got {flat.dtype} {flat.shape}"
            )
        pieces = np.split(flat, np.cumsum(sizes)[:-1])
        # a copy of each: on a CPU the device array may share memory with `flat`
        owned = [
            np.array(piece.reshape(shape)) for piece, shape in zip(pieces, shapes, strict=True)
        ]
        arrays = jax.device_put(owned, self._replicated)
        return state._replace(
            params=self._replaced(state.params, fragment, arrays),
            base=self._replaced(state.base, fragment, arrays),
        )

    def base_flat(self, state: LearnerState, fragment: int) -> Flat:
        """Adopted global values of one fragment, read back from the device, f32 [n_p]."""
        return _joined(self._leaves(state.base, fragment))

    def params_flat(self, state: LearnerState, fragment: int) -> Flat:
        """Trained values of one fragment, f32 [n_p]; waits for the steps before it."""
        return _joined(self._leaves(state.params, fragment))

    def evaluate(self, state: LearnerState) -> float:
        """Held-out loss of the trained parameters."""
        return self._task.evaluate(state.params)

    # ------------------------------------------------------------ checkpoints

    def pack(self, state: LearnerState) -> list[jax.Array]:
        """The adopted tensors, fragment by fragment, then the moments; shapes as in
        `packed_layout`.

        Work since the adoption is left out, so that no token is counted twice.
        """
        fragments = range(len(self._fragments))
        base = [leaf for fragment in fragments for leaf in self._leaves(state.base, fragment)]
        packed = base + jax.tree.leaves(state.moments)
        for leaf in packed:
            leaf.copy_to_host_async()
        return packed

    def packed_layout(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of every array of `pack`, in order."""
        places = [place for fragment in self._fragments for place in fragment]
        return [(self.specs[place][1], np.dtype(np.float32)) for place in places] + [
            (leaf.shape, np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(self._moments_like)
        ]

    def unpack(self, arrays: Sequence[npt.ArrayLike]) -> LearnerState:
        """A state with the packed base and moments, and no work of its own."""
        owned = [np.array(array) for array in arrays]
        layout = self.packed_layout()
        if [(array.shape, array.dtype) for array in owned] != layout:
            raise ValueError(f"arrays: must be as `packed_layout` says, got {len(owned)} others")
        placed = jax.device_put(owned, self._replicated)
        leaves: list[jax.Array] = [placed[0]] * len(self.specs)
        for array, place in zip(placed, [p for f in self._fragments for p in f], strict=False):
            leaves[place] = array
        base = jax.tree.unflatten(self._tree, leaves)
        moments = jax.tree.unflatten(
            jax.tree.structure(self._moments_like), placed[len(self.specs) :]
        )
        return LearnerState(params=base, base=base, moments=moments)

    def to_bytes(self, arrays: Sequence[npt.ArrayLike]) -> bytes:
        """All values in order, little-endian, without headers; waits for the arrays."""
        return b"".join(_little(np.asarray(array)).tobytes() for array in arrays)

    def from_bytes(self, payload: bytes) -> list[npt.NDArray[Any]]:
        """The arrays of `to_bytes`. ValueError unless the length fits this model exactly."""
        layout = self.packed_layout()
        sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in layout]
        if len(payload) != sum(sizes):
            raise ValueError(
                f"checkpoint: must be {sum(sizes):,} bytes for this model, got {len(payload):,}"
            )
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        return [
            np.frombuffer(payload, dtype.newbyteorder("<"), math.prod(shape), start)
            .astype(dtype, copy=False)
            .reshape(shape)
            for (shape, dtype), start in zip(layout, starts, strict=True)
        ]

    # ------------------------------------------------------------ inside

    def _make_fresh(self, key: jax.Array) -> tuple[Params, optax.OptState]:
        params = self._task.init(key)
        return params, self._optimizer.init(params)

    def _advance(
        self, params: Params, moments: optax.OptState, batch: Batch
    ) -> tuple[Params, optax.OptState, jax.Array]:
        loss, gradients = jax.value_and_grad(self._task.loss)(params, batch)
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes its i32 count with floats
            updates, moments = self._optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), moments, loss

    def _check(self, batch: Batch) -> None:
        length = check_batch(batch, type(self._task).__name__)
        if length % len(self.devices):
            raise TaskError(
                f"batch: length must be a multiple of {len(self.devices)} devices, got {length}"
            )

    def _like(self, leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._replicated)

    def _leaves(self, tree: Params, fragment: int) -> list[jax.Array]:
        leaves = jax.tree.leaves(tree)
        return [leaves[place] for place in self._fragments[fragment]]

    def _replaced(self, tree: Params, fragment: int, arrays: Sequence[jax.Array]) -> Params:
        leaves = jax.tree.leaves(tree)
        for place, array in zip(self._fragments[fragment], arrays, strict=True):
            leaves[place] = array
        return jax.tree.unflatten(self._tree, leaves)


def _difference(base: Sequence[jax.Array], params: Sequence[jax.Array]) -> jax.Array:
    return jnp.concatenate([jnp.ravel(old - new) for old, new in zip(base, params, strict=True)])


def _joined(leaves: Sequence[jax.Array]) -> Flat:
    for leaf in leaves:
        leaf.copy_to_host_async()
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in leaves])


def _little(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
