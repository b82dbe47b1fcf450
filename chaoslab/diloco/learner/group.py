"""Group of the processes of a learner: they meet, and form one set of devices.

    Group ─► meet (`hosts.meeting`) ─► jax.distributed ─► devices of all hosts
      ├─ host 0: lead(inner) ─► Leader, used in place of Inner
      └─ others: follow(inner) until host 0 ends
    a process ends or falls silent ─► every other one ends with PEER_LOST

The whole learner is lost with one of its processes: its starter starts all of it again. On a
CPU the devices compute together by gloo.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from chaoslab.core.payloads import HostLost, LifeFields
from chaoslab.diloco.learner.hosts.channel import Order, receive, send
from chaoslab.diloco.learner.hosts.meeting import Meeting
from chaoslab.diloco.learner.hosts.membership import PEER_LOST, Membership
from chaoslab.diloco.learner.hosts.runtime import free_address, initialize
from chaoslab.diloco.learner.inner_steps import Inner
from chaoslab.diloco.learner.mirrored import Follower, Leader
from chaoslab.diloco.node.ending import end_with
from chaoslab.diloco.node.events import say

_FOR_HOST_0 = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which a learner is asked for something; they may reach all of its processes."""


class Group:
    """A process among those of its learner. The devices of all hosts are there once it is made.

    Standard output is that of the node contract: of host 0's events alone. What else is printed,
    by any host, goes to standard error.
    """

    def __init__(self, own: Membership, whose: LifeFields) -> None:
        """Meet the others. `whose`: learner and incarnation, as its events say them.

        MeetingFailed if they do not come.
        """
        self._own, self._whose = own, whose
        self._is_ending = False
        if own.supervisor is not None:
            end_with(own.supervisor)
        _keep_output_for_events(is_first=own.is_first)
        self._orders = Meeting(own, self._lose).orders
        initialize(self._agree_on_address(), own.hosts, own.index)
        if own.is_first:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # JAX has taken it over
        else:
            for number in _FOR_HOST_0:
                signal.signal(number, signal.SIG_IGN)

    @property
    def is_first(self) -> bool:
        """Whether this is the process of host 0."""
        return self._own.is_first

    @contextmanager
    def lead(self, inner: Inner) -> Iterator[Leader]:
        """On host 0: the functions of `inner` on all hosts; the others leave at the end."""
        leader = Leader(inner, self._orders)
        try:
            yield leader
        except (OSError, jax.errors.JaxRuntimeError):
            self._await_loss()
            raise
        finally:
            self._is_ending = True
            leader.end()

    def follow(self, inner: Inner) -> None:
        """On every other host: carry out what host 0 calls until it leaves."""
        try:
            Follower(inner, self._orders[0]).run()
        except (EOFError, OSError, jax.errors.JaxRuntimeError):
            self._await_loss()
            raise
        self._is_ending = True

    # ------------------------------------------------------------ inside

    def _agree_on_address(self) -> str:
        """Address at which JAX's own processes meet: a free port of host 0."""
        if not self._own.is_first:
            return str(receive(self._orders[0]).facts["at"])
        at = free_address(self._own.interface)
        send(Order(do="initialize", facts={"at": at}), self._orders)
        return at

    def _await_loss(self) -> None:
        """Give the heartbeats time to find a lost host, which would explain an error here."""
        time.sleep(self._own.timeout_s + 1.0)

    def _lose(self, host: int, reason: str) -> None:
        """End at once: the training thread may be inside a collective that never returns."""
        if self._is_ending:
            return
        sys.stderr.write(f"host {self._own.index} lost host {host}: {reason}\n")
        sys.stderr.flush()
        if self._own.is_first:
            say(HostLost(**self._whose, host=host, reason=reason))
        os._exit(PEER_LOST)


def _keep_output_for_events(*, is_first: bool) -> None:
    """Let file descriptor 1 be standard error, as C++ prints to it, too."""
    sys.stdout.flush()
    events = os.dup(1)
    os.dup2(2, 1)
    if is_first:
        sys.stdout = os.fdopen(events, "w", encoding="utf-8")
    else:
        os.close(events)
