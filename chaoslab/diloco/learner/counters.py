"""Counters of a learner: its steps and tokens, and what became of its work on each fragment.

    cut ─► stepped ─► stepped ─► adopted ─► …         work since the adoption, of each fragment:
    handed_over (of a donor)        given_up          merged ─► committed, the rest ─► discarded

Values that never change; each function gives the next ones. The replica holds them, a simulated
one too, and snapshots pass them to other threads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chaoslab.core.payloads import LearnerFinal, LifeFields, by_fragment

_SMOOTHING = 0.1


class FragmentCounters(NamedTuple):
    """Token counts and version of one fragment of a learner."""

    version: int = -1
    """Version that was adopted last; -1: none yet."""
    steps_from: int = 0
    """Step at the adoption."""
    tokens_from: int = 0
    """Raw tokens of this incarnation at the adoption."""
    committed: int = 0
    discarded: int = 0
    lost: int = 0
    """Tokens since the adoption whose work was given up, with `data_parallel`; they are counted as
    discarded at the next adoption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of one incarnation at a step boundary, with an entry for each of P fragments."""

    step: int = 0
    tokens: int = 0
    """Raw tokens of this incarnation."""
    data_position: int = 0
    loss: float = 0.0
    step_s: float = 0.0
    fragments: tuple[FragmentCounters, ...] = ()
    waits: bool = False
    """Whether it waits for other learners; as the next three, only with `data_parallel`."""
    communicator: int = 0
    """Number of the latest communicator."""
    meeting: str = ""
    """host:port at which others would meet; empty while it is in a communicator."""
    peer_bytes: int | None = None
    """Bytes from other learners in this incarnation; None if they are not counted."""

    @classmethod
    def cut(cls, fragments: int, *, step: int, data_position: int) -> "Counters":
        """Counters of a learner that begins at this step and position, and has adopted nothing."""
        none = FragmentCounters(steps_from=step)
        return cls(step=step, data_position=data_position, fragments=(none,) * fragments)

    # ------------------------------------------------------------ what they say

    @property
    def versions(self) -> list[int]:
        """Adopted version of each fragment."""
        return [fragment.version for fragment in self.fragments]

    @property
    def is_complete(self) -> bool:
        """Whether every fragment has been adopted at least once."""
        return all(fragment.version >= 0 for fragment in self.fragments)

    @property
    def oldest(self) -> int:
        """Fragment that it has made the most steps on since it was adopted."""
        return min(range(len(self.fragments)), key=lambda index: self.fragments[index].steps_from)

    @property
    def has_work(self) -> bool:
        """Whether it has made steps on any fragment since that was adopted."""
        return any(fragment.steps_from < self.step for fragment in self.fragments)

    def c_steps(self, fragment: int) -> int:
        """Steps since the fragment was adopted, without those that were given up."""
        return self.step - self.fragments[fragment].steps_from

    def c_tokens(self, fragment: int) -> int:
        """Tokens trained on since the fragment was adopted, without those that are `lost`."""
        return self.tokens - self.fragments[fragment].tokens_from

    def final(self, whose: LifeFields, digests: Mapping[str, str]) -> LearnerFinal:
        """Final account: versions, and what became of every token."""
        fragments = self.fragments
        return LearnerFinal(
            **whose,
            step=self.step,
            tokens=self.tokens,
            versions=by_fragment(self.versions),
            digests=digests,
            committed=by_fragment([fragment.committed for fragment in fragments]),
            discarded=by_fragment([fragment.discarded for fragment in fragments]),
            in_flight=by_fragment([f.lost + self.c_tokens(p) for p, f in enumerate(fragments)]),
        )

    # ------------------------------------------------------------ what happens

    def handed_over(self, *, step: int, versions: Sequence[int]) -> "Counters":
        """A donor's step and versions, without its work, are continued."""
        adopted = zip(self.fragments, versions, strict=True)
        fragments = tuple(f._replace(version=version, steps_from=step) for f, version in adopted)
        return replace(self, step=step, fragments=fragments)

    def stepped(
        self, *, tokens: int, loss: float, took_s: float, peer_bytes: int | None = None
    ) -> "Counters":
        """A step was made on this many tokens."""
        share = _SMOOTHING if self.step_s else 1.0
        return replace(
            self,
            step=self.step + 1,
            tokens=self.tokens + tokens,
            data_position=self.data_position + 1,
            loss=loss,
            step_s=self.step_s + share * (took_s - self.step_s),
            waits=False,
            peer_bytes=peer_bytes,
        )

    def adopted(self, index: int, *, version: int, committed_tokens: int) -> "Counters":
        """A newer version of a fragment was adopted.

        `committed_tokens`: raw tokens of this incarnation that are merged into it.
        """
        before = self.fragments[index]
        work = before.lost + self.c_tokens(index)
        fragment = FragmentCounters(
            version=version,
            steps_from=self.step,
            tokens_from=self.tokens,
            committed=committed_tokens,
            discarded=before.discarded + work - (committed_tokens - before.committed),
        )
        fragments = (*self.fragments[:index], fragment, *self.fragments[index + 1 :])
        return replace(self, fragments=fragments)

    def given_up(self) -> "Counters":
        """All work since the adoptions is lost, unless a later version contains it."""
        fragments = tuple(
            fragment._replace(
                steps_from=self.step,
                tokens_from=self.tokens,
                lost=fragment.lost + self.c_tokens(index),
            )
            for index, fragment in enumerate(self.fragments)
        )
        return replace(self, fragments=fragments)
