"""Merging and the outer step: the formulas by hand, their properties, and optax."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chaoslab.diloco.arrays.threads import INLINE, Threads
from chaoslab.diloco.model.codec import Encoded, encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import Fragment, TensorSpec
from chaoslab.diloco.syncer import merge as merging
from chaoslab.diloco.syncer.merge import (
    DIRECTION_NORM_MIN,
    Merged,
    Method,
    OuterState,
    squares_of,
)

every_method = pytest.mark.parametrize("method", list(Method))


def fragment_of(*sizes: int, averaged: int | None = None) -> Fragment:
    """One tensor for each size; number `averaged` is merged by the average."""
    tensors = tuple(
        TensorSpec(name=f"t{index}", shape=(size,), is_averaged=index == averaged)
        for index, size in enumerate(sizes)
    )
    return Fragment(0, tensors)


def source(delta: np.ndarray, codec: Codec = Codec.F32) -> Encoded:
    return Encoded(encode(delta, codec), delta.size, codec)


def merge(
    deltas: Sequence[np.ndarray],
    weights: Sequence[float],
    fragment: Fragment,
    method: Method | str = Method.RDA,
    *,
    codec: Codec = Codec.F32,
    out: np.ndarray | None = None,
    threads: Threads = INLINE,
) -> np.ndarray:
    """The merged outer gradient of these deltas as floats, in `out` if given."""
    sources = [source(delta, codec) for delta in deltas]
    known = [squares_of(one, fragment) for one in sources]
    merged = merging.merge(
        sources, weights, fragment, method, squares_by_delta=known, out=out, threads=threads
    )
    assert out is None or merged.sums is out
    for block in fragment.blocks(fragment.size):
        merged.read(block, merged.sums)
    return merged.sums


def outer_step(
    state: OuterState,
    delta: np.ndarray,
    lr: float,
    momentum: float,
    *,
    out: OuterState | None = None,
    threads: Threads = INLINE,
) -> OuterState:
    merged = Merged(fragment_of(delta.size), delta, [1.0])
    return merging.outer_step(state, merged, lr, momentum, out=out, threads=threads)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def normals(count: int, size: int, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(size, dtype=np.float32) for _ in range(count)]


def norm_by_hand(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))


def average_by_hand(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    total = sum(weights)
    return [
        sum(weight * value for weight, value in zip(weights, column, strict=True)) / total
        for column in zip(*rows, strict=True)
    ]


def direction_by_hand(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Σ w φ(Δ) / Σ w."""
    units = [[value / (norm_by_hand(row) or 1.0) for value in row] for row in rows]
    return average_by_hand(units, weights)


def rda_by_hand(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """(Σ w‖Δ‖ / Σ w) · φ(Σ w φ(Δ) / Σ w), in plain Python."""
    mean_norm = sum(
        weight * norm_by_hand(row) for weight, row in zip(weights, rows, strict=True)
    ) / sum(weights)
    direction = direction_by_hand(rows, weights)
    length = norm_by_hand(direction)
    return [mean_norm * value / length for value in direction]


@st.composite
def contributions(draw: st.DrawFn) -> tuple[list[np.ndarray], list[float]]:
    """Deltas of 1 to 5 learners for one tensor, whose directions do not cancel."""
    count, size = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    values = st.one_of(st.just(0.0), st.floats(0.01, 100), st.floats(-100, -0.01))
    rows = st.lists(values, min_size=size, max_size=size)
    deltas = [vector(*draw(rows)) for _ in range(count)]
    weights = [draw(st.floats(0.01, 1e9)) for _ in range(count)]
    if any(delta.any() for delta in deltas):
        moving = [pair for pair in zip(deltas, weights, strict=True) if pair[0].any()]
        rest = [delta.tolist() for delta, _ in moving], [weight for _, weight in moving]
        assume(norm_by_hand(direction_by_hand(*rest)) > 20 * DIRECTION_NORM_MIN)
    return deltas, weights


def close(actual: np.ndarray, wanted: Sequence[float] | np.ndarray, rtol: float = 1e-4) -> None:
    """Equal within `rtol` of the norm of what is wanted."""
    wanted = np.asarray(wanted, np.float64)
    assert np.linalg.norm(actual - wanted) <= rtol * np.linalg.norm(wanted) + 1e-37


# ---------------------------------------------------------------- the formulas by hand


def test_an_averaged_tensor_is_averaged_whatever_the_method() -> None:
    deltas, weights = normals(4, 20), [3.0, 1.0, 1.0, 2.0]
    fragment = fragment_of(8, 12, averaged=0)
    merged = merge(deltas, weights, fragment, Method.RDA)
    averaged = merge(deltas, weights, fragment, Method.AVERAGE)
    assert merged[:8].tobytes() == averaged[:8].tobytes()
    assert not np.allclose(merged[8:], averaged[8:])


@pytest.mark.parametrize("sizes", [(262_144,), (262_145,), (600_001, 7, 8_192, 8_193)])
@every_method
def test_tensors_of_many_blocks_are_merged_like_small_ones(
    sizes: tuple[int, ...], method: Method
) -> None:
    deltas, weights = normals(3, sum(sizes)), [1.0, 2.0, 3.0]
    fragment = fragment_of(*sizes)
    merged = merge(deltas, weights, fragment, method)
    for place in fragment.slices:
        rows = np.stack([delta[place] for delta in deltas]).astype(np.float64)
        shares = np.array(weights) / sum(weights)
        norms = np.linalg.norm(rows, axis=1)
        wanted = shares @ rows
        if method is Method.RDA:
            direction = (shares / norms) @ rows
            wanted = (shares @ norms) * direction / np.linalg.norm(direction)
        close(merged[place], wanted, 1e-6)


# ---------------------------------------------------------------- properties of rda


@settings(max_examples=50)
@given(given_=contributions())
def test_rda_is_the_formula(given_: tuple[list[np.ndarray], list[float]]) -> None:
    deltas, weights = given_
    assume(any(delta.any() for delta in deltas))
    merged = merge(deltas, weights, fragment_of(deltas[0].size))
    close(merged, rda_by_hand([delta.tolist() for delta in deltas], weights))


@every_method
def test_a_single_contributor_is_taken_exactly(method: Method) -> None:
    (delta,) = normals(1, 20)
    merged = merge([delta], [0.3], fragment_of(12, 8, averaged=1), method)
    assert merged.tobytes() == delta.tobytes()
    assert not np.shares_memory(merged, delta)


# ---------------------------------------------------------------- cancellation and zeros


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e-30])
@pytest.mark.parametrize(("rest", "falls_back"), [(0.9, True), (1.1, False)])
def test_the_threshold_is_the_norm_of_the_mean_direction(
    rest: float, falls_back: bool, scale: float
) -> None:
    angle = rest * DIRECTION_NORM_MIN  # two unit vectors whose mean is (0, sin angle)
    deltas = [
        vector(scale * math.cos(angle), scale * math.sin(angle)),
        vector(-2 * scale * math.cos(angle), 2 * scale * math.sin(angle)),
    ]
    merged = merge(deltas, [1.0, 1.0], fragment_of(2)).astype(np.float64)
    rows = [delta.tolist() for delta in deltas]
    by_hand = average_by_hand if falls_back else rda_by_hand
    close(merged, by_hand(rows, [1.0, 1.0]), 1e-3)


def test_one_tensor_falls_back_while_its_neighbour_does_not() -> None:
    deltas = [vector(1, 0, 2, 0), vector(-1, 0, 0, 2)]
    merged = merge(deltas, [1.0, 1.0], fragment_of(2, 2))
    np.testing.assert_allclose(merged, [0, 0, math.sqrt(2), math.sqrt(2)], rtol=1e-6)


@every_method
def test_zero_deltas_merge_to_zero(method: Method) -> None:
    deltas = [np.zeros(9, np.float32)] * 3
    assert not merge(deltas, [1.0, 2.0, 3.0], fragment_of(9), method).any()


def test_many_zero_deltas_are_not_a_cancellation() -> None:
    deltas = [np.zeros(2, np.float32), vector(1, 0), vector(0, 1)]
    weights = [5000.0, 1.0, 1.0]  # as of so many that did not move
    merged = merge(deltas, weights, fragment_of(2))
    close(merged, rda_by_hand([delta.tolist() for delta in deltas], weights))


@every_method
def test_a_learner_of_weight_zero_is_not_even_looked_at(method: Method) -> None:
    deltas = normals(2, 6)
    with_a_third = [*deltas, np.full(6, np.nan, np.float32)]
    merged = merge(with_a_third, [1.0, 2.0, 0.0], fragment_of(6), method)
    assert merged.tobytes() == merge(deltas, [1.0, 2.0], fragment_of(6), method).tobytes()


# ---------------------------------------------------------------- cosines


def cosines(
    deltas: Sequence[np.ndarray],
    weights: Sequence[float],
    fragment: Fragment,
    method: Method = Method.RDA,
    codec: Codec = Codec.F32,
) -> Sequence[float | None]:
    sources = [source(delta, codec) for delta in deltas]
    known = [squares_of(one, fragment) for one in sources]
    return merging.merge(sources, weights, fragment, method, squares_by_delta=known).cosines


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [2, 3, 9])
@every_method
def test_cosines_are_those_of_each_delta_with_the_others_as_merged(
    method: Method, count: int, codec: Codec
) -> None:
    common, *own = normals(count + 1, 300_000)
    deltas = [one + common for one in own]
    deltas[1] = -deltas[1]
    weights, fragment = [float(m + 1) for m in range(count)], fragment_of(262_144, 37_000, 856)
    found = cosines(deltas, weights, fragment, method, codec)
    merged = np.zeros((count, fragment.size))
    for place in fragment.slices:
        for m, delta in enumerate(deltas):
            values = source(delta, codec).part(place).astype(np.float64)
            length = np.linalg.norm(values) if method is Method.RDA else 1.0
            merged[m, place] = weights[m] * values / length
        if method is Method.RDA:
            norms = [np.linalg.norm(source(delta, codec).part(place)) for delta in deltas]
            merged[:, place] *= np.average(norms, weights=weights)
    for m, cosine in enumerate(found):
        others = merged.sum(axis=0) - merged[m]
        wanted = merged[m] @ others / (np.linalg.norm(merged[m]) * np.linalg.norm(others))
        assert cosine == pytest.approx(wanted, abs=1e-4)
    assert found[1] is not None
    assert found[1] < 0


def test_what_has_no_direction_has_no_cosine() -> None:
    still, one, other = np.zeros(4, np.float32), vector(1, 2, 3, 4), vector(-1, -2, -3, -4)
    fragment = fragment_of(2, 2)
    assert cosines([one], [1.0], fragment) == [None]
    assert cosines([one, still], [1.0, 1.0], fragment) == [None, None]
    assert cosines([one, vector(1, 1, 1, 1), still], [1.0, 0.0, 1.0], fragment) == [None] * 3
    assert cosines([one, other, still], [1.0, 1.0, 1.0], fragment) == [
        pytest.approx(-1.0), pytest.approx(-1.0), None,
    ]  # fmt: skip


# ---------------------------------------------------------------- extremes


@pytest.mark.parametrize("exponents", [(-44, -44), (-44, 3), (-25, 25), (30, 30), (0, 37)])
def test_norms_whose_squares_leave_float32_are_merged_by_the_same_formula(
    exponents: tuple[int, int],
) -> None:
    rows = [[3 * 10.0 ** exponents[0], 1e-45], [0.0, 2 * 10.0 ** exponents[1]]]
    deltas = [vector(*row) for row in rows]
    rows = [delta.astype(np.float64).tolist() for delta in deltas]
    close(merge(deltas, [1.0, 3.0], fragment_of(2)), rda_by_hand(rows, [1.0, 3.0]), 1e-5)


@pytest.mark.parametrize("weights", [[1e308, 1e308], [5e-324, 5e-324], [1e-300, 1e-300]])
def test_extreme_weights_are_normalised_without_overflow(weights: list[float]) -> None:
    merged = merge([vector(1, 0), vector(0, 1)], weights, fragment_of(2), Method.AVERAGE)
    assert merged.tolist() == [0.5, 0.5]


@every_method
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, 2])
def test_a_delta_that_is_not_finite_is_never_merged(
    method: Method, value: float, count: int
) -> None:
    deltas = normals(count, 300_000)
    deltas[0][200_000] = value
    with pytest.raises(ValueError, match="NaN"):
        merge(deltas, [1.0] * count, fragment_of(100_000, 200_000), method)


def test_a_result_that_overflows_float32_is_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        merge([vector(3e38, 3e38), vector(3e38, -3e38)], [1.0, 1.0], fragment_of(2))


# ---------------------------------------------------------------- what is refused, bits, out


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0], []])
def test_weights_that_cannot_be_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        merge(normals(2, 4), weights, fragment_of(4))


def test_deltas_of_another_length_are_refused() -> None:
    delta = source(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"float32 \[4\]"):
        merging.merge([delta], [1.0], fragment_of(4), squares_by_delta=[[0.0]])


@every_method
def test_equal_inputs_give_equal_bits_and_stay_as_they_were(method: Method) -> None:
    deltas, weights = normals(4, 200_000), [1.0, 2.0, 5.0, 1.5]
    before = [delta.copy() for delta in deltas]
    fragment = fragment_of(150_000, 49_999, 1)
    first = merge(deltas, weights, fragment, method)
    assert first.tobytes() == merge(before, weights, fragment, method).tobytes()
    for delta, copy in zip(deltas, before, strict=True):
        np.testing.assert_array_equal(delta, copy)


@every_method
def test_the_result_can_go_into_a_given_array(method: Method) -> None:
    deltas, weights = normals(3, 10), [1.0, 2.0, 5.0]
    out = np.full(10, np.nan, np.float32)
    merged = merge(deltas, weights, fragment_of(10), method, out=out)
    assert merged is out
    assert out.tobytes() == merge(deltas, weights, fragment_of(10), method).tobytes()
    with pytest.raises(ValueError, match=r"float32 \[10\]"):
        merge(deltas, weights, fragment_of(10), method, out=np.zeros(11, np.float32))


# ---------------------------------------------------------------- the outer step


@pytest.mark.parametrize(("lr", "momentum"), [(0.7, 0.9), (1.0, 0.0)])
def test_many_outer_steps_are_nesterov_momentum_of_optax(lr: float, momentum: float) -> None:
    size = 1000
    optimizer = optax.sgd(lr, momentum, nesterov=True)
    state = OuterState(normals(1, size, seed=1)[0], np.zeros(size, np.float32))
    parameters = jnp.asarray(state.theta)
    optimizer_state = optimizer.init(parameters)
    for step, delta in enumerate(normals(20, size, seed=2)):
        state = outer_step(state, delta, lr, momentum)
        updates, optimizer_state = optimizer.update(jnp.asarray(delta), optimizer_state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        np.testing.assert_allclose(
            state.theta, np.asarray(parameters), rtol=1e-4, atol=1e-4, err_msg=f"step {step}"
        )


def test_an_outer_step_on_vectors_of_different_length_is_refused() -> None:
    with pytest.raises(ValueError, match="differ"):
        outer_step(OuterState(vector(1, 2), vector(1, 2)), vector(1), 0.7, 0.9)


@pytest.mark.parametrize("value", [3e38, np.inf, np.nan])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_outer_step_that_would_ruin_the_parameters_is_refused(
    value: float, momentum: float
) -> None:
    before = OuterState(vector(1, -3e38), vector(0, 0))
    with pytest.raises(ValueError, match="NaN"):
        outer_step(before, vector(0, value), 0.7, momentum)
    assert before.theta.tolist() == vector(1, -3e38).tolist()


@every_method
@pytest.mark.parametrize("codec", [Codec.F32, Codec.INT8])
def test_threads_change_no_bit(method: Method, codec: Codec) -> None:
    deltas, weights = normals(3, 900_003), [1.0, 2.0, 5.0]
    fragment = fragment_of(800_000, 7, 99_996, averaged=2)
    alone = merge(deltas, weights, fragment, method, codec=codec)
    merged = merge(deltas, weights, fragment, method, codec=codec, threads=Threads(3))
    assert merged.tobytes() == alone.tobytes()
    state, out = OuterState(*normals(2, 900_003, 1)), OuterState(*normals(2, 900_003, 2))
    stepped = outer_step(state, merged, 0.7, 0.9)
    assert outer_step(state, merged, 0.7, 0.9, out=out, threads=Threads(3)) is out
    for mine, other in zip(stepped, out, strict=True):
        assert mine.tobytes() == other.tobytes()


@every_method
@pytest.mark.parametrize("codec", list(Codec))
def test_deltas_are_merged_as_what_their_payloads_stand_for(method: Method, codec: Codec) -> None:
    deltas, weights = normals(3, 140_001), [1.0, 2.0, 5.0]
    fragment = fragment_of(70_003, 7, 69_991)
    decoded = [source(delta, codec).part(slice(0, delta.size)) for delta in deltas]
    merged = merge(deltas, weights, fragment, method, codec=codec)
    assert merged.tobytes() == merge(decoded, weights, fragment, method).tobytes()


@every_method
@pytest.mark.parametrize("codec", [Codec.INT8, Codec.INT4, Codec.E3M0])
@pytest.mark.parametrize(("count", "size"), [(2, 1024), (17, 1024), (3, 262_144 + 512 + 3)])
def test_scaled_codes_of_one_tensor_are_merged_as_the_floats_they_stand_for(
    method: Method, codec: Codec, count: int, size: int
) -> None:
    deltas, weights = normals(count, size), [1.0 + m for m in range(count)]
    deltas = [delta * np.float32(10.0**m) for m, delta in enumerate(deltas)]
    decoded = [source(delta, codec).part(slice(0, size)) for delta in deltas]
    wanted = merge(decoded, weights, fragment_of(size), method)
    close(merge(deltas, weights, fragment_of(size), method, codec=codec), wanted, 1e-6)


@every_method
def test_scaled_codes_of_a_single_contributor_are_taken_exactly(method: Method) -> None:
    (delta,) = normals(1, 1024)
    decoded = source(delta, Codec.INT8).part(slice(0, 1024))
    merged = merge([delta], [0.3], fragment_of(1024), method, codec=Codec.INT8)
    assert merged.tobytes() == decoded.tobytes()


def test_deltas_of_several_codecs_are_merged_together() -> None:
    deltas, codecs = normals(3, 1024), [Codec.INT8, Codec.INT4, Codec.F32]
    sources = [source(delta, codec) for delta, codec in zip(deltas, codecs, strict=True)]
    merged = merging.merge(
        sources, [1.0, 2.0, 5.0], fragment_of(1024), Method.AVERAGE, squares_by_delta=[[1.0]] * 3
    )
    rows = [one.part(slice(0, 1024)).tolist() for one in sources]
    close(merged.sums, average_by_hand(rows, [1.0, 2.0, 5.0]), 1e-6)
