"""How what a harness did is undone from what it wrote down, one verb at a time.

    Obligation(do, facts) ─► undo ──────► Healed: what was done, and what could not be
                          └► leftovers ─► what of it is still there

    end_process            a tree of processes (a node's, a proxy's …), by its `identity`
    resume_process         a tree that was stopped goes on
    unwedge_process        a training thread that hangs goes on
    clear_effects          what one injection put on a link
    enable_proxy           a link that refuses connections lets them in
    drop_rules close_bands rules of the kernel for packets, by their comment or interface
    delete_proxy           a proxy of ours on a Toxiproxy server of somebody else's
    remove_cgroup          a limit on some processes, which go back to where they were
    unmount                a node's own volume; what is in it stays
    free_volume            a volume that is full has room again
    empty_estate           the containers, network and volumes of a run on a Docker engine
    unpause_container, unwedge_container, unlimit_container, plug_container
                           a container goes on
    free_container_volume  a container's volume that is full has room again

Nothing here knows where obligations are kept (`obligations`) or when they are met (`janitor`). All
of it may be done twice. A new verb is one line in `VERBS`.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from chaoslab.errors import AbilityError, FleetError
from chaoslab.events import Json
from chaoslab.fleet import cgroups, storage, volume
from chaoslab.fleet.docker import verbs as containers
from chaoslab.fleet.identity import boot_id, is_same, meant_by, send
from chaoslab.fleet.tree import end_tree, is_running, living, resume_tree, stopped
from chaoslab.links import packets, standing
from chaoslab.links.http_api import Endpoint

Facts: TypeAlias = Mapping[str, Json]

_UNDO_S = 10.0
"""How long one undo may take until it counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """One undo that is still owed."""

    number: int
    do: str
    facts: Facts

    @property
    def until_s(self) -> float | None:
        """When it is due, on the monotonic clock of this boot; None: with the end of the run."""
        until_s = self.facts.get("until_s")
        is_number = isinstance(until_s, int | float) and not isinstance(until_s, bool)
        is_of_this_boot = self.facts.get("boot_id", boot_id()) == boot_id()
        return float(str(until_s)) if is_number and is_of_this_boot else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What undoing did, and what it could not do, as sentences."""

    actions: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One way to undo. Nothing to do is no action and nothing remaining."""

    undo: Callable[[Facts], Healed]
    left: Callable[[Facts], tuple[str, ...]]
    """What is still there, in a few words each."""
    lets_go: bool = False
    """It gives back what goes on living, so it may be done while the run goes on."""
    looks: bool = True
    """Whether `left` looks at the world; else it only repeats what was written down."""


def undo(owed: Obligation) -> Healed:
    """Do it. What cannot be done is said and does not keep the others from it."""
    verb = VERBS.get(owed.do)
    if verb is None:
        return Healed(remaining=(f"this version does not know how to undo {owed.do!r}",))
    try:
        return verb.undo(owed.facts)
    except (FleetError, OSError) as error:
        return Healed(remaining=(str(error),))


def leftovers(owed: Obligation) -> tuple[str, ...]:
    """What an obligation is about and is there now, in a few words each."""
    verb = VERBS.get(owed.do)
    try:
        return verb.left(owed.facts) if verb else (f"something to undo by {owed.do!r}",)
    except FleetError as error:
        return (str(error),)


def still_there(owed: Obligation) -> tuple[str, ...]:
    """As `leftovers`, by a look at the world alone; nothing where nobody can look."""
    return leftovers(owed) if looks(owed) else ()


def looks(owed: Obligation) -> bool:
    """Whether the world shows if it was done."""
    return owed.do in VERBS and VERBS[owed.do].looks


def lets_go(owed: Obligation) -> bool:
    """Whether it may be done in the midst of a run, when its time is over."""
    return owed.do in VERBS and VERBS[owed.do].lets_go


# ---------------------------------------------------------------- processes


def _end_process(facts: Facts) -> Healed:
    """Kill a process with its tree, and what it left; a reused pid is left alone."""
    main, mark, node = meant_by(facts), str(facts.get("mark", "")), facts.get("node")
    found = living(main, mark)
    if not found:
        return Healed()
    words = f"{node}: {len(found)} left over ({', '.join(map(str, found))})"
    left = end_tree(main, mark, limit_s=_UNDO_S)
    if left:
        return Healed(remaining=(f"{words}, of which these cannot be ended: {left}",))
    return Healed(actions=(f"{words}, ended",))


def _processes(facts: Facts) -> tuple[str, ...]:
    found = living(meant_by(facts), str(facts.get("mark", "")))
    return tuple(f"process {pid} of {facts.get('node')}" for pid in found)


def _resume(facts: Facts) -> Healed:
    """Let a stopped tree go on; a reused pid is left alone."""
    what = _stopped(facts)
    resume_tree(meant_by(facts), str(facts.get("mark", "")), limit_s=_UNDO_S)
    left = _stopped(facts)
    return Healed(
        actions=tuple(f"{one}, resumed" for one in what if one not in left), remaining=left
    )


def _stopped(facts: Facts) -> tuple[str, ...]:
    found = stopped(meant_by(facts), str(facts.get("mark", "")))
    return tuple(f"{facts.get('node')} (process {pid}) is stopped" for pid in found)


def _unwedge(facts: Facts) -> Healed:
    """Tell the main process; whether it hung cannot be seen from here."""
    main = meant_by(facts)
    if not (is_same(main) and is_running(main.pid)):
        return Healed()
    try:
        send(main, signal.SIGUSR2)
    except OSError as error:
        return Healed(remaining=(f"process {main.pid} cannot be told to go on: {error}",))
    return Healed(actions=(f"{facts.get('node')} (process {main.pid}) was told to go on",))


# ---------------------------------------------------------------- links


def _clear(facts: Facts) -> Healed:
    """Take what one injection put on a link away; FleetError if the proxy refuses."""
    taken = standing.clear(*_on_link(facts), str(facts.get("injection")))
    return Healed(actions=tuple(f"{name} on {facts.get('proxy')}, taken away" for name in taken))


def _effects(facts: Facts) -> tuple[str, ...]:
    found = standing.look(*_on_link(facts), str(facts.get("injection")))
    return tuple(f"{name} on the link {facts.get('proxy')}" for name in found)


def _enable(facts: Facts) -> Healed:
    """Let a link that refuses take connections again; FleetError if the proxy refuses."""
    was_off = standing.enable(*_on_link(facts))
    return Healed(actions=(f"{facts.get('proxy')} was off, and is on again",) if was_off else ())


def _refusing(facts: Facts) -> tuple[str, ...]:
    is_off = standing.is_off(*_on_link(facts))
    return (f"the link {facts.get('proxy')} that refuses",) if is_off else ()


def _on_link(facts: Facts) -> tuple[Endpoint, str]:
    api = Endpoint(address=str(facts.get("api")), token=str(facts.get("token", "")))
    return api, str(facts.get("proxy"))


def _delete_proxy(facts: Facts) -> Healed:
    """Delete a proxy of ours from a server of somebody else's; FleetError if that is silent."""
    from chaoslab.links import toxiproxy  # noqa: PLC0415  # few runs owe this, and it costs time

    toxiproxy.undo(*_on_link(facts))
    return Healed(actions=(f"{_proxy(facts)}, deleted",))


def _proxy(facts: Facts) -> str:
    return f"the proxy {facts.get('proxy')} at {facts.get('api')}"


# ---------------------------------------------------------------- the kernel


def _remove_rules(do: str, facts: Facts) -> Healed:
    """Take exactly these rules out of the kernel; FleetError if it refuses."""
    packets.undo(do, facts)
    return Healed(actions=(f"{_rules(facts)}, removed",))


def _rules(facts: Facts) -> str:
    return f"rules of the kernel for packets ({facts.get('comment') or facts.get('interface')})"


def _remove_cgroup(facts: Facts) -> Healed:
    """Give its processes back and remove it; FleetError if the kernel does not let go of it."""
    was_there = cgroups.remove(Path(str(facts.get("path"))), Path(str(facts.get("back"))))
    return Healed(actions=(f"the cgroup {facts.get('path')}, removed",) if was_there else ())


def _cgroup(facts: Facts) -> tuple[str, ...]:
    path = Path(str(facts.get("path")))
    return (f"the cgroup {path}",) if path.is_dir() else ()


def _unmount(facts: Facts) -> Healed:
    """Take a volume away; FleetError if the kernel refuses."""
    what = _volume(facts)
    volume.release(Path(str(facts.get("folder"))))
    return Healed(actions=tuple(f"{one}, unmounted" for one in what))


def _volume(facts: Facts) -> tuple[str, ...]:
    folder = Path(str(facts.get("folder")))
    return (f"the volume at {folder}",) if volume.is_mounted(folder) else ()


def _free(facts: Facts) -> Healed:
    """Give a full volume room again; FleetError if the kernel refuses."""
    what = _full(facts)
    if what:
        volume.free(Path(str(facts.get("folder"))))
    return Healed(actions=tuple(f"{one}, which has room again" for one in what))


def _full(facts: Facts) -> tuple[str, ...]:
    folder = Path(str(facts.get("folder")))
    is_full = volume.is_mounted(folder) and not volume.measure(folder).free_bytes
    return (f"the full volume at {folder}",) if is_full else ()


# ---------------------------------------------------------------- containers


def _on_engine(do: str, *, lets_go: bool = False, looks: bool = True) -> Verb:
    """The engine is asked when it comes to that: few runs owe this, and the SDK may be missing."""

    def undone(facts: Facts) -> Healed:
        return Healed(actions=_ask_engine(do, facts, is_undone=True))

    def left(facts: Facts) -> tuple[str, ...]:
        try:
            return _ask_engine(do, facts, is_undone=False)
        except FleetError as error:
            return (str(error),)

    return Verb(undo=undone, left=left, lets_go=lets_go, looks=looks)


def _ask_engine(do: str, facts: Facts, *, is_undone: bool) -> tuple[str, ...]:
    """FleetError without the SDK, as without an engine."""
    try:
        from chaoslab.fleet.docker import cleanup  # noqa: PLC0415  # as above
    except AbilityError as error:
        raise FleetError(str(error)) from error
    return cleanup.undo(do, facts) if is_undone else cleanup.left(do, facts)


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "end_process": Verb(undo=_end_process, left=_processes),
        "resume_process": Verb(undo=_resume, left=_stopped, lets_go=True),
        "unwedge_process": Verb(undo=_unwedge, left=lambda _: (), lets_go=True, looks=False),
        standing.CLEAR_EFFECTS: Verb(undo=_clear, left=_effects, lets_go=True),
        standing.ENABLE_PROXY: Verb(undo=_enable, left=_refusing, lets_go=True),
        "delete_proxy": Verb(undo=_delete_proxy, left=lambda facts: (_proxy(facts),)),
        packets.UNDO_DROPS: Verb(
            undo=partial(_remove_rules, packets.UNDO_DROPS),
            left=lambda facts: (_rules(facts),),
            lets_go=True,
            looks=False,
        ),
        packets.UNDO_BANDS: Verb(
            undo=partial(_remove_rules, packets.UNDO_BANDS), left=lambda facts: (_rules(facts),)
        ),
        cgroups.UNDO_CGROUP: Verb(undo=_remove_cgroup, left=_cgroup, lets_go=True),
        storage.UNDO_VOLUME: Verb(undo=_unmount, left=_volume),
        storage.UNDO_FILLED: Verb(undo=_free, left=_full, lets_go=True),
        containers.EMPTY_ESTATE: _on_engine(containers.EMPTY_ESTATE),
        **{
            do: _on_engine(do, lets_go=True, looks=do in containers.SEEN)
            for do in containers.LETTING_GO
        },
    }
)
"""Every verb that an obligation may name."""
