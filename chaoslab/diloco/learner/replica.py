"""Replica of a learner: the state on its devices, and its counters.

    init | take_over a donor's | restore moments ─► state ─ step ─► state ─ adopt ─► state ─► …
                                                         └─► snapshot(), packing(): for any thread

Sends nothing and decides nothing; `inner_steps` computes. For the training thread.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from chaoslab.core.events import Json
from chaoslab.diloco.learner.exchange import Adoption, Handover, Snapshot
from chaoslab.diloco.learner.inner_steps import Flat, Inner, LearnerState
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.model.codec import digest
from chaoslab.diloco.model.fragments import Layout
from chaoslab.diloco.model.task import Batch

_SMOOTHING = 0.1


@dataclass(slots=True)
class Counters:
    """Counters of one incarnation. Lists have one entry for each of the P fragments."""

    step: int = 0
    tokens: int = 0
    data_position: int = 0
    loss: float = 0.0
    step_s: float = 0.0
    versions: list[int] = field(default_factory=list)
    since_steps: list[int] = field(default_factory=list)
    since_tokens: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)

    @classmethod
    def fresh(cls, fragments: int) -> "Counters":
        """Counters at the start: no fragment is held, every version is -1."""
        return cls(
            versions=[-1] * fragments,
            since_steps=[0] * fragments,
            since_tokens=[0] * fragments,
            committed=[0] * fragments,
            discarded=[0] * fragments,
        )

    @property
    def holds_everything(self) -> bool:
        """Whether every fragment has been adopted at least once."""
        return all(version >= 0 for version in self.versions)


class Replica:
    """The model as one learner trains it, with its counters."""

    def __init__(self, inner: Inner, tokens_per_batch: int, pace: Pace | None = None) -> None:
        self.counters = Counters()
        self._pace = pace or Pace()
        self._inner = inner
        self._tokens_per_batch = tokens_per_batch
        self._layout = Layout(())
        self._state: LearnerState

    # ------------------------------------------------------------ start

    def compile(self) -> None:
        """Compile the step, so that the first one is as fast as the others."""
        self._inner.compile()

    def cut(self, layout: Layout, *, step: int, data_position: int) -> None:
        """Set the fragments of the training, and the step and data position to start from."""
        self._layout = layout
        self._inner.cut([[spec.name for spec in f.tensors] for f in layout.fragments])
        self.counters = Counters.fresh(len(layout.fragments))
        self.counters.data_position = data_position
        self.counters.step = step

    def init(self, seed: int) -> None:
        """Set initial values; fragments do not count as held by this."""
        self._state = self._inner.init(seed)

    def bases(self) -> list[Flat]:
        """Adopted values by fragment, each float32 [n_p]."""
        return [self._inner.base_flat(self._state, f.index) for f in self._layout.fragments]

    def take_over(self, handover: Handover) -> None:
        """Continue from a donor's adopted fragments, AdamW moments and step, without its work."""
        self._state = self._inner.unpack(self._inner.from_bytes(bytes(handover.payload)))
        self.counters.versions = list(handover.versions)
        self.counters.step = handover.step

    def recall(self, payload: bytes, data_position: int) -> None:
        """Restore the moments of an own checkpoint, and continue at its data position."""
        self._state = self._inner.unpack(self._inner.from_bytes(payload))
        self.counters.data_position = max(self.counters.data_position, data_position)

    # ------------------------------------------------------------ training

    def step(self, batch: Batch) -> None:
        """One inner step; returns when it is done and its pace has passed."""
        began_s = time.monotonic()
        self._state, loss = self._inner.step(self._state, batch)
        counters = self.counters
        counters.loss = float(loss)  # returns when the step is done
        counters.step += 1
        counters.data_position += 1
        counters.tokens += self._tokens_per_batch
        counters.since_steps = [steps + 1 for steps in counters.since_steps]
        self._pace.rest(began_s)
        took_s = time.monotonic() - began_s
        counters.step_s += (_SMOOTHING if counters.step_s else 1.0) * (took_s - counters.step_s)

    def adopt(self, adoption: Adoption) -> dict[str, Json] | None:
        """Overwrite one fragment (alpha = 0); work on it is counted as committed or discarded.

        Returns the data of its event; None for a version that is not newer.
        """
        counters, index = self.counters, adoption.fragment
        if adoption.version <= counters.versions[index]:
            return None
        self._state = self._inner.adopt(self._state, index, adoption.values)
        work = counters.tokens - counters.since_tokens[index]
        committed = adoption.committed_tokens - counters.committed[index]
        counters.versions[index] = adoption.version
        counters.since_steps[index] = 0
        counters.since_tokens[index] = counters.tokens
        counters.committed[index] = adoption.committed_tokens
        counters.discarded[index] += work - committed
        return {
            "fragment": index,
            "version": adoption.version,
            "step": counters.step,
            "digest": adoption.digest,
            "discarded_tokens": work - committed,
            "committed_tokens": committed,
        }

    def forget_own_work(self) -> None:
        """Reset to the adopted values: the result of training is the global parameters."""
        for fragment in self._layout.fragments:
            adopted = self._inner.base_flat(self._state, fragment.index)
            self._state = self._inner.adopt(self._state, fragment.index, adopted)

    # ------------------------------------------------------------ output

    def snapshot(self) -> Snapshot:
        """Immutable view of the present state."""
        state, counters, inner = self._state, self.counters, self._inner
        return Snapshot(
            step=counters.step,
            tokens=counters.tokens,
            data_position=counters.data_position,
            loss=counters.loss,
            step_s=counters.step_s,
            versions=tuple(counters.versions),
            since_steps=tuple(counters.since_steps),
            since_tokens=tuple(counters.since_tokens),
            delta=lambda fragment: np.asarray(inner.delta(state, fragment)),
            pack=self.packing(),
        )

    def packing(self) -> Callable[[], bytes]:
        """Function that makes the checkpoint payload of the present state, on any thread."""
        state, inner = self._state, self._inner
        return lambda: inner.to_bytes(inner.pack(state))

    def digests(self) -> dict[str, Json]:
        """Digests of the trained values by fragment, read back from the device."""
        flats = [self._inner.params_flat(self._state, f.index) for f in self._layout.fragments]
        return by_fragment([digest(flat) for flat in flats])

    def final(self) -> dict[str, Json]:
        """Data of `learner.final`: versions, and what became of every token."""
        counters = self.counters
        return {
            "step": counters.step,
            "tokens": counters.tokens,
            "versions": by_fragment(counters.versions),
            "digests": self.digests(),
            "committed": by_fragment(counters.committed),
            "discarded": by_fragment(counters.discarded),
            "in_flight": by_fragment([counters.tokens - since for since in counters.since_tokens]),
        }


def by_fragment(values: Sequence[Json]) -> dict[str, Json]:
    """One value for each fragment, as events contain it."""
    return {str(index): value for index, value in enumerate(values)}
