"""A node on hosts: one process, or one on each of several hosts, which are one node to all others.

    member 0 ── starts, exits ──┐                ┌─ node.started, then host.started of each
    member 1 ── starts, exits ──┴─► Placed.see ──┴─ host.lost of the first that was lost,
                                                    node.exited once all of them have ended

As the supervisor of a learner of several hosts does on one machine: when one of its processes ends
by an error or a signal, the others are killed, and the node has ended as that one did. A process
that noticed the end of another and ended by itself is not the one that was lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.base import Node, NodeSpec
from chaoslab.fleet.remote.host import Host

_PEER_LOST: Final = 75
"""Exit code of a process that lost another one of its learner."""
_NOTICED_S: Final = 1.0
"""Time in which the end of a process shows after another one has noticed it."""
_LEFT_S: Final = 10.0
"""Time in which the other processes end once the first has left."""
_OF_FIRST: Final = frozenset({Kind.NODE_STRESSED, Kind.NODE_RELIEVED, Kind.NODE_COUNTED})
"""What every member reports alike, and the first for all."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One process of a node, and the agent that has it."""

    host: Host
    told: str = ""
    """Session of the agent that knows the node; empty: none does."""

    @property
    def is_known(self) -> bool:
        """Whether the agent that is there now knows the node."""
        return bool(self.told) and self.told == self.host.session


@dataclass(slots=True, kw_only=True)
class _Life:
    """One incarnation of a node of several hosts."""

    pids: dict[int, int] = field(default_factory=dict)
    has_begun: bool = False
    """The start of its first member was told."""
    is_told: bool = False
    """Some of its members were told to end."""
    is_whole_told: bool = False
    """All of them were, at once."""
    exits: dict[int, Observation] = field(default_factory=dict)
    lost: int | None = None
    """Member whose end is the node's; None: not known yet."""
    kill_s: float | None = None
    """When those that still run are to be killed."""
    is_over: bool = False


@dataclass(slots=True, kw_only=True)
class Placed:
    """A node, its members, and what is known of it."""

    spec: NodeSpec
    node: Node
    members: list[Member]
    pid: int = 0
    _lives: dict[int, _Life] = field(default_factory=dict)

    @property
    def is_spread(self) -> bool:
        """Whether it has a process on each of several hosts."""
        return len(self.members) > 1

    @property
    def first(self) -> Member:
        """The member that speaks for the node."""
        return self.members[0]

    @property
    def is_whole(self) -> bool:
        """Whether it lives and nothing was done that ends it."""
        life = self._lives.get(self.node.incarnation, _Life())
        return self.node.is_alive and not (life.is_told or life.exits)

    @property
    def next_incarnation(self) -> int:
        """Number of the next one: after all that were begun, also by some of its members alone."""
        return 1 + max(self.node.incarnation, *self._lives, 0)

    def specs(self, meeting: str, secret: str) -> Iterator[NodeSpec]:
        """What each member is started by; `meeting` is where all of them meet."""
        if self.spec.hosts is None or not self.is_spread:
            yield self.spec
            return
        for number in range(len(self.members)):
            flags = (
                flag.replace("{host}", str(number)).replace("{meeting}", meeting)
                for flag in self.spec.hosts.flags
            )
            yield replace(
                self.spec,
                command=(*self.spec.command, *flags),
                secrets={**self.spec.secrets, self.spec.hosts.secret: secret},
                hosts=None,
            )

    def number_of(self, host: int) -> int:
        """Number of a host, also when counted from the last. FleetError if it has none such."""
        count = self.spec.hosts.count if self.spec.hosts is not None else 1
        if not -count <= host < count:
            raise FleetError(f"{self.spec.name} has no host {host}: it has {count}")
        return host % count

    def tell_end(self, numbers: Sequence[int]) -> None:
        """These members are told to end now."""
        life = self._life(self.node.incarnation)
        life.is_told = True
        life.is_whole_told |= len(set(numbers)) == len(self.members)

    # ---------------------------------------------------------------- observations

    def see(self, host: Host, seen: Observation, now_s: float) -> list[Observation]:
        """What is to be told of an observation of the agent of one of its hosts."""
        number = next((n for n, one in enumerate(self.members) if one.host is host), None)
        if number is None:  # of a host that it has left
            return []
        if seen.kind is Kind.NODE_STARTED:
            return self._started(number, seen)
        if seen.kind is Kind.NODE_EXITED:
            return self._exited(number, seen, now_s)
        return [] if number and seen.kind in _OF_FIRST else [seen]

    def probed(self, seen: Sequence[Observation]) -> Observation:
        """The probes of its members as one: state of the first, memory and time of all."""
        first, *others = seen
        whole = dict(first.data)
        for one in others:
            whole["rss_bytes"] = int(str(whole["rss_bytes"])) + int(str(one.data["rss_bytes"]))
            whole["cpu_s"] = float(str(whole["cpu_s"])) + float(str(one.data["cpu_s"]))
        return first._replace(data=whole)

    def _started(self, number: int, seen: Observation) -> list[Observation]:
        if number == 0:
            self.pid = int(str(seen.data["pid"]))
        if not self.is_spread:
            return [seen]
        life = self._life(seen.data["incarnation"])
        life.pids[number] = int(str(seen.data["pid"]))
        if number == 0:
            life.has_begun = True
            return [seen, *(self._host_started(seen, one) for one in sorted(life.pids))]
        return [self._host_started(seen, number)] if life.has_begun else []

    def _host_started(self, seen: Observation, number: int) -> Observation:
        incarnation = seen.data["incarnation"]
        pid = self._life(incarnation).pids[number]
        return self._of_host(Kind.HOST_STARTED, incarnation, host=number, pid=pid)

    def _exited(self, number: int, seen: Observation, now_s: float) -> list[Observation]:
        if not self.is_spread:
            return [self._ended(seen)]
        life = self._life(seen.data["incarnation"])
        life.exits[number] = seen
        has_left = number == 0 and seen.data.get("exit_code") == 0
        if life.lost is None and (has_left or _is_cause(seen)):
            life.lost = number
            life.kill_s = now_s + _LEFT_S if has_left else now_s
        elif life.kill_s is None and seen.data.get("exit_code") != 0:
            life.kill_s = now_s + _NOTICED_S
        return self._ended_if_all(life)

    def _ended_if_all(self, life: _Life) -> list[Observation]:
        if life.is_over or len(life.exits) < len(self.members):
            return []
        life.is_over = True
        lost = next(iter(life.exits)) if life.lost is None else life.lost
        seen = life.exits[lost]
        said = self._lost(life, lost, seen)
        pid = life.pids.get(0, seen.data["pid"])
        return [*said, self._ended(seen._replace(data={**seen.data, "pid": pid}))]

    def _lost(self, life: _Life, number: int, seen: Observation) -> list[Observation]:
        """That a host was lost, unless the node left, or all of it was told to end."""
        if seen.data.get("exit_code") == 0 or life.is_whole_told:
            return []
        by = seen.data.get("signal")
        reason = f"ended by {by}" if by else f"exit code {seen.data.get('exit_code')}"
        if seen.data.get("host_lost"):
            reason = str(seen.data.get("last_words"))
        found: dict[str, Json] = {"host": number, "reason": reason, "signal": by}
        return [self._of_host(Kind.HOST_LOST, seen.data["incarnation"], **found)]

    def _ended(self, seen: Observation) -> Observation:
        if seen.data["incarnation"] == self.node.incarnation:
            self.node = replace(self.node, is_alive=False)
        return seen

    def _of_host(self, kind: Kind, incarnation: Json, **facts: Json) -> Observation:
        name = self.spec.name
        data: Mapping[str, Json] = {"learner": name, "incarnation": incarnation, **facts}
        return Observation(source=name, kind=kind, data=data)

    # ---------------------------------------------------------------- ends

    @property
    def waits(self) -> bool:
        """Whether some of its members will have to be killed."""
        life = self._lives.get(self.node.incarnation)
        return life is not None and life.kill_s is not None and not life.is_over

    def due(self, now_s: float) -> list[int]:
        """Members that are to be killed now, because another one has ended."""
        life = self._lives.get(self.node.incarnation)
        if life is None or life.kill_s is None or now_s < life.kill_s or life.is_over:
            return []
        if life.lost is None:
            life.lost = next(iter(life.exits))
        life.kill_s = now_s + _LEFT_S
        return [number for number in range(len(self.members)) if number not in life.exits]

    def gone_with(
        self, host: Host, why: str, now_s: float, *, by_lease: bool = False
    ) -> list[Observation]:
        """What is to be told when a host is lost: its member has ended."""
        numbers = [n for n, one in enumerate(self.members) if one.host is host]
        if not self.node.is_alive or not numbers:
            return []
        life = self._life(self.node.incarnation)
        if numbers[0] in life.exits:
            return []
        pid = life.pids.get(numbers[0], self.pid)
        data: dict[str, Json] = {
            "node": self.spec.name, "incarnation": self.node.incarnation, "pid": pid,
            "exit_code": None, "signal": None, "refused_lines": 0, "sent": [],
            "host_lost": True, "lease_over": by_lease, "last_words": why,
        }  # fmt: skip
        seen = Observation(source=self.spec.name, kind=Kind.NODE_EXITED, data=data)
        return self._exited(numbers[0], seen, now_s)

    def _life(self, incarnation: Json) -> _Life:
        return self._lives.setdefault(int(str(incarnation)), _Life())


def _is_cause(seen: Observation) -> bool:
    """Whether a process ended by itself, and not because it noticed the end of another one."""
    code, by, sent = (seen.data.get(key) for key in ("exit_code", "signal", "sent"))
    was_asked = isinstance(sent, list) and by in sent
    is_consequence = code == _PEER_LOST or (by == "SIGABRT" and not was_asked)
    return code != 0 and not is_consequence
