"""The cut into fragments: balanced, whole tensors, the same everywhere; strict specs."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.diloco.model.fragments import (
    FLOATS_MAX,
    Fragment,
    Layout,
    TensorSpec,
    fingerprint,
    is_finite,
    specs_from_json,
    specs_to_json,
)

shapes = st.lists(st.integers(1, 9), max_size=3).map(tuple)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=6)
specs_lists = st.lists(
    st.builds(TensorSpec, name=names, shape=shapes, is_averaged=st.booleans()),
    min_size=1,
    max_size=12,
    unique_by=lambda spec: spec.name,
)


def spec(name: str, *shape: int, is_averaged: bool = False) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, is_averaged=is_averaged)


def names_of(layout: Layout) -> list[list[str]]:
    return [[tensor.name for tensor in fragment.tensors] for fragment in layout.fragments]


def test_the_largest_tensor_goes_first_and_each_next_into_the_smallest_fragment() -> None:
    layout = Layout.balance(
        [spec("a", 2), spec("b", 3), spec("c", 10), spec("d", 6), spec("e", 5)], 2
    )
    # c -> 0 (10), d -> 1 (6), e -> 1 (11), b -> 0 (13), a -> 1 (13)
    assert names_of(layout) == [["b", "c"], ["a", "d", "e"]]
    assert [fragment.size for fragment in layout.fragments] == [13, 13]


def test_ties_go_by_name_and_by_index() -> None:
    layout = Layout.balance([spec("z", 4), spec("a", 4), spec("m", 4)], 2)
    assert names_of(layout) == [["a", "z"], ["m"]]


@settings(max_examples=25)
@given(specs=specs_lists, data=st.data())
def test_the_order_of_the_specs_is_of_no_matter(
    specs: list[TensorSpec], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(specs)))
    shuffled = data.draw(st.permutations(specs))
    assert Layout.balance(specs, count) == Layout.balance(shuffled, count)
    assert fingerprint(specs) == fingerprint(shuffled)


@settings(max_examples=25)
@given(specs=specs_lists, data=st.data())
def test_every_tensor_is_in_one_fragment_and_no_fragment_is_empty(
    specs: list[TensorSpec], data: st.DataObject
) -> None:
    layout = Layout.balance(specs, data.draw(st.integers(1, len(specs))))
    placed = [tensor.name for fragment in layout.fragments for tensor in fragment.tensors]
    assert sorted(placed) == sorted(tensor.name for tensor in specs)
    assert all(fragment.tensors for fragment in layout.fragments)
    sizes = [fragment.size for fragment in layout.fragments]
    assert max(sizes) - min(sizes) <= max(tensor.size for tensor in specs)
    assert [fragment.index for fragment in layout.fragments] == list(range(len(sizes)))


@settings(max_examples=25)
@given(specs=specs_lists, seed=st.integers(0, 2**32 - 1))
def test_flatten_and_unflatten_are_inverse(specs: list[TensorSpec], seed: int) -> None:
    generator = np.random.default_rng(seed)
    arrays = {
        tensor.name: generator.standard_normal(tensor.shape, dtype=np.float32) for tensor in specs
    }
    back = {}
    for fragment in Layout.balance(specs, min(3, len(specs))).fragments:
        flat = fragment.flatten(arrays)
        assert flat.shape == (fragment.size,)
        assert flat.dtype == np.float32
        back |= fragment.unflatten(flat)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array, strict=True)


@settings(max_examples=25)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8), length=st.integers(1, 40))
def test_blocks_cover_the_vector_and_name_the_tensor_of_every_float(
    sizes: list[int], length: int
) -> None:
    tensors = tuple(spec(f"t{number}", size) for number, size in enumerate(sizes))
    fragment = Fragment(0, tensors)
    found: list[tuple[int, int]] = []
    for block in fragment.blocks(length):
        assert block.at.start % length == 0
        positions = range(fragment.size)[block.at]
        assert len(positions) <= length
        found += [(tensor, place) for tensor, at in block.parts for place in positions[at]]
    wanted = [
        (tensor, place)
        for tensor, at in enumerate(fragment.slices)
        for place in range(at.start, at.stop)
    ]
    assert found == wanted


def test_flatten_says_which_tensor_is_missing_or_of_the_wrong_shape() -> None:
    fragment = Fragment(3, (spec("a", 2, 2),))
    with pytest.raises(ValueError, match="'a'"):
        fragment.flatten({"b": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match="'a'"):
        fragment.flatten({"a": np.zeros(4, np.float32)})


@pytest.mark.parametrize("flat", [np.zeros(4), np.zeros(5, np.float32), np.zeros((2, 2), "f4")])
def test_unflatten_refuses_other_shapes_and_dtypes(flat: np.ndarray) -> None:
    with pytest.raises(ValueError, match="fragment 0"):
        Fragment(0, (spec("a", 4),)).unflatten(flat)


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_a_count_that_leaves_a_fragment_empty_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="2"):
        Layout.balance([spec("a", 1), spec("b", 1)], count)


def test_two_tensors_of_one_name_are_refused() -> None:
    twice = [spec("a", 1), spec("a", 2)]
    with pytest.raises(ValueError, match="'a'"):
        Layout.balance(twice, 1)
    with pytest.raises(ValueError, match="'a'"):
        specs_from_json(specs_to_json(twice))


@settings(max_examples=25)
@given(specs=specs_lists)
def test_specs_survive_json(specs: list[TensorSpec]) -> None:
    assert list(specs_from_json(specs_to_json(specs))) == specs
    assert list(specs_from_json(specs_to_json(specs).encode())) == specs


@pytest.mark.parametrize(
    "other",
    [spec("b", 2, 3), spec("a", 3, 2), spec("a", 6), spec("a", 2, 3, is_averaged=True)],
)
def test_the_fingerprint_sees_every_field(other: TensorSpec) -> None:
    assert fingerprint([spec("a", 2, 3)]) != fingerprint([other])


def row(**changes: object) -> str:
    return json.dumps([{"name": "a", "shape": [2], "is_averaged": False} | changes])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        b"\xff\xfe\x00",
        "null",
        "{}",
        "[]",
        "[1]",
        "[" * 100_000,
        '[{"name": "a", "shape": [2]}]',
        row(more=1),
        row(name=7),
        row(name=""),
        row(name="x" * 1000),
        row(name="two\nlines"),
        row(name="\ud800"),
        row(is_averaged=1),
        row(shape=2),
        row(shape=[0]),
        row(shape=[-1]),
        row(shape=[True]),
        row(shape=[2.0]),
        row(shape=["2"]),
        row(shape=[1] * 9),
        row(shape=[FLOATS_MAX, 2]),
        row(shape=[10**400]),
        '[{"name": "a", "shape": [NaN], "is_averaged": false}]',
        '[{"name": "a", "shape": [' + "9" * 10_000 + '], "is_averaged": false}]',
    ],
)
def test_garbage_specs_are_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        specs_from_json(text)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 200_000])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(size: int) -> None:
    flat = np.zeros(size, np.float32)
    assert is_finite(flat)
    for position in {0, size // 2, size - 1} if size else set():
        for value in (np.nan, np.inf, -np.inf):
            flat[position] = value
            assert not is_finite(flat)
        flat[position] = 0
