"""Faults on simulated disks: files damaged, volumes filled, power cut.

    damage ─► CheckpointFile ─► refused at the next start        fill, free ─► is_full of a disk

The verbs of `fleet.protocols` on what nodes keep, each told as a real fleet tells it.
"""

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind
from chaoslab.fleet.base import Damage, Role
from chaoslab.sim.disk import VOLUME_BYTES, CheckpointFile, LearnerDisk, SyncerDisk
from chaoslab.sim.lives import Lives, Place
from chaoslab.sim.world import World

_POWERLESS = "Input/output error"


class DiskFaults:
    """Those of one fleet."""

    def __init__(self, world: World, lives: Lives) -> None:
        self._world, self._lives = world, lives

    def damage(self, name: str, how: Damage, *, every: bool) -> None:
        """See `StoresFiles.damage`."""
        disk = self._disk(self._lives.place(name))
        if not isinstance(disk, LearnerDisk):
            raise FleetError(f"{name} keeps no checkpoints")
        if not disk.files:
            raise FleetError(f"{name} keeps no file yet")
        hit = tuple(disk.files if every else disk.files[-1:])
        untouched: list[Json] = [file.name for file in disk.files if file not in hit]
        for file in hit:
            before: dict[str, Json] = {
                "bytes_before": file.size_bytes, "digest_before": file.digest,
            }  # fmt: skip
            after: dict[str, Json] = {"bytes_after": None, "digest_after": None}
            if how is Damage.LOSE:
                disk.files.remove(file)
            else:
                _damage(file, how)
                after = {"bytes_after": file.size_bytes, "digest_after": file.digest}
            data: dict[str, Json] = {"node": name, "file": file.name, "how": how.value}
            told = {**data, **before, **after, "untouched": untouched}
            self._world.report(name, Kind.STORAGE_DAMAGED, told)

    def fill(self, name: str) -> None:
        """See `HasVolumes.fill_disk`."""
        place = self._lives.place(name)
        if not place.spec.has_volume:
            raise FleetError(f"{name} has no volume of its own")
        self._disk(place).is_full = True
        self._tell_volume(Kind.STORAGE_FILLED, name, free_bytes=0)

    def free(self, name: str) -> None:
        """See `HasVolumes.free_disk`."""
        place = self._lives.place(name)
        if place.spec.has_volume and self._disk(place).is_full:
            self._disk(place).is_full = False
            self._tell_volume(Kind.STORAGE_FREED, name, free_bytes=VOLUME_BYTES // 2)

    def cut_power(self, name: str) -> None:
        """See `LosesPower.cut_power`."""
        place = self._lives.place(name)
        if place.process is not None or not place.spec.loses_power:
            raise FleetError(f"{name} lives, or has no disk whose power can be cut")
        disk = self._disk(place)
        files = len(disk.files if isinstance(disk, LearnerDisk) else disk.digests)
        data: dict[str, Json] = {"node": name, "refused": _POWERLESS, "files": files, "lost": []}
        self._world.report(name, Kind.STORAGE_POWER_LOST, data)

    def _disk(self, place: Place) -> LearnerDisk | SyncerDisk:
        if place.spec.role is Role.SYNCER:
            return self._world.syncer_disk
        return self._world.disk(place.spec.name)

    def _tell_volume(self, kind: Kind, name: str, *, free_bytes: int) -> None:
        data: dict[str, Json] = {
            "node": name, "total_bytes": VOLUME_BYTES, "free_bytes": free_bytes,
        }  # fmt: skip
        self._world.report(name, kind, data)


def _damage(file: CheckpointFile, how: Damage) -> None:
    """Change a file as a disk might."""
    if how is Damage.TRUNCATE:
        file.size_bytes //= 2
        file.damage = "it ends too early"
    else:
        file.damage = "its content does not match its checksum"
