"""Restoring of a container of an attached training; see `restoring`.

ContainerRecipe ─┬► Engine: unpause, connect, start
                 └► its files: a short-lived container of its image, with the volume and no network
"""

import secrets
from contextlib import closing, suppress
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached.restoring import ContainerRecipe
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Missing
from chaoslab.fleet.storage.files import as_script, measured

_LABEL: Final = "chaoslab.files_of"
"""Label of the containers by which files of others are reached; its value is theirs."""
_RIGHTS: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""Those of a root that reaches files of all users, as that of a usual container does."""
_PATIENCE_S: Final = 300.0
"""Time limit of such a container: a large checkpoint is copied and read several times."""
_PROCESSES: Final = 16


def lacks(recipe: ContainerRecipe) -> tuple[str, ...]:
    """Differences of the node from before, a clause each. FleetError without the engine."""
    with closing(Engine.connect(recipe.engine)) as engine:
        return _lacks(engine, recipe)


def restore(recipe: ContainerRecipe) -> tuple[str, ...]:
    """Let it go on, connect it, and start it if that is ours; what was done. FleetError if the
    engine refuses.
    """
    with closing(Engine.connect(recipe.engine)) as engine:
        what = _lacks(engine, recipe)
        engine.unpause(recipe.container)
        connect(engine, recipe)
        if recipe.is_ours_to_start and not engine.inspect(recipe.container).is_alive:
            engine.start(recipe.container)
        return tuple(f"{one}: restored" for one in what)


def release(recipe: ContainerRecipe) -> tuple[str, ...]:
    """Tell its training thread to go on; whether that hung cannot be seen from here."""
    with closing(Engine.connect(recipe.engine)) as engine:
        if not engine.inspect(recipe.container).is_alive:
            return ()
        engine.kill(recipe.container, "SIGUSR2")
        return (f"{recipe.node} ({recipe.container}) was resumed",)


def connect(engine: Engine, recipe: ContainerRecipe) -> None:
    """Connect it to the networks from which it is missing, under its names there."""
    there = engine.made_as(recipe.container).networks
    for network, names in recipe.networks.items():
        if network not in there:
            address = recipe.addresses.get(network, "")
            engine.reconnect(network, recipe.container, names, address)


def beside(engine: Engine, recipe: ContainerRecipe, command: tuple[str, ...]) -> str:
    """Output of a command that sees the volume with its checkpoints, whether it runs or not.

    FleetError if these are on no volume, or its image lacks `python3`.
    """
    made, name = engine.made_as(recipe.container), f"chaoslab-files-{secrets.token_hex(4)}"
    mount = made.mount_of(recipe.keeps)
    if mount is None:
        raise FleetError(
            f"{recipe.keeps} of container {recipe.container} is on none of its volumes, and what "
            "is written there cannot be reached while it is down: mount a volume there"
        )
    source, target = mount
    spec = ContainerSpec(
        name=name, image=engine.inspect(recipe.container).image, command=command,
        limits=engine.machine(_PROCESSES), network="none", labels={_LABEL: recipe.container},
        volumes={source: target}, user=made.user or None, capabilities=_RIGHTS,
    )  # fmt: skip
    return engine.run(spec, _PATIENCE_S)


def put_back(recipe: ContainerRecipe) -> tuple[str, ...]:
    """Put its checkpoints back, then restore it; what was done. FleetError as of `beside`."""
    with closing(Engine.connect(recipe.engine)) as engine:
        for name in engine.names({_LABEL: recipe.container}):  # of a harness that has died
            engine.remove(name)
        command, refusal = as_script("put_back", recipe.keeps), f"of {recipe.node}"
        files = measured(beside(engine, recipe, command), f"files {refusal} are not put back")
    return (*(f"{recipe.node}: {one}, put back" for one in files), *restore(recipe))


def not_put_back(recipe: ContainerRecipe) -> tuple[str, ...]:
    """What of its checkpoints is not as it was. FleetError as of `beside`."""
    with closing(Engine.connect(recipe.engine)) as engine, suppress(Missing):
        said = beside(engine, recipe, as_script("kept", recipe.keeps))
        found = measured(said, f"the files of {recipe.node} cannot be looked at")
        return tuple(f"{recipe.node}: {one} is not as it was" for one in found)
    return ()


def _lacks(engine: Engine, recipe: ContainerRecipe) -> tuple[str, ...]:
    seen = engine.inspect(recipe.container)
    if not seen.is_alive:
        is_down = f"{recipe.node} ({recipe.container}) does not run"
        return (is_down,) if recipe.is_ours_to_start else ()
    missing = set(recipe.networks) - set(engine.made_as(recipe.container).networks)
    found = [f"{recipe.node} ({recipe.container}) is not on the network {one}" for one in missing]
    if seen.status == "paused":
        found.append(f"{recipe.node} ({recipe.container}) is paused")
    return tuple(found)
