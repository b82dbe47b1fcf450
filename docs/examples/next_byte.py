"""A model of one's own: a small perceptron guesses the next byte of a text from the last eight.

Run it with `task: next_byte:make` in a plan, or `--task next_byte:make` on the command line, from
the folder that holds this file. Everything chaoslab needs of a model is here.
(Bengio et al., A Neural Probabilistic Language Model, 2003.)
"""

from collections.abc import Iterator
from pathlib import Path
from pydoc_data import topics

import jax
import jax.numpy as jnp
import numpy as np

SEEN = 8  # bytes the model looks back
EMBEDDED = 16  # numbers per byte
HIDDEN = 128

Params = dict[str, jax.Array]
Batch = tuple[np.ndarray, np.ndarray]  # u8 [batch, SEEN] and u8 [batch]


class NextByte:
    """Guess a byte from the eight before it."""

    averaged = ("embedding",)  # rows of rare bytes rarely move: average them, do not rescale them

    def __init__(self, text: np.ndarray, batch: int) -> None:
        cut = len(text) * 19 // 20
        self._training, self._held_out = text[:cut], text[cut:]
        self._batch = batch
        self._measure = jax.jit(self.loss)

    @property
    def tokens_per_batch(self) -> int:
        return self._batch

    def init(self, key: jax.Array) -> Params:
        embedding, hidden, output = jax.random.split(key, 3)
        inputs = SEEN * EMBEDDED
        return {
            "embedding": jax.random.normal(embedding, (256, EMBEDDED)),
            "hidden": jax.random.normal(hidden, (inputs, HIDDEN)) * inputs**-0.5,
            "output": jax.random.normal(output, (HIDDEN, 256)) * HIDDEN**-0.5,
            "bias": jnp.zeros((256,)),
        }

    def loss(self, params: Params, batch: Batch) -> jax.Array:
        seen, following = batch
        embedded = params["embedding"][seen.astype(jnp.int32)]  # [batch, SEEN, EMBEDDED]
        hidden = jnp.tanh(embedded.reshape(len(seen), -1) @ params["hidden"])
        logits = hidden @ params["output"] + params["bias"][None, :]
        chosen = following.astype(jnp.int32)[:, None]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), chosen, axis=-1))

    def batches(self, shard: int, shards: int, seed: int, position: int) -> Iterator[Batch]:
        own = np.array_split(self._training, shards)[shard]  # one stretch for each learner
        while True:
            # batch k depends on k alone, so a restarted learner goes on exactly where it was
            chance = np.random.default_rng([seed, shard, position])
            yield self._cut(own, chance.integers(0, len(own) - SEEN, self._batch))
            position += 1

    def evaluate(self, params: Params) -> float:
        return float(self._measure(params, self._cut(self._held_out, np.arange(2048))))

    def _cut(self, text: np.ndarray, starts: np.ndarray) -> Batch:
        windows = text[starts[:, None] + np.arange(SEEN + 1)[None, :]]
        return windows[:, :-1], windows[:, -1]


def make(data: str, batch: int = 256) -> NextByte:
    """`data` is the plan's `data:`, here the path of a text file; `batch` its `inner: {batch}`.

    Without `data:` a plan has `stdlib`: then it is the text of Python's own help.
    """
    path = topics.__file__ if data == "stdlib" else data
    return NextByte(np.frombuffer(Path(path).read_bytes(), np.uint8), batch)
