"""A model in NumPy, its gradients by hand: a perceptron guesses a byte from the eight before it.

    text ─ draw ─► windows u8 [n, SEEN + 1] ─ loss_and_gradients ─► float, {name: float32 array}

`numpy_learner` trains it and `numpy_evaluator` measures it; nothing here knows chaoslab. Set
OPENBLAS_NUM_THREADS=1 where several learners share the cores of one machine.
"""

import os
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

SEEN = 8  # bytes the model looks back
EMBEDDED = 16  # numbers per byte
HIDDEN = 128

Floats: TypeAlias = NDArray[np.float32]
Params: TypeAlias = dict[str, Floats]
Text: TypeAlias = NDArray[np.uint8]


def init(seed: int) -> Params:
    chance = np.random.default_rng(seed)
    inputs = SEEN * EMBEDDED
    return {
        "embedding": chance.standard_normal((256, EMBEDDED), np.float32),
        "hidden": chance.standard_normal((inputs, HIDDEN), np.float32) / np.float32(inputs**0.5),
        "output": chance.standard_normal((HIDDEN, 256), np.float32) / np.float32(HIDDEN**0.5),
        "bias": np.zeros(256, np.float32),
    }


def loss_and_gradients(params: Params, windows: Text) -> tuple[float, Params]:
    """Mean loss per guess, and the gradient of each tensor."""
    seen, following = windows[:, :-1], windows[:, -1]
    rows = np.arange(len(windows))
    embedded = params["embedding"][seen].reshape(len(seen), -1)
    hidden = np.tanh(embedded @ params["hidden"])
    logits = hidden @ params["output"] + params["bias"]
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    sums = shares.sum(axis=1)
    loss = float((np.log(sums) - logits[rows, following]).mean())

    to_logits = shares / sums[:, None]
    to_logits[rows, following] -= 1
    to_logits /= len(windows)
    to_hidden = (to_logits @ params["output"].T) * (1 - hidden**2)
    to_embedding = np.zeros_like(params["embedding"])
    np.add.at(to_embedding, seen, (to_hidden @ params["hidden"].T).reshape(*seen.shape, EMBEDDED))
    return loss, {
        "embedding": to_embedding,
        "hidden": embedded.T @ to_hidden,
        "output": hidden.T @ to_logits,
        "bias": to_logits.sum(axis=0),
    }


def read(data: str) -> Text:
    """The text that `--data` names: a file, or with `stdlib` the modules of Python's library."""
    files = sorted(Path(os.__file__).parent.glob("*.py")) if data == "stdlib" else [Path(data)]
    return np.frombuffer(b"".join(file.read_bytes() for file in files), np.uint8)


def trained(text: Text, shard: int, shards: int) -> Text:
    """The stretch of one learner; the last twentieth of the text is nobody's."""
    return np.array_split(text[: len(text) * 19 // 20], shards)[shard]


def held_out(text: Text) -> Text:
    """The first windows of that last twentieth."""
    return _windows(text[len(text) * 19 // 20 :], np.arange(2048))


def draw(text: Text, count: int, chance: np.random.Generator) -> Text:
    return _windows(text, chance.integers(0, len(text) - SEEN, count))


def _windows(text: Text, starts: NDArray[np.int64]) -> Text:
    return text[starts[:, None] + np.arange(SEEN + 1)]
