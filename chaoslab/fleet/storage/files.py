"""Storage faults of one node: damaged files, a full volume, a power cut.

    Storage ─► Disk ─► FilesHere: nodes/<name>/<keeps>/, on a volume of its own if it was given one
       │           ├─► FilesBeside: what only a program beside the node reaches
           └─► FilesOfOthers: the same of a training that goes on, which finds them as they were
       └─► observations: hashes before and after, bytes that are free, as they were measured there

Faults decide when, and on which nodes.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json, Observation, Payload, read
from chaoslab.core.payloads import (
    StorageDamaged,
    StorageFilled,
    StorageFreed,
    StoragePowerLost,
)
from chaoslab.fleet.base import Damage, NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.storage import disk, volume
from chaoslab.fleet.storage.disk import Measured, Space
from chaoslab.fleet.storage.power import Cut
from chaoslab.undo.base import PendingUndos, UndoLog

UNDO_VOLUME, UNDO_FILLED = "unmount", "free_volume"
"""Undo verbs; their fact is `folder`."""
UNDO_FILES = "put_files_back"
"""Undo verb; of a node that others started."""


class Disk(ABC):
    """The place of one node's files. Every method raises FleetError if it fails.

    By itself it can neither be full for this node alone nor lose its power.
    """

    def __init__(self, node: str, where: str) -> None:
        """`where`: the folder, as it is called in messages."""
        self._node, self.where = node, where

    @abstractmethod
    def damage(self, how: Damage, *, every: bool) -> Sequence[Measured]:
        """Damage the newest file, or every one; nothing if there is none."""

    def give_volume(self) -> None:
        """Mount a volume for them, before the node's first start.

        For a node with `loses_power`, one whose power can be cut.
        """
        raise self._lacking("be full or lose its power")

    def take_volume(self) -> None:  # noqa: B027 - where none is given
        """Unmount it, and close its undo entries."""

    def cut_power(self) -> Cut:
        """Let the volume lose what was not flushed."""
        raise self._lacking("lose its power")

    def fill(self) -> Space:
        """Leave no space on the volume, after writing the undo entry."""
        raise self._lacking("be full")

    def free(self) -> Space:
        """Give it space again."""
        raise self._lacking("be full")

    def _lacking(self, what: str) -> FleetError:
        return FleetError(f"the disk of {self._node} cannot {what}: use --fleet local")


class Storage:
    """Files of one node, across its incarnations."""

    def __init__(self, spec: NodeSpec, disk: Disk) -> None:
        """A node that is to have a volume gets it here; FleetError if the place forbids that."""
        self._spec, self._disk, self.has_volume = spec, disk, spec.has_volume
        self._is_mounted = spec.has_volume or spec.loses_power
        if self._is_mounted:
            disk.give_volume()

    def close(self) -> None:
        """Take the volume away, if it has one."""
        if self._is_mounted:
            self._disk.take_volume()

    def damage(self, how: Damage, *, every: bool) -> list[Observation]:
        """Damage the newest file, or every one; FleetError if there is none."""
        found = self._disk.damage(how, every=every)
        node, where = self._spec.name, self._disk.where
        if not found:
            raise FleetError(f"{node} has no file in {where} yet: start the fault later")
        return [self._told(read(StorageDamaged, {"node": node, **one}, where)) for one in found]

    def fill(self) -> Observation:
        """Leave no room; FleetError for a node without a volume of its own."""
        if not self.has_volume:
            raise FleetError(f"{self._spec.name} was not given a volume of its own to be filled")
        space = self._disk.fill()
        filled = StorageFilled(
            node=self._spec.name, total_bytes=space.total_bytes, free_bytes=space.free_bytes
        )
        return self._told(filled)

    def free(self) -> list[Observation]:
        """Give it room again; nothing for a node without a volume of its own."""
        if not self.has_volume:
            return []
        space = self._disk.free()
        freed = StorageFreed(
            node=self._spec.name, total_bytes=space.total_bytes, free_bytes=space.free_bytes
        )
        return [self._told(freed)]

    def cut_power(self) -> Observation:
        """Lose what was not flushed; FleetError for a node that was not started for that."""
        if not self._spec.loses_power:
            raise FleetError(f"{self._spec.name} was not given a disk whose power can be cut")
        cut = self._disk.cut_power()
        lost = StoragePowerLost(
            node=self._spec.name, refused=cut.refused, files=cut.files, lost=cut.lost
        )
        return self._told(lost)

    def _told(self, said: Payload) -> Observation:
        return Observation.of(self._spec.name, said)


def as_script(*words: str) -> tuple[str, ...]:
    """Command of `disk` where the files are: its source travels on the command line."""
    source = Path(disk.__file__).read_text(encoding="utf-8")
    return ("python3", "-I", "-S", "-c", source, *words)


def measured(said: str, refusal: str) -> Any:
    """What such a command has measured; FleetError, which begins with `refusal`, if nothing."""
    try:
        found = json.loads(said)
    except ValueError as error:
        raise FleetError(f"{refusal}: no JSON was printed: {said[-300:]!r}") from error
    if isinstance(found, dict) and "refused" in found:
        raise FleetError(f"{refusal}: {found['refused']}")
    return found


class FilesHere(Disk):
    """The folder in which a node on this machine keeps its state."""

    def __init__(self, spec: NodeSpec, place: Place) -> None:
        self._folder = place.home(spec.name) / spec.keeps
        super().__init__(spec.name, str(self._folder))
        self._names, self._loses_power = spec.keeps_names, spec.loses_power
        self._pending_undos = PendingUndos(place.undo_log)

    def give_volume(self) -> None:
        if volume.is_mounted(self._folder):
            return  # by another node that keeps its files there
        self._open_undo(UNDO_VOLUME)
        (volume.mount_powered if self._loses_power else volume.mount)(self._folder)

    def cut_power(self) -> Cut:
        """Cut the power by the shutdown call of the file system."""
        return volume.cut_power(self._folder)

    def take_volume(self) -> None:
        """Unmount it; what is in it stays in the folder."""
        volume.release(self._folder)
        self._pending_undos.close_all()

    def damage(self, how: Damage, *, every: bool) -> Sequence[Measured]:
        try:
            return disk.damage(self._folder, how.value, every=every, names=self._names)
        except OSError as error:
            raise FleetError(f"cannot damage the files of {self._node}: {error}") from error

    def fill(self) -> Space:
        self._open_undo(UNDO_FILLED)
        return volume.fill(self._folder)

    def free(self) -> Space:
        space = volume.free(self._folder)
        self._pending_undos.close(UNDO_FILLED)
        return space

    def _open_undo(self, do: str) -> None:
        self._pending_undos.open(do, node=self._node, folder=str(self._folder))


class FilesBeside(Disk):
    """The folder of a node that only a program beside it reaches."""

    def __init__(self, spec: NodeSpec, home: str, run: Callable[[tuple[str, ...]], str]) -> None:
        """`home`: the folder of the node, as it sees it. `run` returns the output of a command with
        the files; FleetError if that fails.
        """
        super().__init__(spec.name, str(PurePosixPath(home, spec.keeps)))
        self._run, self._names = run, spec.keeps_names

    def damage(self, how: Damage, *, every: bool) -> Sequence[Measured]:
        """Damage files as the user that owns them."""
        return self._damage(how, "all" if every else "newest")

    def _damage(self, how: Damage, which: str, *more: str) -> Sequence[Measured]:
        words = ("damage", self.where, how.value, which, self._names, *more)
        found: Sequence[Measured] = self._said(*words, refusal="cannot damage the files of")
        return found

    def _said(self, *words: str, refusal: str) -> Any:
        """What the program beside the node measured; FleetError if it refused."""
        return measured(self._run(as_script(*words)), f"{refusal} {self._node}")


class FilesOfOthers(FilesBeside):
    """Checkpoints of a training that others started: what is done to them is undone at the end.

    The original of a file is set aside beside it, and a full volume is one with a file that takes
    all room: nothing of it is resized.
    """

    def __init__(self, spec: NodeSpec, reach: "Reach", undo_log: UndoLog) -> None:
        """AbilityError, before anything is broken, if the folder cannot be reached, or the volume
        that is to be full is not the training's alone.
        """
        super().__init__(spec, "/", reach.run)
        self._reach, self._pending_undos = reach, PendingUndos(undo_log)
        try:
            look = "require_own" if spec.has_volume else "measure"
            self._said(look, self.where, refusal="no fault can act on the files of")
        except FleetError as error:
            raise AbilityError(str(error)) from error

    @property
    def is_touched(self) -> bool:
        """Whether something of it is to be put back."""
        return self._pending_undos.has_open

    def put_back(self) -> None:
        """Put everything back that is to be found as it was."""
        if self.is_touched:
            self._reach.put_back()
            self._pending_undos.close_all()

    def damage(self, how: Damage, *, every: bool) -> Sequence[Measured]:
        """Damage copies, in the place of the originals."""
        self._open_undo()
        return self._damage(how, "all" if every else "newest", "kept")

    def give_volume(self) -> None:
        """It has one."""

    def fill(self) -> Space:
        self._open_undo()
        return self._space("crowd")

    def free(self) -> Space:
        return self._space("uncrowd")

    def _space(self, do: str) -> Space:
        return Space(**self._said(do, self.where, refusal="no volume can be full of"))

    def _open_undo(self) -> None:
        self._pending_undos.open(UNDO_FILES, **self._reach.undo_facts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Way to the files of a node that others started."""

    run: Callable[[tuple[str, ...]], str]
    """Output of a command that sees them; FleetError if it fails."""
    put_back: Callable[[], object]
    """Does what the undo verb does."""
    undo_facts: Callable[[], Mapping[str, Json]]
    """Facts of the undo entry."""
