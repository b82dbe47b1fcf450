"""Faults on simulated disks: files damaged, volumes filled, power cut.

    damage ─► CheckpointFile ─► refused at the next start        fill, free ─► is_full of a disk

The verbs of `fleet.protocols` on what nodes keep, each told as a real fleet tells it.
"""

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import StorageDamaged, StorageFilled, StorageFreed, StoragePowerLost
from chaoslab.fleet.base import Damage, Role
from chaoslab.sim.disk import VOLUME_BYTES, CheckpointFile, LearnerDisk, SyncerDisk
from chaoslab.sim.lives import Lives, Place
from chaoslab.sim.world import World

_POWERLESS = "Input/output error"


class DiskFaults:
    """Part of a fleet that has the nodes' world and lives."""

    _world: World
    _lives: Lives

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        """See `StoresFiles.damage`."""
        disk = self._disk(self._lives.place(name))
        if not isinstance(disk, LearnerDisk):
            raise FleetError(f"{name} keeps no checkpoints")
        if not disk.files:
            raise FleetError(f"{name} keeps no file yet")
        names = sorted(disk.files)
        hit = names if every else names[-1:]
        untouched = tuple(name for name in names if name not in hit)
        for file in [disk.files[one] for one in hit]:
            bytes_before, digest_before = file.size_bytes, file.digest
            is_lost = how is Damage.LOSE
            if is_lost:
                del disk.files[file.name]
            else:
                _damage(file, how)
            damaged = StorageDamaged(
                node=name,
                file=file.name,
                how=how.value,
                bytes_before=bytes_before,
                digest_before=digest_before,
                bytes_after=None if is_lost else file.size_bytes,
                digest_after=None if is_lost else file.digest,
                untouched=untouched,
            )
            self._world.report(name, damaged)

    def fill_disk(self, name: str) -> None:
        """See `HasVolumes.fill_disk`."""
        place = self._lives.place(name)
        if not place.spec.has_volume:
            raise FleetError(f"{name} has no volume of its own")
        self._disk(place).is_full = True
        filled = StorageFilled(node=name, total_bytes=VOLUME_BYTES, free_bytes=0)
        self._world.report(name, filled)

    def free_disk(self, name: str) -> None:
        """See `HasVolumes.free_disk`."""
        place = self._lives.place(name)
        if place.spec.has_volume and self._disk(place).is_full:
            self._disk(place).is_full = False
            freed = StorageFreed(node=name, total_bytes=VOLUME_BYTES, free_bytes=VOLUME_BYTES // 2)
            self._world.report(name, freed)

    def cut_power(self, name: str) -> None:
        """See `LosesPower.cut_power`."""
        place = self._lives.place(name)
        if place.process is not None or not place.spec.loses_power:
            raise FleetError(f"{name} lives, or has no disk whose power can be cut")
        disk = self._disk(place)
        files = len(disk.files if isinstance(disk, LearnerDisk) else disk.digests)
        lost = StoragePowerLost(node=name, refused=_POWERLESS, files=files, lost=())
        self._world.report(name, lost)

    def _disk(self, place: Place) -> LearnerDisk | SyncerDisk:
        if place.spec.role is Role.SYNCER:
            return self._world.syncer_disk
        return self._world.disk(place.spec.name)


def _damage(file: CheckpointFile, how: Damage) -> None:
    """Change a file as a disk might."""
    if how is Damage.TRUNCATE:
        file.size_bytes //= 2
        file.damage = "it ends too early"
    else:
        file.damage = "its content does not match its checksum"
