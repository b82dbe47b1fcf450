"""Hosts of a run, from the undo entry of each to its removal: what a remote fleet does to them.

    undo entry ─► agent started ─► … ─► left: nodes ended ─► records fetched ─► agent dismissed
                                        lost, or refuses ─► agent halted ─► records, folder removed

A host that is gone for good is forgotten: its entry is closed. For one that cannot be
reached at the end its undo entry stays open.
"""

import io
import logging
import re
import tarfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from chaoslab.core.errors import ChaoslabError, FleetError
from chaoslab.core.event_loop import first_error
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.remote.ground import Ground
from chaoslab.fleet.remote.host import Host
from chaoslab.fleet.remote.protocol.names import END_AGENT
from chaoslab.fleet.remote.protocol.reach import HostAddress, Unreached

_log = logging.getLogger(__name__)
_READY_S: Final = 2400.0
"""Time limit of the delivery to a host, libraries of an accelerator included."""
_START_S: Final = 120.0
_END_S: Final = 120.0
_OF_NODE: Final = re.compile(r"nodes/[\w-]+/\d+/[a-z]+\.(log|json)")
_OF_AGENT: Final = re.compile(r"[a-z_]+\.(log|jsonl)")


class HostManager:
    """The hosts of one run."""

    def __init__(self, ground: Ground, place: Place) -> None:
        self._ground, self._place = ground, place
        self._entries: dict[str, int] = {}
        """Undo entries by host."""
        self._starting: dict[str, Future[None]] = {}
        """Starts of agents that were begun and not asked for since, by host."""
        self._requiring = threading.Lock()

    def start(self, hosts: Sequence[Host]) -> None:
        """Start agents, side by side, each after its undo entry. The first error, when all are
        done; FleetError if two of these hosts are one.
        """
        for host in hosts:
            self._open_undo(host)
        first_error(self._ground.loop.together((h.start() for h in hosts), within_s=_START_S))
        by_session: dict[str, Host] = {}
        for host in hosts:
            if (other := by_session.setdefault(host.session, host)) is not host:
                raise FleetError(
                    f"{other.name} and {host.name} are one machine, with one host agent: give it "
                    "one name in the inventory"
                )

    def require(self, hosts: Sequence[Host]) -> None:
        """Have agents on these hosts. Where one was lost, another is started in the background, as
        that takes seconds: FleetError until all are up, with the reason if that failed.
        """
        away = [host for host in hosts if not host.is_up]
        for host in away:
            with self._requiring:
                begun = self._starting.get(host.name)
                if begun is None or begun.done():
                    self._open_undo(host)
                    self._starting[host.name] = self._ground.loop.begin(host.start())
            if begun is not None and begun.done():
                begun.result()
        if away:
            names = ", ".join(host.name for host in away)
            raise FleetError(f"{names}: the host agent was lost, and is being started again")

    def take_in(self, found: HostAddress) -> Host:
        """The host at this address, with its undo entry and, if it is new, without an agent."""
        known = self._ground.hosts.get(found.address)
        if known is not None and known.is_up:
            return known
        ready = self._ground.make_ready(found)
        host = self._ground.add(*self._ground.loop.run(ready, within_s=_READY_S))
        self._open_undo(host)
        return host

    def occupy(self, hosts: Sequence[Host]) -> None:
        """Start agents on hosts that were taken in and have none. Any thread may call this."""
        new = [host for host in hosts if not host.is_up]
        first_error(self._ground.loop.together(map(_start_anew, new), within_s=_START_S))

    def forget(self, host: Host) -> None:
        """Forget a host that is gone for good, with all that was on it."""
        if self._ground.hosts.get(host.name) is host:
            del self._ground.hosts[host.name]
            self._close_undo(host)
            self._ground.loop.begin(_abandon(host))

    def bring_records(self) -> None:
        """Bring what all hosts have recorded until now. FleetError if that fails."""
        hosts = [host for host in self._ground.hosts.values() if host.is_up]
        found = self._ground.loop.together((host.fetch() for host in hosts), within_s=_END_S)
        first_error(found)
        for host, record in zip(hosts, found, strict=True):
            if isinstance(record, bytes):
                self._keep(host, record)

    def part_with_all(self, is_gone: Callable[[str], bool]) -> list[str]:
        """Leave every host as it was found; what remains, in words.

        The entry of one that cannot be reached stays open, unless it `is_gone` for good.
        """
        for begun in self._starting.values():
            begun.cancel()
        hosts = tuple(self._ground.hosts.values())
        ends = self._ground.loop.together(map(self._part_with, hosts), within_s=_END_S)
        remaining: list[str] = []
        for host, said in zip(hosts, ends, strict=True):
            if said is None or (isinstance(said, Unreached) and is_gone(host.name)):
                self._close_undo(host)
            elif isinstance(said, Unreached):
                _log.warning("%s; what runs there ends when its lease is over", said)
            else:
                remaining.append(f"{host.name}: {said}")
        return remaining

    def _open_undo(self, host: Host) -> None:
        if host.name not in self._entries:
            facts = self._ground.undo_facts(host.name)
            self._entries[host.name] = self._place.undo_log.open(END_AGENT, **facts)

    def _close_undo(self, host: Host) -> None:
        if host.name in self._entries:
            self._place.undo_log.close(self._entries.pop(host.name))

    # ---------------------------------------------------------------- on the loop

    async def _part_with(self, host: Host) -> None:
        try:
            if host.is_up:
                await self._dismiss(host)
            elif host.name in self._entries:
                await self._halt(host)
        finally:
            await host.reach.close()

    async def _dismiss(self, host: Host) -> None:
        try:
            if remaining := await host.leave():
                raise FleetError(remaining)
            self._keep(host, await host.fetch())
            await host.dismiss()
        except ChaoslabError as error:
            _log.warning("%s: %s; its host agent is halted", host.name, error)
            await self._halt(host)

    async def _halt(self, host: Host) -> None:
        await host.halt()
        self._keep(host, await host.fetch())
        await host.remove()

    def _keep(self, host: Host, record: bytes) -> None:
        """Put what a host has recorded into the run directory, and nothing else that it sends.
        FleetError if that is something else.
        """
        try:
            with tarfile.open(fileobj=io.BytesIO(record)) as archive:
                # Python 3.11.2, of Debian 12, has no filters yet; names are checked below
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                for member in archive.getmembers():
                    is_of_agent = _OF_AGENT.fullmatch(member.name) is not None
                    is_known = is_of_agent or _OF_NODE.fullmatch(member.name) is not None
                    if not (is_known and member.isreg()):  # a link leads to other files of the run
                        raise FleetError(f"{host.name} sent {member.name!r} as a record of a node")
                    if is_of_agent:
                        member.name = f"hosts/{host.name}/{member.name}"
                    archive.extract(member, self._place.run_directory)
        except tarfile.TarError as error:
            raise FleetError(f"{host.name} sent no tar file as its record: {error}") from error


async def _abandon(host: Host) -> None:
    """End all connections to a host that is gone."""
    await host.give_up("it is gone for good")
    await host.reach.close()


async def _start_anew(host: Host) -> None:
    """Start its agent, after the end of what an earlier one may have left there."""
    await host.halt()
    await host.start()
