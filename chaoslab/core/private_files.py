"""Private files: opened without following links, refused if other users could have written them.

    open_file(RUN, "twin", "undo_log.jsonl")
        /  ─►  …  ─►  RUN  ─►  twin  ─►  undo_log.jsonl
        └─ above ──┘  └─ owned by this user, writable by no other, no link in between
              a folder that all users may write to has the sticky bit

Files that decide on actions (`heal`, `halt`, the janitor) are opened here: an undo log names
processes to kill, and root must not act on one that another user wrote. Each step starts from the
folder opened before it, so the checked file is the one that is opened.
"""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from chaoslab.core.errors import FleetError

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK: do not wait for the writer if a pipe was put in the file's place."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
"""Flags for a new file; an existing file or link is refused."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(FleetError):
    """A file or folder that another user may have written, or a link."""


class NotOwned(NotPrivate):
    """A file or folder of another user."""


def make_folder(path: Path) -> None:
    """Create a folder for this user only (0700); missing parents get the usual mode.

    FileExistsError if it exists; NotPrivate if a parent can be changed by all users.
    """
    path.mkdir(mode=0o700, parents=True)
    with open_folder(path):
        return


def require_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder with its parents, unless it is there. FleetError if it cannot be made, or not
    be written to.
    """
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise FleetError(f"{path}: cannot be made: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise FleetError(f"{path}: cannot be written to: name another folder")


def open_file(root: Path, *names: str, flags: int = os.O_RDONLY) -> int:
    """Descriptor of the file at these names below `root`; a new one gets mode 0600.

    NotPrivate if it, or a folder from `root` on, can be written by others, belongs to another user
    or is a link. Other OSErrors as from the kernel, such as FileNotFoundError.
    """
    *folders, name = names
    with open_folder(root, *folders) as folder:
        path = root.joinpath(*names)
        with _links_refused(path):
            file = os.open(name, flags | _FILE, 0o600, dir_fd=folder)
    try:
        _require_own(path, os.fstat(file))
    except NotPrivate:
        os.close(file)
        raise
    return file


@contextmanager
def open_folder(root: Path, *names: str) -> Iterator[int]:
    """Descriptor of a folder, open during the block; errors as for `open_file`."""
    above = Path(os.path.realpath(root))
    here = os.open("/", _FOLDER)
    try:
        for path, name, is_above in _steps(above, names):
            with _links_refused(path):
                below = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
            (_require_sticky if is_above else _require_own)(path, os.fstat(here))
        yield here
    finally:
        os.close(here)


def read(root: Path, *names: str) -> bytes | None:
    """Content of the file; None if it does not exist. Errors as for `open_file`."""
    try:
        file = open_file(root, *names)
    except FileNotFoundError:
        return None
    with open(file, "rb") as opened:
        return opened.read()


def replace_file(path: Path, content: str | bytes) -> None:
    """Atomically replace the file at `path`; a link there is replaced, not followed.

    The temporary file does not follow a link either: the folder may belong to another user, whose
    record is judged. FleetError if the disk refuses.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with open(os.open(new, _NEW, 0o666), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        new.replace(path)
    except OSError as error:
        with suppress(OSError):  # on a disk that is read-only; the first error says so
            new.unlink(missing_ok=True)
        raise FleetError(f"{path}: cannot be written: {error}") from error


def remove(root: Path, *names: str) -> None:
    """Remove a file if it exists. Errors as for `open_folder`."""
    with open_folder(root, *names[:-1]) as folder, suppress(FileNotFoundError):
        os.unlink(names[-1], dir_fd=folder)


# ---------------------------------------------------------------- checks


def _steps(root: Path, names: tuple[str, ...]) -> Iterator[tuple[Path, str, bool]]:
    """Each folder from / on, its name, and whether it is above `root`."""
    way = Path("/")
    for name in root.parts[1:]:
        way = way / name
        yield way, name, way != root
    for name in names:
        if name in ("", ".", "..") or "/" in name:
            raise NotPrivate(f"{way}: {name!r} is not a file name")
        way = way / name
        yield way, name, False


@contextmanager
def _links_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotPrivate(f"{path}: is a link, and links are not followed") from error
        raise


def _require_sticky(path: Path, seen: os.stat_result) -> None:
    if seen.st_mode & stat.S_IWOTH and not seen.st_mode & stat.S_ISVTX:
        raise NotPrivate(
            f"{path}: all users can write to it, so any of them can replace its files: "
            f"`chmod +t {quote(str(path))}`, or keep runs elsewhere with --out"
        )


def _require_own(path: Path, seen: os.stat_result) -> None:
    if not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
        raise NotPrivate(f"{path}: must be a file or a folder")
    if seen.st_uid != os.geteuid():
        whose, mine = _user(seen.st_uid), _user(os.geteuid())
        raise NotOwned(
            f"{path}: belongs to {whose}, and {mine} does not act on another user's record: "
            f"run the command as {whose} (`sudo -u {whose} chaoslab …`)"
        )
    if seen.st_mode & _OTHERS and not _is_only_mine(seen):
        raise NotPrivate(
            f"{path}: other users can write to it (mode {stat.S_IMODE(seen.st_mode):04o}) and may "
            f"have changed it: check it, then `chmod go-w {quote(str(path))}`"
        )


def _is_only_mine(seen: os.stat_result) -> bool:
    """Whether the group that may write is this user's own and has no other member."""
    if seen.st_mode & stat.S_IWOTH:
        return False
    try:
        group, user = grp.getgrgid(seen.st_gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
