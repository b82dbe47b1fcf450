"""A container in plain data: what is asked for, what the engine shows of it, and what it uses.

    ContainerSpec ─► Engine ─► Seen, Usage

Nothing here asks an engine.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a container."""

    cpus: float
    memory_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container to create: what it runs, what it may use, and what it sees."""

    name: str
    image: str
    command: tuple[str, ...]
    limits: Limits
    network: str
    """Name of its network; `none`, or `container:NAME`: the one of another container."""
    aliases: tuple[str, ...] = ()
    """Names under which the network knows it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Named volume, or a folder of the engine's machine, to where the container sees it."""
    read_only: frozenset[str] = frozenset()
    """Mounts to which it may not write."""
    hears: bool = False
    """Whether its standard input stays open for an attached client."""
    published: int | None = None
    """A port of it that this machine must reach; see `Engine.reached`."""
    capabilities: tuple[str, ...] = ()
    """Capabilities of its root; none unless they are named."""
    user: str | None = None
    """User that it runs as, as the engine takes it; None: the image's own."""
    share: int = 1
    """Number of containers that it counts as in the competition for cores."""
    is_first_to_go: bool = False
    """Whether the kernel kills it before all others when the machine has no memory left."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Settings of the kernel for its own network."""

    @property
    def has_network(self) -> bool:
        """Whether it is on a network by itself, under its own names."""
        return self.network != "none" and not self.network.startswith("container:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A container as the engine shows it now."""

    status: str
    """created, running, paused, restarting, removing, exited or dead."""
    pid: int
    """Pid of its first process on the engine's machine; 0 without one."""
    exit_code: int
    was_out_of_memory: bool
    started_at: str
    image: str
    """The id of what it runs."""
    address: str
    """IP address on its network; empty without one."""

    @property
    def is_alive(self) -> bool:
        """Whether its processes exist, paused or not."""
        return self.status in ("running", "paused", "restarting")

    @property
    def started_s(self) -> float:
        """Time of its start, in seconds since the epoch; 0 if the engine does not report it."""
        return epoch_s(self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeAs:
    """Command, networks and volumes of a container."""

    id: str
    command: tuple[str, ...]
    networks: Mapping[str, tuple[str, ...]]
    """Its names on each of its networks."""
    addresses: Mapping[str, str]
    """Its addresses on networks that gave it one."""
    user: str
    """User that it runs as: a name or number, perhaps with a group; empty: root."""
    mounts: Mapping[str, str]
    """Name of a volume, or folder of the engine's machine, by where the container sees it."""

    def mount_of(self, folder: str) -> tuple[str, str] | None:
        """Source and target of the mount that has a folder; None: it is on the container's own
        file system.
        """
        inner = [where for where in self.mounts if PurePosixPath(folder).is_relative_to(where)]
        where = max(inner, key=len, default=None)
        return None if where is None else (self.mounts[where], where)


def epoch_s(stamp: str) -> float:
    """Seconds since the epoch of an engine's time; 0 for another text."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Memory that a container holds, CPU time that it has used, and what its network carried."""

    memory_bytes: int
    cpu_s: float
    at_s: float = 0.0
    """Time of the report, on this machine's monotonic clock."""
    sent_bytes: int | None = None
    """Bytes that its interfaces have sent since they are there; None: it has none of its own."""
    received_bytes: int | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Parse a line of an engine's statistics, with cgroup v1 (total_rss) or v2 (anon)."""
        memory = found.get("memory_stats") or {}
        details = memory.get("stats") or {}
        resident = details.get("total_rss", details.get("anon", memory.get("usage", 0)))
        cpu = (found.get("cpu_stats") or {}).get("cpu_usage") or {}
        networks = (found.get("networks") or {}).values()
        return cls(
            memory_bytes=int(resident),
            cpu_s=int(cpu.get("total_usage", 0)) / 1e9,
            at_s=time.monotonic(),
            sent_bytes=sum(int(one["tx_bytes"]) for one in networks) if networks else None,
            received_bytes=sum(int(one["rx_bytes"]) for one in networks) if networks else None,
        )
