"""The GPT does what its parts promise, and its presets are what their names say."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chaoslab.diloco.model import gpt

pytestmark = pytest.mark.usefixtures("strict_jax")

TINY = gpt.Shape(width=16, blocks=1, heads=2, hidden=24)
init = jax.jit(gpt.init, static_argnums=0)
apply = jax.jit(gpt.apply, static_argnums=0)
loss = jax.jit(gpt.loss, static_argnums=0)


@pytest.fixture(scope="module")
def params() -> gpt.Parameters:
    return init(TINY, jax.random.key(0))


def tokens(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("preset", "millions"), [("nano", 0.117), ("micro", 1.04), ("mini", 9.99), ("small", 124.1)]
)
def test_a_preset_has_the_size_its_name_promises(preset, millions):
    shapes = gpt.tensor_shapes(gpt.PRESETS[preset].shape)
    assert sum(map(math.prod, shapes.values())) / 1e6 == pytest.approx(millions, rel=0.01)


def test_fresh_parameters_have_the_listed_names_and_shapes(params):
    assert {name: array.shape for name, array in params.items()} == gpt.tensor_shapes(TINY)
    assert {array.dtype for array in params.values()} == {jnp.dtype(jnp.float32)}


@pytest.mark.deep
def test_fresh_matrices_have_the_deviation_that_keeps_activations_level():
    shape = gpt.PRESETS["nano"].shape
    params = init(shape, jax.random.key(0))
    assert np.std(params["block-0.mlp.up"]) == pytest.approx(1 / 8, rel=0.05)
    assert np.std(params["block-1.mlp.down"]) == pytest.approx(1 / math.sqrt(4 * 176), rel=0.05)
    assert np.std(params["embedding"]) == pytest.approx(0.5 / 8, rel=0.05)


def test_no_logit_depends_on_a_later_byte(params):
    first = tokens(1, 1, 12).astype(np.int32)
    second = first.copy()
    second[0, 7:] = 255 - second[0, 7:]
    one, two = apply(TINY, params, first), apply(TINY, params, second)
    np.testing.assert_allclose(one[:, :7], two[:, :7], rtol=1e-5, atol=1e-5)
    assert not np.allclose(one[:, 7:], two[:, 7:])


def test_the_loss_is_the_mean_cross_entropy_done_by_hand(params):
    batch = tokens(3, 2, 9)
    logits = np.asarray(apply(TINY, params, batch[:, :-1].astype(np.int32)), np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    by_hand = -np.mean(np.log(np.take_along_axis(shares, batch[:, 1:, None].astype(int), -1)))
    assert float(loss(TINY, params, batch)) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.deep
def test_every_tensor_gets_a_gradient(params):
    gradients = jax.jit(jax.grad(lambda given: loss(TINY, given, tokens(6, 2, 17))))(params)
    assert all(np.abs(gradient).max() > 0 for gradient in gradients.values())


def test_evaluation_repeats_itself_and_uses_the_held_out_part(params):
    text = tokens(7, 40_000)
    preset = gpt.Preset(shape=TINY, batch=4, sequence=16)
    task = gpt.TextTask(preset, text)
    assert task.evaluate(params) == task.evaluate(params)
    blocks = gpt.texts.split(len(text), 16)
    changed = text.copy()
    for start in blocks.training:
        changed[start : start + 32 * 16 + 1] = 0
    assert gpt.TextTask(preset, changed).evaluate(params) == task.evaluate(params)
