"""What a learner holds: the state on its devices, and what it has counted in this life.

    init | take_over a donor's | recall own moments ─► state ─ step ─► state ─ adopt ─► state ─► …
                                                         └─► snapshot(), packing(): for any thread

Says nothing, sends nothing and decides nothing; `inner` does the arithmetic. For the training
thread.
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
    """What a learner counts in one life. Lists have one entry for each of the P fragments."""

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
        """No fragment is held yet: every version is -1."""
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
    """The model as one learner trains it."""

    def __init__(self, inner: Inner, tokens_per_batch: int, pace: Pace | None = None) -> None:
        self.counters = Counters()
        self._pace = pace or Pace()
        self._inner = inner
        self._tokens_per_batch = tokens_per_batch
        self._layout = Layout(())
        self._state: LearnerState

    # ------------------------------------------------------------ where it begins

    def compile(self) -> None:
        """Compile the step, so that the first one is as fast as the others."""
        self._inner.compile()

    def cut(self, layout: Layout, *, step: int, data_position: int) -> None:
        """Take up the fragments of the training; a life begins at this step and position."""
        self._layout = layout
        self._inner.cut([[spec.name for spec in f.tensors] for f in layout.fragments])
        self.counters = Counters.fresh(len(layout.fragments))
        self.counters.data_position = data_position
        self.counters.step = step

    def init(self, seed: int) -> None:
        """Hold initial values; no fragment counts as held by it."""
        self._state = self._inner.init(seed)

    def bases(self) -> list[Flat]:
        """What is adopted, by fragment, each float32 [n_p]."""
        return [self._inner.base_flat(self._state, f.index) for f in self._layout.fragments]

    def take_over(self, handover: Handover) -> None:
        """Continue from a donor: its adopted fragments, AdamW moments, step; none of its work."""
        self._state = self._inner.unpack(self._inner.from_bytes(bytes(handover.payload)))
        self.counters.versions = list(handover.versions)
        self.counters.step = handover.step

    def recall(self, payload: bytes, data_position: int) -> None:
        """Take the moments of an own checkpoint, and go on in the data where it was."""
        self._state = self._inner.unpack(self._inner.from_bytes(payload))
        self.counters.data_position = max(self.counters.data_position, data_position)

    # ------------------------------------------------------------ training

    def step(self, batch: Batch) -> None:
        """One inner step; returns when it is done, and has taken as long as its pace asks."""
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
        """Overwrite one fragment (alpha = 0); own work on it is committed or discarded now.

        What there is to say of it; None for a version that is not newer.
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
        """Hold what was adopted and nothing else: the result of training is what is global."""
        for fragment in self._layout.fragments:
            adopted = self._inner.base_flat(self._state, fragment.index)
            self._state = self._inner.adopt(self._state, fragment.index, adopted)

    # ------------------------------------------------------------ what it looks like

    def snapshot(self) -> Snapshot:
        """What it is now; stays so, whatever is done afterwards."""
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
        """Makes the payload of a checkpoint of what it is now, on whichever thread calls it."""
        state, inner = self._state, self._inner
        return lambda: inner.to_bytes(inner.pack(state))

    def digests(self) -> dict[str, Json]:
        """Of the trained values of each fragment, read back from the device."""
        flats = [self._inner.params_flat(self._state, f.index) for f in self._layout.fragments]
        return by_fragment([digest(flat) for flat in flats])

    def final(self) -> dict[str, Json]:
        """What is held and what became of every token, for `learner.final`."""
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
    """One value for each fragment, as a line says it."""
    return {str(index): value for index, value in enumerate(values)}
