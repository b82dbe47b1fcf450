"""What a fleet can do to the files that a local node keeps: damage them, leave no room for more.

    nodes/<name>/<keeps>/   the node's state ◄── damage the newest file, or all: by bytes, on disk
         └─ on a volume of its own, if it was given one ◄── fill, free

What was done is told as sightings, with what was measured: hashes before and after, bytes that are
free. When to do it, and to whom, is decided elsewhere.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

from chaoslab.errors import FleetError
from chaoslab.events import Json, Kind
from chaoslab.fleet import volume
from chaoslab.fleet.base import Damage, NodeSpec, Sighting
from chaoslab.fleet.debts import Debts
from chaoslab.fleet.life import Place

UNDO_VOLUME, UNDO_FILLED = "unmount", "free_volume"
"""The obligations' verbs; their fact is `folder`."""
_DIGEST_BYTES = 16


class Storage:
    """The folder in which one node keeps its state, across all its lives."""

    def __init__(self, spec: NodeSpec, place: Place) -> None:
        """A node with `has_volume` gets one here; FleetError if the machine does not allow that."""
        self._node = spec.name
        self._folder = place.home(spec.name) / spec.keeps
        self._debts = Debts(place.obligations)
        self._has_volume = spec.has_volume
        if self._has_volume:
            self._owe(UNDO_VOLUME)
            volume.mount(self._folder)

    def close(self) -> None:
        """Take the volume away; what is in it stays in the folder."""
        if self._has_volume:
            volume.release(self._folder)
            self._debts.settle_all()

    def damage(self, how: Damage, *, every: bool) -> list[Sighting]:
        """Damage the newest file, or every one; FleetError if there is none."""
        files = sorted(
            (path for path in self._folder.glob("*") if path.is_file() and path.name[0] != "."),
            key=lambda path: (path.stat().st_mtime_ns, path.name),
        )
        if not files:
            raise FleetError(
                f"{self._node} keeps no file yet in {self._folder}: let the fault come later"
            )
        return [self._damage(path, how) for path in (files if every else files[-1:])]

    def fill(self) -> Sighting:
        """Leave no room; FleetError for a node without a volume of its own."""
        if not self._has_volume:
            raise FleetError(f"{self._node} was not given a volume of its own to be filled")
        self._owe(UNDO_FILLED)
        return self._told(Kind.STORAGE_FILLED, volume.fill(self._folder))

    def free(self) -> list[Sighting]:
        """Give it room again; nothing for a node without a volume of its own."""
        if not self._has_volume:
            return []
        space = volume.free(self._folder)
        self._debts.settle(UNDO_FILLED)
        return [self._told(Kind.STORAGE_FREED, space)]

    def _owe(self, do: str) -> None:
        self._debts.owe(do, node=self._node, folder=str(self._folder))

    def _damage(self, path: Path, how: Damage) -> Sighting:
        try:
            before = _look(path)
            _DAMAGES[how](path)
            after = _look(path)
        except OSError as error:
            raise FleetError(f"{path} cannot be damaged: {error}") from error
        return Sighting(
            source=self._node,
            kind=Kind.STORAGE_DAMAGED,
            data={
                "node": self._node,
                "file": path.name,
                "how": how.value,
                **{f"{key}_before": value for key, value in before.items()},
                **{f"{key}_after": value for key, value in after.items()},
            },
        )

    def _told(self, kind: Kind, space: volume.Space) -> Sighting:
        facts = {"total_bytes": space.total_bytes, "free_bytes": space.free_bytes}
        return Sighting(source=self._node, kind=kind, data={"node": self._node, **facts})


def _look(path: Path) -> Mapping[str, Json]:
    """What is on the disk now; nulls when the file is not there."""
    if not path.exists():
        return {"bytes": None, "digest": None}
    content = path.read_bytes()
    digest = blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
    return {"bytes": len(content), "digest": digest}


def _corrupt(path: Path) -> None:
    """Turn the bits of one byte in the middle over; the length and the date stay credible."""
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
    path.unlink()


_DAMAGES: Mapping[Damage, Callable[[Path], None]] = MappingProxyType(
    {Damage.CORRUPT: _corrupt, Damage.TRUNCATE: _truncate, Damage.LOSE: _lose}
)
