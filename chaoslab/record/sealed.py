"""Sealed faults on record: encrypted before anything starts, opened by a key that is recorded last.

    secret of the key file ── nonce ──► key of the run ─┬─► SHA-256, lines ──► gameday.sealed
                                                        └─► after the faults ► gameday.unsealed

The key of a run opens nothing of another run, and the secret cannot be derived from it. A line is
encrypted with AES-256-GCM together with the id of its fault; all lines of a run are equally long.
With the digest of the key on record from the start, neither a line nor the key can be exchanged
later. What is drawn, and when it comes, is not decided here.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.events import Json, MalformedEvent, decode, encode
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.payload import read_object
from chaoslab.core.payloads import GamedaySealed, GamedayUnsealed
from chaoslab.plan.model import sealed_ids
from chaoslab.record.journal import History

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET_BYTES: Final = 32
"""Length of a secret, and of a key."""
_NONCE_BYTES: Final = 12
_BLOCK: Final = 1024
"""Lines are filled up to a multiple of this, so that their lengths say nothing."""


class NotOpened(PlanError):
    """A key that does not open what is sealed, or lines that were changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFault:
    """One injection that is sealed, as its events will describe it."""

    injection: str
    spec: str
    fault: str
    settings: Mapping[str, Json]
    targets: tuple[str, ...]
    after_s: float
    """From the beginning of phase `inject`."""
    for_s: float


def derived(secret: bytes, *purpose: str) -> bytes:
    """A key for one purpose, such as a run, from which the secret cannot be derived."""
    return hmac.digest(secret, "\x1f".join(("chaoslab sealed", *purpose)).encode(), "sha256")


def digest_of(key: bytes) -> str:
    """What is on record of a key before it is."""
    return hashlib.sha256(key).hexdigest()


def sealed_lines(faults: Sequence[SealedFault], key: bytes) -> tuple[str, ...]:
    """One line of base64 for each; AbilityError without the package cryptography."""
    cipher = _cipher(key)
    texts = [encode(asdict(one)).encode() for one in faults]
    length = -(-max(map(len, texts), default=0) // _BLOCK) * _BLOCK
    lines = []
    for one, text in zip(faults, texts, strict=True):
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = cipher.encrypt(nonce, text.ljust(length), one.spec.encode())
        lines.append(base64.b64encode(nonce + encrypted).decode())
    return tuple(lines)


def opened(said: GamedaySealed, key: bytes) -> tuple[SealedFault, ...]:
    """What was sealed, in the order of the ids; NotOpened if this key does not open it.

    AbilityError without the package cryptography.
    """
    if len(key) != SECRET_BYTES or digest_of(key) != said.key_digest:
        raise NotOpened("this is not the key that the faults were sealed with")
    if len(said.lines) != said.faults:
        raise NotOpened(f"{said.faults} faults were sealed, and there are {len(said.lines)} lines")
    cipher, ids = _cipher(key), sealed_ids(said.faults)
    return tuple(_opened(cipher, line, name) for line, name in zip(said.lines, ids, strict=True))


def disclosed(history: History) -> bytes | None:
    """The key of the run, if it is on record; NotOpened if that is no key."""
    event = history.last(GamedayUnsealed)
    if event is None:
        return None
    try:
        return bytes.fromhex(event.payload.key)
    except ValueError as error:
        raise NotOpened("the key on record is not hexadecimal") from error


def _opened(cipher: "AESGCM", line: str, name: str) -> SealedFault:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # an extra

    try:
        encrypted = base64.b64decode(line, validate=True)
        text = cipher.decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], name.encode())
        return read_object(SealedFault, decode(text.decode()), name)
    except (InvalidTag, binascii.Error, MalformedEvent, ValueError) as error:
        raise NotOpened(f"what is sealed of {name} was changed: it does not open") from error


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415  # an extra
            AESGCM,
        )
    except ImportError as error:
        raise AbilityError(
            "sealed faults are encrypted by the package cryptography: "
            "pip install 'chaoslab[gameday]'"
        ) from error
    return AESGCM(key)
