"""Cloud part of an inventory: slices to create for learners, how long they may exist, repairs.

    name: vines
    project: my-project
    learners:
      learner-0: {tpu: {type: v5litepod-16, runtime: v2-alpha-tpuv5-lite, zone: us-east5-b}}
    lifetime: 4h
    repair: {preemptions: 10, failures: 3, wait: 30m}

Names and labels go to Google's API and into names of resources, so each is checked by the form
that Google documents for it; none reaches a shell but `startup`, which is a script.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration
from chaoslab.fleet.slices.repair import RepairLimits
from chaoslab.fleet.tpu.accelerators import Accelerator, accelerator

OWN = "chaoslab"
"""Labels that begin with this are chaoslab's own."""
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z][a-z0-9]*")
_RUNTIME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_NETWORK = re.compile(r"[a-z0-9][a-z0-9./-]{0,200}")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]{4,61}[a-z0-9]")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_PUBLIC_KEY = re.compile(r"[a-z_][a-z0-9_-]*:[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\n]*)?")
_LIBRARY = re.compile(r"[A-Za-z0-9][^\n]*")


def _matches(pattern: "re.Pattern[str]", text: str, key: str, example: str) -> None:
    if not (pattern.fullmatch(text) and text.isprintable()):  # other ends of lines, too
        raise PlanError(f"must be like {example}, got {text!r}", key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuEntry:
    """A Cloud TPU slice to create for a learner."""

    type: str = field(metadata={"example": "v5litepod-16"})
    """Accelerator type; its hosts are those of the learner."""
    runtime: str = field(metadata={"example": "v2-alpha-tpuv5-lite"})
    """Runtime version: the image of its hosts."""
    zone: str = field(metadata={"example": "us-east5-b"})
    """Zone in which it is created."""
    spot: bool = False
    """Spot capacity: cheaper, and taken away when others need it."""
    network: str = ""
    """VPC network; empty: default."""
    subnetwork: str = ""
    """Subnetwork; empty: default."""
    external_ips: bool = False
    """Whether its hosts get external addresses, to which learners connect then."""
    labels: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{team: research}"}
    )
    """Labels beside those of chaoslab."""
    reservation: str = ""
    """Name of a reservation to take it from."""
    startup: str = ""
    """Script that each of its hosts runs as root when it boots, such as one that installs Python
    3.11; it is part of the request."""
    libraries: tuple[str, ...] = ("jax[tpu]",)
    """Requirements of its hosts beside chaoslab's own, as lines of a requirements file."""

    def __post_init__(self) -> None:
        accelerator(self.type)
        _matches(_RUNTIME, self.runtime, "runtime", "v2-alpha-tpuv5-lite")
        _matches(_ZONE, self.zone, "zone", "us-east5-b")
        for key in ("network", "subnetwork", "reservation"):
            if getattr(self, key):
                _matches(_NETWORK, getattr(self, key), key, "my-network")
        for key, value in self.labels.items():
            _matches(_LABEL_KEY, key, "labels", "team: research")
            _matches(_LABEL_VALUE, value, "labels", "team: research")
            if key.startswith(OWN):
                raise PlanError(
                    f"labels that begin with {OWN} are its own, got {key}", key="labels"
                )
        for library in self.libraries:
            _matches(_LIBRARY, library, "libraries", "jax[tpu]")
        if self.spot and self.reservation:
            raise PlanError("spot capacity is not taken from a reservation: leave one of them out")

    @property
    def accelerator(self) -> Accelerator:
        """Its chips and hosts."""
        return accelerator(self.type)

    @property
    def region(self) -> str:
        """us-east5 for us-east5-b."""
        return self.zone.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """All that an inventory says of the cloud."""

    name: str
    """Names the fleet, and labels all that is created for it."""
    project: str
    slices: Mapping[str, TpuEntry]
    """Slices by learner."""
    lifetime_s: Duration
    """How long its slices may exist."""
    repair: RepairLimits = field(default_factory=RepairLimits)
    endpoint: str = ""
    """host:port of an emulator of the API on this machine; empty: Google's."""
    public_key: str = ""
    """Public ssh key that new hosts get, as "user:ssh-ed25519 AAAA..."; empty: those of the
    project."""

    def __post_init__(self) -> None:
        _matches(_NAME, self.name, "name", "my-fleet (at most 20 letters, digits and -)")
        _matches(_PROJECT, self.project, "project", "my-project")
        if self.endpoint and not _is_here(self.endpoint):
            raise PlanError(
                "must be 127.0.0.1:PORT, an emulator on this machine that is spoken to without "
                f"credentials, got {self.endpoint!r}",
                key="endpoint",
            )
        if self.public_key:
            _matches(_PUBLIC_KEY, self.public_key, "public_key", "ubuntu:ssh-ed25519 AAAA… me")
        if self.lifetime_s <= 0:
            raise PlanError("must be above 0s", key="lifetime")


def _is_here(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        return ip_address(host).is_loopback and 0 < int(port) < 2**16
    except ValueError:
        return False
