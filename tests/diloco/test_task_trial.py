"""A task is tried before a run: each broken promise is one sentence that says what to write."""

import json
import subprocess
import sys

import pytest

from chaoslab.diloco.task_trial import problem_of

pytestmark = pytest.mark.usefixtures("cache_folder")

WORKING = """
import jax.numpy as jnp
import numpy as np

class Line:
    tokens_per_batch = 4
    averaged = ()
    def init(self, key):
        return {"slope": jnp.ones((1,)), "offset": jnp.zeros((1,))}
    def loss(self, params, batch):
        x, y = batch
        return jnp.mean((params["slope"] * x + params["offset"] - y) ** 2)
    def batches(self, shard, shards, seed, position):
        while True:
            chance = np.random.default_rng([seed, shard, position])
            x = chance.normal(size=4).astype(np.float32)
            yield x, 2 * x
            position += 1
    def evaluate(self, params):
        return float(jnp.mean(params["slope"] ** 2))

def make():
    return Line()
"""


def test_a_working_task_has_no_problem(write):
    assert problem_of(write(WORKING), fragments=2, shards=4) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return jnp.mean((params", "return ((params", "float32"),
        ("jnp.zeros((1,))", "jnp.zeros((1,), jnp.bfloat16)", "'offset'"),
        ("jnp.ones((1,))", "jnp.full((1,), jnp.nan)", "'slope'"),
        ("- y) ** 2)", "- y) ** 2) / 0.0", "loss"),
        ("x, y = batch", "x, y = batch['x']", "traced"),
        ("[seed, shard, position]", "None", "other batches"),
        ("position += 1", "position *= 2", "batch 2"),
        ("[seed, shard, position]", "[seed, position]", "shards 0 and 3"),
        ("while True:", "for _ in range(3):", "after 3"),
        ("return float(", "return jnp.asarray(", "ArrayImpl"),
        ("return float(", "return float('nan') * float(", "evaluate"),
        ("return float(", "return np.random.random() + float(", "same parameters"),
        ("return float(", "raise KeyError(7)\n        return float(", "raises KeyError: 7"),
        ("size=4)", "size=4 + position)", "shapes"),
        ("return Line()", "return {}['x']", "raises KeyError"),
        ("return Line()", "raise SystemExit(3)", "raises SystemExit: 3"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_one_sentence(write, old, new, said):
    assert old in WORKING
    problem = problem_of(write(WORKING.replace(old, new, 1)), fragments=2, shards=4)
    assert problem is not None
    assert said in problem
    assert "\n" not in problem


def test_a_model_with_fewer_tensors_than_fragments_is_told_which_key_to_set(write):
    problem = problem_of(write(WORKING), fragments=3, shards=4)
    assert "training.fragments" in problem


def test_an_error_of_the_task_names_its_file_and_line(write, tmp_path):
    source = WORKING.replace("x, y = batch", "x, y = batch['x']")
    line = source.splitlines().index("        x, y = batch['x']") + 1
    problem = problem_of(write(source), fragments=2, shards=4)
    assert f"{tmp_path}" in problem
    assert f".py:{line})" in problem


def test_an_array_that_changes_after_it_was_given_is_found(write):
    source = WORKING.replace("while True:", "x = np.zeros(4, np.float32)\n        while True:")
    source = source.replace(
        "x = chance.normal(size=4).astype(np.float32)", "x[:] = chance.normal(size=4)"
    )
    problem = problem_of(write(source), fragments=2, shards=4)
    assert "changes an array" in problem


@pytest.mark.deep
def test_the_answer_is_the_last_line_whatever_the_task_prints(write, tmp_path):
    spec = write(WORKING + '\nprint(\'{"problem": "no answer"}\')\n')
    done = subprocess.run(
        [sys.executable, "-m", "chaoslab.diloco.task_trial", "--task", spec],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == {"problem": None}
