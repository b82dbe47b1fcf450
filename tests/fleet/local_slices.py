"""Slices without machines: a fleet of local processes, each on a slice of the fake cloud.

    SlicedFleet ── TpuProvider ── gRPC ──► FakeCloud ── gone(slice) ──► its processes are killed

What the cloud takes away ends the processes as a host that is gone would, unasked and unannounced.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.clock import Clock
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import abilities_of
from chaoslab.fleet.provider import ProvidedHost
from chaoslab.fleet.slices.fleet import SlicedFleet
from chaoslab.fleet.slices.repair import RepairLimits
from chaoslab.fleet.tpu.api import CloudTpu
from chaoslab.fleet.tpu.inventory import Cloud, TpuEntry
from chaoslab.fleet.tpu.provider import NODE, TpuProvider
from chaoslab.undo.base import UndoLog
from tests.fake_tpu import FakeCloud, served

ENTRY = TpuEntry(type="v5litepod-4", runtime="v2-alpha-tpuv5-lite", zone="us-east5-b", spot=True)


def cloud_of(
    endpoint: str,
    learners: Sequence[str] = ("learner-0", "learner-1"),
    repair: RepairLimits | None = None,
) -> Cloud:
    """An inventory with a slice for each learner."""
    return Cloud(
        name="vines",
        project="my-project",
        slices=dict.fromkeys(learners, ENTRY),
        lifetime_s=3600.0,
        repair=repair or RepairLimits(),
        endpoint=endpoint,
    )


class LocalSlices(SlicedFleet, LocalFleet):
    """Local processes, of which those with a slice live as long as it is up."""

    kind = "slices"
    look_every_s = 0.1

    def make_ready(self, name: str, hosts: Sequence[ProvidedHost]) -> None:
        """The host is this machine."""

    def take_in_hosts(self, name: str) -> None:
        """Without an undo entry."""

    def start_hosts(self, name: str) -> None:
        """Nor to be started on it."""

    def lose(self, name: str, why: str) -> None:
        """The processes were killed when the slice was taken."""

    def strike(self, name: str) -> None:
        """End the main process of a node as the loss of its host does."""
        life = self._lives.get(name)
        if life is not None and not life.is_over:
            with suppress(ProcessLookupError):
                os.kill(life.process.pid, signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class SliceFactory:
    """Makes a fleet on the slices of a cloud; see `FleetFactory`."""

    fake: FakeCloud
    provider: Callable[[], TpuProvider]
    repair: RepairLimits = field(default_factory=RepairLimits)
    kind: str = "slices"

    @property
    def abilities(self) -> frozenset[Ability]:
        return abilities_of(LocalSlices)

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        fleet = LocalSlices(run_directory, clock, undo_log=undo_log, node_links=node_links)
        fleet.use_slices(self.provider(), self.repair, clock)
        self.fake.gone = lambda slice_id: fleet.strike(self._node_of(slice_id))
        return fleet

    def _node_of(self, slice_id: str) -> str:
        (node,) = (
            one.labels[NODE] for name, one in self.fake.nodes.items() if name.endswith(slice_id)
        )
        return node


@contextmanager
def provided(fake: FakeCloud, cloud: Callable[[str], Cloud]) -> Iterator[TpuProvider]:
    """A provider on a fake cloud that is served meanwhile; `cloud` is given its endpoint."""
    with served(fake) as endpoint:
        inventory = cloud(endpoint)
        api = CloudTpu(inventory.project, endpoint=endpoint)
        try:
            yield TpuProvider(inventory, api)
        finally:
            api.close()
