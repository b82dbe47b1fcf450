"""Start of the nodes of a run: the syncer, then the learners, which are told where it listens.

a script         its workers, each by itself
each by itself   syncer ─► it reports its address ─► links ─► learners
as one           syncer, links, learners ─► the fleet asks for all of them ─► the syncer reports
"""

from collections.abc import Callable
from contextlib import nullcontext

from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import Networked, StartsTogether
from chaoslab.prepare.launch import Launch


def start_nodes(
    fleet: Fleet, launch: Launch, keeps_training: bool, await_address: Callable[[], str]
) -> None:
    """Returns once the syncer is ready. `await_address` waits for that: its address.

    `keeps_training`: the syncer lets training go on when the stop rule is met, until SIGTERM.
    """
    if launch.plan.training.script is not None:
        launch.folder.mkdir()
        for spec in launch.workers(launch.plan.training.script):
            fleet.start(spec)
        return
    as_one = fleet.start_together() if isinstance(fleet, StartsTogether) else nullcontext()
    with as_one as known:
        fleet.start(launch.syncer(keeps_training=keeps_training))
        _start_learners(fleet, launch, known or await_address())
    if known:
        await_address()


def _start_learners(fleet: Fleet, launch: Launch, upstream: str) -> None:
    """Those of the start; those in reserve are enlisted."""
    through = fleet if isinstance(fleet, Networked) else None
    addresses = {
        name: through.link(name, upstream).address if through else upstream
        for name in launch.plan.training.roster
    }
    for spec in launch.learners(addresses):
        fleet.start(spec)
    for spec in launch.reserve(addresses):
        fleet.enlist(spec)
