"""Simulated disks: what learners and the syncer keep from one life to the next.

    LearnerDisk   checkpoints, each whole or damaged           SyncerDisk   commit log, digests,
    `is_full`, `rate_bytes_per_s`: what faults do to it                     reserved numbers

What was written is written: a power cut loses nothing that was flushed, and everything is.
"""

import errno
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved, latest

VOLUME_BYTES = 256 << 20
"""Size of a node's volume."""


@dataclass(slots=True, kw_only=True)
class CheckpointFile:
    """One checkpoint of a learner."""

    name: str
    step: int
    data_position: int
    size_bytes: int
    payload: bytes
    """What it holds, as long as it is whole."""
    damage: str = ""
    """Why a learner refuses it; empty: it is whole."""

    @property
    def digest(self) -> str:
        """Digest of its bytes."""
        return digest(self.name, self.step, self.size_bytes, self.damage)


@dataclass(slots=True, kw_only=True)
class Volume:
    """What nodes write to, until a fault fills it."""

    is_full: bool = False

    def refuse_if_full(self) -> None:
        """OSError as a write to a full disk gives it."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(slots=True, kw_only=True)
class LearnerDisk(Volume):
    """Files of one learner."""

    files: dict[str, CheckpointFile] = field(default_factory=dict)
    """By name."""


@dataclass(slots=True, kw_only=True)
class SyncerDisk(Volume):
    """Files of the syncer; `diloco.syncer.resume.Committed`."""

    commit_log: list[CommitRecord] = field(default_factory=list)
    reserved: Reserved = field(default_factory=Reserved)
    digests: dict[int, str] = field(default_factory=dict)
    """Digest of each fragment's newest version."""
    damage: list[tuple[int, float]] = field(default_factory=list)
    """Fragment and largest update of each merge, by which the loss is modelled."""
    snapshots: list["Snapshot"] = field(default_factory=list)

    @property
    def versions(self) -> Sequence[int]:
        """Version of each fragment, in order."""
        found = latest(self.commit_log)
        return tuple(found[fragment] for fragment in sorted(found))

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
