"""Restoring of a container of an attached training; see `restoring`.

ContainerRecipe ─► Engine: unpause, connect, start
"""

from contextlib import closing

from chaoslab.fleet.attached.restoring import ContainerRecipe
from chaoslab.fleet.docker.engine.engine import Engine


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
