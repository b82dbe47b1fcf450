"""Simulated disks: what learners and the syncer keep from one life to the next.

    LearnerDisk   two checkpoints, each whole or damaged       SyncerDisk   commit log, digests,
    `is_full`, `rate_bytes_per_s`: what faults do to it                     reserved numbers

What was written is written: a power cut loses nothing that was flushed, and everything is.
"""

import hashlib
from collections.abc import Sequence
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
    momentum_digests: dict[int, str] = field(default_factory=dict)
    damage: list[tuple[int, float]] = field(default_factory=list)
    """Fragment and largest update of each merge, by which the loss is modelled."""
    snapshots: list["Snapshot"] = field(default_factory=list)
    is_full: bool = False

    @property
    def versions(self) -> Sequence[int]:
        """Version of each fragment, in order."""
        found = latest(self.commit_log)
        return tuple(found[fragment] for fragment in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The global parameters at some time, as far as the evaluator cares."""

    committed_tokens: int
    round: int
    loss: float


def digest(*parts: object) -> str:
    """Digest of something simulated, in hex: equal for equal parts."""
    return hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=16).hexdigest()
