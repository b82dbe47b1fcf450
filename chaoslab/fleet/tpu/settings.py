"""The fleet on slices as a plan names it: `fleet: {kind: tpu-vm, inventory: fleet.yaml}`."""

from dataclasses import dataclass

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.remote.settings import Ssh
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.tpu.lifecycle import claim
from chaoslab.fleet.tpu.provider import open_provider


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuVm(Ssh):
    """Hosts of Cloud TPU slices, reached by ssh; `chaoslab doctor slices up` creates them."""

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that asks the provider for hosts. AbilityError without its client or asyncssh, if
        a slice is not up, or if another process has the slices.
        """
        inventory = self.read()
        inventory.require(request.learners)
        inventory.ssh.require_files(self.inventory)
        provider = open_provider(inventory)
        try:
            from chaoslab.fleet.remote.contact import Terms  # noqa: PLC0415  # asyncssh
            from chaoslab.fleet.tpu.fleet import SliceFleets  # noqa: PLC0415  # asyncssh
        except ImportError as error:
            raise AbilityError(
                f"the fleet tpu-vm needs more libraries ({error}): pip install 'chaoslab[tpu]'"
            ) from error
        claim(inventory)
        return SliceFleets(request, Terms(lease_s=self.lease_s, lost_s=self.lease_s), provider)
