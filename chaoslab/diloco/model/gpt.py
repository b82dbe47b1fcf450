"""A small GPT in plain JAX, and the task that trains it on text as bytes.

    tokens ─► embedding ─► [ + attention ─► + mlp ] x blocks ─► norm ─► embedding' ─► logits

RMSNorm (1910.07467), rotary positions (2104.09864), SwiGLU (2002.05202), no biases, a byte
vocabulary, one embedding for both ends. Parameters are one flat dict of separate float32 tensors
with readable names, because whole tensors are what fragments are made of; blocks are not stacked.

float32 throughout; the precision of products is JAX's default for the device. Nothing here depends
on an optimizer, a fragment or a mesh.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chaoslab.diloco.model import data as texts
from chaoslab.diloco.model.compilation import code_of
from chaoslab.diloco.model.task import TaskError

VOCABULARY = 256
EVALUATED_SEQUENCES = 64
_EVALUATION_BATCH = 8

Parameters = dict[str, jax.Array]


class Shape(NamedTuple):
    """Sizes of a model. `width` must be a multiple of `2 * heads`."""

    width: int
    blocks: int
    heads: int
    hidden: int  # of the SwiGLU, about 8/3 of the width


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model shape with its default batch (sequences) and sequence length (bytes)."""

    shape: Shape
    batch: int
    sequence: int


PRESETS = {
    "nano": Preset(shape=Shape(64, 2, 2, 176), batch=8, sequence=128),  # 0.12 M parameters
    "micro": Preset(shape=Shape(128, 5, 4, 352), batch=8, sequence=128),  # 1.0 M
    "mini": Preset(shape=Shape(320, 8, 5, 864), batch=16, sequence=256),  # 10 M
    # bytes need no large embedding, so the hidden layer is wider than usual to reach 124 M
    "small": Preset(shape=Shape(768, 12, 12, 3456), batch=8, sequence=512),
}


# ---------------------------------------------------------------- the model


def init(shape: Shape, key: jax.Array) -> Parameters:
    """Initial parameters. Matrices have deviation 1/sqrt(inputs), less for residual outputs.

    One draw serves all tensors: it compiles much faster than one draw for each. It is not fused
    with what follows, which on a GPU takes twice as long to compile.
    """
    shapes = tensor_shapes(shape)
    sizes = [math.prod(size) for size in shapes.values()]
    values = jax.lax.optimization_barrier(jax.random.normal(key, (sum(sizes),)))
    drawn = jnp.split(values, np.cumsum(sizes)[:-1])
    return {
        name: jnp.ones(size) if len(size) == 1 else flat.reshape(size) * _deviation(shape, name)
        for (name, size), flat in zip(shapes.items(), drawn, strict=True)
    }


def apply(shape: Shape, params: Parameters, tokens: jax.Array) -> jax.Array:
    """Logits f32 [batch, sequence, 256] of each next byte; `tokens` is i32 [batch, sequence]."""
    rotation = _rotation(tokens.shape[1], shape.width // shape.heads)
    x = params["embedding"][tokens] * math.sqrt(shape.width)  # [batch, sequence, width]
    for number in range(shape.blocks):
        attention = _part(params, f"block-{number}.attention.")
        x = x + _attention(attention, _norm(x, attention["norm"]), shape.heads, rotation)
        mlp = _part(params, f"block-{number}.mlp.")
        x = x + _mlp(mlp, _norm(x, mlp["norm"]))
    return _norm(x, params["final.norm"]) @ params["embedding"].T


def loss(shape: Shape, params: Parameters, tokens: jax.Array) -> jax.Array:
    """Mean cross-entropy per byte in nats, f32 []; `tokens` is u8 [batch, sequence + 1]."""
    tokens = tokens.astype(jnp.int32)
    logits, targets = apply(shape, params, tokens[:, :-1]), tokens[:, 1:, None]
    chosen = jnp.take_along_axis(logits, targets, axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def tensor_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor."""
    width, hidden = shape.width, shape.hidden
    shapes: dict[str, tuple[int, ...]] = {"embedding": (VOCABULARY, width)}
    for number in range(shape.blocks):
        attention, mlp = f"block-{number}.attention", f"block-{number}.mlp"
        shapes |= {f"{attention}.norm": (width,), f"{mlp}.norm": (width,)}
        shapes |= {
            f"{attention}.{name}": (width, width) for name in ("query", "key", "value", "output")
        }
        shapes |= {f"{mlp}.{name}": (width, hidden) for name in ("gate", "up")}
        shapes |= {f"{mlp}.down": (hidden, width)}
    return shapes | {"final.norm": (width,)}


def _deviation(shape: Shape, name: str) -> float:
    if name == "embedding":
        return 0.5 / math.sqrt(shape.width)  # read as half-unit rows, written as half-unit logits
    inputs = shape.hidden if name.endswith("down") else shape.width
    to_stream = 2 * shape.blocks if name.endswith(("output", "down")) else 1
    return 1 / math.sqrt(inputs * to_stream)


def _part(params: Parameters, prefix: str) -> Parameters:
    return {
        name.removeprefix(prefix): array
        for name, array in params.items()
        if name.startswith(prefix)
    }


def _norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """RMSNorm: divide the last axis by its root mean square, multiply by gain [width]."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain[None, None, :]


def _mlp(part: Parameters, x: jax.Array) -> jax.Array:
    return (jax.nn.silu(x @ part["gate"]) * (x @ part["up"])) @ part["down"]


def _attention(
    part: Parameters, x: jax.Array, heads: int, rotation: tuple[jax.Array, jax.Array]
) -> jax.Array:
    batch, sequence, width = x.shape
    by_head = (batch, sequence, heads, width // heads)
    query = _rotate((x @ part["query"]).reshape(by_head), rotation)
    key = _rotate((x @ part["key"]).reshape(by_head), rotation)
    value = (x @ part["value"]).reshape(by_head)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(width // heads)
    is_past = np.tri(sequence, dtype=np.bool_)[None, None]
    weights = jax.nn.softmax(jnp.where(is_past, scores, -1e30), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    return mixed.reshape(batch, sequence, width) @ part["output"]


def _rotation(sequence: int, head_width: int) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine for every position, f32 [1, sequence, 1, head_width / 2]."""
    turns = 10_000.0 ** (-np.arange(0, head_width, 2) / head_width)
    angles = np.arange(sequence)[None, :, None, None] * turns[None, None, None, :]
    return jnp.asarray(np.cos(angles), jnp.float32), jnp.asarray(np.sin(angles), jnp.float32)


def _rotate(x: jax.Array, rotation: tuple[jax.Array, jax.Array]) -> jax.Array:
    cosine, sine = rotation
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        [first * cosine - second * sine, first * sine + second * cosine], axis=-1
    )


# ---------------------------------------------------------------- the task


def text_task(name: str, data: str, *, batch: int | None, sequence: int | None) -> "TextTask":
    """Task of the preset `name` on the bytes of `data`; `batch` and `sequence` replace its own."""
    preset = PRESETS[name]
    preset = replace(preset, batch=batch or preset.batch, sequence=sequence or preset.sequence)
    if preset.batch < 1 or preset.sequence < 1:
        raise TaskError(f"batch {batch} and sequence {sequence} must be at least 1")
    return TextTask(preset, texts.open_text(data))


@dataclass(frozen=True, slots=True, eq=False)
class TextTask:
    """Preset GPT that predicts each next byte of a text; members as in `task.Task`."""

    preset: Preset
    text: texts.Bytes

    @property
    def tokens_per_batch(self) -> int:
        """Bytes predicted in one batch."""
        return self.preset.batch * self.preset.sequence

    @property
    def identity(self) -> str:
        """All that `init` and `loss` depend on: the preset, and the code of this module."""
        code = code_of(__file__)
        return f"gpt {self.preset} {code}" if code and type(self) is TextTask else ""

    @property
    def averaged(self) -> tuple[str, ...]:
        """Names of the tensors merged by weighted average: the embedding."""
        return ("embedding",)

    def init(self, key: jax.Array) -> Parameters:
        """Fresh parameters by tensor name."""
        return init(self.preset.shape, key)

    def loss(self, params: Parameters, batch: jax.Array) -> jax.Array:
        """Mean nats per byte, f32 []; `batch` is u8 [batch, sequence + 1]."""
        return loss(self.preset.shape, params, batch)

    def batches(self, shard: int, shards: int, seed: int, position: int) -> Iterator[texts.Bytes]:
        """Endless u8 [batch, sequence + 1]; see `data.batches`."""
        return texts.batches(
            self.text,
            sequence=self.preset.sequence,
            batch=self.preset.batch,
            shard=(shard, shards),
            seed=seed,
            position=position,
        )

    def evaluate(self, params: Parameters) -> float:
        """Mean nats per byte over the same 64 held-out sequences (fewer if the text is short)."""
        held_out = texts.held_out(
            self.text, sequence=self.preset.sequence, windows=EVALUATED_SEQUENCES
        )
        measure = _compiled_loss(self.preset.shape)
        losses = [
            measure(params, held_out[start : start + _EVALUATION_BATCH])
            for start in range(0, len(held_out), _EVALUATION_BATCH)
        ]
        return float(np.mean([np.asarray(one) for one in losses], dtype=np.float64))


@functools.cache
def _compiled_loss(shape: Shape) -> "jax.stages.Wrapped":
    return jax.jit(functools.partial(loss, shape))
