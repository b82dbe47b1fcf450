"""What is pushed waits for its round, and counts for no more than is usual."""

from collections.abc import Sequence

import numpy as np
import pytest

from chaoslab.diloco.model.codec import Encoded, encode
from chaoslab.diloco.model.encodings import Codec, MalformedPayload, NotFinite
from chaoslab.diloco.model.fragments import FloatArray, Fragment, TensorSpec
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.merge import squares_of
from chaoslab.diloco.syncer.pushes import DecodedUpdate, Pushes
from chaoslab.diloco.syncer.training_state import MergeInput

FRAGMENT = Fragment(
    0,
    (
        TensorSpec(name="first", shape=(300,), is_averaged=False),
        TensorSpec(name="second", shape=(10, 10), is_averaged=False),
    ),
)
ONES: FloatArray = np.ones(400, np.float32)
SETTINGS = Settings(norm_limit=8.0, norm_rounds=2)


def take(pushes: Pushes, round_: int, epoch: int, values: FloatArray) -> float:
    update = pushes.examine(FRAGMENT, "f32", encode(values, Codec.F32))
    pushes.keep(round_, epoch, update)
    return update.norm


def floats(delta: Encoded) -> FloatArray:
    return delta.part(slice(0, delta.size))


def merge(round_: int, epochs: Sequence[int], *, steps: int = 4) -> Merge:
    return Merge(
        round=round_, fragment=0, base_version=round_ - 1,
        contributions=tuple(
            Contribution(
                learner=f"learner-{epoch}", incarnation=1, epoch=epoch, step=steps * round_,
                c_steps=steps, c_tokens=10, weight=100 / steps, tokens_from=0, tokens_to=10,
            )
            for epoch in epochs
        ),
        missed=(), quorum_s=0.0, grace_s=0.0, pulled_s=0.0, fragment_tokens=0,
    )  # fmt: skip


def merged(pushes: Pushes, round_: int, *values: FloatArray) -> MergeInput[DecodedUpdate]:
    """Push these in one round, by epochs 1, 2, …; what is merged."""
    epochs = range(1, len(values) + 1)
    for epoch, value in zip(epochs, values, strict=True):
        take(pushes, round_, epoch, value)
    return pushes.of(merge(round_, epochs))


def test_a_push_is_merged_as_it_came_and_its_norm_is_told() -> None:
    pushes = Pushes(SETTINGS)
    assert take(pushes, 1, 1, 3 * ONES) == pytest.approx(3 * 20)
    given = pushes.of(merge(1, [1]))
    (update,) = given.updates
    assert np.array_equal(floats(update.delta), 3 * ONES)
    assert update.squares == squares_of(update.delta, FRAGMENT) == [2700, 900]
    assert given.excesses == [None]
    assert given.median == pytest.approx(3 * 20 / 2)


def test_a_push_that_is_far_too_large_is_shortened_and_named() -> None:
    pushes = Pushes(SETTINGS)
    for round_ in (1, 2):
        merged(pushes, round_, ONES, ONES)
    given = merged(pushes, 3, ONES, 1000 * ONES)
    honest, excess = given.excesses
    assert honest is None
    assert excess is not None
    assert given.contributions[1].learner == "learner-2"
    assert excess.norm == pytest.approx(20_000)
    assert excess.usual == pytest.approx(20)
    scaled = given.updates[1].scaled(excess.factor, FRAGMENT)
    assert floats(scaled.delta) == pytest.approx(ONES, rel=1e-5)
    assert scaled.squares == pytest.approx([300, 100], rel=1e-5)
    assert scaled.norm == pytest.approx(20, rel=1e-5)
    assert merged(pushes, 4, ONES).excesses == [None]


def test_a_round_that_was_given_up_leaves_nothing_behind() -> None:
    pushes = Pushes(SETTINGS)
    take(pushes, 1, 1, ONES)
    take(pushes, 2, 1, ONES)
    pushes.forget(1)
    with pytest.raises(KeyError):
        pushes.of(merge(1, [1]))
    assert len(pushes.of(merge(2, [1])).updates) == 1


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.01e12, -1e20])
def test_one_value_that_cannot_be_merged_is_found_in_every_codec(
    codec: Codec, value: float
) -> None:
    values = ONES.copy()
    values[310] = value
    with pytest.raises(MalformedPayload if np.isfinite(value) else NotFinite):
        Pushes(SETTINGS).examine(FRAGMENT, codec, encode(values, codec))


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-12, 9e11])
def test_small_and_large_values_that_can_be_merged_are_kept(scale: float) -> None:
    update = Pushes(SETTINGS).examine(FRAGMENT, "f32", encode(np.float32(scale) * ONES, Codec.F32))
    assert update.norm == pytest.approx(20 * scale, rel=1e-5)
