"""What is pushed waits for its round, and counts for no more than is usual."""

from collections.abc import Sequence

import numpy as np
import pytest

from chaoslab.diloco.model.codec import Codec, MalformedPayload, NotFinite, encode
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.pushes import Pushes

ONES: FloatArray = np.ones(400, np.float32)
SETTINGS = Settings(norm_limit=8.0, norm_rounds=2)


def take(pushes: Pushes, round_: int, epoch: int, values: FloatArray) -> float:
    payload = memoryview(encode(values, Codec.F32))
    return pushes.take(round_, epoch, values.size, "f32", payload)


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


def merged(pushes: Pushes, round_: int, *values: FloatArray) -> list[FloatArray]:
    """Push these in one round, by epochs 1, 2, …; what of them is merged."""
    epochs = range(1, len(values) + 1)
    for epoch, value in zip(epochs, values, strict=True):
        take(pushes, round_, epoch, value)
    action = merge(round_, epochs)
    return pushes.of(action, action.contributions)


def test_a_push_is_merged_as_it_came_and_its_norm_is_told() -> None:
    pushes = Pushes(SETTINGS)
    assert take(pushes, 1, 1, 3 * ONES) == pytest.approx(3 * 20)
    action = merge(1, [1])
    (delta,) = pushes.of(action, action.contributions)
    assert np.array_equal(delta, 3 * ONES)
    assert pushes.bounded == ()


def test_a_push_that_is_far_too_large_is_shortened_and_named() -> None:
    pushes = Pushes(SETTINGS)
    for round_ in (1, 2):
        merged(pushes, round_, ONES, ONES)
    honest, scaled = merged(pushes, 3, ONES, 1000 * ONES)
    assert np.array_equal(honest, ONES)
    assert scaled == pytest.approx(ONES, rel=1e-5)
    ((contribution, excess),) = pushes.bounded
    assert contribution.learner == "learner-2"
    assert excess.norm == pytest.approx(20_000)
    assert excess.usual == pytest.approx(20)
    merged(pushes, 4, ONES)
    assert pushes.bounded == ()


def test_a_huge_push_cannot_steer_even_the_first_round() -> None:
    _, huge = merged(Pushes(SETTINGS), 1, ONES, 1e11 * ONES)
    assert huge == pytest.approx(ONES, rel=1e-5)


def test_a_round_that_was_given_up_leaves_nothing_behind() -> None:
    pushes = Pushes(SETTINGS)
    take(pushes, 1, 1, ONES)
    take(pushes, 2, 1, ONES)
    pushes.forget(1)
    with pytest.raises(KeyError):
        pushes.of(merge(1, [1]), merge(1, [1]).contributions)
    action = merge(2, [1])
    assert len(pushes.of(action, action.contributions)) == 1


def test_what_is_no_update_is_refused() -> None:
    pushes = Pushes(SETTINGS)
    with pytest.raises(NotFinite):
        take(pushes, 1, 1, np.float32(np.nan) * ONES)
    with pytest.raises(MalformedPayload, match="magnitude"):
        take(pushes, 1, 1, 1e13 * ONES)
    with pytest.raises(MalformedPayload, match="codec"):
        pushes.take(1, 1, 400, "gzip", memoryview(b""))
    with pytest.raises(MalformedPayload):
        pushes.take(1, 1, 400, "f32", None)
