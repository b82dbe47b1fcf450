"""Simulated disks: what learners and the syncer keep from one life to the next.

    LearnerDisk   two checkpoints, each whole or damaged       SyncerDisk   commit log, digests,
    `is_full`, `rate_bytes_per_s`: what faults do to it                     reserved numbers

What was written is written: a power cut loses nothing that was flushed, and everything is.
"""

import errno
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved, latest

_KEPT = 2
"""Checkpoints of a learner, as `diloco.learner.checkpoints` keeps them."""
VOLUME_BYTES = 256 << 20
"""Size of a node's volume."""


@dataclass(slots=True, kw_only=True)
class CheckpointFile:
    """One checkpoint of a learner."""

    name: str
    step: int
    data_position: int
    size_bytes: int
    damage: str = ""
    """Why a learner refuses it; empty: it is whole."""

    @property
    def digest(self) -> str:
        """Digest of its bytes."""
        return digest(self.name, self.step, self.size_bytes, self.damage)


@dataclass(slots=True, kw_only=True)
class LearnerDisk:
    """Files of one learner."""

    files: list[CheckpointFile] = field(default_factory=list)
    """The oldest first."""
    saved: int = 0
    """Number of checkpoints ever written."""
    is_full: bool = False

    def save(self, *, step: int, data_position: int, size_bytes: int) -> CheckpointFile:
        """Keep one more checkpoint, and the one before."""
        self.saved += 1
        name = f"{self.saved:08}.checkpoint"
        file = CheckpointFile(
            name=name, step=step, data_position=data_position, size_bytes=size_bytes
        )
        self.files = [*self.files, file][-_KEPT:]
        return file


@dataclass(slots=True, kw_only=True)
class SyncerDisk:
    """Files of the syncer; `diloco.syncer.resume.Committed`."""

    commit_log: list[CommitRecord] = field(default_factory=list)
    reserved: Reserved = field(default_factory=Reserved)
    digests: dict[int, str] = field(default_factory=dict)
    """Digest of each fragment's newest version."""
    damage: list[tuple[int, float]] = field(default_factory=list)
    """Fragment and largest update of each merge, by which the loss is modelled."""
    snapshots: list["Snapshot"] = field(default_factory=list)
    is_full: bool = False

    @property
    def versions(self) -> Sequence[int]:
        """Version of each fragment, in order."""
        found = latest(self.commit_log)
        return tuple(found[fragment] for fragment in sorted(found))

    def refuse_if_full(self) -> None:
        """OSError as a write to a full disk gives it."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # -- snapshots: `diloco.node.snapshot_schedule.Snapshots`

    def tokens(self) -> Sequence[int]:
        """Committed tokens of each, in order."""
        return [one.committed_tokens for one in self.snapshots]

    def remove(self, tokens: Iterable[int]) -> None:
        """Remove some."""
        gone = set(tokens)
        self.snapshots = [one for one in self.snapshots if one.committed_tokens not in gone]

    def keep_snapshot(self, snapshot: "Snapshot") -> None:
        """Keep one, in place of another of as many tokens."""
        self.remove([snapshot.committed_tokens])
        self.snapshots.append(snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The global parameters at some time, as far as the evaluator cares."""

    committed_tokens: int
    round: int
    loss: float


def digest(*parts: object) -> str:
    """Digest of something simulated, in hex: equal for equal parts."""
    return hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=16).hexdigest()
