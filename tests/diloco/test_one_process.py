"""The training in one process: repeatable, in the order of real learners, equal to its parts."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.one_process import Measured, Speeds, data_parallel, decoupled
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.model.gpt import Preset, Shape, TextTask
from chaoslab.diloco.settings import Settings

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("strict_jax", "cache_folder")]

TEXT = np.random.default_rng(0).integers(97, 123, 60_000, dtype=np.uint8)
TASK = TextTask(Preset(shape=Shape(16, 1, 2, 24), batch=4, sequence=16), TEXT)
NAMES = ("learner-0", "learner-1", "learner-2")
RULES: dict[str, Any] = {
    "learners": NAMES, "fragments": 3, "sync_every": 8, "overlap": 2, "stop_steps": 40,
}  # fmt: skip


@pytest.fixture(scope="module")
def inner() -> Inner:
    return Inner(TASK, InnerSettings(lr=1e-2, warmup_steps=2, decay_steps=40))


@pytest.fixture(scope="module")
def done(inner: Inner) -> Measured:
    """One training with the rules as they are."""
    return train(inner)


def train(inner: Inner, speeds: Speeds | None = None, *, seed: int = 1, **rules: Any) -> Measured:
    return decoupled(TASK, inner, Settings(**{**RULES, **rules}), speeds, seed=seed)


@pytest.mark.deep
def test_it_is_the_same_every_time_and_another_with_another_seed(
    inner: Inner, done: Measured
) -> None:
    assert train(inner) == done
    assert train(inner, seed=2).loss != done.loss


def test_rounds_of_a_fragment_are_h_steps_apart_and_adopted_tau_steps_later(done: Measured) -> None:
    for fragment in range(3):
        pulled_s = [merge.pulled_s for merge in done.merges if merge.fragment == fragment]
        assert len(pulled_s) >= 4
        # the first is staggered; the phases of the learners allow one step of a difference
        assert all(7 <= later - earlier <= 9 for earlier, later in pairwise(pulled_s[1:]))
    # at the first round only the first learner has begun
    assert all(len(merge.contributions) == 3 for merge in done.merges[1:])
    assert done.steps_per_push == pytest.approx(8 - 2, abs=1)
    assert done.discarded == pytest.approx(2 / 8, abs=0.05)


@pytest.mark.gate
def test_every_trained_token_is_committed_discarded_or_under_way(done: Measured) -> None:
    assert done.trained_tokens == sum(done.steps) * TASK.tokens_per_batch
    kept = done.committed_tokens / done.trained_tokens
    under_way = 1 - kept - done.discarded
    assert 0 <= under_way <= 8 / 40


def test_a_slow_learner_makes_fewer_steps_and_contributes_what_it_has(inner: Inner) -> None:
    done = train(inner, Speeds(step_s=(1.0, 1.0, 2.0), sync_s=1.5))
    assert done.steps == pytest.approx((40, 40, 20), abs=1)
    given = [c for merge in done.merges for c in merge.contributions]
    slow = [c.c_steps for c in given if c.learner == "learner-2"]
    fast = [c.c_steps for c in given if c.learner == "learner-0"]
    assert np.mean(slow) == pytest.approx(np.mean(fast) / 2, rel=0.3)


def test_synchronous_learners_wait_for_the_slowest(inner: Inner) -> None:
    speeds = Speeds(step_s=(1.0, 1.0, 1.5), sync_s=1.5)
    done = train(inner, speeds, quorum=3, blocking=True)
    assert max(done.steps) - min(done.steps) <= 2 + 2
    assert done.virtual_s == pytest.approx(min(done.steps) * 1.5, rel=0.05)
    assert all(len(merge.contributions) == 3 for merge in done.merges)
    assert train(inner, speeds, quorum=3).virtual_s == pytest.approx(40, rel=0.05)


def test_one_learner_whose_outer_step_is_its_own_is_plain_training(inner: Inner) -> None:
    alone = train(
        inner, learners=NAMES[:1], fragments=1, sync_every=12, overlap=0,
        outer_lr=1.0, outer_momentum=0.0, compression="f32", stop_steps=None, stop_rounds=1,
    )  # fmt: skip
    plain = data_parallel(TASK, inner, learners=1, steps=12, seed=1)
    # Θ - (Θ - θ) is θ up to rounding
    assert alone.loss == pytest.approx(TASK.evaluate(plain), rel=1e-4)
