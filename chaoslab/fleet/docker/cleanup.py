"""Undo of what a dead harness left on an engine, and what of it is still there.

    undo entry (engine, container | run) ─► undo ─► what was done, in words
                                         └► left ─► what of it is still there
    labels chaoslab.host, chaoslab.directory ─► resources of runs that cannot be asked any more

`undo_verbs` names the verbs and `undo_facts` has their facts; neither imports the SDK. Everything
here raises AbilityError if no engine answers.
"""

import socket
import time
from collections.abc import Mapping
from contextlib import closing, suppress

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine import labels as verbs
from chaoslab.fleet.docker.engine.engine import Engine, Limits, Missing
from chaoslab.fleet.docker.run_resources import empty, remains
from chaoslab.fleet.docker.storage import Place, resize
from chaoslab.fleet.docker.undo_facts import (
    ContainerFacts,
    EngineFacts,
    LimitFacts,
    PlugFacts,
    RunResourcesFacts,
    StoreFacts,
)

_IN_FLIGHT_S = 1.0
"""Time after a harness's death in which its last requests may still be carried out."""
_IN_COPIES_S = 10.0
"""The same where each container begins with a copy of its whole image."""
_LOOK_S = 0.25


def undo(do: str, facts: EngineFacts) -> tuple[str, ...]:
    """Do one undo; what was done. FleetError if the engine refuses."""
    with closing(Engine.connect(facts.engine)) as engine:
        match facts:
            case StoreFacts():
                return _free(engine, facts)
            case RunResourcesFacts(run=run):
                return tuple(f"{one}, removed" for one in _emptied(engine, run))
            case ContainerFacts():
                with suppress(Missing):  # what was done to it is gone with it
                    return _let_go(engine, do, facts)
        return ()


def left(do: str, facts: EngineFacts) -> tuple[str, ...]:
    """Things that still exist. FleetError if the engine refuses."""
    with closing(Engine.connect(facts.engine)) as engine:
        match facts:
            case StoreFacts():
                return tuple(f"{one}, which may be full" for one in _volumes(engine, facts))
            case RunResourcesFacts(run=run):
                return remains(engine, run)
            case ContainerFacts(container=container):
                with suppress(Missing):
                    return _stopped(engine, do, container)
        return ()


def all_run_resources(engine: Engine) -> Mapping[str, str]:
    """The run directory of each run of this machine that has resources on the engine."""
    mine = {verbs.LABEL_HOST: socket.gethostname()}
    found = (engine.names(mine), engine.networks(mine), engine.volumes(mine))
    return {
        labels[verbs.LABEL_RUN]: labels.get(verbs.LABEL_DIRECTORY, "")
        for things in found
        for labels in things.values()
        if verbs.LABEL_RUN in labels
    }


def _emptied(engine: Engine, run: str) -> list[str]:
    """Again and again until nothing comes any more; what is in use by then remains."""
    is_copying = engine.facts().get("Driver") == "vfs"
    done: list[str] = []
    until_s = time.monotonic() + (_IN_COPIES_S if is_copying else _IN_FLIGHT_S)
    while time.monotonic() < until_s:
        with suppress(FleetError):  # perhaps of what has just come: the last look tells
            done += empty(engine, run)
        time.sleep(_LOOK_S)
    return [*done, *empty(engine, run)]


def _let_go(engine: Engine, do: str, facts: ContainerFacts) -> tuple[str, ...]:
    container = facts.container
    is_stopped = bool(_stopped(engine, do, container))
    if not engine.inspect(container).is_alive:
        return ()
    match facts:
        case LimitFacts():
            limits = Limits(
                cpus=facts.cpus, memory_bytes=facts.memory_bytes, processes=facts.processes
            )
            engine.update(container, limits)
            return (f"{container} has its limits back",)
        case PlugFacts() if is_stopped:
            engine.reconnect(facts.network, container, facts.aliases, facts.address)
        case _ if do == verbs.UNPAUSE:
            engine.unpause(container)
        case _ if do == verbs.UNWEDGE:
            engine.kill(container, "SIGUSR2")
            return (f"{container} was resumed",)
    return (f"{container} was {_STOPPED[do]}, which was undone",) if is_stopped else ()


def _free(engine: Engine, facts: StoreFacts) -> tuple[str, ...]:
    """Free a volume in a container with the labels of the run, in case this process dies."""
    found, labels = _volumes(engine, facts), {verbs.LABEL_RUN: facts.run}
    for volume in found:
        place = Place(engine=engine, volume=volume, image=facts.image, labels=labels)
        resize(place, "free")
    return tuple(f"{one}, has room again" for one in found)


def _volumes(engine: Engine, facts: StoreFacts) -> tuple[str, ...]:
    there = engine.volumes({verbs.LABEL_RUN: facts.run})
    return tuple(name for name in there if name == facts.volume)


_STOPPED = {verbs.UNPAUSE: "paused", verbs.PLUG: "unplugged"}


def _stopped(engine: Engine, do: str, container: str) -> tuple[str, ...]:
    seen = engine.inspect(container)
    is_so = {verbs.UNPAUSE: seen.status == "paused", verbs.PLUG: not seen.address}
    return (f"{container} is {_STOPPED[do]}",) if is_so.get(do) and seen.is_alive else ()
