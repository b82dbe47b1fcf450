"""A fork server that is ready, in a fleet that has not started a node yet."""

from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.spawning import ForkServer
from chaoslab.undo.base import UndoLog
from tests.waiting import wait_until


def forks_of(fleet: LocalFleet, *program: str, undo_log: UndoLog) -> ForkServer:
    """Give the fleet a fork server of this program (python -m module), and wait until it serves."""
    server = ForkServer(program, {}, fleet._place.run_directory, undo_log)
    fleet._fork_server = server
    wait_for(server, *program)
    return server


def wait_for(server: ForkServer, *program: str) -> None:
    """Until it serves this program; fails after a minute."""
    wait_until(lambda: server.serves(program, {}))
