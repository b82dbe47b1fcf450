"""Abilities of a fleet beside `base.Fleet`, a protocol for each.

    class of a fleet ─ which of these it implements ─► abilities_of ─ minus its `lacking` ─► plans
    a fault ── able(fleet, Pausable).pause(…)

A fleet implements those that it can and leaves the others out. Where the machine decides, it says
so by `lacking`. Verbs on an unknown name raise KeyError; pause, wedge and notice on a dead node
raise FleetError; verbs on a node that is already in that state, and resume and unwedge on a dead
one, do nothing: healing twice is safe.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, TypeVar, runtime_checkable

from chaoslab.core.errors import HarnessBug
from chaoslab.core.events import Json
from chaoslab.fleet.base import Ability, Damage, Fleet, Node
from chaoslab.fleet.chores import Workers
from chaoslab.fleet.cluster_protocols import HasJobs, HasMachines, HasPods
from chaoslab.fleet.stressors import Stressor
from chaoslab.links.base import Link


@runtime_checkable
class Pausable(Protocol):
    """Can stop whole nodes."""

    def pause(self, *names: str) -> None:
        """Stop the whole trees (as SIGSTOP does): alive, silent, sockets open; all or none."""
        ...

    def resume(self, name: str) -> None:
        """Let a paused node go on."""
        ...


@runtime_checkable
class Preparable(Protocol):
    """Can do part of a kill or a pause beforehand. No ability that a plan could ask for."""

    def prepare(self, *names: str, to_pause: bool = False) -> None:
        """Find what runs in the nodes, and write down how to undo a pause; they notice nothing.

        The next signal to them, or the next pause, uses it. FleetError for a dead node.
        """
        ...

    def unprepare(self, *names: str) -> None:
        """Forget it, because neither follows. Safe to repeat."""
        ...


@runtime_checkable
class StartsTogether(Protocol):
    """May start the nodes of a training as one. No ability that a plan could ask for."""

    def start_together(self) -> AbstractContextManager[str | None]:
        """Ask for all nodes that are started meanwhile at once, at its end.

        With the address that the syncer will report. None: each starts when it is asked for, and
        the address is not known before. FleetError if they are refused.
        """
        ...


@runtime_checkable
class Wedgeable(Protocol):
    """Can hang training threads."""

    def wedge(self, name: str) -> None:
        """Hang its training thread; its heartbeats go on."""
        ...

    def unwedge(self, name: str) -> None:
        """Release a wedged training thread."""
        ...


@runtime_checkable
class Notifiable(Protocol):
    """Can tell nodes of a preemption."""

    def notice(self, name: str) -> None:
        """Tell the node that it will be preempted soon."""
        ...


@runtime_checkable
class Hookable(Protocol):
    """Can ask something of nodes through their test hooks."""

    def tell(self, name: str, do: str, **facts: Json) -> None:
        """Ask something of the node's test hooks: one line {"do": do, …} on its standard input.

        FleetError if it is dead or was started without an open standard input. With `for_s` among
        the facts the node lets go of it by itself after that time; to let go of it, give no facts.
        """
        ...


@runtime_checkable
class Stressable(Protocol):
    """Can starve nodes of CPU time or memory."""

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        """Starve a node, or change how much; told by NODE_STRESSED. FleetError if it is dead.

        Stressors are kept by injection. What they measure follows each `probe` as NODE_COUNTED.
        """
        ...

    def relieve(self, name: str, injection: str) -> None:
        """Take the injection's stressor from the node, if there is one; told by NODE_RELIEVED."""
        ...


@runtime_checkable
class StoresFiles(Protocol):
    """Can damage the files that nodes keep."""

    def take_down(self, *names: str) -> None:
        """Kill the nodes, so that their files can be damaged; where others would start them again
        at once they are only stopped, and `damage` kills them.
        """
        ...

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        """Damage the newest file that the node keeps, or every one; told by STORAGE_DAMAGED.

        After `take_down`: a node that is still ending is waited for. FleetError if it keeps no file
        yet. There is no way back but the node's own; files of a training that others started are
        put back at the end.
        """
        ...


@runtime_checkable
class HasVolumes(Protocol):
    """Can give nodes a volume of their own, and fill it."""

    def fill_disk(self, name: str) -> None:
        """Leave no room on the volume on which the node keeps its files; told by STORAGE_FILLED.

        FleetError for a node that was started without `has_volume`.
        """
        ...

    def free_disk(self, name: str) -> None:
        """Give the volume room again, if the node has one; told by STORAGE_FREED."""
        ...


@runtime_checkable
class LosesPower(Protocol):
    """Can take from files what was not flushed."""

    def cut_power(self, name: str) -> None:
        """Let the node's files lose what was not flushed; told by STORAGE_POWER_LOST.

        A node that `kill` has hit and that is still ending is waited for. FleetError for one that
        lives, or that was started without `loses_power`.
        """
        ...


@runtime_checkable
class Networked(Protocol):
    """Has links between nodes and the syncer."""

    def link(self, name: str, upstream: str) -> Link:
        """The node's link to host:port `upstream`, made before the node that is to dial it.

        What was made, what is done to it and its loss follow from `poll` as LINK_ observations.
        """
        ...

    @property
    def links(self) -> Mapping[str, Link]:
        """Every link made, by the name of its node."""
        ...


@runtime_checkable
class Disconnectable(Protocol):
    """Can take nodes from their network."""

    def disconnect(self, name: str) -> None:
        """Take it from its network: what it has open hears nothing of that, and nothing more."""
        ...

    def reconnect(self, name: str) -> None:
        """Connect it again, under its name."""
        ...


@runtime_checkable
class HasHosts(Protocol):
    """Can end one of the processes of a node; all of the node ends with it.

    `host` counts from 0, and from the last by -1. FleetError if the node is dead, or has no such
    host; one that is not of several hosts has host 0.
    """

    def kill_host(self, name: str, host: int) -> None:
        """End the process of a host by SIGKILL."""
        ...

    def fail_chip(self, name: str, host: int) -> None:
        """Let the process of a host abort (SIGABRT), as a device runtime does. It needs `hears`."""
        ...


@runtime_checkable
class Upgradable(Protocol):
    """Can let nodes run another release."""

    def upgrade(self, name: str, release: str) -> None:
        """Let its next incarnations run another release; FleetError if there is no such release."""
        ...


class SliceAct(StrEnum):
    """What is done to a slice."""

    DELETE = "delete"
    """Delete it, with the request that it came from."""
    TAKE = "take"
    """Delete it and leave the request, as a preemption does."""
    STOP = "stop"
    """Stop it; it stays."""
    START = "start"
    """Start it, if it was stopped."""
    MAINTENANCE = "maintenance"
    """Simulate a maintenance event on it."""


@runtime_checkable
class HasSlices(Protocol):
    """Has nodes on slices of a provider, and can do to these what the provider does."""

    def act_on_slices(self, act: SliceAct, *names: str) -> None:
        """Do this to the slices of nodes; returns when the provider has accepted it.

        What follows is told by PROVIDER_REPORTED and NODE_EXITED. FleetError names those refused.
        """
        ...

    def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
        """Bring back a slice to which something was done; told by REPAIR_MOVED.

        Returns at once. The node is started when there is a slice again. `is_preempted` counts it
        with the preemptions. Of a slice to which nothing was done, the node is started if it ended.
        """
        ...


@runtime_checkable
class HearsLate(Protocol):
    """Hears of its nodes through others that may be away for a time. No ability to ask for."""

    def hear_out(self) -> None:
        """Before a run ends: return when such a time, if one has just ended, was reported.

        The HARNESS_STALLED observation follows from `poll`.
        """
        ...


@runtime_checkable
class BringsRecords(Protocol):
    """Has the output of its nodes elsewhere until it is left. No ability to ask for."""

    def bring_records(self) -> None:
        """Bring what there is now into the run directory. FleetError if that fails."""
        ...


@runtime_checkable
class HasChores(Protocol):
    """Does more than to read where `poll` finds that due: chores. No ability to ask for."""

    def acting(self, nodes: Iterable[str]) -> AbstractContextManager[None]:
        """In it a verb for these nodes is carried out; see `chores`."""
        ...

    def use_workers(self, workers: Workers) -> None:
        """From now on `poll` hands chores to these, and waits for none."""
        ...


@runtime_checkable
class Attached(Protocol):
    """Has nodes that others started, and that go on after the run. No ability to ask for."""

    def adopt(self, labels: Mapping[str, Mapping[str, str]]) -> Sequence[Node]:
        """Find the syncer and its learners, in the place of `start`; `labels` by node.

        A NODE_STARTED observation of each follows from `poll`, then what says how training stands.
        AbilityError if there are no such nodes, FleetError while another run has them. Leaving the
        fleet ends none of them: whatever was done to them is undone.
        """
        ...

    @property
    def refused_lines(self) -> Mapping[str, int]:
        """Number of malformed or forbidden event lines, by running node that has any. Of a node
        that ended, NODE_EXITED counts them.
        """
        ...


PROTOCOLS: Mapping[type, frozenset[Ability]] = MappingProxyType(
    {
        Pausable: frozenset({Ability.PAUSE}),
        Wedgeable: frozenset({Ability.WEDGE}),
        Notifiable: frozenset({Ability.NOTICE}),
        Hookable: frozenset({Ability.HOOKS}),
        Stressable: frozenset(
            {
                Ability.SLOW,
                Ability.QUOTA,
                Ability.DUTY_CYCLE,
                Ability.CROWD,
                Ability.MEMORY_LIMIT,
            }
        ),
        StoresFiles: frozenset({Ability.STORAGE}),
        HasVolumes: frozenset({Ability.VOLUME}),
        LosesPower: frozenset({Ability.CUT_POWER}),
        Networked: frozenset({Ability.LINK}),
        Disconnectable: frozenset({Ability.DISCONNECT}),
        HasHosts: frozenset({Ability.HOSTS}),
        Upgradable: frozenset({Ability.UPGRADE}),
        HasSlices: frozenset({Ability.SLICE}),
        HasPods: frozenset({Ability.POD}),
        HasJobs: frozenset({Ability.JOB}),
        HasMachines: frozenset({Ability.DRAIN}),
    }
)
"""Abilities of each protocol in plans."""
_Able = TypeVar("_Able")


def abilities_of(fleet: object) -> frozenset[Ability]:
    """Abilities that a fleet or its class implements, without those that are `lacking`."""
    found = {Ability.KILL}
    for protocol, abilities in PROTOCOLS.items():
        verbs = [name for name in vars(protocol) if not name.startswith("_")]
        if all(hasattr(fleet, verb) for verb in verbs):
            found |= abilities
    lacking: frozenset[Ability] = getattr(fleet, "lacking", frozenset())
    return frozenset(found) - lacking


class OwnAbilities:
    """Abilities of a class of fleets on this machine, by which it is a `FleetFactory`."""

    def __get__(self, _fleet: object, kind: type) -> frozenset[Ability]:
        return abilities_of(kind)


def abilities_by(*protocols: type) -> frozenset[Ability]:
    """Abilities of these protocols: for the `lacking` of a fleet whose base implements more."""
    return frozenset(ability for protocol in protocols for ability in PROTOCOLS[protocol])


def able(fleet: Fleet, to: type[_Able]) -> _Able:
    """The same fleet by another protocol; HarnessBug if a fault did not say that it needs it."""
    if not isinstance(fleet, to):
        raise HarnessBug(
            f"the {fleet.kind} fleet is not {to.__name__}, and it was not asked for before"
        )
    return fleet
