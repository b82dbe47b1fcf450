"""Life of a node of several hosts: when it has ended, and as which of its hosts did.

    host 0 ── starts, exits ──┐                  ┌─ host.started of each
    host 1 ── starts, exits ──┴─► HostsLife ─────┴─ host.lost of the first that was lost,
                                                    node.exited once all of them have ended

As the supervisor of a learner of several hosts does on one machine: when one of its processes ends
by an error or a signal, the others are killed, and the node has ended as that one did. A process
that noticed the end of another and ended by itself is not the one that was lost.

It kills nothing: `due` says which process is to be killed, and when.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from chaoslab.core.events import Observation
from chaoslab.core.payloads import HostLost, HostStarted, NodeExited, NodeProbed
from chaoslab.fleet.base import NodeSpec

_PEER_LOST: Final = 75
"""Exit code of a process that lost another one of its learner."""
_LEFT_S: Final = 10.0
"""Time in which the other processes end once the first has left."""


@dataclass(slots=True, kw_only=True)
class HostsLife:
    """One incarnation of a node of several hosts."""

    node: str
    count: int
    """Number of its hosts."""
    noticed_s: float = 1.0
    """Time in which the end of a process shows after another one has noticed it."""
    pids: dict[int, int] = field(default_factory=dict)
    """Pids by number of the host that has started."""
    exits: dict[int, NodeExited] = field(default_factory=dict)
    """Exits by number of the host that has ended."""
    is_told: bool = False
    """Some of its hosts were told to end."""
    is_over: bool = False
    """All of them have ended."""
    _is_whole_told: bool = False
    """All of them were told to end, at once."""
    _lost: int | None = None
    """Host whose end caused the node's; None: not known yet."""
    _kill_s: float | None = None
    """Time at which remaining processes are to be killed."""

    def tell_end(self, numbers: Sequence[int]) -> None:
        """These hosts are told to end now."""
        self.is_told = True
        self._is_whole_told |= len(set(numbers)) == self.count

    # ---------------------------------------------------------------- observations

    def host_started(self, number: int, incarnation: int) -> Observation:
        """HOST_STARTED of a host in `pids`."""
        started = HostStarted(
            learner=self.node, incarnation=incarnation, host=number, pid=self.pids[number]
        )
        return Observation.of(self.node, started)

    def exited(self, number: int, said: NodeExited, now_s: float) -> list[Observation]:
        """Events of the exit of one host: HOST_LOST, and NODE_EXITED of the last."""
        self.exits[number] = said
        has_left = number == 0 and said.exit_code == 0
        if self._lost is None and (has_left or _is_cause(said)):
            self._lost = number
            self._kill_s = now_s + _LEFT_S if has_left else now_s
        elif self._kill_s is None and said.exit_code != 0:
            self._kill_s = now_s + self.noticed_s
        return self._ended_if_all()

    def _ended_if_all(self) -> list[Observation]:
        if self.is_over or len(self.exits) < self.count:
            return []
        self.is_over = True
        lost = next(iter(self.exits)) if self._lost is None else self._lost
        said = self.exits[lost]
        of_node = replace(said, pid=self.pids.get(0, said.pid))
        return [*self._said_lost(lost, said), Observation.of(self.node, of_node)]

    def _said_lost(self, number: int, said: NodeExited) -> list[Observation]:
        """Report of a lost host, unless the node left, or all of it was told to end."""
        if said.exit_code == 0 or self._is_whole_told:
            return []
        by = said.signal
        reason = f"ended by {by}" if by else f"exit code {said.exit_code}"
        lost = HostLost(
            learner=self.node,
            incarnation=said.incarnation,
            host=number,
            reason=said.last_words if said.host_lost else reason,
            signal=by,
        )
        return [Observation.of(self.node, lost)]

    # ---------------------------------------------------------------- ends

    @property
    def waits(self) -> bool:
        """Whether some of its hosts will have to be killed."""
        return self._kill_s is not None and not self.is_over

    def due(self, now_s: float) -> list[int]:
        """Hosts that are to be killed now, because another one has ended."""
        if self._kill_s is None or now_s < self._kill_s or self.is_over:
            return []
        if self._lost is None:
            self._lost = next(iter(self.exits))
        self._kill_s = now_s + _LEFT_S
        return [number for number in range(self.count) if number not in self.exits]


def probed_as_one(seen: Sequence[Observation]) -> Observation:
    """The probes of all hosts as one: state of the first, memory and time of all."""
    said = [one.payload for one in seen if isinstance(one.payload, NodeProbed)]
    whole = replace(
        said[0],
        rss_bytes=sum(one.rss_bytes for one in said),
        cpu_s=sum(one.cpu_s for one in said),
    )
    return Observation.of(seen[0].source, whole)


def of_one_host(spec: NodeSpec, number: str, meeting: str, secret: str) -> NodeSpec:
    """Specification of the process of one host, where each host has a place of its own.

    `number` and `meeting` fill in its flags; `secret` is what all of them share.
    """
    if spec.hosts is None:
        return spec
    flags = (
        flag.replace("{host}", number).replace("{meeting}", meeting) for flag in spec.hosts.flags
    )
    return replace(
        spec,
        command=(*spec.command, *flags),
        secrets={**spec.secrets, spec.hosts.secret: secret},
        hosts=None,
    )


def _is_cause(said: NodeExited) -> bool:
    """Whether a process ended by itself, and not because it noticed the end of another one.

    One whose end was not seen, and that was sent nothing, was taken away because of another one.
    """
    was_asked = said.signal in (said.sent or ())
    is_consequence = said.exit_code == _PEER_LOST or (said.signal == "SIGABRT" and not was_asked)
    is_unseen = not said.is_seen and not said.sent
    return said.exit_code != 0 and not is_consequence and not is_unseen
