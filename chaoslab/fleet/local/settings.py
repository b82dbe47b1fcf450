"""The local fleet as a plan names it."""

from dataclasses import dataclass
from typing import ClassVar

from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.slowdown import said
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.settings import LinksFactory, LinksSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Nodes as processes of this machine."""

    default_links: ClassVar[str] = "embedded"
    runs_here: ClassVar[bool] = True

    def factory(self, request: FleetRequest) -> FleetFactory:  # noqa: ARG002 - the protocol's
        """The class of the fleet."""
        return LocalFleet

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:  # noqa: ARG002
        """Links of any kind."""
        return settings.factory(seed)

    def slowing(self, mechanism: Mechanism) -> str:
        """Mechanism in words: a cgroup, signals or rests, as this machine allows."""
        return said(mechanism)
