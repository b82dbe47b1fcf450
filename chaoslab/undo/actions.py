"""How what a harness did is undone from what it wrote down, one verb at a time.

    UndoEntry(do, facts) ─► undo ──────► Healed: what was done, and what could not be
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

Nothing here knows where obligations are kept (`obligations`) or when they are met (`janitor`). What
an entry may say is `undo_facts`'; what it says of anything that is not the run's own is not done.
All of it may be done twice. A new verb is one line in `VERBS`, with the dataclass of its facts.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.core.private_files import open_folder
from chaoslab.core.process_identity import boot_id, is_same, send
from chaoslab.core.process_tree import end_tree, is_running, living, resume_tree, stopped
from chaoslab.fleet.docker import labels as containers
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.storage import files, volume
from chaoslab.links import netem, netfilter, packet_rules, proxy_undo
from chaoslab.undo.facts import (
    AnyFacts,
    BandFacts,
    CgroupFacts,
    ContainerFacts,
    EffectFacts,
    EngineFacts,
    LimitFacts,
    OwnProxyFacts,
    PlugFacts,
    ProcessFacts,
    ProxyFacts,
    RuleFacts,
    RunResourcesFacts,
    StoreFacts,
    VolumeFacts,
    decode,
)

_UNDO_S = 10.0
"""How long one undo may take until it counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoEntry:
    """One undo that is still owed."""

    number: int
    do: str
    facts: Mapping[str, Json]
    """The entry, as it was read."""
    directory: Path
    """Where the book lies."""

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
class Verb(Generic[AnyFacts]):
    """One way to undo. Nothing to do is no action and nothing remaining."""

    facts: type[AnyFacts]
    undo: Callable[[AnyFacts], Healed]
    left: Callable[[AnyFacts], tuple[str, ...]]
    """What is still there, in a few words each."""
    lets_go: bool = False
    """It gives back what goes on living, so it may be done while the run goes on."""
    looks: bool = True
    """Whether `left` looks at the world; else it only repeats what was written down."""


def undo(owed: UndoEntry) -> Healed:
    """Do it. What cannot be done is said and does not keep the others from it."""
    verb = VERBS.get(owed.do)
    if verb is None:
        return Healed(remaining=(f"this version does not know how to undo {owed.do!r}",))
    try:
        return verb.undo(_facts(owed, verb))
    except (FleetError, OSError) as error:
        return Healed(remaining=(str(error),))


def leftovers(owed: UndoEntry) -> tuple[str, ...]:
    """What an obligation is about and is there now, in a few words each."""
    verb = VERBS.get(owed.do)
    try:
        return verb.left(_facts(owed, verb)) if verb else (f"something to undo by {owed.do!r}",)
    except FleetError as error:
        return (str(error),)


def still_there(owed: UndoEntry) -> tuple[str, ...]:
    """As `leftovers`, by a look at the world alone; nothing where nobody can look."""
    return leftovers(owed) if looks(owed) else ()


def looks(owed: UndoEntry) -> bool:
    """Whether the world shows if it was done."""
    return owed.do in VERBS and VERBS[owed.do].looks


def lets_go(owed: UndoEntry) -> bool:
    """Whether it may be done in the midst of a run, when its time is over."""
    return owed.do in VERBS and VERBS[owed.do].lets_go


def _facts(owed: UndoEntry, verb: Verb[AnyFacts]) -> AnyFacts:
    try:
        return decode(verb.facts, owed.facts, owed.directory)
    except FleetError as error:
        raise FleetError(
            f"obligation {owed.number} ({owed.do}) of {owed.directory} is refused: {error}"
        ) from error


# ---------------------------------------------------------------- processes


def _end_process(facts: ProcessFacts) -> Healed:
    """Kill a process with its tree, and what it left; a reused pid is left alone."""
    main = facts.identity
    found = living(main, facts.mark)
    if not found:
        return Healed()
    words = f"{facts.node}: {len(found)} left over ({', '.join(map(str, found))})"
    left = end_tree(main, facts.mark, limit_s=_UNDO_S)
    if left:
        return Healed(remaining=(f"{words}, of which these cannot be ended: {left}",))
    return Healed(actions=(f"{words}, ended",))


def _processes(facts: ProcessFacts) -> tuple[str, ...]:
    found = living(facts.identity, facts.mark)
    return tuple(f"process {pid} of {facts.node}" for pid in found)


def _resume(facts: ProcessFacts) -> Healed:
    """Let a stopped tree go on; a reused pid is left alone."""
    what = _stopped(facts)
    resume_tree(facts.identity, facts.mark, limit_s=_UNDO_S)
    left = _stopped(facts)
    return Healed(
        actions=tuple(f"{one}, resumed" for one in what if one not in left), remaining=left
    )


def _stopped(facts: ProcessFacts) -> tuple[str, ...]:
    found = stopped(facts.identity, facts.mark)
    return tuple(f"{facts.node} (process {pid}) is stopped" for pid in found)


def _unwedge(facts: ProcessFacts) -> Healed:
    """Tell the main process; whether it hung cannot be seen from here."""
    main = facts.identity
    if not (is_same(main) and is_running(main.pid)):
        return Healed()
    try:
        send(main, signal.SIGUSR2)
    except OSError as error:
        return Healed(remaining=(f"process {main.pid} cannot be told to go on: {error}",))
    return Healed(actions=(f"{facts.node} (process {main.pid}) was told to go on",))


# ---------------------------------------------------------------- links


def _clear(facts: EffectFacts) -> Healed:
    """Take what one injection put on a link away; FleetError if the proxy refuses."""
    taken = proxy_undo.clear(facts.endpoint, facts.proxy, facts.injection)
    return Healed(actions=tuple(f"{name} on {facts.proxy}, taken away" for name in taken))


def _effects(facts: EffectFacts) -> tuple[str, ...]:
    found = proxy_undo.look(facts.endpoint, facts.proxy, facts.injection)
    return tuple(f"{name} on the link {facts.proxy}" for name in found)


def _enable(facts: ProxyFacts) -> Healed:
    """Let a link that refuses take connections again; FleetError if the proxy refuses."""
    was_off = proxy_undo.enable(facts.endpoint, facts.proxy)
    return Healed(actions=(f"{facts.proxy} was off, and is on again",) if was_off else ())


def _refusing(facts: ProxyFacts) -> tuple[str, ...]:
    is_off = proxy_undo.is_off(facts.endpoint, facts.proxy)
    return (f"the link {facts.proxy} that refuses",) if is_off else ()


def _delete_proxy(facts: OwnProxyFacts) -> Healed:
    """Delete a proxy of ours from a server of somebody else's; FleetError if that is silent."""
    from chaoslab.links import toxiproxy  # noqa: PLC0415  # few runs owe this, and it costs time

    toxiproxy.undo(facts.endpoint, facts.proxy)
    return Healed(actions=(f"{_proxy(facts)}, deleted",))


def _proxy(facts: OwnProxyFacts) -> str:
    return f"the proxy {facts.proxy} at {facts.api}"


# ---------------------------------------------------------------- the kernel


def _drop_rules(facts: RuleFacts) -> Healed:
    """Take exactly these rules out of the kernel; FleetError if it refuses."""
    what = _rules(facts)
    netfilter.undo(facts.tool, facts.comment)
    return Healed(actions=tuple(f"{one}, removed" for one in what))


def _rules(facts: RuleFacts) -> tuple[str, ...]:
    is_there = netfilter.count(facts.tool, facts.comment) > 0
    return (f"rules of the kernel for packets ({facts.comment})",) if is_there else ()


def _close_bands(facts: BandFacts) -> Healed:
    """Take our queue off an interface; FleetError if the kernel refuses, or if it is not ours."""
    what = _bands(facts)
    netem.close_bands(facts.interface)
    return Healed(actions=tuple(f"{one}, removed" for one in what))


def _bands(facts: BandFacts) -> tuple[str, ...]:
    is_there = netem.has_bands(facts.interface)
    return (f"queues of the kernel for packets ({facts.interface})",) if is_there else ()


def _remove_cgroup(facts: CgroupFacts) -> Healed:
    """Give its processes back and remove it; FleetError if the kernel does not let go of it."""
    was_there = cgroups.remove(Path(facts.path), Path(facts.back))
    return Healed(actions=(f"the cgroup {facts.path}, removed",) if was_there else ())


def _cgroup(facts: CgroupFacts) -> tuple[str, ...]:
    return (f"the cgroup {facts.path}",) if Path(facts.path).is_dir() else ()


def _unmount(facts: VolumeFacts) -> Healed:
    """Take a volume away; FleetError if the kernel refuses."""
    what = _volume(facts)
    volume.release(_own_folder(facts))
    return Healed(actions=tuple(f"{one}, unmounted" for one in what))


def _volume(facts: VolumeFacts) -> tuple[str, ...]:
    is_mounted = volume.is_mounted(_own_folder(facts))
    return (f"the volume at {facts.folder}",) if is_mounted else ()


def _free(facts: VolumeFacts) -> Healed:
    """Give a full volume room again; FleetError if the kernel refuses."""
    what = _full(facts)
    if what:
        volume.free(_own_folder(facts))
    return Healed(actions=tuple(f"{one}, which has room again" for one in what))


def _full(facts: VolumeFacts) -> tuple[str, ...]:
    folder = _own_folder(facts)
    is_full = volume.is_mounted(folder) and not volume.measure(folder).free_bytes
    return (f"the full volume at {folder}",) if is_full else ()


def _own_folder(facts: VolumeFacts) -> Path:
    """Where the volume is; FleetError if there is a link on the way, or others may write there.

    It may be gone already, and be there again from what was kept beside it.
    """
    try:
        with open_folder(facts.directory, *facts.names):
            return Path(facts.folder)
    except FileNotFoundError:
        return Path(facts.folder)


# ---------------------------------------------------------------- containers


def _on_engine(do: str, facts: type[EngineFacts], *, lets_go: bool = True) -> Verb[Any]:
    """The engine is asked when it comes to that: few runs owe this, and the SDK may be missing."""

    def undone(facts: EngineFacts) -> Healed:
        return Healed(actions=_ask_engine(do, facts, is_undone=True))

    def left(facts: EngineFacts) -> tuple[str, ...]:
        try:
            return _ask_engine(do, facts, is_undone=False)
        except FleetError as error:
            return (str(error),)

    looks = do in containers.SEEN or not lets_go
    return Verb(facts=facts, undo=undone, left=left, lets_go=lets_go, looks=looks)


def _ask_engine(do: str, facts: EngineFacts, *, is_undone: bool) -> tuple[str, ...]:
    """FleetError without the SDK, as without an engine."""
    try:
        from chaoslab.fleet.docker import cleanup  # noqa: PLC0415  # as above
    except AbilityError as error:
        raise FleetError(str(error)) from error
    return cleanup.undo(do, facts) if is_undone else cleanup.left(do, facts)


VERBS: Mapping[str, Verb[Any]] = MappingProxyType(
    {
        "end_process": Verb(facts=ProcessFacts, undo=_end_process, left=_processes),
        "resume_process": Verb(facts=ProcessFacts, undo=_resume, left=_stopped, lets_go=True),
        "unwedge_process": Verb(
            facts=ProcessFacts, undo=_unwedge, left=lambda _: (), lets_go=True, looks=False
        ),
        proxy_undo.CLEAR_EFFECTS: Verb(facts=EffectFacts, undo=_clear, left=_effects, lets_go=True),
        proxy_undo.ENABLE_PROXY: Verb(facts=ProxyFacts, undo=_enable, left=_refusing, lets_go=True),
        "delete_proxy": Verb(
            facts=OwnProxyFacts, undo=_delete_proxy, left=lambda facts: (_proxy(facts),)
        ),
        packet_rules.UNDO_DROPS: Verb(facts=RuleFacts, undo=_drop_rules, left=_rules, lets_go=True),
        packet_rules.UNDO_BANDS: Verb(facts=BandFacts, undo=_close_bands, left=_bands),
        cgroups.UNDO_CGROUP: Verb(
            facts=CgroupFacts, undo=_remove_cgroup, left=_cgroup, lets_go=True
        ),
        files.UNDO_VOLUME: Verb(facts=VolumeFacts, undo=_unmount, left=_volume),
        files.UNDO_FILLED: Verb(facts=VolumeFacts, undo=_free, left=_full, lets_go=True),
        containers.EMPTY_RUN_RESOURCES: _on_engine(
            containers.EMPTY_RUN_RESOURCES, RunResourcesFacts, lets_go=False
        ),
        containers.UNPAUSE: _on_engine(containers.UNPAUSE, ContainerFacts),
        containers.UNWEDGE: _on_engine(containers.UNWEDGE, ContainerFacts),
        containers.UNLIMIT: _on_engine(containers.UNLIMIT, LimitFacts),
        containers.PLUG: _on_engine(containers.PLUG, PlugFacts),
        containers.FREE_VOLUME: _on_engine(containers.FREE_VOLUME, StoreFacts),
    }
)
"""Every verb that an obligation may name."""
