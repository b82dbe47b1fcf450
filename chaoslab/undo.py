"""How what a harness did is undone from what it wrote down, one verb at a time.

    Obligation(do, facts) ─► undo ──────► Healed: what was done, and what could not be
                          └► leftovers ─► what of it is still there

    end_process            a node's or a proxy's tree of processes, by pid and start time
    drop_rules close_bands rules of the kernel for packets, by their comment or interface
    delete_proxy           a proxy of ours on a Toxiproxy server of somebody else's

Nothing here knows where obligations are kept: that is `janitor`'s. All of it may be done twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from chaoslab.errors import FleetError
from chaoslab.events import Json
from chaoslab.fleet.tree import Identity, end_tree, living
from chaoslab.links import packets

_UNDO_S = 10.0
"""How long one undo may take until it counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """One undo that is still owed."""

    number: int
    do: str
    facts: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What undoing did, and what it could not do, as sentences."""

    actions: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()


def undo(owed: Obligation) -> Healed:
    """Do it. What cannot be done is said and does not keep the others from it."""
    verb = UNDO.get(owed.do)
    if verb is None:
        return Healed(remaining=(f"this version does not know how to undo {owed.do!r}",))
    try:
        return verb(owed.facts)
    except FleetError as error:
        return Healed(remaining=(str(error),))


def leftovers(owed: Obligation) -> tuple[str, ...]:
    """What an obligation is about and is there now, in a few words each."""
    if owed.do in _PACKET_VERBS:
        return (_rules(owed.facts),)
    if owed.do == _PROXY_VERB:
        return (_proxy(owed.facts),)
    node, mark = owed.facts.get("node"), str(owed.facts.get("mark", ""))
    return tuple(f"process {pid} of {node}" for pid in living(identity(owed.facts), mark))


def identity(facts: Mapping[str, Json]) -> Identity:
    """The process that an entry means; FleetError if it means none."""
    try:
        return Identity(pid=int(str(facts["pid"])), start_time=float(str(facts["start_time"])))
    except (KeyError, ValueError) as error:
        raise FleetError(f"no process is meant by {dict(facts)!r}") from error


# ---------------------------------------------------------------- the verbs


def _end_process(facts: Mapping[str, Json]) -> Healed:
    """Kill a process with its tree, and what it left; a reused pid is left alone."""
    main, mark, node = identity(facts), str(facts.get("mark", "")), facts.get("node")
    found = living(main, mark)
    if not found:
        return Healed()
    words = f"{node}: {len(found)} left over ({', '.join(map(str, found))})"
    left = end_tree(main, mark, limit_s=_UNDO_S)
    if left:
        return Healed(remaining=(f"{words}, of which these cannot be ended: {left}",))
    return Healed(actions=(f"{words}, ended",))


def _remove_rules(do: str, facts: Mapping[str, Json]) -> Healed:
    """Take exactly these rules out of the kernel; FleetError if it refuses."""
    packets.undo(do, facts)
    return Healed(actions=(f"{_rules(facts)}, removed",))


def _delete_proxy(facts: Mapping[str, Json]) -> Healed:
    """Delete a proxy of ours from a server of somebody else's; FleetError if that is silent."""
    from chaoslab.links import toxiproxy  # noqa: PLC0415  # few runs owe this, and it costs time

    toxiproxy.undo(str(facts.get("api")), str(facts.get("proxy")))
    return Healed(actions=(f"{_proxy(facts)}, deleted",))


def _rules(facts: Mapping[str, Json]) -> str:
    return f"rules of the kernel for packets ({facts.get('comment') or facts.get('interface')})"


def _proxy(facts: Mapping[str, Json]) -> str:
    return f"the proxy {facts.get('proxy')} at {facts.get('api')}"


_PROXY_VERB = "delete_proxy"
_PACKET_VERBS = (packets.UNDO_DROPS, packets.UNDO_BANDS)
UNDO: Mapping[str, Callable[[Mapping[str, Json]], Healed]] = MappingProxyType(
    {
        "end_process": _end_process,
        _PROXY_VERB: _delete_proxy,
        **{do: partial(_remove_rules, do) for do in _PACKET_VERBS},
    }
)
"""How each is done. Nothing to do is no action and nothing remaining."""
