"""A stand-in for the harness: a fleet of ssh hosts, with nodes that have children.

    python -m tests.fleet.ssh_harness RUN_DIR LEASE_S ACCESS… [--janitor]

Each ACCESS is JSON. It prints `ready` when all nodes make steps, and then waits to be killed.
"""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from chaoslab.core.clock import WallClock
from chaoslab.core.event_loop import EventLoop
from chaoslab.core.events import Kind
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.delivery.deliver import deliver
from chaoslab.fleet.remote.factory import undo_facts
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.ground import Ground
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.remote.ssh.connection import SshReach
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.janitor import start_janitor
from chaoslab.undo.log import UndoLogFile
from tests.fleet.test_local import learner
from tests.fleet.test_remote import no_other_host


def main(
    run_directory: Path, lease_s: float, accesses: list[Access], *, with_janitor: bool
) -> None:
    """Start a node on each host, tell when they work, poll for ever."""
    clock, loop = WallClock(), EventLoop()
    reaches = [SshReach(access) for access in accesses]
    programs = {
        reach.name: loop.run(deliver(reach, sys.executable), within_s=60) for reach in reaches
    }
    run = run_name(run_directory)
    ground = Ground(
        loop=loop,
        hosts={},
        place=lambda name: (reaches[int(name.rpartition("-")[2])].name,),
        undo_facts=lambda host: undo_facts(
            next(one for one in accesses if one.host == host), programs[host], run
        ),
        make_ready=no_other_host,
        news=SimpleQueue(),
        run=run,
        terms=Terms(lease_s=lease_s, lost_s=lease_s),
    )
    for reach in reaches:
        ground.add(reach, programs[reach.name])
    with ExitStack() as stack:
        if with_janitor:
            stack.enter_context(start_janitor(run_directory))
        undo_log = stack.enter_context(UndoLogFile(run_directory))
        fleet = stack.enter_context(
            RemoteFleet(
                Place(run_directory=run_directory, clock=clock, undo_log=undo_log),
                ground,
                kind="ssh",
            )
        )
        names = {f"learner-{number}" for number in range(len(reaches))}
        for name in sorted(names):
            fleet.start(learner(name, "--children", "1"))
        stepping: set[str] = set()
        while stepping < names:
            seen = fleet.poll(clock.now_s() + 1.0)
            stepping |= {one.source for one in seen if one.kind is Kind.LEARNER_STEP}
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            fleet.poll(clock.now_s() + 1.0)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--janitor"]
    main(
        Path(words[0]),
        float(words[1]),
        [Access(**json.loads(word)) for word in words[2:]],
        with_janitor="--janitor" in sys.argv,
    )
