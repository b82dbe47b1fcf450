"""Replica of a simulated learner: the real one (`diloco.learner.replica`), on modelled steps.

    ModelledReplica ── compile, step: at their cost ──► ModelledSteps: Trained ─► Trained ─► …

Nothing is trained: values are their digests, moments say which life made them at which step, and
losses are those that the model of the syncer publishes (`modelled_state`).
"""

from functools import partial
from typing import Any

from chaoslab.core.payloads import LearnerCompiled, LifeFields
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.settings import learning_rate
from chaoslab.sim.disk import digest
from chaoslab.sim.messages import (
    AdoptedValues,
    CheckpointValues,
    ModelledLayout,
    Trained,
    bytes_of,
    values_of,
)
from chaoslab.sim.modelled_state import curve
from chaoslab.sim.process import Process, need
from chaoslab.sim.waits import work


class ModelledSteps:
    """Functions of a modelled state: `replica.Steps`."""

    def __init__(self, process: Process, parameters: int) -> None:
        costs, flags = process.world.costs, process.flags
        self.compile_s = process.takes(costs.compile_s)
        """Time that compilation takes in this life."""
        self._life = f"{process.name}/{process.incarnation}"
        self._checkpoint_bytes = int(costs.checkpoint_bytes * parameters)
        self._fragments = 0
        self._rate = partial(
            learning_rate,
            lr=float(need(flags, "lr")),
            warmup_steps=int(need(flags, "warmup-steps")),
            decay_steps=int(need(flags, "decay-steps")),
            final_share=float(need(flags, "final-share")),
        )

    def compile(self) -> None:
        """See `Steps`."""

    def compiled(self, whose: LifeFields) -> LearnerCompiled:
        """See `Steps`."""
        return LearnerCompiled(**whose, loaded=6, compiled=0, took_s=round(self.compile_s, 6))

    def cut(self, layout: ModelledLayout, *, blend: float) -> None:  # noqa: ARG002 - digests do not blend
        """See `Steps`."""
        self._fragments = len(layout.fragments)

    def init(self, seed: int) -> Trained:  # noqa: ARG002 - initial values are not told apart
        """See `Steps`."""
        return Trained(digests=("",) * self._fragments, loss=curve(0.0), step=0, moments=("", 0))

    def at_step(self, state: Trained, step: int) -> Trained:
        """See `Steps`."""
        return state._replace(step=step)

    def rate(self, state: Trained) -> float:
        """See `Steps`."""
        return self._rate(state.step)

    def step(self, state: Trained, batch: None) -> tuple[Trained, float]:  # noqa: ARG002 - nothing is computed
        """See `Steps`."""
        digests, loss, step, _ = state
        return Trained(digests, loss, step + 1, (self._life, step + 1)), loss

    def delta(self, state: Trained, fragment: int) -> None:
        """See `Steps`; what is sent is modelled by `ModelledPayloads`."""

    def adopt(
        self,
        state: Trained,
        fragment: int,
        flat: AdoptedValues,
        *,
        has_work: bool = False,  # noqa: ARG002 - digests do not blend
    ) -> Trained:
        """See `Steps`."""
        digests = (*state.digests[:fragment], flat.digest, *state.digests[fragment + 1 :])
        return state._replace(digests=digests, loss=flat.loss)

    def adopted(self, state: Trained, fragment: int) -> None:
        """See `Steps`."""

    def digest(self, state: Trained, fragment: int) -> str:
        """See `Steps`; values that were trained on have the digest of those before."""
        return state.digests[fragment]

    def without_work(self, state: Trained) -> Trained:
        """See `Steps`."""
        return state

    def pack(self, state: Trained) -> bytes:
        """See `Steps`."""
        return bytes_of(CheckpointValues(self._checkpoint_bytes, state))

    def unpack(self, payload: bytes | memoryview) -> Trained:
        """See `Steps`."""
        return values_of(payload, CheckpointValues).state

    def moments_digest(self, payload: bytes) -> str:
        """See `Steps`."""
        return self.moments_digest_of_state(self.unpack(payload))

    def moments_digest_of_state(self, state: Trained) -> str:
        """See `Steps`."""
        return digest("moments", *state.moments)


class ModelledReplica(Replica):
    """Replica of one life, whose work takes time of the virtual clock."""

    def __init__(
        self, process: Process, steps: ModelledSteps, pace: Pace, *, tokens: int, step_s: float
    ) -> None:
        """`tokens` and `step_s` of one step."""
        super().__init__(steps, tokens, pace, seed=0)
        self._process, self._compile_s, self._step_s = process, steps.compile_s, step_s

    async def compile(self) -> None:
        """See `Replica.compile`."""
        await work(self._process, self._compile_s)
        await super().compile()

    async def _stepped(self, batch: None) -> tuple[Any, float]:
        await work(self._process, self._process.takes(self._step_s))
        return await super()._stepped(batch)
