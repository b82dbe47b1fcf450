"""Undo of what was done on a Docker engine, leftovers there, and what the engine can do.

    empty_run_resources    the containers, network and volumes of a run on a Docker engine
    unpause_container, unwedge_container, unlimit_container, plug_container
                           a container goes on
    free_container_volume  a container's volume that is full has room again

`cleanup` asks the engine when it comes to that: few logs have this verb, and the SDK,
which this module does not import, may be missing.
"""

import shlex
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Final

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.docker.engine import labels
from chaoslab.fleet.docker.engine.labels import LABEL_RUN
from chaoslab.fleet.docker.undo_facts import (
    ContainerFacts,
    LimitFacts,
    PlugFacts,
    RunResourcesFacts,
    StoreFacts,
)
from chaoslab.fleet.run_name import own_name
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.log import may_have_open_undos
from chaoslab.undo.verbs import (
    Examined,
    Leftover,
    Maintenance,
    asked,
    limited,
    missing,
    ok,
)

_CLEANUP: Final = "chaoslab.fleet.docker.cleanup"
"""Module that needs the SDK."""


# ---------------------------------------------------------------- leftovers


def _without_harness(_: Path) -> Iterator[Leftover]:
    """Resources that this machine made, on the engine that answers, for runs without a harness."""
    try:
        from chaoslab.fleet.docker.cleanup import all_run_resources  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415

        with closing(Engine.connect()) as engine:
            url, found = engine.url, all_run_resources(engine)
    except (AbilityError, FleetError):
        return  # no engine, or one that refuses, which `doctor` says: nothing on it can be seen
    for run, directory in found.items():
        path = Path(directory)
        whole = path.parent if path.name == "twin" else path
        if not path.exists() or not is_in_progress(whole):
            label = shlex.quote(f"label={LABEL_RUN}={run}")
            network = shlex.quote(own_name(run))
            is_known = path.exists() and may_have_open_undos(whole)
            yield Leftover(
                what=f"containers, a network or volumes labelled {LABEL_RUN}={run}",
                where=url,
                remedy=f"chaoslab heal {shlex.quote(str(whole))}"
                if is_known
                else f"docker rm -f $(docker ps -aq --filter {label}); "
                f"docker network rm {network}; "
                f"docker volume rm $(docker volume ls -q --filter {label})",
            )


# ---------------------------------------------------------------- what the engine can do


def _diagnose() -> Iterator[Examined]:
    yield _docker()
    yield _container_links()


def _docker() -> Examined:
    """The engine that a run would use, by its own word."""
    name = "docker"
    try:
        from chaoslab.fleet.docker.capabilities import lacking  # noqa: PLC0415
        from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415
        from chaoslab.fleet.docker.images import images  # noqa: PLC0415  # needs the SDK

        import_module("chaoslab.fleet.authority")  # AbilityError without its library
        with closing(Engine.connect()) as engine:
            facts = engine.facts()
            unbuilt = [one for one in images.needed() if engine.image_id(one) is None]
    except AbilityError as error:
        return missing(name, "no engine can be used from here", str(error))
    except FleetError as error:
        return limited(name, f"an engine that refuses: {error}")
    version, api, cgroup = (facts.get(key) for key in ("Version", "ApiVersion", "CgroupVersion"))
    detail = f"engine {version}, API {api}, cgroup v{cgroup}"
    lacks = sorted(set(lacking(facts).values()))
    if unbuilt:
        lacks.append(f"no image {', '.join(unbuilt)}")
    if lacks:
        remedy = "chaoslab doctor images build" if unbuilt else ""
        return limited(name, f"{detail}: {'; '.join(lacks)}", remedy)
    return ok(name, detail)


def _container_links() -> Examined:
    """Abilities of the kernel under the engine, which may be far away, by a trial there."""
    name = "container links"
    try:
        from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.images.kernel_probe import tried  # noqa: PLC0415

        with closing(Engine.connect()) as engine:
            found = tried(engine)
    except AbilityError:
        return missing(name, "no engine to try them on")
    except FleetError as error:
        return limited(name, f"the trial was refused: {error}")
    if found.forwarding:
        return missing(name, f"no links: netem, no network.packets: {found.forwarding}")
    reasons = {*found.lacks.values(), found.proxy_loss} - {""}
    if reasons:
        lacking = ", ".join(sorted(found.lacks)) or "loss beside a proxy"
        return limited(name, f"links: netem without {lacking}: {'; '.join(sorted(reasons))}")
    return ok(name, "all that links: netem can do")


MAINTENANCE = Maintenance(
    verbs={
        labels.EMPTY_RUN_RESOURCES: asked(
            _CLEANUP,
            labels.EMPTY_RUN_RESOURCES,
            RunResourcesFacts,
            is_safe_during_run=False,
            looks=True,
        ),
        labels.UNPAUSE: asked(_CLEANUP, labels.UNPAUSE, ContainerFacts, looks=True),
        labels.UNWEDGE: asked(_CLEANUP, labels.UNWEDGE, ContainerFacts),
        labels.UNLIMIT: asked(_CLEANUP, labels.UNLIMIT, LimitFacts),
        labels.PLUG: asked(_CLEANUP, labels.PLUG, PlugFacts, looks=True),
        labels.FREE_VOLUME: asked(_CLEANUP, labels.FREE_VOLUME, StoreFacts),
    },
    leftovers=_without_harness,
    diagnose=_diagnose,
)
