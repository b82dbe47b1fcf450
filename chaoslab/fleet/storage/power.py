"""A file system of a node's own that loses what was not flushed, as a machine without power does.

    mount ─► folder ─ ext4 ─ loop device ─ a sparse file beside the folder
    cut ───► the kernel shuts the file system down, its log unwritten ─► mounted again from the file
    unmount, forget

The kernel's own call for this is EXT4_IOC_SHUTDOWN, by which ext4 itself is tested: what it had not
written to the device is lost, names as well as bytes, and what was flushed is there. Needs Linux,
the right to mount (CAP_SYS_ADMIN), loop devices and mkfs.ext4; `why_not` says what is missing. What
the kernel refuses is an OSError.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from chaoslab.core.payloads import LostFile
from chaoslab.fleet.storage.disk import system_call

_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, from linux/fs/ext4/ext4.h."""
_WITHOUT_LOG = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH."""
_NO_FOLLOW = 8
"""UMOUNT_NOFOLLOW."""
_PROGRAMS = ("mkfs.ext4", "mount")
_MOST_BYTES = 16 << 30
_PATIENCE_S = 60.0
_RELEASE_S = 10.0
_SUFFIX = ".power.ext4"
_OPTIONS = "loop,nosuid,nodev,noatime,commit=3600"
"""Names go to the disk when a process flushes, not every five seconds by themselves."""
_EXTENDED = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Result of a power cut."""

    refused: str | None
    """Error of a write after it; None if it succeeded."""
    files: int
    """Number of files before."""
    lost: tuple[LostFile, ...]


def why_not() -> str:
    """What this machine lacks for it; empty if nothing. The right to mount is checked elsewhere."""
    if not Path("/dev/loop-control").exists():
        return "no loop devices (/dev/loop-control)"
    kinds = Path("/proc/filesystems").read_text(encoding="ascii").split()
    if "ext4" not in kinds:
        return "a kernel without ext4"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} on PATH" if missing else ""


def mount(folder: Path) -> None:
    """Put an empty file system beneath an empty folder, as large as half of what is free."""
    image = _image(folder)
    size_bytes = min(shutil.disk_usage(folder).free // 2, _MOST_BYTES)
    handle = os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(handle, size_bytes)
    finally:
        os.close(handle)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", _EXTENDED, str(image))
    _mount(folder)
    (folder / "lost+found").rmdir()
    folder.chmod(0o700)
    _flush(folder)


def cut(folder: Path) -> Cut:
    """Let the file system lose what was not flushed; no process may have a file of it open."""
    before = _contents(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
    finally:
        os.close(handle)
    refused = _refusal(folder)
    unmount(folder)
    _await_release(_image(folder))
    _mount(folder)
    after = _contents(folder)
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    return Cut(
        refused=refused,
        files=len(before),
        lost=tuple(
            LostFile(file=name, bytes_before=_size(before, name), bytes_after=_size(after, name))
            for name in changed
        ),
    )


def unmount(folder: Path, flags: int = 0) -> None:
    """Take it away; its loop device goes with it."""
    system_call("umount2", os.fsencode(folder), flags | _NO_FOLLOW)


def forget(folder: Path) -> None:
    """Remove the file that it was on, if there is one."""
    _image(folder).unlink(missing_ok=True)


def is_ours(device: str) -> bool:
    """Whether a device of the table of mounts is on a file of ours."""
    behind = Path("/sys/block", Path(device).name, "loop/backing_file")
    try:
        return behind.read_text(encoding="utf-8").strip().endswith(_SUFFIX)
    except OSError:
        return False


def _await_release(image: Path) -> None:
    """Wait until no loop device is on it, for some seconds.

    A container that starts at this moment has a copy of all mounts; while it lasts, the file system
    would be mounted again as it is there: shut down.
    """
    deadline_s = time.monotonic() + _RELEASE_S
    while _is_behind_a_device(image) and time.monotonic() < deadline_s:
        time.sleep(0.01)


def _is_behind_a_device(image: Path) -> bool:
    where = str(image.resolve())
    for behind in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # the device was released meanwhile
            if behind.read_text(encoding="utf-8").strip() == where:
                return True
    return False


def _image(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{_SUFFIX}")


def _mount(folder: Path) -> None:
    _run("mount", "-t", "ext4", "-o", _OPTIONS, str(_image(folder)), str(folder))


def _run(*words: str) -> None:
    done = subprocess.run(  # our own words
        words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    if done.returncode:
        raise OSError(f"{words[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _refusal(folder: Path) -> str | None:
    """Error of a write now."""
    try:
        (folder / ".after-the-cut").touch()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _contents(folder: Path) -> Mapping[str, tuple[int, bytes]]:
    """Length and digest of each file, by its path below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            place = path.relative_to(folder).as_posix()
            found[place] = len(content), blake2b(content, digest_size=16).digest()
    return found


def _size(contents: Mapping[str, tuple[int, bytes]], name: str) -> int | None:
    return contents[name][0] if name in contents else None


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
