"""Times of snapshots for evaluation, and which of them are kept. Files: `snapshots`."""

import math
from collections.abc import Iterable, Sequence
from typing import Protocol


class Snapshots(Protocol):
    """Snapshots that are there, each by its committed tokens."""

    def tokens(self) -> Sequence[int]:
        """Committed tokens of each, in order."""
        ...

    def remove(self, tokens: Iterable[int]) -> None:
        """Remove some. OSError."""
        ...


class SnapshotSchedule:
    """Times of snapshots: `every` committed tokens; or, in a training of unknown length, `kept` to
    `2 * kept`, evenly spread; or none.

        ················   one for each merge, until there are `2 * kept`
        · · · · · · · ·    then every second one is removed, and the distance doubles
    """

    def __init__(self, snapshots: Snapshots, *, every: int | None, kept: int | None) -> None:
        """Continues with the snapshots that an earlier process left."""
        self._snapshots, self._every, self._kept = snapshots, every, kept
        self._distance_tokens = 0.0
        self._next_tokens = 0.0 if every or kept else math.inf
        if kept and not every and (there := snapshots.tokens()):
            self._distance_tokens = there[-1] / len(there) if len(there) >= kept else 0.0
            self._next_tokens = there[-1] + self._distance_tokens

    def is_due(self, committed_tokens: float) -> bool:
        """Whether a snapshot is due at this number of committed tokens."""
        return committed_tokens >= self._next_tokens

    def written(self, committed_tokens: float) -> None:
        """Record that one was written; remove every second one if there are too many. OSError."""
        if self._every:
            self._next_tokens = (committed_tokens // self._every + 1) * self._every
        if self._every or not self._kept:
            return
        there = self._snapshots.tokens()
        if len(there) >= 2 * self._kept:
            self._snapshots.remove(there[1:-1:2])
            self._distance_tokens = committed_tokens / self._kept
        self._next_tokens = committed_tokens + self._distance_tokens
