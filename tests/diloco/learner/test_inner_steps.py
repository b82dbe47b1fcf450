"""Inner steps, and fragments in and out: exact where exactness was promised."""

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings, LearnerState, optimizer
from chaoslab.diloco.model.fragments import Fragment, Layout
from chaoslab.diloco.model.gpt import Preset, Shape, TextTask
from chaoslab.diloco.model.task import Params

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("strict_jax", "cache_folder")]

TEXT = np.random.default_rng(0).integers(97, 123, 60_000, dtype=np.uint8)
TASK = TextTask(Preset(shape=Shape(16, 1, 2, 24), batch=4, sequence=16), TEXT)
FRAGMENTS = (
    ("block-0.mlp.up", "embedding"),
    ("final.norm", "block-0.attention.query", "block-0.attention.key", "block-0.mlp.norm"),
    ("block-0.attention.value", "block-0.attention.output", "block-0.attention.norm"),
    ("block-0.mlp.gate", "block-0.mlp.down"),
)


def layout(inner: Inner, fragments: Sequence[Sequence[str]] = FRAGMENTS) -> Layout:
    specs = {spec.name: spec for spec in inner.specs}
    return Layout(
        tuple(
            Fragment(index, tuple(specs[name] for name in names))
            for index, names in enumerate(fragments)
        )
    )


@pytest.fixture(scope="module")
def inner() -> Inner:
    inner = Inner(TASK, InnerSettings(warmup_steps=2, decay_steps=100))
    inner.cut(layout(inner))
    inner.compile()
    return inner


@pytest.fixture
def trained(inner) -> LearnerState:
    """Five steps away from its base."""
    return walked(inner, inner.init(3), 5)


def test_a_step_in_two_halves_is_the_step(trained: LearnerState) -> None:
    halves = Inner(TASK, InnerSettings(warmup_steps=2, decay_steps=100), is_split=True)
    halves.cut(layout(halves))
    halves.compile()
    whole = Inner(TASK, InnerSettings(warmup_steps=2, decay_steps=100))
    batch = next(TASK.batches(0, 1, seed=0, position=7))
    flat = halves.gradients(trained, batch)
    assert flat.shape == (halves.parameters + 1,)
    state, loss = halves.update(trained, flat)
    expected, expected_loss = whole.step(trained, batch)
    assert float(loss) == float(expected_loss)
    for mine, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


def walked(inner: Inner, state: LearnerState, steps: int, position: int = 0) -> LearnerState:
    stream = TASK.batches(0, 1, seed=0, position=position)
    for batch in itertools.islice(stream, steps):
        state, _ = inner.step(state, batch)
    return state


def equal(one: Params, other: Params) -> bool:
    """Bit for bit."""
    return all(
        np.asarray(left).tobytes() == np.asarray(right).tobytes()
        for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def by_hand(tree: Params, fragment: int) -> np.ndarray:
    return np.concatenate([np.asarray(tree[name]).ravel() for name in FRAGMENTS[fragment]])


# ---------------------------------------------------------------- training


@pytest.mark.gate
def test_a_step_is_adamw_done_by_hand():
    settings = InnerSettings(lr=0.01, warmup_steps=0, decay_steps=100, weight_decay=0.2)
    inner = Inner(TASK, settings)
    state = inner.init(0)
    batch = next(TASK.batches(0, 1, seed=0, position=0))
    gradients = jax.jit(jax.grad(TASK.loss))(state.params, batch)
    stepped, _ = inner.step(state, batch)
    for name, held in state.params.items():
        old, gradient = np.asarray(held, np.float64), np.asarray(gradients[name], np.float64)
        decay = 0.2 * old if old.ndim >= 2 else 0.0
        # after one step both moments are corrected to the gradient itself and its square
        new = old - 0.01 * (gradient / (np.abs(gradient) + 1e-8) + decay)
        is_clear = np.abs(gradient) > 1e-5  # near zero, eps and float32 decide the sign
        np.testing.assert_allclose(stepped.params[name][is_clear], new[is_clear], atol=1e-5)


def test_the_rate_warms_up_and_falls_to_its_final_share():
    rates = [
        float(np.asarray(jax.tree.leaves(step)[0]).mean())
        for step in rates_of(InnerSettings(lr=1.0, warmup_steps=4, decay_steps=12), 14)
    ]
    assert rates[:5] == pytest.approx([0, 0.25, 0.5, 0.75, 1], abs=1e-5)
    assert rates[8] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 2)), abs=1e-5)
    assert rates[12:] == pytest.approx([0.1, 0.1], abs=1e-5)


def rates_of(settings: InnerSettings, steps: int):
    """The size of each update of a constant gradient, which Adam makes one rate large."""
    params, rule = np.zeros(3, np.float32), optimizer(settings)
    moments = rule.init(params)
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(steps):
            update, moments = rule.update(np.full(3, -2.0, np.float32), moments, params)
            yield optax.tree.scale(1.0, update)


def test_at_a_step_only_the_count_of_the_schedule_changes(inner, trained):
    later = inner.at_step(trained, 2**40)  # more than an optimizer counts
    assert equal(later.params, trained.params)
    changed = [
        (int(old), int(new))
        for old, new in zip(
            jax.tree.leaves(trained.moments), jax.tree.leaves(later.moments), strict=True
        )
        if not np.array_equal(old, new)
    ]
    assert changed == [(5, 2**31 - 1)]
    assert equal(inner.at_step(trained, 5).moments, trained.moments)


def test_a_state_stays_valid_while_later_steps_run(inner, trained):
    before = by_hand(trained.params, 1)
    delta = inner.delta(trained, 1)
    walked(inner, trained, 5)
    assert np.array_equal(by_hand(trained.params, 1), before)
    assert np.array_equal(delta, by_hand(trained.base, 1) - before)


def test_specs_list_every_tensor_and_what_is_averaged(inner):
    specs = {spec.name: (spec.shape, spec.is_averaged) for spec in inner.specs}
    assert specs["embedding"] == ((256, 16), True)
    assert specs["block-0.mlp.down"] == ((24, 16), False)
    assert [name for name, (_, is_averaged) in specs.items() if is_averaged] == ["embedding"]
    assert inner.parameters == sum(math.prod(shape) for shape, _ in specs.values())


@pytest.mark.parametrize(("warmup", "decay"), [(-1, 10), (10, 10), (5, 2)])
def test_a_warm_up_that_outlasts_the_decay_is_refused(warmup, decay):
    with pytest.raises(ValueError, match="decay"):
        InnerSettings(warmup_steps=warmup, decay_steps=decay)


# ---------------------------------------------------------------- fragments


def test_a_delta_is_base_minus_params_in_the_fragments_order(inner, trained):
    for fragment in range(4):
        by_definition = by_hand(trained.base, fragment) - by_hand(trained.params, fragment)
        assert np.array_equal(inner.delta(trained, fragment), by_definition)
        assert np.any(by_definition)


def changed_fragment_1_alone(adopted: LearnerState, before: LearnerState) -> bool:
    others = [name for fragment in (0, 2, 3) for name in FRAGMENTS[fragment]]
    return equal(adopted.moments, before.moments) and all(
        equal(after[name], earlier[name])
        for after, earlier in ((adopted.params, before.params), (adopted.base, before.base))
        for name in others
    )


@pytest.mark.gate
def test_adoption_overwrites_exactly_one_fragment_and_leaves_the_moments(inner, trained):
    published = published_for(trained)
    adopted = inner.adopt(trained, 1, published)
    assert np.array_equal(inner.flat(adopted.base, 1), published)
    assert np.array_equal(inner.flat(adopted.params, 1), published)
    assert not np.any(inner.delta(adopted, 1))
    assert changed_fragment_1_alone(adopted, trained)


@pytest.mark.parametrize("share", [0.5, 0.25, 0.9])
def test_an_adoption_with_work_blends_exactly_one_fragment(trained, share):
    inner = Inner(TASK)
    inner.cut(layout(inner), blend=share)
    published = published_for(trained)
    own = by_hand(trained.params, 1)
    adopted = inner.adopt(trained, 1, published, has_work=True)
    expected = np.float32(share) * own + np.float32(1 - share) * published
    blended = inner.trained(adopted, 1)
    if share == 0.5:  # products are exact, so that a fused multiplication and addition changes none
        assert np.array_equal(blended, expected)
    np.testing.assert_allclose(blended, expected, rtol=1e-6, atol=1e-7)
    assert np.array_equal(inner.adopted(adopted, 1), published)
    assert np.array_equal(inner.delta(adopted, 1), published - blended)
    assert np.any(published - blended)
    assert changed_fragment_1_alone(adopted, trained)
    assert np.array_equal(inner.trained(inner.without_work(adopted), 1), published)
    assert np.array_equal(inner.trained(inner.unpack(inner.pack(adopted)), 1), published)


def published_for(state: LearnerState) -> np.ndarray:
    """Another version of fragment 1."""
    size = by_hand(state.base, 1).shape
    return np.random.default_rng(1).normal(size=size).astype(np.float32)


def test_an_adopted_buffer_may_be_used_again(inner, trained):
    buffer = np.ones_like(inner.flat(trained.base, 2))
    adopted = inner.adopt(trained, 2, buffer)
    buffer[:] = 7
    assert np.all(inner.flat(adopted.params, 2) == 1)
    assert np.all(inner.flat(adopted.base, 2) == 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fragment_of_another_size_or_dtype_is_refused(inner, trained, dtype):
    size = by_hand(trained.base, 0).size - (dtype is np.float32)
    with pytest.raises(ValueError, match=r"fragment 0"):
        inner.adopt(trained, 0, np.zeros(size, dtype))


@pytest.mark.parametrize("fragments", [FRAGMENTS[1:], (*FRAGMENTS, ("embedding",))])
def test_fragments_must_hold_every_tensor_once(fragments):
    inner = Inner(TASK)
    with pytest.raises(ValueError, match="once"):
        inner.cut(layout(inner, fragments))


# ---------------------------------------------------------------- handing over


def test_a_checkpoint_hands_over_base_and_moments_bit_for_bit(inner, trained):
    payload = inner.pack(trained)
    received = inner.unpack(payload)
    assert equal(received.base, trained.base)
    assert equal(received.params, trained.base)
    assert equal(received.moments, trained.moments)
    assert [leaf.dtype for leaf in jax.tree.leaves(received.moments)] == [
        leaf.dtype for leaf in jax.tree.leaves(trained.moments)
    ]
    assert inner.pack(received) == payload


def test_a_checkpoint_begins_with_the_fragments_in_order(inner, trained):
    fragments = b"".join(inner.flat(trained.base, fragment).tobytes() for fragment in range(4))
    assert inner.pack(trained).startswith(fragments)


def test_the_digest_of_moments_is_that_of_what_was_handed_over(inner, trained):
    payload = inner.pack(trained)
    digest = inner.moments_digest(payload)
    assert inner.moments_digest_of_state(trained) == digest
    assert inner.moments_digest_of_state(inner.unpack(payload)) == digest
    assert inner.moments_digest_of_state(inner.at_step(trained, 900)) == digest
    assert inner.moments_digest_of_state(inner.init(7)) != digest


def test_fresh_moments_are_the_same_for_all(inner):
    digests = {inner.moments_digest_of_state(inner.init(seed)) for seed in (0, 1)}
    assert len(digests) == 1


@pytest.mark.parametrize("warmup_steps", [0, 3])
def test_the_rate_that_is_said_is_that_of_the_optimizer(warmup_steps):
    settings = InnerSettings(lr=0.5, warmup_steps=warmup_steps, decay_steps=9, final_share=0.2)
    inner = Inner(TASK, settings)
    fresh = inner.init(0)
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.0 if warmup_steps else 0.5,
        peak_value=0.5,
        warmup_steps=warmup_steps,
        decay_steps=9,
        end_value=0.1,
    )
    for step in range(12):
        said = inner.rate(inner.at_step(fresh, step))
        assert said == pytest.approx(float(schedule(step)), rel=1e-5)


def test_the_rate_of_an_optimizer_of_ones_own_is_not_known():
    class Own(Inner):
        def optimizer(self, settings):
            return optax.sgd(settings.lr)

    inner = Own(TASK)
    assert inner.rate(inner.init(0)) is None


@pytest.mark.gate
def test_a_receiver_trains_on_exactly_like_its_donor_without_own_work(inner, trained):
    donor = trained
    for fragment in range(4):
        donor = inner.adopt(donor, fragment, inner.flat(donor.base, fragment))
    received = inner.unpack(inner.pack(donor))
    assert equal(walked(inner, received, 3, position=5), walked(inner, donor, 3, position=5))


@pytest.mark.parametrize("change", [lambda p: p[:-1], lambda p: p + b"\0", lambda p: b""])
def test_a_payload_of_another_length_is_refused(inner, trained, change):
    payload = inner.pack(trained)
    with pytest.raises(ValueError, match=r"bytes"):
        inner.unpack(change(payload))


# ---------------------------------------------------------------- several devices

_ON_FOUR_DEVICES = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
import numpy as np
from chaoslab.diloco.learner.inner_steps import Inner
from chaoslab.diloco.model.task import TaskError
from tests.diloco.learner.test_inner_steps import TASK, layout, walked

states = []
for devices, fully_sharded in ((None, FULLY_SHARDED), (jax.local_devices()[:1], 1)):
    inner = Inner(TASK, devices=devices, fully_sharded=fully_sharded)
    assert len(inner.devices) == (1 if devices else 4)
    inner.cut(layout(inner), blend=0.5)
    inner.compile()
    state = walked(inner, inner.init(3), 12)
    blended = inner.adopt(state, 1, inner.flat(state.base, 1), has_work=True)
    np.testing.assert_allclose(
        inner.delta(blended, 1), inner.delta(state, 1) / 2, rtol=1e-2, atol=1e-5
    )
    state = inner.adopt(blended, 1, inner.flat(state.base, 1))
    assert not np.any(inner.delta(state, 1))
    state = walked(inner, state, 12, position=12)
    state = inner.unpack(inner.pack(state))._replace(params=state.params)
    state, loss = inner.step(state, next(TASK.batches(0, 1, seed=0, position=24)))
    for leaf in jax.tree.leaves(state):
        assert len(leaf.sharding.device_set) == len(inner.devices)
    assert np.asarray(inner.delta(state, 0)).any()
    states.append((float(loss), state, TASK.evaluate(state.params)))

(four_loss, four, four_held_out), (one_loss, one, one_held_out) = states
np.testing.assert_allclose(four_loss, one_loss, rtol=1e-4)
np.testing.assert_allclose(four_held_out, one_held_out, rtol=1e-4)
for left, right in zip(jax.tree.leaves(four), jax.tree.leaves(one), strict=True):
    np.testing.assert_allclose(left, right, rtol=1e-2, atol=1e-3)

try:
    Inner(TASK, devices=jax.local_devices()[:3]).compile()
except TaskError as error:
    assert "3 devices" in str(error)
else:
    sys.exit("an uneven batch was accepted")
print("four devices train like one")
"""


@pytest.mark.deep
@pytest.mark.parametrize(
    "fully_sharded",
    [
        1,
        pytest.param(2, marks=pytest.mark.soak),
        pytest.param(4, marks=pytest.mark.gate),
    ],
)
def test_four_devices_train_like_one(fully_sharded: int):
    program = f"FULLY_SHARDED = {fully_sharded}\n{_ON_FOUR_DEVICES}"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "NPROC": "2"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "four devices train like one" in result.stdout
