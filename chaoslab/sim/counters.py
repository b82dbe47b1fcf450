"""Counters of a simulated learner: what it holds of each fragment, and what became of its work.

    step ─► step, adopt ─► step, …          snapshot(): as they were at a step boundary

The same bookkeeping as `diloco.learner.replica`, without parameters.
"""

from chaoslab.core.payloads import AdoptedFields, LearnerFinal, LifeFields, by_fragment
from chaoslab.diloco.learner import counters
from chaoslab.diloco.learner.counters import FragmentCounters
from chaoslab.diloco.learner.exchange import Adoption, Handover, Snapshot
from chaoslab.diloco.syncer.decisions import Progress
from chaoslab.sim.messages import CheckpointValues, bytes_of, values_of

_SMOOTHING = 0.1


class Counters:
    """Counters of one incarnation."""

    def __init__(self, fragments: int, *, step: int, data_position: int, loss: float) -> None:
        self.step, self.data_position = step, data_position
        self.tokens = 0
        self.loss = loss
        self.step_s = 0.0
        self.versions = [-1] * fragments
        self.digests = [""] * fragments
        self.committed = [0] * fragments
        self.discarded = [0] * fragments
        self._steps_at = [step] * fragments
        self._tokens_at = [0] * fragments

    @property
    def is_complete(self) -> bool:
        """Whether every fragment has been adopted at least once."""
        return min(self.versions) >= 0

    @property
    def oldest(self) -> int:
        """Fragment that it has made the most steps on since it was adopted."""
        return self._steps_at.index(min(self._steps_at))

    def c_steps(self, fragment: int) -> int:
        """Steps since the fragment was adopted."""
        return self.step - self._steps_at[fragment]

    def take_over(self, given: Handover) -> None:
        """Continue from a donor's adopted fragments and step, without its work."""
        header, values = given
        self.step, self.versions = header.step, list(header.versions)
        self.digests = list(values_of(values, CheckpointValues).digests)
        self._steps_at = [header.step] * len(header.versions)

    def add_step(self, tokens: int, took_s: float) -> None:
        """Count one step."""
        share = _SMOOTHING if self.step_s else 1.0
        self.step += 1
        self.tokens += tokens
        self.data_position += 1
        self.step_s += share * (took_s - self.step_s)

    def adopt(self, given: Adoption) -> AdoptedFields | None:
        """Overwrite a fragment: what its event says of it; None for a version that is not newer."""
        index = given.fragment
        if given.version <= self.versions[index]:
            return None
        committed = given.committed_tokens - self.committed[index]
        discarded = self.tokens - self._tokens_at[index] - committed
        self.versions[index], self.digests[index] = given.version, given.digest
        self.committed[index] = given.committed_tokens
        self.discarded[index] += discarded
        self._steps_at[index], self._tokens_at[index] = self.step, self.tokens
        self.loss = given.values
        return {
            "fragment": index,
            "version": given.version,
            "step": self.step,
            "digest": given.digest,
            "discarded_tokens": discarded,
            "committed_tokens": committed,
        }

    def report(self) -> Progress:
        """Present counters, as the syncer takes them."""
        step, tokens = self.step, self.tokens
        return Progress(
            step=step,
            tokens=tokens,
            c_steps=tuple([step - at for at in self._steps_at]),
            c_tokens=tuple([tokens - at for at in self._tokens_at]),
            versions=tuple(self.versions),
            loss=self.loss if step else None,
            step_s=self.step_s,
            data_position=self.data_position,
        )

    def snapshot(self, size_bytes: int) -> Snapshot:
        """Present counters, and a checkpoint of this size, as the messenger takes them."""
        step, digests = self.step, tuple(self.digests)
        fragments = [
            FragmentCounters(version, steps_at, tokens_at)
            for version, steps_at, tokens_at in zip(
                self.versions, self._steps_at, self._tokens_at, strict=True
            )
        ]
        held = counters.Counters(
            step=step,
            tokens=self.tokens,
            data_position=self.data_position,
            loss=self.loss,
            step_s=self.step_s,
            fragments=tuple(fragments),
        )
        return Snapshot(
            held,
            delta=lambda _: None,
            pack=lambda: bytes_of(CheckpointValues(size_bytes, digests)),
            moments_digest=lambda _: "",
        )

    def final(self, whose: LifeFields) -> LearnerFinal:
        """Final account: versions, and what became of every token."""
        return LearnerFinal(
            **whose,
            step=self.step,
            tokens=self.tokens,
            versions=by_fragment(self.versions),
            digests=by_fragment(self.digests),
            committed=by_fragment(self.committed),
            discarded=by_fragment(self.discarded),
            in_flight=by_fragment([self.tokens - at for at in self._tokens_at]),
        )
