"""Files that only their owner can have written: opened without following links, others refused.

    open_file(RUN, "control", "obligations.jsonl")
        /  ─►  …  ─►  RUN  ─►  control  ─►  obligations.jsonl
        └─ above ──┘  └─ this user's own, writable by nobody else, no link in between
           a folder that everybody may write to has the sticky bit

Whoever acts on what a file says (`heal`, `halt`, the janitor) opens it here: a book of obligations
tells root which processes to kill, so root believes none but its own. Each step is taken from the
folder opened before it, so what was looked at is what is opened.
"""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaoslab.core.errors import FleetError

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Nobody waits for the writer of a pipe that was put in a file's place."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
"""A file that was not there before; a link that is there is refused."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(FleetError):
    """Somebody else may have written it, or it is a link."""


class NotOwned(NotPrivate):
    """It belongs to another user."""


def make_folder(path: Path) -> None:
    """A new folder that is this user's alone (0700); those above it are made as usual.

    FileExistsError if it is there; NotPrivate if the way to it can be changed by everybody.
    """
    path.mkdir(mode=0o700, parents=True)
    with open_folder(path):
        return


def open_file(root: Path, *names: str, flags: int = os.O_RDONLY) -> int:
    """Descriptor of the file at these names below `root`; a new one is for its owner alone.

    NotPrivate if it, or a folder from `root` on, can be written by others, belongs to another user
    or is a link. OSError as the kernel says it, FileNotFoundError for one that is not there.
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
    """Descriptor of a folder, for the time of the block; errors as for `open_file`."""
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
    """What the file holds; None if it is not there. Errors as for `open_file`."""
    try:
        file = open_file(root, *names)
    except FileNotFoundError:
        return None
    with open(file, "rb") as opened:
        return opened.read()


def replace_file(path: Path, text: str) -> None:
    """Put a file in the place of what is at `path`, whole or not at all; a link there is replaced.

    Not even the half-written file follows one: whoever owns the folder may have put it there, and a
    record is judged by other users, too. FleetError when the disk refuses.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with open(os.open(new, _NEW, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise FleetError(f"{path} cannot be written: {error}") from error


def remove(root: Path, *names: str) -> None:
    """Remove a file, if it is there. Errors as for `open_folder`."""
    with open_folder(root, *names[:-1]) as folder:
        try:
            os.unlink(names[-1], dir_fd=folder)
        except FileNotFoundError:
            return


# ---------------------------------------------------------------- one step


def _steps(root: Path, names: tuple[str, ...]) -> Iterator[tuple[Path, str, bool]]:
    """Each folder on the way, its name, and whether it lies above the root."""
    way = Path("/")
    for name in root.parts[1:]:
        way = way / name
        yield way, name, way != root
    for name in names:
        if name in ("", ".", "..") or "/" in name:
            raise NotPrivate(f"{way}: {name!r} is not the name of a folder in it")
        way = way / name
        yield way, name, False


@contextmanager
def _links_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotPrivate(f"{path} is a link, which is not followed here") from error
        raise


def _require_sticky(path: Path, seen: os.stat_result) -> None:
    if seen.st_mode & stat.S_IWOTH and not seen.st_mode & stat.S_ISVTX:
        raise NotPrivate(
            f"{path} can be written by everybody, so anybody can replace what lies in it: "
            f"`chmod +t {path}`, or keep runs elsewhere with --out"
        )


def _require_own(path: Path, seen: os.stat_result) -> None:
    if not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
        raise NotPrivate(f"{path} is neither a file nor a folder: it is not read")
    if seen.st_uid != os.geteuid():
        whose, mine = _user(seen.st_uid), _user(os.geteuid())
        raise NotOwned(
            f"{path} belongs to {whose}, and {mine} does not act on another user's record: "
            f"run the command as {whose} (`sudo -u {whose} chaoslab …`)"
        )
    if seen.st_mode & _OTHERS and not _is_only_mine(seen):
        raise NotPrivate(
            f"{path} can be written by others (mode {stat.S_IMODE(seen.st_mode):04o}), who may "
            f"have changed it: look at it, then `chmod go-w {path}`"
        )


def _is_only_mine(seen: os.stat_result) -> bool:
    """Whether its group, which may write, is this user's own and has no other member."""
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
