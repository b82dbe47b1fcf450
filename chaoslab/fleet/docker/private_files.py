"""Private files of a container: put on its own file system after it is made, before it starts.

    NodeSpec.private_files ─► tar, owned by the container's user ─► the engine ─► /run/chaoslab/

They pass through no volume, command line, environment or label, and are removed with the container.
The engine may be on another machine.
"""

import io
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.engine import Engine

_ACCOUNTS = "/etc/passwd"


def put_private_files(
    engine: Engine, container: str, folder: str, files: Mapping[str, bytes]
) -> None:
    """Write files that only the user of this container may read (0600, their folder 0700).

    FleetError if the engine refuses, or the image does not say which user that is.
    """
    owner = _owner(engine, container)
    engine.put_archive(container, "/", _archive(PurePosixPath(folder), files, owner))


def _archive(folder: PurePosixPath, files: Mapping[str, bytes], owner: int) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        tar.addfile(_entry(folder, owner, mode=0o700, kind=tarfile.DIRTYPE))
        for name, content in files.items():
            entry = _entry(folder / name, owner, mode=0o600)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def _entry(
    path: PurePosixPath, owner: int, *, mode: int, kind: bytes = tarfile.REGTYPE
) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(path.relative_to("/")))
    entry.uid, entry.mode, entry.type = owner, mode, kind
    return entry


def _owner(engine: Engine, container: str) -> int:
    """Number of the user that a container runs as: an image has a name, a number or nothing."""
    user = engine.made_as(container).user.partition(":")[0] or "0"
    if user.isdecimal():
        return int(user)
    for line in engine.read_file(container, _ACCOUNTS).decode(errors="replace").splitlines():
        name, *fields = line.split(":")
        if name == user and len(fields) > 1 and fields[1].isdecimal():
            return int(fields[1])
    raise FleetError(f"the user {user!r} of container {container} is not in its {_ACCOUNTS}")
