"""Package for a host: this very chaoslab as an archive, and the list of libraries it needs.

    the package, wherever it was imported from ─► tar.gz ──────────────────────┐
    the libraries installed here, and what they need in turn ─► name==version ──┴─► SHA-256

A change of one line of code is another hash, and so another folder on the hosts.
"""

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import chaoslab
from chaoslab.core.errors import AbilityError

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<rest>[^;]*)(;(?P<marker>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes and their SHA-256 in hexadecimal digits."""

    data: bytes
    digest: str

    @classmethod
    def of(cls, data: bytes) -> "Content":
        """These bytes."""
        return cls(data=data, digest=hashlib.sha256(data).hexdigest())


@cache
def code() -> Content:
    """The package as a tar.gz, the same for the same files."""
    package = Path(chaoslab.__file__).parent
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w") as archive,
    ):
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = tarfile.TarInfo(str(path.relative_to(package.parent)))
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(entry, file)
    return Content.of(packed.getvalue())


@cache
def libraries(*more: str, only: frozenset[str] | None = None) -> Content:
    """The installed libraries that chaoslab needs, pinned, as a requirements file.

    `more` are requirement lines for this fleet, such as those of an accelerator. `only`: no others
    than these, which need none. AbilityError if chaoslab was not installed, so that they are not
    known.
    """
    try:
        pinned = dict(_closure("chaoslab", {}))
    except PackageNotFoundError as error:
        raise AbilityError(
            f"an environment for hosts is made like this one, and {error.name} is not installed "
            "here: install chaoslab with pip, or name an interpreter that has all as `python:`"
        ) from error
    lines = [
        f"{name}=={version}"
        for name, version in sorted(pinned.items())
        if only is None or name in only
    ]
    return Content.of("\n".join([*lines, *more, ""]).encode())


def _closure(name: str, seen: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Requirements of a distribution without extras, with their own requirements."""
    for line in distribution(name).requires or ():
        found = _REQUIREMENT.match(line)
        if found is None or "extra" in (found["marker"] or ""):
            continue
        needed = found["name"].lower().replace("_", "-")
        if needed in seen:
            continue
        try:
            version = distribution(needed).version
        except PackageNotFoundError:
            if found["marker"]:  # for another Python or another system
                continue
            raise
        seen[needed] = version
        yield needed, version
        yield from _closure(needed, seen)
