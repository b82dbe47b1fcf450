"""Loading a task: the presets, a user's own, and what is said of one that cannot work."""

import numpy as np
import pytest

from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import TaskError, tensors_of

pytestmark = pytest.mark.usefixtures("strict_jax", "cache_folder")


WORKING = """
import jax.numpy as jnp
import numpy as np

class Line:
    tokens_per_batch = 4
    averaged = ()
    def init(self, key):
        return {"slope": jnp.zeros((1,)), "offset": jnp.zeros((1,))}
    def loss(self, params, batch):
        x, y = batch
        return jnp.mean((params["slope"] * x + params["offset"] - y) ** 2)
    def batches(self, shard, shards, seed, position):
        while True:
            yield np.ones(4, np.float32), np.zeros(4, np.float32)
    def evaluate(self, params):
        return 0.0

def make():
    return Line()
"""


@pytest.mark.parametrize(
    ("preset", "own", "batch", "sequence"),
    [("nano", {}, 8, 128), ("micro", {"batch": 2, "sequence": 32}, 2, 32)],
)
def test_a_preset_predicts_bytes_of_the_standard_library(preset, own, batch, sequence):
    task = load(preset, **own)
    assert task.tokens_per_batch == batch * sequence
    assert task.averaged == ("embedding",)
    first = next(task.batches(0, 4, seed=0, position=0))
    assert first.shape == (batch, sequence + 1)
    assert first.dtype == np.uint8


def test_a_function_is_given_what_it_asks_for_by_name(write):
    spec = write(
        WORKING
        + "\ndef asks(sequence, data='x'):"
        + "\n    assert (sequence, data) == (9, 'books')"
        + "\n    return Line()\n",
        "asks",
    )
    assert load(spec, data="books", batch=3, sequence=9).tokens_per_batch == 4


def test_names_are_paths_in_the_tree():
    tree = {"mlp": [{"up": np.zeros(1), "down": np.zeros(1)}], "embedding": np.zeros(1)}
    assert tuple(tensors_of(tree)) == ("embedding", "mlp.0.down", "mlp.0.up")


def test_two_tensors_of_one_name_are_refused():
    with pytest.raises(TaskError, match="tensor names"):
        tensors_of({"a.b": np.zeros(1), "a": {"b": np.zeros(1)}})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nanno", "nano, .*nanno"),
        ("no_such_module:make", r"'no_such_module' .* PYTHONPATH"),
        (":make", r"''"),
        ("math:make", r"math .*def make"),
        ("math:pi", r"'pi'"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_what_to_write(spec, said):
    with pytest.raises(TaskError, match=said):
        load(spec)


def test_a_function_that_wants_more_than_there_is_is_refused(write):
    spec = write("def make(data, depth):\n    return None\n")
    with pytest.raises(TaskError, match=r"'depth'.*data, batch, sequence"):
        load(spec)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def evaluate(", "def measure(", "Line .*evaluate"),
        ("tokens_per_batch = 4", "tokens_per_batch = 0", "tokens_per_batch"),
        ("averaged = ()", "averaged = 'slope'", "averaged: "),
        ("averaged = ()", "averaged = ('slop',)", r"averaged: .*slop"),
        ("averaged = ()", "averaged = (); loss = 3", "lacks"),
        ('"slope": jnp.zeros((1,))', '"slope": jnp.zeros((1,), int)', "slope"),
        ('{"slope": jnp.zeros((1,)), "offset": jnp.zeros((1,))}', "{}", "init: "),
        ("return {", "return float(key) + {", "init.key."),
        ("jnp.mean(", "(", "loss: "),
        ("np.ones(4, np.float32)", "np.ones(3, np.float32)", "leading axes"),
        ("np.ones(4, np.float32)", "[1.0]", "numpy arrays"),
        ("while True", "for _ in ()", "batches: "),
        ("def make():\n    return Line()", "def make():\n    return None", "NoneType"),
    ],
)
def test_a_task_that_cannot_be_trained_says_which_member_is_wrong(write, old, new, said):
    assert old in WORKING
    source = WORKING.replace(old, new, 1)
    if "loss = 3" in new:
        source = source.replace("def loss(", "def lost(")
        said = "methods: loss"
    with pytest.raises(TaskError, match=said):
        load(write(source))
