"""Manager of a fleet's slices: watches them, carries out repairs, and says what it sees.

    thread: Provider.look, again and again ──► reports ─┐
    threads: calls of the provider, hosts made ready ───┼─► turn ─► observations
    the fleet's own reports (steps, exits) ──► hear ────┘      └─► SliceRepair.advance ─► next call

What costs time is done on other threads; all decisions are made in `turn`, on the fleet's own. A
slice that is lost while no fault holds it is repaired at once; one that a fault took is repaired
when it is healed. The provider's word alone ends nothing: a node is lost when its hosts do not
answer, and back when it makes a step. Where hosts are lost and the provider still says for a minute
that they are up, the slice is repaired all the same.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import LearnerStep, NodeExited
from chaoslab.fleet.provider import (
    Condition,
    ProvidedHost,
    Provider,
    ProviderError,
    Refusal,
    SliceReport,
)
from chaoslab.fleet.slices.kept_slice import LOST, KeptSlice
from chaoslab.fleet.slices.repair import (
    Cause,
    RepairLimits,
    SliceRepair,
    Stage,
    Step,
)
from chaoslab.fleet.slices.watch import SliceWatch, reported

_log = logging.getLogger(__name__)
_MAY_BE_DONE = (Refusal.UNAVAILABLE, Refusal.OTHER)
"""Refusals after which a call may still have been carried out."""
_THREADS = 8


class Hosts(Protocol):
    """Interface to the fleet whose nodes run on the slices."""

    def make_ready(self, name: str, hosts: Sequence[ProvidedHost]) -> None:
        """Make these hosts ready for the next incarnation of a node; another thread may ask.

        Nothing is done where they are ready. FleetError while they cannot be reached.
        """
        ...

    def take_in_hosts(self, name: str) -> None:
        """Open undo entries for hosts that were made ready, on the fleet's thread."""
        ...

    def start_hosts(self, name: str) -> None:
        """Start on them what nodes need there; another thread may ask. FleetError."""
        ...

    def lose(self, name: str, why: str) -> None:
        """The hosts of a node are gone, by the provider's word; `why` is for people."""
        ...

    def begin(self, name: str) -> int:
        """Start the node on its hosts, on the fleet's thread; its incarnation, 0 if it is dead."""
        ...


@dataclass(slots=True)
class _Acting:
    """A step of a repair that is being done elsewhere."""

    repair: SliceRepair
    step: Step
    future: "Future[str]"
    is_taken_in: bool = False
    """Whether the hosts of a start were taken in, and are being started."""


class SliceManager:
    """Slices of a fleet. `close` ends its threads; what it has asked for stays."""

    def __init__(
        self,
        provider: Provider,
        limits: RepairLimits,
        hosts: Hosts,
        *,
        every_s: float,
    ) -> None:
        """The provider is asked `every_s`."""
        self._provider, self._limits, self._hosts = provider, limits, hosts
        self._watch = SliceWatch(provider, every_s=every_s)
        first = {one.node: one for one in self._watch.first}
        self._slices = {
            name: KeptSlice(report=one, resource=one.resource) for name, one in first.items()
        }
        self._acting: list[_Acting] = []
        self._is_over = False
        self._unsaid: list[Observation] = [reported(one) for one in first.values()]
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="slices")
        self._watch.start()

    def close(self) -> None:
        """End the threads; what is on its way may end later, by itself or with the fleet."""
        self._watch.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------- what the fleet asks

    @property
    def nodes(self) -> Sequence[str]:
        """Nodes that have a slice."""
        return tuple(self._slices)

    def condition(self, name: str) -> Condition:
        """Condition of the slice of a node, by the provider's last report."""
        return self._slices[name].report.condition

    def note_begun(self, name: str, incarnation: int) -> None:
        """Note the start of its node: from now on a loss of its slice is repaired."""
        known = self._slices[name]
        known.has_begun, known.is_alive, known.incarnation = True, True, incarnation
        known.hosts_lost_s = None

    def act(self, verb: Callable[[str], object], *names: str) -> None:
        """Call the provider for several nodes, side by side; now their slices are under a fault.

        FleetError names those for which it was refused; where that is sure to have changed nothing,
        the slice is not under one. FleetError for a node that has none.
        """
        if strangers := [name for name in names if name not in self._slices]:
            raise FleetError(f"{', '.join(strangers)}: no slice, but hosts by the inventory")
        were_faulted = {name for name in names if self._slices[name].is_faulted}
        for name in names:
            self._slices[name].is_faulted = True
            self._slices[name].before = self._slices[name].report
        futures = {name: self._pool.submit(verb, name) for name in names}
        refused = []
        for name, future in futures.items():
            try:
                future.result()
            except ProviderError as error:
                if error.refusal not in _MAY_BE_DONE and name not in were_faulted:
                    self._slices[name].is_faulted, self._slices[name].before = False, None
                refused.append(f"{name}: {error}")
        if refused:
            raise FleetError("; ".join(refused))

    def repair(self, name: str, cause: Cause, now_s: float) -> bool:
        """Release the slice of a node, and replace it; whether a repair is going on now."""
        known = self._slices.get(name)
        if known is None:
            return False
        if known.is_faulted:
            known.is_faulted = False
            self._begin(name, cause, now_s)
        return known.repair is not None and not known.repair.is_over

    def require(self, name: str, now_s: float) -> bool:
        """Whether its node can be started now; if not, its slice is repaired.

        What the provider does not know, the hosts of the slice do: they are tried.
        """
        known = self._slices[name]
        if known.is_faulted or known.is_repaired:
            return False
        if known.report.condition in (Condition.UP, Condition.UNKNOWN):
            return True
        if known.has_begun:
            self._begin(name, known.cause, now_s)
        return False

    def hear(self, seen: Sequence[Observation], now_s: float) -> None:
        """Note reports and ends of nodes."""
        for one in seen:
            known, said = self._slices.get(one.source), one.payload
            if known is None or not isinstance(said, LearnerStep | NodeExited):
                continue  # of a node without a slice
            if said.incarnation != known.incarnation:
                continue  # of a former life, told late
            if isinstance(said, NodeExited):
                known.is_alive = False
                known.hosts_lost_s = now_s if said.host_lost else None
                if known.repair is not None and not said.sent:
                    known.repair.ended(now_s, f"{one.source} ended on its new slice")
            elif known.repair is not None:
                known.repair.stepped(now_s)

    # ---------------------------------------------------------------- a turn

    def turn(self, now_s: float) -> list[Observation]:
        """Take in what came, do what is due, and say what is new."""
        for report in self._watch.news():
            self._take(report)
        self._finish(now_s)
        self._look_at_time()
        for name, known in self._slices.items():
            if known.is_gone(now_s) and not known.is_faulted:
                self._begin(name, known.cause, now_s)
            self._advance(known, now_s)
        self._watch.await_change(any(known.is_change_awaited for known in self._slices.values()))
        said, self._unsaid = self._unsaid, []
        return said

    def _take(self, report: SliceReport) -> None:
        """A report of the provider. What it says of a slice that chaoslab has lost ends its node;
        of any other, only what the node shows itself does.
        """
        known = self._slices[report.node]
        if report == known.report:
            return
        known.report = report
        known.resource = report.resource or known.resource
        self._unsaid.append(reported(report))
        if known.is_faulted and report.condition in (*LOST, Condition.STOPPED):
            self._hosts.lose(report.node, f"its slice is {report.condition.value}")

    def _begin(self, name: str, cause: Cause, now_s: float) -> None:
        known = self._slices[name]
        if known.repair is not None and not known.repair.is_over:
            return
        if known.repair is not None and known.repair.stage is Stage.GIVEN_UP:
            return
        known.repair = SliceRepair(
            node=name,
            cause=cause,
            begun_s=now_s,
            limits=self._limits,
            counts=known.counts,
            lost=known.resource,
            before=known.before,
        )
        known.before = None
        self._unsaid.extend(known.news_of_repair())

    def _advance(self, known: KeptSlice, now_s: float) -> None:
        repair = known.repair
        if repair is None:
            return
        step = repair.advance(known.report, now_s)
        if step in (Step.REQUEST, Step.RESUME) and (why := self._provider.why_not()):
            repair.refused(step, None, why, now_s)
            repair.give_up(why, now_s)
            step = None
        if step is not None:
            self._acting.append(_Acting(repair, step, self._pool.submit(self._do, repair, step)))
        if repair.stage is Stage.GIVEN_UP and known.said[0] is not repair.stage and repair.may_come:
            self._pool.submit(self._abandon, repair.node)
        self._unsaid.extend(known.news_of_repair())

    def _finish(self, now_s: float) -> None:
        """Steps that were done elsewhere; the node itself is started here."""
        acting, self._acting = self._acting, []
        for one in acting:
            if not one.future.done():
                self._acting.append(one)
                continue
            try:
                resource = one.future.result()
                if one.step is Step.START and not self._has_started(one):
                    continue
            except ProviderError as error:
                one.repair.refused(one.step, error.refusal, str(error), now_s)
            except (FleetError, AbilityError, PlanError) as error:  # of the new hosts
                one.repair.refused(one.step, None, str(error), now_s)
            else:
                one.repair.done(one.step, now_s, resource=resource)

    def _look_at_time(self) -> None:
        """Warn once when it is over: slices that are there stay, and go on to cost."""
        if not self._is_over and (why := self._provider.why_not()):
            self._is_over = True
            _log.warning("%s: a slice that is lost now is not replaced", why)

    def _has_started(self, one: _Acting) -> bool:
        """Go on with a start; whether that was the last of it."""
        name = one.repair.node
        if not one.is_taken_in:
            self._hosts.take_in_hosts(name)
            one.future, one.is_taken_in = self._pool.submit(self._start_hosts, name), True
            self._acting.append(one)
            return False
        incarnation = self._hosts.begin(name)
        if not incarnation:
            raise FleetError(f"{name} was started and is dead")
        self.note_begun(name, incarnation)
        return True

    def _start_hosts(self, name: str) -> str:
        self._hosts.start_hosts(name)
        return ""

    def _do(self, repair: SliceRepair, step: Step) -> str:
        """Take one step, on another thread; for a request the name of the slice."""
        name = repair.node
        match step:
            case Step.CLEAR:
                self._provider.delete(name)
            case Step.REQUEST:
                return self._provider.request(name)
            case Step.RESUME:
                self._provider.start(name)
            case Step.START:
                self._hosts.make_ready(name, self._provider.hosts(name))
        return ""

    def _abandon(self, name: str) -> None:
        """Withdraw the requests of a repair that was given up, as they would cost."""
        try:
            self._provider.delete(name)
        except FleetError as error:
            _log.warning("the slice of %s may still be created: %s", name, error)
