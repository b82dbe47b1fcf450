r"""The event tape: one line for each merge, in the order in which they were committed.

    {"blake2b":"…","round":12,"fragment":3,"version":4,"contributors":[…],…}\n

A line counts when it is whole, its newline included; then the merge has happened. Replaying the
tape forces the same contributors and gives the same training. Each line carries a digest of its own
bytes, so that a damaged number is found and not believed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

from chaoslab.core.events import encode
from chaoslab.diloco.node.checksummed_file import CorruptState

_HEAD = b'{"blake2b":"'
_DIGEST_BYTES = 16
_BODY_AT = len(_HEAD) + 2 * _DIGEST_BYTES + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One learner's part of a merge, as the tape keeps it."""

    learner: str
    incarnation: int
    epoch: int
    step: int
    c_steps: int
    c_tokens: int
    weight: float
    tokens_from: int
    tokens_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """One merge: what it made of which version, from whom, and where everything stood then."""

    round: int
    fragment: int
    version: int
    """What the merge made; version 0 is the initial parameters, with round 0."""
    begun: int
    """Rounds ever begun."""
    contributors: tuple[Given, ...] = ()
    last_epoch: int = 0
    incarnations: Mapping[str, int] = field(default_factory=dict)
    data_positions: Mapping[str, int] = field(default_factory=dict)
    trained_s: float = 0.0
    """For how long training had gone on then, over all lives of the syncer."""
    usual: float = 0.0
    """How large the contributions were, for `norms`: their median; 0 if there was none to tell."""

    def to_bytes(self) -> bytes:
        """The line with its digest and its newline."""
        rest = encode(asdict(self)).encode()[1:]
        digest = blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest()
        return _HEAD + digest.encode() + b'",' + rest + b"\n"

    @classmethod
    def from_bytes(cls, line: bytes) -> "CommitRecord":
        """Read a line without its newline; ValueError says what is wrong with it."""
        rest = line[_BODY_AT:]
        digest = blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest()
        if line[:_BODY_AT] != _HEAD + digest.encode() + b'",':
            raise ValueError("its bytes do not fit its digest")
        fields = json.loads(b"{" + rest)
        given = tuple(Given(**one) for one in fields.pop("contributors"))
        return cls(contributors=given, **fields)


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The whole lines of a tape. `ends[i]` is the offset after line i."""

    lines: tuple[CommitRecord, ...]
    ends: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> "CommitLog":
        """All whole lines; a torn last one, and only that, is passed over. CorruptState."""
        lines: list[CommitRecord] = []
        ends: list[int] = []
        content = path.read_bytes()
        start = 0
        while (newline := content.find(b"\n", start)) >= 0:
            try:
                lines.append(CommitRecord.from_bytes(content[start:newline]))
            except (TypeError, ValueError) as error:
                raise CorruptState(f"{path}, line {len(lines) + 1} is damaged: {error}") from error
            start = newline + 1
            ends.append(start)
        return cls(tuple(lines), tuple(ends))


def latest(lines: Sequence[CommitRecord]) -> dict[int, int]:
    """The version of each fragment that these lines lead to."""
    return {line.fragment: line.version for line in lines}
