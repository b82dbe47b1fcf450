"""A model of a disk that loses its power: what was done to it, and what may be left of that.

    diloco.node.files ── its `os` ──► Recorder ─► the real files (what the kernel would show)
                                             └─► Operation, Operation, … ─► states after a power cut

The model is that of POSIX, which promises little: bytes that were not flushed may be there, be
missing, or be there in part, sector by sector and in any order; so may the names of a folder that
was not flushed. Flushing a file says nothing of its name, flushing a folder nothing of the bytes.
A file that grew and whose bytes are missing reads as zeros there. A rename happens whole or not at
all. No chance but by seed.
"""

import math
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

SECTOR = 512
Names: TypeAlias = dict[str, int | None]
"""Path below the root -> inode; None for a folder; in a change, _GONE for a name that goes."""
_GONE = -1
State: TypeAlias = Mapping[str, bytes | None]
"""What a disk holds: path below the root -> contents; None for a folder."""


class Killed(BaseException):
    """The process ended before an operation; nothing that it does from then on happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of the kernel that changes a disk or waits for it."""

    kind: str
    path: str
    inode: int = 0
    offset: int = 0
    content: bytes = b""
    source: str = ""


class Recorder:
    """Stands in for `os` in `chaoslab.diloco.node.files`, for everything below `root`.

    `before` is called with the number of each operation before it is done, from 0 on, and may raise
    `Killed` or end the process for real.
    """

    def __init__(self, root: Path, before: Callable[[int], None] = lambda _number: None) -> None:
        self.operations: list[Operation] = []
        self.before = before
        self._root = root.resolve()
        self._inodes: dict[str, int] = {}
        self._open: dict[int, tuple[str, int]] = {}
        self._made = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        where, is_there = self._name(path), path.exists()
        if flags & os.O_CREAT and not is_there:
            self._made += 1
            self._note(Operation(kind="create", path=where, inode=self._made))
            self._inodes[where] = self._made
        elif flags & os.O_TRUNC:
            inode = self._inodes[where]
            self._note(Operation(kind="truncate", path=where, inode=inode))
        handle = os.open(path, flags, mode)
        self._open[handle] = where, self._inodes.get(where, 0)
        return handle

    def close(self, handle: int) -> None:
        self._open.pop(handle)
        os.close(handle)

    def pwrite(self, handle: int, content: memoryview, offset: int) -> int:
        where, inode = self._open[handle]
        self._note(
            Operation(kind="write", path=where, inode=inode, offset=offset, content=bytes(content))
        )
        return os.pwrite(handle, content, offset)

    def ftruncate(self, handle: int, size: int) -> None:
        where, inode = self._open[handle]
        self._note(Operation(kind="truncate", path=where, inode=inode, offset=size))
        os.ftruncate(handle, size)

    def fsync(self, handle: int) -> None:
        where, inode = self._open[handle]
        kind = "flush file" if inode else "flush folder"
        self._note(Operation(kind=kind, path=where, inode=inode))

    def replace(self, source: Path, path: Path) -> None:
        where, whence = self._name(path), self._name(source)
        inode = self._inodes[whence]
        self._note(Operation(kind="rename", path=where, inode=inode, source=whence))
        os.replace(source, path)
        self._inodes[where] = self._inodes.pop(whence)

    def unlink(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(path)
        where = self._name(path)
        self._note(Operation(kind="unlink", path=where))
        os.unlink(path)
        del self._inodes[where]

    def mkdir(self, path: Path) -> None:
        if not path.exists() and path.parent.exists():
            self._note(Operation(kind="mkdir", path=self._name(path)))
        os.mkdir(path)

    def _note(self, operation: Operation) -> None:
        self.before(len(self.operations))
        self.operations.append(operation)

    def _name(self, path: Path) -> str:
        return path.resolve().relative_to(self._root).as_posix()


# ---------------------------------------------------------------- what a power cut leaves


@dataclass(slots=True)
class _Inode:
    """A file's bytes: what the disk has, and what it was asked to write since."""

    flushed: bytes = b""
    pending: list[Operation] = field(default_factory=list)

    def variants(self, chance: random.Random, limit: int) -> list[bytes]:
        """What may be left; the first is all of it, the second nothing."""
        stages = [self.flushed]
        for operation in self.pending:
            stages.append(_applied(stages[-1], operation))
        old, new = self.flushed, stages[-1]
        torn = list(dict.fromkeys([*stages[1:-1], *_torn(old, new, chance)]))
        kept = chance.sample(torn, limit) if len(torn) > limit else torn
        return list(dict.fromkeys([new, old, *kept]))


@dataclass(slots=True)
class PowerCut:
    """Follows operations, and tells what a power cut may leave after any of them."""

    seed: int = 0
    limit: int = 64
    """No more states than so many for each crash point, drawn by the seed."""
    _inodes: dict[int, _Inode] = field(default_factory=dict)
    _names: Names = field(default_factory=dict)
    _pending: dict[str, list[Names]] = field(default_factory=dict)

    def follow(self, operation: Operation) -> None:
        """The kernel has taken this operation."""
        parent = str(Path(operation.path).parent)
        match operation.kind:
            case "write" | "truncate":
                self._inodes[operation.inode].pending.append(operation)
            case "flush file":
                inode = self._inodes[operation.inode]
                for one in inode.pending:
                    inode.flushed = _applied(inode.flushed, one)
                inode.pending.clear()
            case "flush folder":
                for change in self._pending.pop(operation.path, []):
                    _change(self._names, change)
            case "create":
                self._inodes[operation.inode] = _Inode()
                self._change_later(parent, {operation.path: operation.inode})
            case "mkdir":
                self._change_later(parent, {operation.path: None})
            case "rename":
                self._change_later(parent, {operation.path: operation.inode}, {operation.source})
            case "unlink":
                self._change_later(parent, {}, {operation.path})
            case other:
                raise AssertionError(other)

    def states(self) -> Iterator[State]:
        """Each once; the first has all that was done, as if only the process had died."""
        chance = random.Random(self.seed)
        files = {n: one.variants(chance, 24) for n, one in self._inodes.items() if one.pending}
        folders = {
            folder: _subsets(len(changes), chance) for folder, changes in self._pending.items()
        }
        ways = [range(len(one)) for one in (*files.values(), *folders.values())]
        seen = set()
        for choice in _choices(ways, chance, self.limit):
            bytes_of = {n: files[n][at] for n, at in zip(files, choice, strict=False)}
            chosen = dict(zip(folders, choice[len(files) :], strict=True))
            state = self._state(bytes_of, {f: folders[f][at] for f, at in chosen.items()})
            mark = tuple(sorted(state.items()))
            if mark not in seen:
                seen.add(mark)
                yield MappingProxyType(state)

    def _change_later(self, parent: str, made: Names, gone: set[str] | None = None) -> None:
        changes = self._pending.setdefault(parent, [])
        changes.append({**dict.fromkeys(gone or (), _GONE), **made})

    def _state(
        self, bytes_of: Mapping[int, bytes], chosen: Mapping[str, Sequence[bool]]
    ) -> dict[str, bytes | None]:
        names = dict(self._names)
        for folder, is_kept in chosen.items():
            for change, kept in zip(self._pending[folder], is_kept, strict=True):
                if kept:
                    _change(names, change)
        found: dict[str, bytes | None] = {}
        for path, inode in sorted(names.items()):
            parent = str(Path(path).parent)
            if parent != "." and parent not in found:
                continue
            is_file = inode is not None
            found[path] = bytes_of.get(inode, self._inodes[inode].flushed) if is_file else None
        return found


def lay_out(state: State, root: Path) -> None:
    """Make the files of a state below an empty folder."""
    for path, content in state.items():
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)


def _change(names: Names, change: Names) -> None:
    for path, inode in change.items():
        if inode == _GONE:
            names.pop(path, None)
        else:
            names[path] = inode


def _applied(content: bytes, operation: Operation) -> bytes:
    """What a file reads after a write or a truncation; a gap reads as zeros."""
    start = operation.offset
    if operation.kind == "truncate":
        return content[:start].ljust(start, b"\0")
    end = start + len(operation.content)
    return content[:start].ljust(start, b"\0") + operation.content + content[end:]


def _torn(old: bytes, new: bytes, chance: random.Random) -> Iterator[bytes]:
    """Parts of a change: cut off, without one sector, with one alone, without any but as long."""
    starts = [at for at in range(0, len(new), SECTOR) if _sector(old, at) != _sector(new, at)]
    under = old[: len(new)].ljust(len(new), b"\0")
    yield under
    for at in starts:
        yield new[:at] + under[at : at + SECTOR] + new[at + SECTOR :]
        yield under[:at] + new[at : at + SECTOR] + under[at + SECTOR :]
        if len(new) > len(old):
            yield new[:at] if at >= len(old) else old
            yield new[: max(len(old), at + chance.randrange(1, SECTOR))]  # the old size is flushed


def _sector(content: bytes, at: int) -> bytes:
    return content[at : at + SECTOR]


def _subsets(count: int, chance: random.Random) -> list[list[bool]]:
    """Which of so many changes happened: all first; every subset of a few, some of many."""
    if count <= 4:  # 16 of them
        return [list(one) for one in product((True, False), repeat=count)]
    prefixes = [[at < kept for at in range(count)] for kept in range(count, -1, -1)]
    return prefixes + [[chance.random() < 0.5 for _ in range(count)] for _ in range(16)]


def _choices(ways: Sequence[range], chance: random.Random, limit: int) -> Iterator[tuple[int, ...]]:
    """One way of each; all combinations if there are few, else the extremes and some by chance."""
    everything = tuple(0 for _ in ways)
    yield everything
    if math.prod(map(len, ways)) <= limit:
        yield from product(*ways)
        return
    for place, way in enumerate(ways):
        for at in way:
            yield (*everything[:place], at, *everything[place + 1 :])
    for _ in range(limit):
        yield tuple(chance.choice(way) for way in ways)
