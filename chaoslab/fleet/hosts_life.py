"""Life of a node of several hosts: when it has ended, and as which of its hosts did.

    host 0 ── starts, exits ──┐                  ┌─ host.started of each
    host 1 ── starts, exits ──┴─► HostsLife ─────┴─ host.lost of the first that was lost,
                                                    node.exited once all of them have ended

As the supervisor of a learner of several hosts does on one machine: when one of its processes ends
by an error or a signal, the others are killed, and the node has ended as that one did. A process
that noticed the end of another and ended by itself is not the one that was lost.

It kills nobody: `due` says who is to be killed, and when.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import HostLost, HostStarted
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
    """By number of the host that has started."""
    exits: dict[int, Observation] = field(default_factory=dict)
    """By number of the host that has ended."""
    is_told: bool = False
    """Some of its hosts were told to end."""
    is_over: bool = False
    """All of them have ended."""
    _is_whole_told: bool = False
    """All of them were told to end, at once."""
    _lost: int | None = None
    """Host whose end is the node's; None: not known yet."""
    _kill_s: float | None = None
    """When those that still run are to be killed."""

    def tell_end(self, numbers: Sequence[int]) -> None:
        """These hosts are told to end now."""
        self.is_told = True
        self._is_whole_told |= len(set(numbers)) == self.count

    # ---------------------------------------------------------------- observations

    def host_started(self, number: int, incarnation: Json) -> Observation:
        """HOST_STARTED of a host in `pids`."""
        started = HostStarted(
            learner=self.node,
            incarnation=int(str(incarnation)),
            host=number,
            pid=self.pids[number],
        )
        return Observation.of(self.node, started)

    def exited(self, number: int, seen: Observation, now_s: float) -> list[Observation]:
        """What is to be told of NODE_EXITED of one host: HOST_LOST and NODE_EXITED of the last."""
        self.exits[number] = seen
        has_left = number == 0 and seen.data.get("exit_code") == 0
        if self._lost is None and (has_left or _is_cause(seen)):
            self._lost = number
            self._kill_s = now_s + _LEFT_S if has_left else now_s
        elif self._kill_s is None and seen.data.get("exit_code") != 0:
            self._kill_s = now_s + self.noticed_s
        return self._ended_if_all()

    def _ended_if_all(self) -> list[Observation]:
        if self.is_over or len(self.exits) < self.count:
            return []
        self.is_over = True
        lost = next(iter(self.exits)) if self._lost is None else self._lost
        seen = self.exits[lost]
        pid = self.pids.get(0, seen.data["pid"])
        return [*self._said_lost(lost, seen), seen._replace(data={**seen.data, "pid": pid})]

    def _said_lost(self, number: int, seen: Observation) -> list[Observation]:
        """That a host was lost, unless the node left, or all of it was told to end."""
        if seen.data.get("exit_code") == 0 or self._is_whole_told:
            return []
        by = seen.data.get("signal")
        reason = f"ended by {by}" if by else f"exit code {seen.data.get('exit_code')}"
        if seen.data.get("host_lost"):
            reason = str(seen.data.get("last_words"))
        lost = HostLost(
            learner=self.node,
            incarnation=int(str(seen.data["incarnation"])),
            host=number,
            reason=reason,
            signal=str(by) if by else None,
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
    first, *others = seen
    whole = dict(first.data)
    for one in others:
        whole["rss_bytes"] = int(str(whole["rss_bytes"])) + int(str(one.data["rss_bytes"]))
        whole["cpu_s"] = float(str(whole["cpu_s"])) + float(str(one.data["cpu_s"]))
    return first._replace(data=whole)


def of_one_host(spec: NodeSpec, number: str, meeting: str, secret: str) -> NodeSpec:
    """What the process of one host is started by, where each host has a place of its own.

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


def _is_cause(seen: Observation) -> bool:
    """Whether a process ended by itself, and not because it noticed the end of another one.

    One whose end nobody saw, and that was sent nothing, was taken away because of another one.
    """
    code, by, sent = (seen.data.get(key) for key in ("exit_code", "signal", "sent"))
    was_asked = isinstance(sent, list) and by in sent
    is_consequence = code == _PEER_LOST or (by == "SIGABRT" and not was_asked)
    is_unseen = seen.data.get("is_seen") is False and not sent
    return code != 0 and not is_consequence and not is_unseen
