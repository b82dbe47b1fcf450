"""Doctor of an inventory's hosts: what they can do, and what earlier runs left on them.

    inventory ─► each host: code delivered ─► agent doctor ─► abilities, leftovers

Looking brings chaoslab's code to a host, and changes nothing else.
"""

from collections.abc import Sequence
from typing import Any

from chaoslab.core.errors import ChaoslabError
from chaoslab.core.event_loop import EventLoop
from chaoslab.fleet.remote.adopting import LIBRARIES
from chaoslab.fleet.remote.delivery.bootstrap import NEEDED
from chaoslab.fleet.remote.delivery.deliver import deliver
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.remote.protocol.names import AGENT
from chaoslab.fleet.remote.protocol.reach import Reach, asked
from chaoslab.fleet.remote.ssh.connection import SshReach
from chaoslab.undo.verbs import Examined, Leftover, State, missing, ok

_LOOK_S = 2400.0


def examine(inventory: Inventory) -> tuple[tuple[Examined, ...], tuple[Leftover, ...]]:
    """Abilities and leftovers of each host, whose name each line begins with."""
    loop = EventLoop()
    try:
        reaches = [SshReach(inventory.ssh.access(host)) for host in inventory.hosts]
        needs = LIBRARIES if inventory.workers else NEEDED
        work = [_asked(reach, inventory.python, needs) for reach in reaches]
        found = dict(zip(inventory.hosts, loop.together(work, within_s=_LOOK_S), strict=True))
    finally:
        loop.close()
    abilities: list[Examined] = []
    residue: list[Leftover] = []
    for host, said in found.items():
        if isinstance(said, ChaoslabError):
            abilities.append(missing(host, str(said)))
        elif isinstance(said, BaseException):
            raise said
        else:
            abilities += [ok(host, "reached by ssh"), *_abilities(host, said)]
            residue += _residue(host, said)
    return tuple(abilities), tuple(residue)


async def _asked(reach: Reach, python: str, needs: Sequence[str]) -> dict[str, Any]:
    try:
        program = await deliver(reach, python, needs=needs)
        return dict(await asked(reach, program.command("-m", AGENT, "doctor")))
    finally:
        await reach.close()


def _abilities(host: str, said: dict[str, Any]) -> list[Examined]:
    return [
        Examined(
            name=f"{host}: {one['name']}",
            state=State(one["state"]),
            detail=str(one["detail"]),
            remedy=str(one["remedy"]),
        )
        for one in said["abilities"]
    ]


def _residue(host: str, said: dict[str, Any]) -> list[Leftover]:
    return [
        Leftover(what=str(one["what"]), where=f"{host}:{one['where']}", remedy=str(one["remedy"]))
        for one in said["residue"]
    ]
