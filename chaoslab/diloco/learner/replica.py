"""Replica of a learner: the state on its devices, and its counters.

    init | take_over a donor's | restore moments ─► state ─ step ─► state ─ adopt ─► state ─► …
                                                         └─► snapshot(): for any thread

Sends nothing and decides nothing; `inner_steps` computes, or a simulation's model. For the
training thread.
"""

from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar

from chaoslab.core.payloads import (
    AdoptedFields,
    LearnerCompiled,
    LearnerFinal,
    LifeFields,
    by_fragment,
)
from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.learner.exchange import Adoption, Handover, Snapshot, Vector
from chaoslab.diloco.learner.pace import Pace

State = TypeVar("State")
"""State of a learner; only the functions know what it consists of."""
Batch: TypeAlias = Any
"""Batch of `model.task`, or what a simulation has in its place."""


class Steps(Protocol[State]):
    """Functions of a state on the learner's devices: of one process `Inner`, of several `Leader`;
    a simulation has a model in their place.

    `Inner` documents them. States are never changed, and any thread may use an old one.
    """

    def compile(self) -> None: ...
    def compiled(self, whose: LifeFields) -> LearnerCompiled: ...
    def cut(self, layout: Any, *, blend: float) -> None: ...
    def init(self, seed: int) -> State: ...
    def at_step(self, state: State, step: int) -> State: ...
    def rate(self, state: State) -> float | None: ...
    def step(self, state: State, batch: Batch) -> tuple[State, Any]: ...
    def delta(self, state: State, fragment: int) -> Vector: ...
    def adopt(
        self, state: State, fragment: int, flat: Vector, *, has_work: bool = False
    ) -> State: ...
    def adopted(self, state: State, fragment: int) -> Vector: ...
    def digest(self, state: State, fragment: int) -> str: ...
    def without_work(self, state: State) -> State: ...
    def pack(self, state: State) -> bytes: ...
    def moments_digest(self, payload: bytes) -> str: ...
    def moments_digest_of_state(self, state: State) -> str: ...
    def unpack(self, payload: bytes | memoryview) -> State: ...


class CommunicatorLost(Exception):
    """The communicator has ended, or this learner must leave it; the message says why."""


class GradientAverager(Protocol):
    """Makes steps together with other learners: `DataParallel`."""

    @property
    def waited_s(self) -> float:
        """Seconds that the latest step spent with the others."""
        ...

    @property
    def received_bytes(self) -> int | None:
        """Bytes from other learners in this incarnation; None if they are not counted."""
        ...

    @property
    def number(self) -> int:
        """Number of the communicator."""
        ...

    @property
    def meeting(self) -> str:
        """Address at which other learners would connect; empty in a communicator."""
        ...

    def step(self, state: Any, batch: Batch) -> tuple[Any, Any]:
        """See `Steps.step`."""
        ...


class Replica:
    """The model as one learner trains it, with its counters."""

    def __init__(
        self,
        inner: Steps[Any],
        tokens_per_batch: int,
        pace: Pace,
        *,
        seed: int,
        parallel: GradientAverager | None = None,
    ) -> None:
        """`parallel`: makes the steps together with other learners, in place of `inner`."""
        self.counters = Counters()
        self.pace = pace
        self._seed = seed
        self._inner = inner
        self._parallel = parallel
        self._step = parallel.step if parallel else inner.step
        self._tokens_per_batch = tokens_per_batch
        self._state: Any  # what `inner` makes
        self._adopted: Any = None
        """State at the last adoption, to go back to; only kept with `parallel`."""
        self._given_up: Any = None
        """State that it went back from, which a round may have merged."""

    # ------------------------------------------------------------ start

    async def compile(self) -> None:
        """Compile the step, so that the first one is as fast as the others."""
        self._inner.compile()

    def compiled(self, whose: LifeFields) -> LearnerCompiled:
        """Report of the functions that were loaded, and of those that were compiled."""
        return self._inner.compiled(whose)

    def cut(self, layout: Any, *, step: int, data_position: int, blend: float = 0.0) -> None:
        """Set the fragments of the training, and the step and data position to start from.

        `blend`: share of the trained values that an adoption keeps.
        """
        self._inner.cut(layout, blend=blend)
        parts = len(layout.fragments)
        self.counters = Counters.cut(parts, step=step, data_position=data_position)

    def init(self) -> None:
        """Set initial values and fresh moments, with the learning rate of the step to start from.

        This does not make the replica complete.
        """
        self._state = self._inner.at_step(self._inner.init(self._seed), self.counters.step)

    def bases(self) -> list[Vector]:
        """Adopted values by fragment, each float32 [n_p]."""
        fragments = range(len(self.counters.fragments))
        return [self._inner.adopted(self._state, fragment) for fragment in fragments]

    def take_over(self, handover: Handover) -> None:
        """Continue from a donor's adopted fragments, AdamW moments and step, without its work."""
        self._keep(self._inner.unpack(handover.payload))
        header = handover.header
        self.counters = self.counters.handed_over(step=header.step, versions=header.versions)

    def recall(self, payload: bytes, data_position: int) -> None:
        """Restore the moments of an own checkpoint, and continue at its data position.

        The learning rate is that of the step to start from, which may be later.
        """
        self._state = self._inner.at_step(self._inner.unpack(payload), self.counters.step)
        position = max(self.counters.data_position, data_position)
        self.counters = replace(self.counters, data_position=position)

    # ------------------------------------------------------------ training

    async def step(self, batch: Batch) -> None:
        """One inner step; returns when it is done and its pace has passed.

        CommunicatorLost, and nothing is changed, if other learners are lost that belong to it.
        """
        began_s = self.pace.now_s()
        self._state, loss = await self._stepped(batch)
        waited_s = self._parallel.waited_s if self._parallel else 0.0
        await self.pace.rest(began_s, waited_s=waited_s)
        self.counters = self.counters.stepped(
            tokens=self._tokens_per_batch,
            loss=loss,
            took_s=self.pace.now_s() - began_s - waited_s,
            peer_bytes=self._parallel.received_bytes if self._parallel else None,
        )

    async def _stepped(self, batch: Batch) -> tuple[Any, float]:
        """The next state and the loss, once the step is done."""
        state, loss = self._step(self._state, batch)
        return state, float(loss)

    def adopt(self, adoption: Adoption) -> AdoptedFields | None:
        """Overwrite one fragment, or blend it; work on it is counted as committed or discarded.

        Counts are those of an overwriting, though a share of the trained values lives on (`blend`).
        Without a step since the last adoption there is nothing to keep. Returns the data of its
        event; None for a version that is not newer.
        """
        counters, index = self.counters, adoption.fragment
        before = counters.fragments[index]
        if adoption.version <= before.version:
            return None
        self.counters = counters.adopted(
            index, version=adoption.version, committed_tokens=adoption.committed_tokens
        )
        discarded = self.counters.fragments[index].discarded - before.discarded
        if discarded == 0 and self._given_up is not None:
            self._state = self._given_up  # it went back too early: all of that was merged
        self._given_up = None
        values, has_work = adoption.values, counters.c_steps(index) > 0
        self._keep(self._inner.adopt(self._state, index, values, has_work=has_work))
        return {
            "fragment": index,
            "version": adoption.version,
            "step": counters.step,
            "digest": adoption.digest,
            "discarded_tokens": discarded,
            "committed_tokens": adoption.committed_tokens - before.committed,
        }

    # ------------------------------------------------------------ with other learners

    def pack(self) -> bytes:
        """Adopted values and moments, as `take_over` reads them."""
        return self._inner.pack(self._state)

    def take_state(self, payload: bytes) -> None:
        """Continue from another learner's adopted values and moments; counters are kept."""
        self._keep(self._inner.unpack(payload))

    def _keep(self, state: Any) -> None:  # what `inner` makes
        """Set a state that has no steps of its own since its adoption."""
        self._state = state
        if self._parallel is not None:
            self._adopted = state

    def report(self, *, waits: bool) -> None:
        """Set what counters say of its communicator."""
        if self._parallel is not None:
            self.counters = replace(
                self.counters,
                waits=waits,
                communicator=self._parallel.number,
                meeting=self._parallel.meeting,
            )

    def go_back(self) -> None:
        """Give up all work since the last adoption, moments included."""
        if self.counters.has_work:
            self._given_up, self._state = self._state, self._adopted
        self.counters = self.counters.given_up()

    def forget_own_work(self) -> None:
        """Reset to the adopted values: the result of training is the global parameters."""
        self._state = self._inner.without_work(self._state)

    # ------------------------------------------------------------ output

    def snapshot(self) -> Snapshot:
        """Immutable view of the present state."""
        state, inner = self._state, self._inner
        return Snapshot(
            self.counters,
            delta=lambda fragment: inner.delta(state, fragment),
            pack=lambda: inner.pack(state),
            moments_digest=inner.moments_digest,
        )

    @property
    def learning_rate(self) -> float | None:
        """Learning rate of the next step; None if it is not known."""
        return self._inner.rate(self._state)

    def moments_digest(self) -> str:
        """Digest of the optimizer's moments, read back from the device."""
        return self._inner.moments_digest_of_state(self._state)

    def digests(self) -> dict[str, str]:
        """Digests of the trained values by fragment, read back from the device."""
        fragments = range(len(self.counters.fragments))
        return by_fragment([self._inner.digest(self._state, p) for p in fragments])

    def final(self, whose: LifeFields) -> LearnerFinal:
        """Final account: versions, and what became of every token."""
        return self.counters.final(whose, self.digests())
