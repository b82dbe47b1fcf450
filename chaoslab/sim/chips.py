"""Hosts and chips of simulated learners: a host that is lost, a chip that another process has.

    kill_host, fail ─► host.lost ─► all of the learner ends by the signal
    hold ─► each start ends with exit code 69 ─► free        attempt ─► who has the chip

A learner of several hosts is one process here, which ends with each of them.
"""

from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind
from chaoslab.fleet.base import host_number
from chaoslab.sim.lives import Lives, Place
from chaoslab.sim.process import HOOK_S
from chaoslab.sim.world import World

_HOLDERS: Final = 9_000_000
"""Ids of processes that hold chips begin here, one for each node."""


class Chips:
    """Those of one fleet."""

    def __init__(self, world: World, lives: Lives) -> None:
        self._world, self._lives = world, lives

    def kill_host(self, name: str, host: int) -> None:
        """See `HasHosts.kill_host`."""
        self._lives.living(name)
        place = self._lives.place(name)
        index = host_number(place.spec, host)
        place.sent.append("SIGKILL")
        if place.spec.hosts is None:
            self._lives.end(place, signal="SIGKILL")
        else:
            self._lose_host(place, index, "SIGKILL")

    def fail(self, name: str, host: int) -> None:
        """See `HasHosts.fail_chip`."""
        self._lives.living(name)
        place = self._lives.place(name)
        index = host_number(place.spec, host)
        if not place.spec.hears:
            raise FleetError(f"{name} was started without test hooks")
        place.sent.append("SIGABRT")
        self._lose_host(place, index, "SIGABRT")

    def _lose_host(self, place: Place, host: int, signal: str) -> None:
        """By a test hook, which nobody reads while the learner is stopped."""
        process = place.process
        if process is None:
            return

        def lose() -> None:
            if place.spec.hosts is not None:
                about: dict[str, Json] = {
                    "learner": process.name, "incarnation": process.incarnation,
                }  # fmt: skip
                lost: dict[str, Json] = {
                    "host": host, "reason": f"ended by {signal}", "signal": signal,
                }  # fmt: skip
                process.say(Kind.HOST_LOST, {**about, **lost})
            self._lives.end(place, signal=signal)

        process.later_beside(HOOK_S, lose)

    def hold(self, name: str) -> None:
        """See `HasChips.hold_chip`."""
        place = self._lives.place(name)
        if place.process is not None:
            raise FleetError(f"the chip of {name} is still held by process {place.pid}")
        if name not in self._world.held_chips:
            holder = self._world.held_chips[name] = _HOLDERS + place.number
            self._world.report(name, Kind.CHIP_HELD, {"node": name, "holder": holder})

    def free(self, name: str) -> None:
        """See `HasChips.free_chip`."""
        self._lives.place(name)
        holder = self._world.held_chips.pop(name, None)
        if holder is not None:
            self._world.report(name, Kind.CHIP_FREED, {"node": name, "holder": holder})

    def attempt(self, name: str) -> None:
        """See `HasChips.try_chip`."""
        place = self._lives.place(name)
        holder = self._world.held_chips.get(name)
        if holder is None and place.process is not None:
            holder = place.pid
        data: dict[str, Json] = {"node": name, "holder": holder, "is_granted": holder is None}
        self._world.report(name, Kind.CHIP_TRIED, data)
