"""Links of a script's workers to the ports that its plan names, and what their ends report.

    training.script.ports ─► WorkerLink of each worker ─ through `Fleet.link` ─► its ports
                                        └─ read ─► link.opened, link.closed, link.measured

The workers of a launcher share its command, and so its link.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.event_loop import EventLoop
from chaoslab.core.events import Observation
from chaoslab.core.link_meter import MEASURE_S, Periodic
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import Networked, able
from chaoslab.links.worker_link import WorkerLink
from chaoslab.plan.model import Script

_OPEN_S: Final = 10.0


class ScriptLinks:
    """Those of one run."""

    def __init__(self, script: Script, fleet: Fleet, clock: Clock) -> None:
        self._names = script.started
        self._upstreams, self._fleet, self._clock = script.upstreams, fleet, clock
        self._loop = EventLoop()
        self._links: list[WorkerLink] = []
        self._measure = Periodic(MEASURE_S, clock.now_s())

    def open(self) -> Mapping[str, Mapping[str, int]]:
        """By worker, or launcher: which port of this machine it is to connect to, by name."""
        return {name: self._opened(name) for name in self._names}

    def _opened(self, name: str) -> Mapping[str, int]:
        async def made() -> WorkerLink:
            return WorkerLink(name, self._upstreams)

        async def opened(address: str) -> Mapping[str, int]:
            return link.open(address)

        link = self._loop.run(made(), within_s=_OPEN_S)
        self._links.append(link)
        carried_by = able(self._fleet, Networked).link(name, link.upstream)
        return self._loop.run(opened(carried_by.address), within_s=_OPEN_S)

    def read(self) -> list[Observation]:
        """What the ends report; what they have measured, once a second."""
        is_due = self._measure.is_due(self._clock.now_s())
        said = [
            report
            for link in self._links
            for report in (*link.reports(), *(link.measured() if is_due else ()))
        ]
        nodes = self._fleet.nodes if said else {}
        return [
            Observation.of("harness", replace(one, incarnation=nodes[one.learner].incarnation))
            for one in said
            if one.learner in nodes
        ]

    def close(self) -> None:
        """End all connections."""

        async def closed() -> None:
            for link in self._links:
                link.close()

        self._loop.run(closed(), within_s=_OPEN_S)
        self._loop.close()
