"""How a container is held up, and let go again: by the engine, or by the hooks of what runs in it.

    pause, wedge, unplug ─► owe(undo) ─► the engine ─► resume, unwedge, plug ─► settled

Each may be done twice. Whom, and when, is decided elsewhere.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine import labels
from chaoslab.fleet.docker.engine.engine import Missing
from chaoslab.fleet.docker.run_resources import RunResources

_AT_ONCE: Final = 8


def together(lives: Iterable[Container], verb: Callable[[Container], None]) -> None:
    """Side by side, to arrive together; the first FleetError is raised when all are done."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = [pool.submit(verb, life) for life in lives]
    for one in done:
        one.result()


def pause(lives: Sequence[Container]) -> None:
    """Freeze all of them, or none."""
    for life in lives:
        life.owe(labels.UNPAUSE)
    try:
        together(lives, lambda life: life.engine.pause(life.name))
    except FleetError:
        for life in lives:
            with suppress(FleetError):
                resume(life)
        raise
    for life in lives:
        life.is_paused = True


def resume(life: Container) -> None:
    """Thaw it, unless it is over."""
    if life.is_over:
        return
    with suppress(Missing):
        life.engine.unpause(life.name)
    life.is_paused = False
    life.pending_undos.settle(labels.UNPAUSE)


def wedge(life: Container) -> None:
    """SIGUSR1."""
    life.owe(labels.UNWEDGE)
    life.signal("SIGUSR1")


def unwedge(life: Container) -> None:
    """SIGUSR2."""
    life.signal("SIGUSR2")
    life.pending_undos.settle(labels.UNWEDGE)


def unplug(life: Container, run_resources: RunResources) -> None:
    """Take it from the network of the run; what it has open hears nothing of that."""
    seen = life.engine.inspect(life.name)
    if seen.address:
        aliases = [life.spec.name]
        life.owe(labels.PLUG, network=run_resources.network, aliases=aliases, address=seen.address)
        life.engine.disconnect(run_resources.network, life.name)


def plug(life: Container, run_resources: RunResources) -> None:
    """Connect it again, under its name, unless it has ended."""
    if life.has_exited:
        return
    if not life.engine.inspect(life.name).address:
        life.engine.reconnect(run_resources.network, life.name, [life.spec.name], "")
    life.pending_undos.settle(labels.PLUG)
