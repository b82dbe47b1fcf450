"""Faults that take one host of a learner: host.kill, chip.fail.

    learner-1: host 0 ── host 1 ✗ ─► no collective ends any more ─► all of learner-1 is down

A learner of several hosts computes each step on the devices of all, so it is lost with one of them,
and comes back as a whole. A learner of one host has host 0.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from chaoslab.core.payloads import HostLost, HostStarted
from chaoslab.faults.actions import EndsProcess
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of_life
from chaoslab.faults.process import Signal, death
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import HasHosts, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended, was_ended_by


class _EndsHost(EndsProcess):
    """A fault that ends the process of one host of each target by a signal."""

    __slots__ = ()
    host: int
    ends_by: ClassVar[Signal]

    duration_key = "down_s"
    needs = frozenset({Ability.KILL, Ability.HOSTS})

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """End the process of the host of every target."""
        for name in injection.targets:
            self.end(name, able(fleet, HasHosts))

    @abstractmethod
    def end(self, name: str, fleet: HasHosts) -> None:
        """End the process of the host of one target."""

    def look(self, window: EvidenceWindow) -> Found:
        """The exit of the whole learner by the signal, and its word on the host that was lost."""
        exited = window.exited
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, "went on without one of its hosts")
        if not was_ended_by(exited, self.ends_by):
            text = f"ended ({how_it_ended(exited)}), not by {self.ends_by} to one of its hosts"
            return no_evidence(Code.EXITED_INSTEAD, text)
        found = death(window, exited)
        count = len(of_life(window.before, HostStarted, window.incarnation)) or 1
        host = self.host % count
        found = replace(found, measured={**found.measured, "host": host})
        if count == 1:
            return replace(found, text=f"has one host, and {found.text}")
        lost = window.first(
            HostLost, lambda e: (e.payload.host, e.payload.signal) == (host, self.ends_by)
        )
        if lost is None:
            text = f"did not report that it lost host {host} by {self.ends_by}, and {found.text}"
            return replace(found, code=Code.DOUBTFUL_CAUSE, text=text)
        text = f"lost host {host} of {count} ({lost.payload.reason}), {found.text}"
        return replace(found, text=text, proof=(lost, *found.proof))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKill(_EndsHost):
    """Kill the process of one host of the learner; heal by starting the whole learner again."""

    host: int = -1
    """Number of the host, from 0; -1: the last."""

    name = "host.kill"
    summary = "end the process of one host of a learner of several"
    ends_by = Signal.SIGKILL
    imitates = "a host of a slice that is lost; the machine itself goes on"
    proof = "the learner reported the host lost by SIGKILL, and all of it exited so"

    def end(self, name: str, fleet: HasHosts) -> None:
        """End it by SIGKILL."""
        fleet.kill_host(name, self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFail(_EndsHost):
    """Let the process of one host abort, as its device runtime does when a chip fails."""

    host: int = -1
    """Number of the host, from 0; -1: the last."""

    name = "chip.fail"
    summary = "a chip fails: the process of its host aborts, and the learner goes down"
    ends_by = Signal.SIGABRT
    layer = Layer.PROGRAM
    imitates = "an uncorrectable error of a chip, on which its runtime aborts; no chip is touched"
    proof = "the learner reported the host lost by SIGABRT, and all of it exited so"

    def end(self, name: str, fleet: HasHosts) -> None:
        """End it by the test hook of that process."""
        fleet.fail_chip(name, self.host)
