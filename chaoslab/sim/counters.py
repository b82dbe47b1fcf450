"""Counters of a simulated learner: what it holds of each fragment, and what became of its work.

    step ─► step, adopt ─► step, …          snapshot(): as they were at a step boundary

The same bookkeeping as `diloco.learner.replica`, without parameters.
"""

from collections.abc import Sequence

import msgspec

from chaoslab.core.events import Json
from chaoslab.diloco.syncer.decisions import Progress

_SMOOTHING = 0.1


class Published(msgspec.Struct, frozen=True):
    """A version of a fragment that has arrived."""

    fragment: int
    version: int
    digest: str
    committed_tokens: int
    """Committed tokens of the receiver."""
    loss: float
    """Loss of the global parameters, by the model."""


class Handover(msgspec.Struct, frozen=True):
    """State of a donor that has arrived."""

    versions: tuple[int, ...]
    digests: tuple[str, ...]
    step: int
    donor: str


class Snapshot(msgspec.Struct, frozen=True):
    """Counters at a step boundary."""

    report: Progress
    tokens_from: tuple[int, ...]
    """Raw tokens of this incarnation at the adoption of each fragment."""
    digests: tuple[str, ...]


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
        self.step = given.step
        self.versions, self.digests = list(given.versions), list(given.digests)
        self._steps_at = [given.step] * len(given.versions)

    def add_step(self, tokens: int, took_s: float) -> None:
        """Count one step."""
        share = _SMOOTHING if self.step_s else 1.0
        self.step += 1
        self.tokens += tokens
        self.data_position += 1
        self.step_s += share * (took_s - self.step_s)

    def adopt(self, given: Published) -> dict[str, Json] | None:
        """Overwrite a fragment: the data of its event; None for a version that is not newer."""
        index = given.fragment
        if given.version <= self.versions[index]:
            return None
        committed = given.committed_tokens - self.committed[index]
        discarded = self.tokens - self._tokens_at[index] - committed
        self.versions[index], self.digests[index] = given.version, given.digest
        self.committed[index] = given.committed_tokens
        self.discarded[index] += discarded
        self._steps_at[index], self._tokens_at[index] = self.step, self.tokens
        self.loss = given.loss
        return {
            "fragment": index,
            "version": given.version,
            "step": self.step,
            "digest": given.digest,
            "discarded_tokens": discarded,
            "committed_tokens": committed,
        }

    def snapshot(self) -> Snapshot:
        """Present counters."""
        step, tokens = self.step, self.tokens
        report = Progress(
            step=step,
            tokens=tokens,
            c_steps=tuple([step - at for at in self._steps_at]),
            c_tokens=tuple([tokens - at for at in self._tokens_at]),
            versions=tuple(self.versions),
            loss=self.loss if step else None,
            step_s=self.step_s,
            data_position=self.data_position,
        )
        return Snapshot(report, tuple(self._tokens_at), tuple(self.digests))

    def final(self) -> dict[str, Json]:
        """Data of learner.final: versions, and what became of every token."""
        in_flight = [self.tokens - at for at in self._tokens_at]
        return {
            "step": self.step,
            "tokens": self.tokens,
            "versions": numbered(self.versions),
            "digests": numbered(self.digests),
            "committed": numbered(self.committed),
            "discarded": numbered(self.discarded),
            "in_flight": numbered(in_flight),
        }


def numbered(values: Sequence[Json]) -> dict[str, Json]:
    """One value for each fragment, as events contain it."""
    return {str(index): value for index, value in enumerate(values)}
