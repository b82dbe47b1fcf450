"""Replicas and training steps with one defect each, for the mutants of `learner`.

    batch ─► Replica.step ─► Inner ─► delta ─► push         a donor: Inner.pack ─► take_over

A defect of a later incarnation is one of a learner that came back; others are the victim's.

Corruption is of a learner's state in place: signs and bits flipped, everything finite.

    parameters ── flip_parameters      updates of a step ── flip_updates
    first moments ── flip_moments      a packed state ── flip_bit

Functions of states of `Inner`, with shares of values drawn by a seed. For mutants of learners, and
for `benchmarks/corruption.py`, which measures what they cost and what shows them.
"""

import time
from dataclasses import replace
from itertools import accumulate
from typing import Any, cast

import numpy as np

from chaoslab.core.payloads import AdoptedFields
from chaoslab.diloco.learner.exchange import Adoption, Handover, Inbox
from chaoslab.diloco.learner.inner_steps import Inner, LearnerState
from chaoslab.diloco.learner.joining import Joining
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.model.task import Batch
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM, flag

_FLIPPED_EVERY = 50
_SKIPPED_BATCHES = 100_000
_SLOWER = 4.0


# ---------------------------------------------------------------- replicas


class DoubleReplica(Replica):
    """The victim counts every token twice, and so weighs four times as much."""

    async def step(self, batch: Batch) -> None:
        await super().step(batch)
        if flag("--name") == VICTIM:
            tokens = self.counters.tokens + self._tokens_per_batch
            self.counters = replace(self.counters, tokens=tokens)


class RepeatingReplica(Replica):
    """A later incarnation begins its data anew."""

    def cut(
        self,
        layout: Any,
        *,
        step: int,
        data_position: int,  # noqa: ARG002 - the real parameter
        blend: float = 0.0,
    ) -> None:
        super().cut(layout, step=step, data_position=0, blend=blend)


class SkippingReplica(Replica):
    """A later incarnation skips a hundred thousand batches of its data."""

    def cut(self, layout: Any, *, step: int, data_position: int, blend: float = 0.0) -> None:
        skipped = 0 if flag("--incarnation") == "1" else _SKIPPED_BATCHES
        super().cut(layout, step=step, data_position=data_position + skipped, blend=blend)


class OneBatchReplica(Replica):
    """A later incarnation trains on its first batch for ever."""

    _only: Batch | None = None

    async def step(self, batch: Batch) -> None:
        if flag("--incarnation") != "1":
            batch = self._only = batch if self._only is None else self._only
        await super().step(batch)


class IdleReplica(Replica):
    """A later incarnation takes time for its steps, and changes nothing by them."""

    async def step(self, batch: Batch) -> None:
        before = self._state
        await super().step(batch)
        if flag("--incarnation") != "1":
            self._keep(before)


class CrawlingReplica(Replica):
    """A later incarnation makes a step in the time of five."""

    async def step(self, batch: Batch) -> None:
        began_s = time.monotonic()
        await super().step(batch)
        if flag("--incarnation") != "1":
            time.sleep(_SLOWER * (self.pace.period_s or time.monotonic() - began_s))


class ForgetfulReplica(Replica):
    """A later incarnation loses the moments that its donor gave."""

    def take_over(self, handover: Handover) -> None:
        super().take_over(handover)
        fresh = self._inner.init(self._seed).moments
        self._keep(self._inner.at_step(self._state._replace(moments=fresh), self.counters.step))


class KeepingReplica(Replica):
    """Keeps the moments of its own checkpoint, ignoring those of its donor."""

    own = b""

    def take_over(self, handover: Handover) -> None:
        super().take_over(handover)
        if self.own:
            moments = self._inner.unpack(self.own).moments
            self._keep(self._state._replace(moments=moments))


class KeepingJoining(Joining):
    """Shows its replica the checkpoint that it found."""

    async def _take_in(self, inbox: Inbox) -> bool:
        if self._own is not None and isinstance(self.replica, KeepingReplica):
            self.replica.own = self._own.payload
        return await super()._take_in(inbox)


class StaleReplica(Replica):
    """A later incarnation holds the initial values under the current versions, until it trains."""

    _came_back = False

    def take_over(self, handover: Handover) -> None:
        super().take_over(handover)
        self._came_back = True
        self.init()

    def adopt(self, adoption: Adoption) -> AdoptedFields | None:
        told = super().adopt(adoption)
        if self._came_back and self.counters.tokens == 0:
            self.init()
        return told


class FlippedReplica(Replica):
    """The signs of the victim's parameters flip after every 50th step."""

    async def step(self, batch: Batch) -> None:
        await super().step(batch)
        is_due = flag("--name") == VICTIM and self.counters.step % _FLIPPED_EVERY == 0
        inner = cast("Inner", self._inner)
        for fragment in range(len(self.counters.fragments) if is_due else 0):
            self._state = flip_parameters(inner, self._state, fragment, share=1.0)


# ---------------------------------------------------------------- training steps


class NoisyInner(Inner):
    """Pushes noise of the size of its work."""

    def delta(self, state: LearnerState, fragment: int) -> Any:
        work = np.asarray(super().delta(state, fragment))
        noise = np.random.default_rng().standard_normal(work.size, np.float32)
        return noise * np.float32(np.linalg.norm(work) / np.linalg.norm(noise))


class StuckInner(Inner):
    """A later incarnation pushes its first update of each fragment for ever."""

    _first: dict[int, Any] | None = None

    def delta(self, state: LearnerState, fragment: int) -> Any:
        work = super().delta(state, fragment)
        if flag("--incarnation") == "1":
            return work
        self._first = self._first or {}
        return self._first.setdefault(fragment, work)


class WrongInner(Inner):
    """Adopts something else than was published, and reports it as adopted.

    The victim changes every value by a thousandth; the other victim moves each tensor to the place
    of the next one.
    """

    def adopt(
        self, state: LearnerState, fragment: int, flat: FloatArray, *, has_work: bool = False
    ) -> LearnerState:
        name = flag("--name")
        if name == VICTIM:
            flat = (flat * np.float32(1.001)).astype(np.float32)
        elif name == OTHER_VICTIM:
            flat = np.roll(flat, self._layout.fragments[fragment].tensors[0].size)
        return super().adopt(state, fragment, flat, has_work=has_work)


class TurnedInner(Inner):
    """The victim pushes each update with the wrong sign, and trains on soundly."""

    def delta(self, state: LearnerState, fragment: int) -> Any:
        found = super().delta(state, fragment)
        return -found if flag("--name") == VICTIM else found


class FlippingInner(Inner):
    """One bit of each fragment that a donor hands over is flipped: the sign of a parameter."""

    def pack(self, state: LearnerState) -> bytes:
        sizes = (fragment.size for fragment in self._layout.fragments[:-1])
        packed = super().pack(state)
        for first in accumulate(sizes, initial=0):
            packed = flip_bit(packed, value=first)
        return packed


_SEED = 1
_COUNT_BYTES = 4
"""Bytes of Adam's count, between the parameters and the first moments of a packed state."""


def flip_parameters(
    inner: Inner, state: LearnerState, fragment: int, *, share: float
) -> LearnerState:
    """The trained values of a share of one fragment change their signs; adopted ones do not."""
    values = inner.flat(state.params, fragment)
    return _with_params(inner, state, fragment, values * _signs(values.size, share))


def flip_updates(
    inner: Inner, before: LearnerState, after: LearnerState, fragment: int, *, share: float
) -> LearnerState:
    """What a step did to a share of one fragment is done the other way."""
    old, new = inner.flat(before.params, fragment), inner.flat(after.params, fragment)
    values = old + (new - old) * _signs(old.size, share)
    return _with_params(inner, after, fragment, values)


def flip_moments(inner: Inner, state: LearnerState) -> LearnerState:
    """The first moments of AdamW change their signs."""
    payload = bytearray(inner.pack(state))
    size = 4 * inner.parameters
    moments = np.frombuffer(payload, "<f4", inner.parameters, size + _COUNT_BYTES)
    np.negative(moments, out=moments)
    return state._replace(moments=inner.unpack(bytes(payload)).moments)


def flip_bit(payload: bytes, *, value: int = 0, bit: int = 31) -> bytes:
    """One bit of one float32 of a packed state changes, by default a parameter's sign."""
    packed = bytearray(payload)
    packed[4 * value + bit // 8] ^= 1 << bit % 8
    return bytes(packed)


def _signs(size: int, share: float) -> FloatArray:
    is_flipped = np.random.default_rng(_SEED).random(size) < share
    return np.where(is_flipped, np.float32(-1), np.float32(1))


def _with_params(
    inner: Inner, state: LearnerState, fragment: int, values: FloatArray
) -> LearnerState:
    return inner.adopt(state, fragment, values)._replace(base=state.base)
