"""Replica of a learner whose model is one fragment, exchanged by a system of others."""

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np

from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.learner.inner_steps import Inner, LearnerState
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.model.fragments import FloatArray, Layout
from chaoslab.diloco.model.task import Batch

Average: TypeAlias = Callable[[FloatArray], FloatArray]
"""The mean of an array over learners: of gradients, with the loss as the last value."""


class OneFragment(Replica):
    """A replica whose values can be read and overwritten as one array, at any step."""

    _inner: Inner

    def __init__(self, inner: Inner, pace: Pace, *, seed: int, is_split: bool) -> None:
        """`is_split`: steps are made in two halves, with `average` between them."""
        self._parallel_steps = _Split(inner) if is_split else None
        parallel = self._parallel_steps
        super().__init__(inner, inner.task.tokens_per_batch, pace, seed=seed, parallel=parallel)
        inner.compile()
        layout = Layout.balance(inner.specs, 1)
        self._fragment = layout.fragments[0]
        self.cut(layout, step=0, data_position=0)
        self.init()

    @property
    def waited_s(self) -> float:
        """Seconds that the latest step waited for an average."""
        return 0.0 if self._parallel_steps is None else self._parallel_steps.waited_s

    def begin(self, counters: Counters, step: int) -> None:
        """The present values are those of the version of `counters`, which count from here on.

        `step`: whose learning rate is to be used.
        """
        self.counters = counters
        state = self._inner.at_step(self._state, step)
        self._keep(self._inner.adopt(state, 0, self.trained()))

    def average_by(self, average: Average) -> None:
        """Average gradients by this function from now on; only if steps are split."""
        if self._parallel_steps is not None:
            self._parallel_steps.average = average

    def trained(self) -> FloatArray:
        """The trained values, float32 [n]."""
        return self._inner.trained(self._state, 0)

    def overwrite(self, values: FloatArray) -> None:
        """Train on from these values, float32 [n]; what was adopted stays known."""
        adopted = self._state.base
        self._state = self._inner.adopt(self._state, 0, values)._replace(base=adopted)

    def give_up(self) -> None:
        """All work since the adoption is lost; the present values are kept."""
        self.counters = self.counters.given_up()

    def packed(self) -> bytes:
        """The trained values and the moments, as `take_state` reads them."""
        return self._inner.pack(self._inner.adopt(self._state, 0, self.trained()))

    def tensors(self) -> dict[str, FloatArray]:
        """The adopted values by the names of the tensors."""
        values = self._inner.adopted(self._state, 0)
        return dict(self._fragment.unflatten(values))


class _Split:
    """Steps in two halves: gradients, their average over learners, update."""

    number, meeting, received_bytes = 0, "", None

    def __init__(self, inner: Inner) -> None:
        self._inner = inner
        self.average: Average = np.asarray
        self.waited_s = 0.0

    def step(self, state: LearnerState, batch: Batch) -> tuple[Any, jax.Array]:
        gradients = self._inner.gradients(state, batch)
        began_s = time.monotonic()
        mean = self.average(gradients)
        self.waited_s = time.monotonic() - began_s
        return self._inner.update(state, mean)
