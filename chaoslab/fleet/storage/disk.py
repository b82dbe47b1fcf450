"""Damage to the files that a node keeps, and resizing of the volume on which they are.

    a process's files, here ──────────────── import ─┐
    a container's volume, in one beside it ─ script ─┴─► damage, fill, free ─► what was measured

As a script (`python -I -S disk.py damage FOLDER HOW newest|all`, `… fill FOLDER`, `… free FOLDER`)
it prints one line of JSON: what was measured, or why it was refused. It imports nothing of
chaoslab, so its source can be sent to where the files are. Failures are an OSError.
"""

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

SOURCE = b"chaoslab"
"""Source of our volumes in the table of mounts."""
KIND = b"tmpfs"
ROOM = "size=50%"
"""Share of the machine's memory, allocated when it is written to."""
NO_SUID, NO_DEVICES, REMOUNT = 2, 4, 32
_TRIES = 20
_DIGEST_BYTES = 16
Measured: TypeAlias = Mapping[str, int | str | list[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Size of a volume, and what is free of it."""

    total_bytes: int
    free_bytes: int


def main(words: list[str]) -> int:
    """Carry out `words` and print what was measured."""
    what, folder, *how = words
    try:
        sys.stdout.write(json.dumps(_VERBS[what](Path(folder), *how)) + "\n")
    except OSError as error:
        sys.stdout.write(json.dumps({"refused": str(error)}) + "\n")
    return 0


# ---------------------------------------------------------------- files


def damage(folder: Path, how: str, *, every: bool, names: str = "*") -> list[Measured]:
    """Damage the newest file of a folder, or every one; what each was before and after.

    Files whose names begin with a dot are not whole yet, and do not count. A folder in it stands
    for all of its files; the largest of them is damaged.
    """
    whole = (path for path in folder.glob(names) if _files(path) and path.name[0] != ".")
    files = sorted(whole, key=lambda path: (_written_ns(path), str(path)))
    hit = files if every else files[-1:]
    untouched = [str(path.relative_to(folder)) for path in files if path not in hit]
    return [
        {"file": str(path.relative_to(folder)), **_damage(path, how), "untouched": untouched}
        for path in hit
    ]


def _files(path: Path) -> list[Path]:
    """The file, or all in the folder and below, in order."""
    return sorted(one for one in (path, *path.rglob("*")) if one.is_file())


def _written_ns(path: Path) -> int:
    return max(one.stat().st_mtime_ns for one in _files(path))


def _damage(path: Path, how: str) -> Measured:
    before = _look(path)
    if how == "lose":
        _lose(path)
    else:
        file = max(_files(path), key=lambda one: one.stat().st_size)
        dates = file.stat()
        _DAMAGES[how](file)
        os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))  # nobody wrote it anew
    after = _look(path)
    return {
        "how": how,
        **{f"{key}_before": value for key, value in before.items()},
        **{f"{key}_after": value for key, value in after.items()},
    }


def _look(path: Path) -> Measured:
    """Present state of a file on the disk; nulls without the file."""
    if not path.exists():
        return {"bytes": None, "digest": None}
    size, digest = 0, blake2b(digest_size=_DIGEST_BYTES)
    for file in _files(path):
        content = file.read_bytes()
        size += len(content)
        digest.update(content)
    return {"bytes": size, "digest": digest.hexdigest()}


def _corrupt(path: Path) -> None:
    """Turn the bits of one byte in the middle over; the length stays credible."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1) or b"\0"
        file.seek(path.stat().st_size // 2)
        file.write(bytes([byte[0] ^ 0xFF]))


def _truncate(path: Path) -> None:
    """Cut it off in the middle, as a machine that lost its power does."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _lose(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


_DAMAGES: Mapping[str, Callable[[Path], None]] = {"corrupt": _corrupt, "truncate": _truncate}


# ---------------------------------------------------------------- volumes


def fill(folder: Path) -> Space:
    """Leave no space: shrink the volume to its contents.

    Repeated if a program writes at that moment: then the kernel refuses the size, or some space is
    left.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            space = _end_here(folder)
        except OSError:
            if not tries_left:
                raise
        else:
            if not space.free_bytes:
                break
    return space


def free(folder: Path) -> Space:
    """Restore its size; the contents stay."""
    _resize(folder, ROOM)
    return measure(folder)


def measure(folder: Path) -> Space:
    """Sizes of the volume with the folder, by the kernel."""
    said = os.statvfs(folder)
    return Space(total_bytes=said.f_blocks * said.f_frsize, free_bytes=said.f_bfree * said.f_frsize)


def mount(folder: Path, flags: int, options: str) -> None:
    """Mount a volume there, or change the one that is."""
    where = os.fsencode(folder)
    system_call("mount", SOURCE, where, KIND, ctypes.c_ulong(flags), options.encode())


def system_call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0 unless it fails; OSError then."""
    library = ctypes.CDLL(None, use_errno=True)
    if library[name](*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _end_here(folder: Path) -> Space:
    space = measure(folder)
    used_bytes = space.total_bytes - space.free_bytes
    _resize(folder, f"size={max(used_bytes, os.sysconf('SC_PAGE_SIZE'))}")
    return measure(folder)


def _resize(folder: Path, size: str) -> None:
    mount(folder, NO_SUID | NO_DEVICES | REMOUNT, size)


_VERBS: Mapping[str, Callable[..., object]] = {
    "damage": lambda folder, how, which: damage(folder, how, every=which == "all"),
    "fill": lambda folder: asdict(fill(folder)),
    "free": lambda folder: asdict(free(folder)),
    "measure": lambda folder: asdict(measure(folder)),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
