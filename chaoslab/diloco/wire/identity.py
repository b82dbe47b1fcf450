"""Authentication of streams: tokens of one training, and counts of refused streams.

    syncer: Tokens.load_or_create(folder) ─► learner-0, … (0600) ─► read_token ─► learner's call
                    Tokens.owner(token) ◄═══════════════ metadata ═════════════════════════════════┘
                    Refusals.note(reason) ─► due(now) ─► stream.refused, a bounded number of events

A token authenticates one learner of one training and names it. With mutual TLS there are no tokens:
the certificate names the learner (`tls`). No sockets, no grpc.
"""

import hmac
import os
import secrets
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from chaoslab.core.payloads import StreamRefused
from chaoslab.diloco.node.files import flush_folder

_EVERY_S = 5.0
"""Least seconds between two events for one reason, so that a flood does not fill the record."""
_CLAIM_CHARACTERS = 64
_SECRET_BYTES = 32
_UNMATCHABLE = secrets.token_hex(_SECRET_BYTES)
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO


class RefusalReason(StrEnum):
    """Why a stream or a connection was refused before it could change anything."""

    NO_TOKEN = "no_token"
    WRONG_TOKEN = "wrong_token"
    NO_TLS = "no_tls"
    """Another protocol than TLS was used, or the handshake was not finished."""
    SYNCER_NOT_TRUSTED = "syncer_not_trusted"
    """The peer said that it does not accept the syncer's certificate."""
    NO_CERTIFICATE = "no_certificate"
    UNTRUSTED_CERTIFICATE = "untrusted_certificate"
    """Certificate without a signature by the authority."""
    EXPIRED_CERTIFICATE = "expired_certificate"
    """Expired or not valid yet."""
    OTHER_NAME = "other_name"
    """The hello names another learner than the token or certificate."""
    NO_HELLO = "no_hello"
    """No message within `Limits.hello_s`."""
    NOT_A_HELLO = "not_a_hello"
    """The first message was not a hello."""
    GARBLED = "garbled"
    """Malformed bytes, or a payload before the welcome."""
    TOO_MANY = "too_many"
    """More streams than `Limits` allows for one learner, or in total."""


class Tokens:
    """Tokens of a training, one per learner: NAME:SECRET."""

    def __init__(self, names: Iterable[str]) -> None:
        """New random tokens, stored nowhere."""
        self._tokens = {name: f"{name}:{secrets.token_hex(_SECRET_BYTES)}" for name in names}

    @classmethod
    def load_or_create(cls, folder: Path, names: Iterable[str]) -> "Tokens":
        """Tokens from the files of a folder, one for each name; missing files are created.

        OSError if a file cannot be read or created, ValueError if other users may read it.
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
        """Token of a learner; KeyError if it has none."""
        return self._tokens[name]

    def owner(self, token: str) -> str | None:
        """Learner that a token belongs to, or None. Compared in constant time."""
        name = claimed_by(token)
        expected = self._tokens.get(name, _UNMATCHABLE)
        return name if hmac.compare_digest(token.encode(), expected.encode()) else None


def claimed_by(token: str) -> str:
    """Learner that a token names; not verified."""
    return token.rpartition(":")[0]


def read_token(file: Path) -> str:
    """Token in a file. ValueError if the file is empty or other users may read it."""
    with file.open(encoding="utf-8") as source:
        if os.fstat(source.fileno()).st_mode & _OTHERS_MAY:
            raise ValueError(f"{file} may be read by others than its owner: chmod 600 {file}")
        token = source.read().strip()
    if not claimed_by(token):
        raise ValueError(f"{file} holds no token: it is one line, NAME:SECRET")
    return token


def _write_privately(file: Path, token: str) -> None:
    """Write the file atomically and readable by its owner only."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(partial, flags, 0o600), "w", encoding="utf-8") as out:
        out.write(token + "\n")
        out.flush()
        os.fsync(out.fileno())
    partial.rename(file)
    flush_folder(file.parent)


# ---------------------------------------------------------------- refused streams


class Refusals:
    """Counts of refused streams, reported at a limited rate. Thread-safe."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._unreported: Counter[RefusalReason] = Counter()
        self._latest: dict[RefusalReason, StreamRefused] = {}
        self._reported_s: dict[RefusalReason, float] = {}
        self._lock = threading.Lock()

    @property
    def totals(self) -> Mapping[str, int]:
        """Number of refusals by reason."""
        with self._lock:
            return dict(self._totals)

    def note(
        self, reason: RefusalReason, peer: str, *, claimed: str = "", known_as: str = ""
    ) -> None:
        """Count a refusal. `claimed`: learner it named; `known_as`: learner it authenticated as."""
        with self._lock:
            self._totals[reason.value] += 1
            self._unreported[reason] += 1
            self._latest[reason] = StreamRefused(
                reason=reason.value,
                peer=peer,
                claimed=claimed[:_CLAIM_CHARACTERS],
                known_as=known_as,
                count=1,
            )

    def due(self, now_s: float) -> list[StreamRefused]:
        """Reports that are due: at most one per reason every `_EVERY_S` s."""
        lines: list[StreamRefused] = []
        with self._lock:
            for reason, count in list(self._unreported.items()):
                if now_s - self._reported_s.get(reason, -_EVERY_S) >= _EVERY_S:
                    self._reported_s[reason] = now_s
                    del self._unreported[reason]
                    lines.append(replace(self._latest[reason], count=count))
        return lines
