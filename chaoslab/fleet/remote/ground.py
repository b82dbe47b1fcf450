"""Hosts of one run: which there are, which node is where, and the queue of their news.

    place(node) ─► names ─► Host, Host …        make_ready(address) ─► add ─► one more Host
                              └── observations, gaps, losses ──► news ──► `RemoteFleet.poll`

It starts nothing.
"""

import queue
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoslab.core.errors import ChaoslabError
from chaoslab.core.event_loop import EventLoop
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import NodeSite
from chaoslab.fleet.remote.contact import Gap, Terms
from chaoslab.fleet.remote.host import Host, Runs
from chaoslab.fleet.remote.protocol.reach import HostAddress, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """An observation of a host, the end of a gap in which it was not heard, or that it is lost."""

    host: Host
    seen: Observation | None = None
    number: int = 0
    """Number of the observation."""
    gap: Gap | None = None
    lost: ChaoslabError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSite(NodeSite):
    """The place of nodes on hosts; an agent fills in what is in braces."""

    python: str = "{python}"
    snapshots: str | None = "{run}/snapshots"
    cache: str | None = "{cache}"

    @property
    def needs_tls(self) -> bool:
        """Always: hosts have no folder for tokens in common, whatever their addresses are."""
        return True


@dataclass(slots=True, kw_only=True)
class Ground:
    """The hosts of one run, and which node is on which of them."""

    loop: EventLoop
    hosts: dict[str, Host]
    """Hosts by name; a fleet whose hosts come and go changes it."""
    place: Callable[[str], Sequence[str]]
    """Names of the hosts of a node, that of its first process first. KeyError if it has none."""
    undo_facts: Callable[[str], Mapping[str, Json]]
    """Facts by which a later process reaches a host, by its name."""
    make_ready: Callable[[HostAddress], Coroutine[Any, Any, tuple[Reach, Runs]]]
    """Brings what a host lacks: a way to it, and how chaoslab is run there."""
    news: "queue.SimpleQueue[News]"
    """Reports of the hosts, to be taken by `poll`."""
    run: str
    """Name of the run on the hosts."""
    listen: str = "127.0.0.1:0"
    """host:port where the syncer listens."""
    terms: Terms = field(default_factory=Terms)
    adopts: bool = False
    """Whether the nodes are those of a training that runs on the hosts already."""

    def add(self, reach: Reach, program: Runs) -> Host:
        """Add a host, in place of one of the same name. Nothing is started on it yet."""
        host = Host(
            reach=reach,
            run=self.run,
            program=program,
            arrived=lambda host, seen, number: self.news.put(
                News(host=host, seen=seen, number=number)
            ),
            back=lambda host, gap: self.news.put(News(host=host, gap=gap)),
            lost=lambda host, error: self.news.put(News(host=host, lost=error)),
            terms=self.terms,
            adopts=self.adopts,
        )
        self.hosts[host.name] = host
        return host
