"""Proxy hosts, on which a proxy server runs: this machine (`process`), or a container, say.

ProxiedLinks ── open, port, ended, close ──► ProxyHost ──► the server, wherever it is
── its API at host:port, reached from here ──►
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from chaoslab.core.errors import FleetError
from chaoslab.links.netem.netfilter import Iptables
from chaoslab.links.netem.packet_rules import Place
from chaoslab.links.proxied.http_api import Endpoint


class LinkPort(Protocol):
    """A port on which one link lets connections in."""

    @property
    def address(self) -> str:
        """host:port that the server listens on and the learner dials."""
        ...

    @property
    def number(self) -> int:
        """The port alone."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePort:
    """A port that is reserved as long as the place of its server is; see `LinkPort`."""

    host: str
    number: int

    @property
    def address(self) -> str:
        """host:port."""
        return f"{self.host}:{self.number}"

    def close(self) -> None:
        """Do nothing: it goes with its place."""


class WithoutRules:
    """A place where no rules on packets are written; see `packet_rules.Place`."""

    no_rules: ClassVar[str]
    """Why rules are not possible, and what to use instead."""

    def drops(self) -> Iptables:
        """Raise FleetError: there are none."""
        raise FleetError(self.no_rules)

    def can_drop(self) -> tuple[bool, str]:
        """False: packets cannot be dropped."""
        return False, self.no_rules

    def can_use_netem(self) -> tuple[bool, str]:
        """False: netem is not available."""
        return False, self.no_rules


class ProxyHost(Place, Protocol):
    """A place for one proxy server, and for rules on the packets of its links."""

    @property
    def keeps_rules(self) -> bool:
        """Whether rules on packets outlive it; else they vanish with its network."""
        ...

    def open(self, kind: str) -> Endpoint:
        """Start a server of that kind of links; its API, which answers now."""
        ...

    def ended(self) -> str:
        """How it has ended, as a clause; empty while it runs."""
        ...

    def port(self) -> LinkPort:
        """A port that is free there."""
        ...

    def established(self, number: int) -> int | None:
        """Number of connections on one of its ports; None if it cannot be counted here."""
        ...

    def close(self) -> None:
        """End it. Safe to repeat."""
        ...


class RestartableHost(ProxyHost, Protocol):
    """A place whose server can be ended by force, whatever it waits for, and started again."""

    def restart(self) -> None:
        """All its streams and proxies are gone; its API is where it was. FleetError."""
        ...
