"""Key file of a game-day: the secret by which sealed faults are drawn and encrypted.

64 hexadecimal digits on one line, in a file that its user alone may read (0600). Whoever has it can
open what was sealed with it.
"""

import os
import secrets
import stat
from pathlib import Path
from shlex import quote
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.record.sealed import SECRET_BYTES

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ANY: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | _ANY
"""O_NONBLOCK: do not wait for the writer of a pipe in its place."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ANY
_MODE: Final = 0o600


def secret_in(path: Path) -> bytes:
    """The secret in a key file. PlanError if there is none, or others could have read it."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            _require_private(path, os.fstat(file.fileno()))
            text = file.read(4 * SECRET_BYTES).decode("ascii").strip()
        secret = bytes.fromhex(text)
    except FileNotFoundError as error:
        raise PlanError(f"there is no key file {path}: name the one of the run") from error
    except OSError as error:
        raise PlanError(f"the key file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _no_key(path) from error
    if len(secret) != SECRET_BYTES:
        raise _no_key(path)
    return secret


def secret_in_or_new(path: Path) -> bytes:
    """The same; a file that is not there is made, with a random secret."""
    try:
        file = os.open(path, _NEW, _MODE)
    except FileExistsError:
        return secret_in(path)
    except OSError as error:
        raise PlanError(f"the key file {path} cannot be made: {error.strerror}") from error
    with open(file, "w", encoding="ascii") as new:
        new.write(f"{secrets.token_hex(SECRET_BYTES)}\n")
    return secret_in(path)


def _require_private(path: Path, seen: os.stat_result) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise PlanError(f"the key file {path} is no regular file")
    if seen.st_uid != os.geteuid():
        raise PlanError(f"the key file {path} belongs to another user: name one of your own")
    if seen.st_mode & _OTHERS:
        raise PlanError(
            f"others can read the key file {path} (mode {stat.S_IMODE(seen.st_mode):04o}), and may "
            "have done so: remove it, and a new one is made; or, if nobody has, "
            f"`chmod 600 {quote(str(path))}`"
        )


def _no_key(path: Path) -> PlanError:
    return PlanError(
        f"{path} is no key file: it must hold {2 * SECRET_BYTES} hexadecimal digits; to have one "
        "made, name a file that does not exist"
    )
