"""Facts of an undo log's entries: frozen dataclasses, decoded strictly.

    {"open": 3, "do": "unmount", "node": …, "folder": …} ─► decode ─► VolumeFacts ─► its undo
                                                              └► refused: unknown key, wrong type,
                                                                 a thing that is not this run's

Whatever is undone is the run's own: below its directory, or named after it. Each verb's dataclass
checks that when it is built, so an undo log, even one from elsewhere, can name no process, file,
host or rule of another owner.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import msgspec

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json

NODE = re.compile(r"[\w-]+( \(\w+\))?")
"""A node, or what is kept beside it: `learner-0 (spin)`."""
_FRAME = frozenset({"open", "do", "until_s"})
"""Keys that any entry may have; with `until_s` comes the boot that it counts from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of one undo entry."""

    directory: Path
    """Directory of the undo log: the run directory, or its twin/. Absolute, without links."""


AnyFacts = TypeVar("AnyFacts", bound=Facts)


def decode(kind: type[AnyFacts], entry: Mapping[str, Json], directory: Path) -> AnyFacts:
    """The facts in an entry of the undo log in `directory`; FleetError says what is wrong."""
    known = {one.name for one in fields(kind)} - {"directory"}
    frame = _FRAME | ({"boot_id"} if "until_s" in entry and "boot_id" not in known else set())
    given = {key: value for key, value in entry.items() if key not in frame}
    if unknown := sorted(given.keys() - known):
        raise FleetError(f"unknown fact {unknown[0]!r}")
    try:
        return msgspec.convert({**given, "directory": directory.resolve()}, kind)
    except msgspec.ValidationError as error:
        raise FleetError(str(error)) from error


def require(is_so: bool, otherwise: str) -> None:
    """FleetError with this message unless the condition holds."""
    if not is_so:
        raise FleetError(otherwise)


def require_match(pattern: "re.Pattern[str]", word: str, what: str) -> None:
    """FleetError unless the pattern matches the whole word."""
    require(pattern.fullmatch(word) is not None, f"{word!r} is not a valid {what} name")


def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine's own."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
