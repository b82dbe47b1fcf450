"""Inner steps on the learner's devices: AdamW, and fragments in and out of the arrays.

    task.batches ─► step ═════════════════════► params, moments     (all devices, by a mesh)
                             base - params ─► delta ─► to the syncer
    from the syncer ─► adopt ─► base, params        (or a blend of both: `compiled_functions`)
    donor: base, moments ─► pack ─► bytes ─► unpack: base = params, moments

Batches are spread over the devices; parameters and moments are replicated, or divided over some of
them (`sharding`). The devices may be those of several hosts, which then call the same functions in
the same order (`mirrored`). No call waits for the devices except those that read back. No
buffer is donated and no array is changed, so a `LearnerState` stays valid and any thread may read
it while later steps run. Nothing here depends on rounds, versions or the network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from xxhash import xxh3_128

from chaoslab.core.payloads import LearnerCompiled, LifeFields
from chaoslab.diloco.learner import compiled_functions, sharding
from chaoslab.diloco.learner.compiled_functions import FragmentFunctions, StepFunctions
from chaoslab.diloco.learner.executables import Executables
from chaoslab.diloco.learner.sharding import Sharding
from chaoslab.diloco.model.codec import digest
from chaoslab.diloco.model.compilation import code_of, publish_compilations
from chaoslab.diloco.model.fragments import FloatArray, Layout, TensorSpec
from chaoslab.diloco.model.task import Batch, Params, Task, TaskError, check_batch, tensors_of
from chaoslab.diloco.settings import learning_rate

_STEP_MOST = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerSettings:
    """AdamW settings: warm-up from zero, then a cosine down to `final_share` of `lr`."""

    lr: float = 12e-3
    """Measured for `nano` (`experiments/learning_rates/`); a larger model may need less."""
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
    """Training state of a learner. Every array is immutable and placed by `Sharding.of`."""

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


def _is_schedule(node: object) -> bool:
    return isinstance(node, optax.ScaleByScheduleState)


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
        fully_sharded: int = 1,
        executables: Path | None = None,
        is_split: bool = False,
    ) -> None:
        """`fully_sharded`: number of devices that parameters and moments are divided over.

        `executables`: folder in which compiled functions are kept for later processes.
        `is_split`: whether steps are made by `gradients` and `update` instead of `step`.
        """
        self.devices = tuple(devices or jax.local_devices())
        self._sharding = Sharding(self.devices, fully_sharded=fully_sharded)
        self.task = task
        """The task that is trained."""
        settings = settings or InnerSettings()
        self._settings = settings
        self.executables = Executables(
            self.devices, folder=executables, program=self._program(settings)
        )
        self._functions = StepFunctions(
            task, self.optimizer(settings), self._sharding, self.executables
        )
        self._is_split = is_split
        self.specs = [
            TensorSpec(name=name, shape=leaf.shape, is_averaged=name in task.averaged)
            for name, leaf in tensors_of(self._functions.params_like).items()
        ]
        """Every tensor, in the order of the pytree."""
        self._batch_tree: Any = None  # known once `compile` was called
        self._layout = Layout(())
        self._fragments = FragmentFunctions(self._layout, (), self._sharding, self.executables)

    def optimizer(self, settings: InnerSettings) -> optax.GradientTransformation:
        """The inner optimizer; a subclass may return another."""
        return optimizer(settings)

    @property
    def parameters(self) -> int:
        """Number of trained values."""
        return sum(spec.size for spec in self.specs)

    # ------------------------------------------------------------ before training

    def cut(self, layout: Layout, *, blend: float = 0.0) -> None:
        """Set the fragments, and compile what `delta` and `adopt` need.

        `blend`: share of params that `adopt` keeps, 0 to below 1. ValueError unless the fragments
        hold every tensor once.
        """
        if (layout, blend) == (self._layout, self._fragments.blend):
            return
        names = [spec.name for spec in self.specs]
        named = [spec.name for fragment in layout.fragments for spec in fragment.tensors]
        if sorted(named) != sorted(names):
            raise ValueError(f"fragments: must hold each of {sorted(names)} once, got {named}")
        self._layout = layout
        self._fragments = FragmentFunctions(
            layout, names, self._sharding, self.executables, blend=blend
        )
        publish_compilations()

    def compile(self) -> None:
        """Compile `step` ahead of time; may run while another thread connects."""
        batch = next(self.task.batches(0, 1, seed=0, position=0))
        _check(batch, self.task, len(self.devices))
        self._batch_tree = jax.tree.structure(batch)
        self._functions.compile(batch, is_split=self._is_split)
        publish_compilations()

    def compiled(self, whose: LifeFields) -> LearnerCompiled:
        """Report of the functions that were loaded, and of those that were compiled."""
        return self.executables.report(whose)

    def init(self, seed: int) -> LearnerState:
        """Initial parameters, base and moments; the same seed gives the same values everywhere."""
        params, moments = self._functions.fresh(jax.random.key(seed))
        publish_compilations()
        return LearnerState(params=params, base=params, moments=moments)

    def at_step(self, state: LearnerState, step: int) -> LearnerState:
        """`state` with the learning rate of `step`; Adam's own count, for its bias, is kept.

        For moments that are fresh, or of an earlier step, in a training that is further.
        """
        count = self._sharding.put(
            np.asarray(min(step, _STEP_MOST), np.int32), self._sharding.replicated
        )
        moments = jax.tree.map(
            lambda node: node._replace(count=count) if _is_schedule(node) else node,
            state.moments,
            is_leaf=_is_schedule,
        )
        return state._replace(moments=moments)

    def rate(self, state: LearnerState) -> float | None:
        """Learning rate of the next step; None with an optimizer of a subclass: it is not known."""
        if type(self).optimizer is not Inner.optimizer:
            return None
        nodes = jax.tree.leaves(state.moments, is_leaf=_is_schedule)
        given = self._settings
        return learning_rate(
            int(next(filter(_is_schedule, nodes)).count),
            lr=given.lr,
            warmup_steps=given.warmup_steps,
            decay_steps=given.decay_steps,
            final_share=given.final_share,
        )

    # ------------------------------------------------------------ training

    def step(self, state: LearnerState, batch: Batch) -> tuple[LearnerState, jax.Array]:
        """One AdamW step on a numpy batch; returns at once. The loss is f32 [], before the step."""
        _check(batch, self.task, len(self.devices))
        placed = self._sharding.put(batch, self._sharding.spread)
        params, moments, loss = self._functions.step(state.params, state.moments, placed)
        return state._replace(params=params, moments=moments), loss

    def gradients(self, state: LearnerState, batch: Batch) -> FloatArray:
        """First half of a step: all gradients, then the loss, read back, f32 [parameters + 1]."""
        _check(batch, self.task, len(self.devices))
        placed = self._sharding.put(batch, self._sharding.spread)
        return np.asarray(self._functions.gradients(state.params, placed))

    def update(self, state: LearnerState, flat: FloatArray) -> tuple[LearnerState, jax.Array]:
        """Second half: an AdamW step with gradients as `gradients` gives them; returns at once.

        `flat` must not change afterwards. The loss is its last value.
        """
        placed = self._sharding.put(flat, self._sharding.replicated)
        params, moments, loss = self._functions.update(state.params, state.moments, placed)
        return state._replace(params=params, moments=moments), loss

    def batch_of(self, leaves: Sequence[np.ndarray]) -> Batch:
        """A batch of these arrays, which are in the order of `jax.tree.leaves`."""
        return jax.tree.unflatten(self._batch_tree, leaves)

    def delta(self, state: LearnerState, fragment: int) -> jax.Array:
        """Outer gradient base - params of one fragment, f32 [n_p]; starts its copy to the host."""
        leaves = self._fragments.leaves
        base, params = leaves(state.base, fragment), leaves(state.params, fragment)
        difference = self._fragments.delta(fragment, base, params)
        difference.copy_to_host_async()
        return difference

    def adopt(
        self, state: LearnerState, fragment: int, flat: FloatArray, *, has_work: bool = False
    ) -> LearnerState:
        """Overwrite params and base of one fragment with `flat` f32 [n_p]; moments are kept.

        `has_work`: params keep the share `blend` of themselves. `flat` is copied and may be reused.
        ValueError if it has another size or dtype.
        """
        tensors = self._layout.fragments[fragment].unflatten(flat).values()
        # a copy of each: on a CPU the device array may share memory with `flat`
        arrays = self._sharding.put(
            [tensor.copy() for tensor in tensors],
            [self._sharding.of(tensor.shape) for tensor in tensors],
        )
        own = self._fragments.leaves(state.params, fragment)
        params = self._fragments.blended(fragment, own, arrays) if has_work else arrays
        return state._replace(
            params=self._fragments.replaced(state.params, fragment, params),
            base=self._fragments.replaced(state.base, fragment, arrays),
        )

    def flat(self, tree: Params, fragment: int) -> FloatArray:
        """One fragment of a state's params or base, read back from the device, f32 [n_p]."""
        leaves = self._sharding.read(self._fragments.leaves(tree, fragment))
        return np.concatenate([leaf.reshape(-1) for leaf in leaves])

    def adopted(self, state: LearnerState, fragment: int) -> FloatArray:
        """Adopted values of one fragment, read back, f32 [n_p]."""
        return self.flat(state.base, fragment)

    def trained(self, state: LearnerState, fragment: int) -> FloatArray:
        """Trained values of one fragment, read back, f32 [n_p]."""
        return self.flat(state.params, fragment)

    def digest(self, state: LearnerState, fragment: int) -> str:
        """Digest of the trained values of one fragment, read back."""
        return digest(self.trained(state, fragment))

    def without_work(self, state: LearnerState) -> LearnerState:
        """`state` with the adopted values as the trained ones."""
        return state._replace(params=state.base)

    # ------------------------------------------------------------ checkpoints

    def pack(self, state: LearnerState) -> bytes:
        """The adopted tensors, fragment by fragment, then the moments: values without headers.

        Little-endian. Work since the adoption is left out, so that no token is counted twice.
        """
        fragments = range(len(self._layout.fragments))
        base = [self._fragments.leaves(state.base, fragment) for fragment in fragments]
        packed = [*chain.from_iterable(base), *jax.tree.leaves(state.moments)]
        return b"".join(
            array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            for array in self._sharding.read(packed)
        )

    def unpack(self, payload: bytes | memoryview) -> LearnerState:
        """The packed base and moments, as a state without work of its own.

        ValueError unless the length fits this model exactly.
        """
        places = [place for fragment in self._fragments.places for place in fragment]
        like = [self._sharding.like(self.specs[place].shape) for place in places]
        like += jax.tree.leaves(self._functions.moments_like)
        sizes = [math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in like]
        if len(payload) != sum(sizes):
            raise ValueError(
                f"checkpoint: must be {sum(sizes):,} bytes for this model, got {len(payload):,}"
            )
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        owned = [
            np.frombuffer(payload, leaf.dtype.newbyteorder("<"), math.prod(leaf.shape), start)
            .astype(leaf.dtype)
            .reshape(leaf.shape)
            for leaf, start in zip(like, starts, strict=True)
        ]
        placed = self._sharding.put(owned, [leaf.sharding for leaf in like])
        by_place = dict(zip(places, placed, strict=False))
        trees = self._functions.params_like, self._functions.moments_like
        of_params, of_moments = map(jax.tree.structure, trees)
        base = jax.tree.unflatten(of_params, [by_place[place] for place in sorted(by_place)])
        moments = jax.tree.unflatten(of_moments, placed[len(places) :])
        return LearnerState(params=base, base=base, moments=moments)

    def moments_digest(self, payload: bytes) -> str:
        """32 hex digits of XXH3-128 of the moments in what `pack` made.

        The step of the schedule is left out, since `at_step` sets it.
        """
        found, start = xxh3_128(), 4 * self.parameters
        for node in jax.tree.leaves(self._functions.moments_like, is_leaf=_is_schedule):
            sizes = [math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(node)]
            end = start + sum(sizes)
            if not _is_schedule(node):
                found.update(memoryview(payload)[start:end])
            start = end
        return found.hexdigest()

    def moments_digest_of_state(self, state: LearnerState) -> str:
        """`moments_digest` of what `pack` makes of `state`; only the moments are read back."""
        nodes = jax.tree.leaves(state.moments, is_leaf=_is_schedule)
        leaves = jax.tree.leaves([node for node in nodes if not _is_schedule(node)])
        found = xxh3_128()
        for array in self._sharding.read(leaves):
            found.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
        return found.hexdigest()

    # ------------------------------------------------------------ inside

    def _program(self, settings: InnerSettings) -> str:
        """All that the step depends on beside JAX; empty if a part of it is unknown."""
        identity = getattr(self.task, "identity", "")
        code = code_of(__file__, sharding.__file__, compiled_functions.__file__)
        is_known = bool(identity and code) and type(self) is Inner
        return f"{identity} {settings} optax {optax.__version__} {code}" if is_known else ""


def _check(batch: Batch, task: Task, devices: int) -> None:
    length = check_batch(batch, type(task).__name__)
    if length % devices:
        raise TaskError(f"batch: length must be a multiple of {devices} devices, got {length}")
