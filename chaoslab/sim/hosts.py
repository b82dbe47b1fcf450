"""Hosts of simulated learners: one that is killed, or whose chip fails.

    kill_host, fail_chip ─► host.lost ─► all of the learner ends by the signal

A learner of several hosts is one process here, which ends with each of them.
"""

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import HostLost
from chaoslab.fleet.base import host_number
from chaoslab.sim.lives import Lives, Place
from chaoslab.sim.process import HOOK_S


class Hosts:
    """Those of one fleet."""

    def __init__(self, lives: Lives) -> None:
        self._lives = lives

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

    def fail_chip(self, name: str, host: int) -> None:
        """See `HasHosts.fail_chip`."""
        self._lives.living(name)
        place = self._lives.place(name)
        index = host_number(place.spec, host)
        if not place.spec.hears:
            raise FleetError(f"{name} was started without test hooks")
        place.sent.append("SIGABRT")
        self._lose_host(place, index, "SIGABRT")

    def _lose_host(self, place: Place, host: int, signal: str) -> None:
        """By a test hook, which is not read while the learner is stopped."""
        process = place.process
        if process is None:
            return

        def lose() -> None:
            if place.spec.hosts is not None:
                process.say(
                    HostLost,
                    learner=process.name,
                    incarnation=process.incarnation,
                    host=host,
                    reason=f"ended by {signal}",
                    signal=signal,
                )
            self._lives.end(place, signal=signal)

        process.later_beside(HOOK_S, lose)
