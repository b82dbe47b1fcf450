"""Local fleet of a host, which also notices that a harness speaks to the host agent.

HostedFleet.attend ── one wait for ──┬─ output and exits of nodes
└─ sockets of the agent
"""

import selectors
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.base import Node, NodeSpec, known_already
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.undo.base import UndoLog

_PAUSE_S: Final = 0.01
"""Interval of the looks at sockets while nodes are not looked at."""


class HostedFleet(LocalFleet):
    """The processes of one host."""

    is_left = False

    def __init__(self, folder: Path, clock: Clock, *, undo_log: UndoLog) -> None:
        super().__init__(folder, clock, undo_log=undo_log)
        self._first: dict[str, int] = {}

    def enlist_from(self, spec: NodeSpec, first: int) -> Node:
        """As `enlist`; its next incarnation here has at least this number, after those elsewhere.

        A node that is known and dead starts next by this specification.
        """
        if spec.name not in self._specs:
            self.enlist(spec)
        elif (life := self._latest(spec.name)) is not None and not life.is_over:
            raise known_already(spec)
        self._specs[spec.name], self._first[spec.name] = spec, first
        return self._node(spec.name)

    def end(self, name: str) -> None:
        """Kill a node, if it lives, and wait until it has ended."""
        self.kill(name)
        self._ended_if_told(name)

    def _begin(self, spec: NodeSpec, incarnation: int) -> LocalProcess:
        return super()._begin(spec, max(incarnation, self._first.get(spec.name, 1)))

    def watch(self, descriptor: int, *, writes: bool = False) -> None:
        """`attend` returns also when this can be read, or written if that is asked for."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
        if self.is_left:
            return
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        """Do not ask for it any more."""
        if not self.is_left:
            self._selector.unregister(descriptor)

    def attend(self, limit_s: float, *, is_full: bool = False) -> Sequence[Observation]:
        """What is new, after waiting for something on a node or a socket, at most this long.

        Nothing is taken in where nothing more can be kept.
        """
        if is_full:
            time.sleep(min(limit_s, _PAUSE_S))
            return ()
        if self.is_left:
            time.sleep(min(limit_s, _PAUSE_S))
        elif not self._observed:
            self._wait(limit_s)
        return self.poll(self._place.clock.now_s() - 1.0)

    def leave(self) -> str:
        """End all nodes and undo all; what remains, in words. Safe to repeat."""
        self.is_left = True
        try:
            self.__exit__(None, None, None)
        except FleetError as error:
            return str(error)
        return ""
