"""Calls to the host agents of a run, from threads that wait for them: side by side, never for long.

    verb of the fleet ─► members concerned ─► Host.call, on the loop ─► values, or the first error

Whether a host that is out of reach comes back is not known. So a call ends with OutOfReach after a
few seconds, and with AgentLost once the host counts as lost.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from chaoslab.core.errors import FleetError
from chaoslab.core.event_loop import EventLoop, first_error
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import probed
from chaoslab.fleet.hosts_life import probed_as_one
from chaoslab.fleet.remote.contact import AgentLost, OutOfReach
from chaoslab.fleet.remote.host import Host
from chaoslab.fleet.remote.members import Placed
from chaoslab.fleet.remote.protocol.messages import to_observation
from chaoslab.undo.base import UndoLog

_CALL_S: Final = 90.0
"""Time limit of a call: longer than an agent may be out of reach, and than a node's end."""
_HARMLESS: Final = frozenset({"signal", "unprepare", "resume", "unwedge", "relieve", "free_disk"})
"""Verbs that do nothing to a node that is gone."""
_OF_ALL: Final = frozenset(
    {"signal", "prepare", "unprepare", "pause", "resume", "stress", "relieve"}
)
"""Verbs for all processes of a node; the others are for its first."""


class HostCalls:
    """Calls to the agents of one run, until `close`."""

    def __init__(self, loop: EventLoop, undo_log: UndoLog) -> None:
        self._loop, self._undo_log = loop, undo_log
        self._is_open = True

    def close(self) -> None:
        """Refuse all further calls."""
        self._is_open = False

    def side_by_side(self, hosts: Iterable[Host], work: Callable[[Host], Any]) -> list[Any]:
        """Results of work on each host; the first error is raised once all are done."""
        found = self._found(hosts, work)
        first_error(found)
        return found

    def forward(self, nodes: Sequence[Placed], verb: str, **settings: Json) -> None:
        """Have a verb carried out on the hosts of these nodes."""
        due_s = self._undo_log.due_in_s
        concerned: dict[str, tuple[Host, list[str]]] = {}
        for one in nodes:
            for member in one.members if verb in _OF_ALL else one.members[:1]:
                host = member.host
                if member.is_known:
                    concerned.setdefault(host.name, (host, []))[1].append(one.spec.name)
                elif verb not in _HARMLESS:
                    raise FleetError(f"{one.spec.name} is not running: {host.name} is not there")
        found = self._found(
            (host for host, _ in concerned.values()),
            lambda host: host.call(verb, *concerned[host.name][1], due_s=due_s, **settings),
        )
        first_error(one for one in found if not (verb in _HARMLESS and isinstance(one, AgentLost)))

    def probe(self, one: Placed) -> Observation:
        """Its state as its hosts see it: gone with one that is lost, unknown while one is out of
        reach.
        """
        facts: dict[str, Any] = {"incarnation": one.node.incarnation, "pid": one.pid}
        if not self._is_open or not one.first.is_known:
            return probed(one.spec.name, **facts)
        hosts = [member.host for member in one.members if member.is_known]
        try:
            seen = self.side_by_side(hosts, lambda host: host.call("probe", one.spec.name))
        except AgentLost:
            return probed(one.spec.name, **facts)
        except OutOfReach:
            return probed(one.spec.name, **facts, state="unknown")
        return probed_as_one([to_observation(shown) for shown in seen])

    def kill_members(self, one: Placed, numbers: Sequence[int]) -> None:
        """Kill these processes of a node."""
        one.tell_end(numbers)
        hosts = [member.host for number in numbers if (member := one.members[number]).is_known]
        self.side_by_side(hosts, lambda host: host.call("kill", one.spec.name))

    def kill_rest(self, nodes: Iterable[Placed], now_s: float) -> None:
        """Kill the other processes of nodes that have lost one. One on a host that is out of reach
        is killed later, or lost with its host.
        """
        for one in nodes if self._is_open else ():
            if numbers := one.due(now_s):
                try:
                    self.kill_members(one, numbers)
                except (AgentLost, OutOfReach):
                    continue

    def _found(self, hosts: Iterable[Host], work: Callable[[Host], Any]) -> list[Any]:
        if not self._is_open:
            raise FleetError("the fleet was left")
        return self._loop.together(map(work, hosts), within_s=_CALL_S)
