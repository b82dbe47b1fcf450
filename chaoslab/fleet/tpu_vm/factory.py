"""Factory of fleets on slices: asks the provider for hosts, and makes a fleet for each run.

    inventory ─► Provider.hosts ─► inventory of addresses ─► HostFleets ─► TpuVmFleet

Hosts of slices are asked for anew for each run: a repair may have replaced them since. Their host
keys are those that the provider's API tells.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError, HarnessBug
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.provider import ProvidedHost, ProviderError
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.factory import HostFleets
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.settings import FleetRequest
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu_vm.fleet import TpuVmFleet
from chaoslab.undo.base import UndoLog

KIND: Final = "tpu-vm"


class SliceFleets(HostFleets):
    """Makes the fleets of one plan; see `FleetFactory`."""

    kind = KIND
    fleet = TpuVmFleet

    def __init__(
        self, inventory: Inventory, request: FleetRequest, terms: Terms, provider: TpuProvider
    ) -> None:
        """AbilityError if a slice is not up."""
        self._written, self._provider = inventory, provider
        self._hosts: dict[str, tuple[HostAddress, str]] = {}
        """Hosts of slices by address, with their learner."""
        super().__init__(self._with_addresses(), request, terms)

    @property
    def addresses(self) -> Sequence[HostAddress]:
        """The hosts that there are now, those of slices with their keys."""
        hosts = self.inventory.hosts
        return [self._hosts[host][0] if host in self._hosts else HostAddress(address=host)
                for host in hosts]  # fmt: skip

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run, on the slices that there are now."""
        self.inventory = self._with_addresses()
        fleet = super().__call__(run_directory, clock, undo_log=undo_log, node_links=node_links)
        if not isinstance(fleet, TpuVmFleet):
            raise HarnessBug(f"{fleet!r} is no fleet on slices")
        fleet.use_slices(self._provider, self._provider.cloud.repair, clock)
        fleet.use_hosts(self._bring)
        return fleet

    def more(self, host: str) -> Sequence[str]:
        """Libraries of the accelerator, on hosts of slices."""
        if host not in self._hosts:
            return ()
        _, learner = self._hosts[host]
        return self._provider.cloud.slices[learner].libraries

    def _with_addresses(self) -> Inventory:
        """The inventory with the addresses of the hosts of all slices; AbilityError if it may not
        be used.
        """
        learners = dict(self._written.learners)
        for name in self._provider.nodes:
            try:
                hosts = self._provider.hosts(name)
            except ProviderError as error:
                raise AbilityError(f"the slices cannot be looked at: {error}") from error
            except FleetError as error:
                raise AbilityError(f"{error}; `chaoslab doctor slices up` brings it up") from error
            addresses = tuple(one.address for one in self._known(name, hosts))
            learners[name] = replace(learners[name], hosts=addresses, tpu=None)
        if why := self._provider.why_not():
            raise AbilityError(f"{why}: `chaoslab doctor slices down`, then `up` again")
        return replace(self._written, learners=learners)

    def _known(self, name: str, hosts: Sequence[ProvidedHost]) -> list[HostAddress]:
        found = [HostAddress(address=one.address, host_keys=one.host_keys) for one in hosts]
        self._hosts |= {one.address: (one, name) for one in found}
        return found

    async def _bring(self, name: str, hosts: Sequence[ProvidedHost]) -> list[HostAddress]:
        """Bring to new hosts what they lack: an address may be that of another machine now."""
        found = self._known(name, hosts)
        for one in found:
            self._ready.pop(one.address, None)
            reach, _ = await self.make_ready(one)
            await reach.close()
        return found
