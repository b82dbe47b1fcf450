"""Damage to the files that a node keeps, and a volume without room for more.

    a process's files, here ──────────────── import ─┐
    a container's volume, in one beside it ─ script ─┼─► damage, fill, free ─► what was measured
    those of a training of others ────────── script ─┴─► damage … kept, crowd ─► put_back

As a script it prints one line of JSON: what was measured, or why it was refused. It imports nothing
of chaoslab, so its source can be sent to where the files are. Failures are an OSError.

    python -I -S disk.py damage FOLDER HOW newest|all NAMES [kept]
                         fill, free, measure, crowd, uncrowd, require_own, kept, put_back FOLDER

What is to be found as it was is set aside in FOLDER/.chaoslab before a copy of it is damaged.
"""

import ctypes
import errno
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
KEPT = ".chaoslab"
"""Folder beside checkpoints in which what was damaged lies as it was, and what takes all room."""
_NOTE, _WAS, _COPY, _BALLAST = "note.json", "was", "copy", "ballast"
_OWN = ("tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
"""File systems of one machine, with a size of their own."""
_MEMORY_SHARE = 0.5
"""Share of the free memory that a full volume in memory may take."""
_LIMITS = (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
           ("/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes"))  # fmt: skip
"""Files of the memory limit of a container, and of what it uses, by version of cgroups."""
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


def damage(
    folder: Path, how: str, *, every: bool, names: str = "*", is_kept: bool = False
) -> list[Measured]:
    """Damage the newest file of a folder, or every one; what each was before and after.

    Files whose names begin with a dot, or that are below such a folder, are not whole yet, and do
    not count. A folder in it stands for all of its files; the largest of them is damaged. With
    `is_kept`, `put_back` undoes it.
    """
    whole = (path for path in folder.glob(names) if not _is_hidden(path, folder) and _files(path))
    files = sorted(whole, key=lambda path: (_written_ns(path), str(path)))
    hit = files if every else files[-1:]
    untouched = [str(path.relative_to(folder)) for path in files if path not in hit]
    return [
        {
            "file": str(path.relative_to(folder)),
            **_damage(path, how, folder if is_kept else None),
            "untouched": untouched,
        }
        for path in hit
    ]


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part[0] == "." for part in path.relative_to(folder).parts)


def _files(path: Path) -> list[Path]:
    """The file, or all in the folder and below, in order."""
    return sorted(one for one in (path, *path.rglob("*")) if one.is_file())


def _written_ns(path: Path) -> int:
    return max(one.stat().st_mtime_ns for one in _files(path))


def _damage(path: Path, how: str, keeper: Path | None) -> Measured:
    before = _look(path)
    if keeper is not None:
        _damage_copy(path, how, keeper)
    elif how == "lose":
        _lose(path)
    else:
        _hit(path, how)
    after = _look(path)
    return {
        "how": how,
        **{f"{key}_before": value for key, value in before.items()},
        **{f"{key}_after": value for key, value in after.items()},
    }


def _hit(path: Path, how: str) -> None:
    file = max(_files(path), key=lambda one: one.stat().st_size)
    dates = file.stat()
    _DAMAGES[how](file)
    os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))  # nobody wrote it anew


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


# ---------------------------------------------------------------- what is put back


def _damage_copy(path: Path, how: str, folder: Path) -> None:
    """Set what is there aside, as it is, and put a damaged copy in its place; none if it is lost.

    Whatever it is ended in, `put_back` finds its way.
    """
    number = 1 + max((int(one.name) for one in _asides(folder)), default=0)
    aside = folder / KEPT / str(number)
    aside.mkdir(parents=True)
    note: dict[str, str | None] = {"file": str(path.relative_to(folder)), "digest": None}
    _write(aside / _NOTE, note)
    if how != "lose":
        _copy(path, aside / _COPY)
        _hit(aside / _COPY, how)
        _write(aside / _NOTE, {**note, "digest": str(_look(aside / _COPY)["digest"])})
    path.rename(aside / _WAS)
    if how != "lose":
        (aside / _COPY).rename(path)


def _asides(folder: Path) -> list[Path]:
    """What was set aside, the newest first."""
    there = (one for one in (folder / KEPT).glob("*") if one.name.isdecimal())
    return sorted(there, key=lambda one: -int(one.name))


def _write(file: Path, note: Mapping[str, str | None]) -> None:
    file.with_suffix(".new").write_text(json.dumps(note), encoding="utf-8")
    file.with_suffix(".new").replace(file)


def _copy(path: Path, to: Path) -> None:
    """Copy it with its dates, its rights and, as far as that is allowed, its owners."""
    if path.is_dir():
        shutil.copytree(path, to, symlinks=True)
    else:
        shutil.copy2(path, to)
    if os.geteuid() == 0:
        for was, now in zip([path, *_below(path)], [to, *_below(to)], strict=True):
            owner = was.lstat()
            os.chown(now, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _below(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


def kept(folder: Path) -> list[str]:
    """Paths of what was set aside and is not put back; with what takes all room."""
    files = [str(json.loads((one / _NOTE).read_text(encoding="utf-8"))["file"])
             for one in _asides(folder) if (one / _WAS).exists()]  # fmt: skip
    ballast = folder / KEPT / _BALLAST
    return [*files, str(ballast.relative_to(folder))] if ballast.exists() else files


def put_back(folder: Path) -> list[str]:
    """Put everything back that was set aside, unless another file of its name was written since;
    paths of what is as it was. Safe to repeat.
    """
    if not folder.is_dir():
        return []
    uncrowd(folder)
    done = [file for one in _asides(folder) if (file := _put_back(folder, one)) is not None]
    if (folder / KEPT).is_dir():
        (folder / KEPT).rmdir()
    return done


def _put_back(folder: Path, aside: Path) -> str | None:
    was, back = aside / _WAS, None
    if was.exists():
        note = json.loads((aside / _NOTE).read_text(encoding="utf-8"))
        path = folder / note["file"]
        now = _look(path)["digest"]
        if now is None or now == note["digest"]:
            if path.exists():
                _lose(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            was.rename(path)
            back = str(note["file"])
    shutil.rmtree(aside)
    return back


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


def crowd(folder: Path) -> Space:
    """Leave no space on a volume that is the training's alone: a file takes all of it.

    OSError as of `require_own`.
    """
    require_own(folder)
    (folder / KEPT).mkdir(exist_ok=True)
    with (folder / KEPT / _BALLAST).open("ab") as file:
        for _ in range(_TRIES):
            _extend(file.fileno(), _room(folder))
            if not _room(folder):
                break
    return Space(total_bytes=measure(folder).total_bytes, free_bytes=_room(folder))


def _extend(file: int, by_bytes: int) -> None:
    """Give a file so much more space, or as much of it as there is."""
    while by_bytes > 0:
        try:
            os.posix_fallocate(file, os.fstat(file).st_size, by_bytes)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            by_bytes //= 2
        else:
            return


def uncrowd(folder: Path) -> Space:
    """Take away what takes all room."""
    (folder / KEPT / _BALLAST).unlink(missing_ok=True)
    if (folder / KEPT).is_dir() and not _asides(folder):
        (folder / KEPT).rmdir()
    return Space(total_bytes=measure(folder).total_bytes, free_bytes=_room(folder))


def require_own(folder: Path) -> Space:
    """OSError if others write to the volume of a folder, too, or it has more room than memory."""
    where, root, kind = _mount_of(folder)
    if where == "/" or root != "/" or kind not in _OWN:
        raise OSError(
            f"{folder} is a part of a volume that others write to as well ({kind} at {where}, "
            f"from {root}): what fills it would break them; give it a volume with a size of its own"
        )
    most_bytes = _memory_bytes()
    if kind == "tmpfs" and _room(folder) > _MEMORY_SHARE * most_bytes:
        raise OSError(
            f"{folder} is in memory, and {_room(folder):,} bytes would fill it, of {most_bytes:,} "
            "that are free: give it a smaller size"
        )
    return measure(folder)


def _mount_of(folder: Path) -> tuple[str, str, str]:
    """Mount point above a folder, what of the file system is mounted there, and its kind."""
    real, found = folder.resolve(strict=True), ("/", "/", "")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        root, where = before.split()[3:5]
        if real.is_relative_to(where) and len(where) >= len(found[0]):
            found = where, root, after.split()[0]
    return found


def _memory_bytes() -> int:
    """Memory that may still be taken here, by the machine and by the limit of the container."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")]
    for most, used in _LIMITS:
        if Path(most).exists() and (limit := Path(most).read_text().strip()).isdecimal():
            free.append(int(limit) - int(Path(used).read_text()))
    return min(free, default=0)


def _room(folder: Path) -> int:
    """Bytes that whoever asks may still write."""
    said = os.statvfs(folder)
    return said.f_bavail * said.f_frsize


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
    "damage": lambda folder, how, which, names, *kept: damage(
        folder, how, every=which == "all", names=names, is_kept=bool(kept)
    ),
    "kept": kept,
    "put_back": put_back,
    "crowd": lambda folder: asdict(crowd(folder)),
    "uncrowd": lambda folder: asdict(uncrowd(folder)),
    "require_own": lambda folder: asdict(require_own(folder)),
    "fill": lambda folder: asdict(fill(folder)),
    "free": lambda folder: asdict(free(folder)),
    "measure": lambda folder: asdict(measure(folder)),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
