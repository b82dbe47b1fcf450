r"""Commit log: one line for each merge, in the order in which they were committed.

    {"blake2b":"…","round":12,"fragment":3,"version":4,"contributors":[…],…}\n

A line that is complete, newline included, is a merge that has happened. Replaying the log with the
same contributors gives the same training. Each line has a digest of its own bytes, so that a
damaged number is detected.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

from chaoslab.core.events import encode
from chaoslab.diloco.node.checksummed_file import CorruptState
from chaoslab.diloco.syncer.decisions import Contribution

_HEAD = b'{"blake2b":"'
_DIGEST_BYTES = 16
_BODY_AT = len(_HEAD) + 2 * _DIGEST_BYTES + 2


class HasBegun(FileExistsError):
    """The directory already holds another training than this store begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """One merge: fragment and version that it made, contributors, and the state at that moment."""

    round: int
    fragment: int
    version: int
    """Version that the merge made; version 0 is the initial parameters, with round 0."""
    begun: int
    """Number of rounds begun, over all processes of the syncer."""
    contributors: tuple[Contribution, ...] = ()
    last_epoch: int = 0
    incarnations: Mapping[str, int] = field(default_factory=dict)
    data_positions: Mapping[str, int] = field(default_factory=dict)
    trained_s: float = 0.0
    """Seconds of training, over all processes of the syncer."""
    usual: float = 0.0
    """Median size of the contributions, for `norms`; 0 if there was none to measure."""

    def to_bytes(self) -> bytes:
        """The line with its digest and newline."""
        rest = encode(asdict(self)).encode()[1:]
        digest = blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest()
        return _HEAD + digest.encode() + b'",' + rest + b"\n"

    @classmethod
    def from_bytes(cls, line: bytes) -> "CommitRecord":
        """Parse a line without its newline; ValueError says what is wrong."""
        rest = line[_BODY_AT:]
        digest = blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest()
        if line[:_BODY_AT] != _HEAD + digest.encode() + b'",':
            raise ValueError("its content does not match its digest")
        fields = json.loads(b"{" + rest)
        given = tuple(Contribution(**one) for one in fields.pop("contributors"))
        return cls(contributors=given, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Round numbers and epochs up to these may have been assigned and are not assigned again."""

    rounds: int = 0
    epochs: int = 0


def read_commit_log(path: Path) -> tuple[tuple[CommitRecord, ...], int]:
    """All complete lines and their length in bytes; CorruptState names a damaged line.

    A truncated last line is ignored.
    """
    lines: list[CommitRecord] = []
    whole, newline, _ = path.read_bytes().rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n") if newline else (), start=1):
        try:
            lines.append(CommitRecord.from_bytes(line))
        except (TypeError, ValueError) as error:
            raise CorruptState(f"{path}: line {number} is damaged: {error}") from error
    return tuple(lines), len(whole + newline)


def latest(lines: Sequence[CommitRecord]) -> dict[int, int]:
    """Version of each fragment after these lines."""
    return {line.fragment: line.version for line in lines}
