"""Who is at the other end of a stream: tokens of one training, and those that were turned away.

    syncer: Tokens.kept_in(folder) ─► learner-0, learner-1, … (0600) ─► read_token ─► learner's call
            Tokens.whose(token) ◄═══════════════ metadata ═════════════════════════════════┘
            TurnedAway.note(reason) ─► due(now) ─► stream.refused, a bounded number of lines

A token is good for one learner of one training, and says which one. With mutual TLS there is none:
the certificate says who it is (`tls`). No sockets here, no grpc.
"""

import hmac
import os
import secrets
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from chaoslab.core.events import Json
from chaoslab.diloco.node.files import flush_folder

_EVERY_S = 5.0
"""Between two lines for one reason: a flood of strangers does not flood the record."""
_CLAIM_CHARACTERS = 64
_SECRET_BYTES = 32
_NOBODYS = secrets.token_hex(_SECRET_BYTES)
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO


class Suspicion(StrEnum):
    """Why a stream, or a connection, was turned away before it could change anything."""

    NO_TOKEN = "no_token"
    WRONG_TOKEN = "wrong_token"
    NO_TLS = "no_tls"
    """Something else than TLS was spoken where TLS is, or the handshake was not finished."""
    NO_CERTIFICATE = "no_certificate"
    UNTRUSTED_CERTIFICATE = "untrusted_certificate"
    """Another authority has signed it, or nobody."""
    EXPIRED_CERTIFICATE = "expired_certificate"
    """Its time is over or has not begun."""
    OTHER_NAME = "other_name"
    """The hello names another learner than the token or the certificate does."""
    NO_HELLO = "no_hello"
    """Nothing came in time."""
    NOT_A_HELLO = "not_a_hello"
    """Something else came first."""
    GARBLED = "garbled"
    """Bytes that are no message, or a payload before the welcome."""
    TOO_MANY = "too_many"
    """More streams than one learner may have, or than the syncer serves."""


class Tokens:
    """What each learner of a training must show. A token is NAME:SECRET."""

    def __init__(self, names: Iterable[str]) -> None:
        """Fresh ones, that nobody knows."""
        self._tokens = {name: f"{name}:{secrets.token_hex(_SECRET_BYTES)}" for name in names}

    @classmethod
    def kept_in(cls, folder: Path, names: Iterable[str]) -> "Tokens":
        """Those in the files of a folder, one for each name; missing ones are made.

        OSError if a file cannot be read or made, ValueError if one may be read by others.
        """
        tokens = cls(names)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, fresh in tokens._tokens.items():
            if Path(name).name != name or name in ("", ".."):
                raise ValueError(f"the learner {name!r} cannot have a token: it is no file name")
            file = folder / name
            if not file.exists():
                _write_privately(file, fresh)
            tokens._tokens[name] = read_token(file)
        return tokens

    def of(self, name: str) -> str:
        """The token of a learner; KeyError if it has none."""
        return self._tokens[name]

    def whose(self, token: str) -> str | None:
        """The learner that a token is good for; None if nobody's. Its time tells nothing."""
        name = claimed_by(token)
        expected = self._tokens.get(name, _NOBODYS)
        return name if hmac.compare_digest(token.encode(), expected.encode()) else None


def claimed_by(token: str) -> str:
    """The learner that a token says it is for."""
    return token.rpartition(":")[0]


def read_token(file: Path) -> str:
    """The token in a file. ValueError if others than its owner may read it, or it is empty."""
    with file.open(encoding="utf-8") as source:
        if os.fstat(source.fileno()).st_mode & _OTHERS_MAY:
            raise ValueError(f"{file} may be read by others than its owner: chmod 600 {file}")
        token = source.read().strip()
    if not claimed_by(token):
        raise ValueError(f"{file} holds no token: it is one line, NAME:SECRET")
    return token


def _write_privately(file: Path, token: str) -> None:
    """Whole from the first moment, and never anybody else's to read."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(partial, flags, 0o600), "w", encoding="utf-8") as out:
        out.write(token + "\n")
        out.flush()
        os.fsync(out.fileno())
    partial.rename(file)
    flush_folder(file.parent)


# ---------------------------------------------------------------- who was turned away


@dataclass(slots=True)
class _Unsaid:
    count: int
    peer: str
    claimed: str
    known_as: str


class TurnedAway:
    """Counts everybody who was turned away, and says so now and then. For several threads."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._unsaid: dict[Suspicion, _Unsaid] = {}
        self._said_s: dict[Suspicion, float] = {}
        self._lock = threading.Lock()

    @property
    def totals(self) -> Mapping[str, int]:
        """How many there were, by reason."""
        with self._lock:
            return dict(self._totals)

    def note(self, reason: Suspicion, peer: str, *, claimed: str = "", known_as: str = "") -> None:
        """One more: its address, which learner it said it was, and which one it showed to be."""
        with self._lock:
            self._totals[reason.value] += 1
            before = self._unsaid.get(reason)
            count = before.count + 1 if before else 1
            self._unsaid[reason] = _Unsaid(count, peer, claimed[:_CLAIM_CHARACTERS], known_as)

    def due(self, now_s: float) -> list[Mapping[str, Json]]:
        """What `stream.refused` says of those since the last time; each reason now and then."""
        lines: list[Mapping[str, Json]] = []
        with self._lock:
            for reason, unsaid in list(self._unsaid.items()):
                if now_s - self._said_s.get(reason, -_EVERY_S) >= _EVERY_S:
                    self._said_s[reason] = now_s
                    del self._unsaid[reason]
                    lines.append({"reason": reason.value, **asdict(unsaid)})
        return lines
