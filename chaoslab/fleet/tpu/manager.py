"""Manager of a fleet's slices: watches them, carries out repairs, and says what it sees.

    threads: TpuProvider.look, its other calls, hosts made ready ─┬─► turn ─► observations
    the fleet's own reports (steps, exits) ──► hear ──────────────┘     └─► SliceRepair ─► next call

What costs time is done on other threads, and `turn` waits for none; it decides, as verbs of the
fleet do. A slice that is lost while no fault holds it is repaired at once; one that a fault took is
repaired when it is healed. The provider's word alone ends nothing: a node is lost when its hosts do
not answer, and back when it makes a step. Where hosts are lost and the provider still says for a
minute that they are up, the slice is repaired all the same.
"""

import logging
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, Final, Protocol, TypeAlias

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import LearnerStep, NodeExited, ProviderReported, RepairMoved
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.repair import LATE_S, Cause, SliceRepair, Stage, Step
from chaoslab.fleet.tpu.states import (
    LOST,
    Condition,
    ProviderError,
    Refusal,
    SliceReport,
)

_log = logging.getLogger(__name__)
LOOK_S: Final = 2.0
"""Interval of the questions to the provider."""
_AWAY: Final = (Condition.MAINTAINED, Condition.COMING, Condition.STOPPED)
"""A slice in such a condition has lost its hosts, and may have them again."""
_MAY_BE_DONE: Final = (Refusal.UNAVAILABLE, Refusal.OTHER)
"""Refusals after which a call may still have been carried out."""
_Work: TypeAlias = "Generator[Future[Any], Any, str]"
"""A step of a repair: gives what is done on other threads, and is sent the results; for a request
it returns the name of the slice.
"""


class Hosts(Protocol):
    """Interface to the fleet whose nodes run on the slices."""

    def make_ready(self, name: str, hosts: Sequence[HostAddress]) -> None:
        """Bring to these hosts what a node needs; another thread may ask. FleetError while they
        cannot be reached.
        """
        ...

    def take_in_hosts(self, name: str, hosts: Sequence[HostAddress]) -> Callable[[], None]:
        """Open undo entries for hosts that were made ready; returns what starts there what nodes
        need. Another thread may ask. FleetError.
        """
        ...

    def begin(self, name: str, hosts: Sequence[HostAddress]) -> int:
        """Start the node on its hosts; its incarnation. Another thread may ask. FleetError."""
        ...

    def lose(self, name: str, why: str) -> None:
        """The hosts of a node are gone, by the provider's word; `why` is for people."""
        ...


@dataclass(slots=True)
class _KeptSlice:
    """What is known of the slice of one node."""

    report: SliceReport
    resource: str = ""
    """Name of the last slice that there was."""
    is_faulted: bool = False
    """A fault has done something to it, and was not healed yet."""
    before: SliceReport | None = None
    """The report of before that."""
    used: Counter[Cause] = field(default_factory=Counter)
    repair: SliceRepair | None = None
    said: RepairMoved | None = None
    """Last report of the repair."""
    incarnation: int = 0
    """The one of its node that was started last; before the first, losses are not counted."""
    is_alive: bool = False
    """Whether that has not ended, as far as its own fleet knows."""
    hosts_lost_s: float | None = None
    """Time at which it ended because its hosts did not answer any more."""
    early: list[tuple[Observation, float]] = field(default_factory=list)
    """Heard, and when, of a life whose start is not noted yet."""

    @property
    def is_repaired(self) -> bool:
        """Whether a repair is going on that has not started its node yet."""
        return self.repair is not None and not (
            self.repair.is_over or self.repair.stage is Stage.TRIAL
        )

    def is_gone(self, now_s: float) -> bool:
        """Whether its node has ended and the provider has admitted why, or was given the time."""
        if not self.incarnation or self.is_alive:
            return False
        if self.report.condition in LOST:
            return True
        if self.hosts_lost_s is None:
            return False
        is_late = now_s - self.hosts_lost_s > LATE_S
        return self.report.condition in _AWAY or (self.report.condition is Condition.UP and is_late)

    @property
    def cause(self) -> Cause:
        """Why it is lost. One that is deleted or stopped by others went as a preempted one does;
        what broke is a failure, and so are lost hosts that are up by the provider's word.
        """
        is_failure = self.report.condition in (Condition.FAILED, Condition.UP)
        return Cause.FAILURE if is_failure else Cause.PREEMPTION


@dataclass(slots=True)
class _Acting:
    """A step of a repair that is being done."""

    repair: SliceRepair
    step: Step
    work: _Work
    future: "Future[Any]"


class SliceManager:
    """Slices of a fleet. `close` ends its threads; what it has asked for stays."""

    def __init__(self, provider: TpuProvider, hosts: Hosts, *, look_s: float = LOOK_S) -> None:
        """The provider is asked every `look_s`, by the clock of the turns; not before the first."""
        self._provider, self._hosts = provider, hosts
        unknown = (SliceReport(node=name, condition=Condition.UNKNOWN) for name in provider.nodes)
        self._slices = {one.node: _KeptSlice(report=one) for one in unknown}
        self._look_s, self._look_due_s = look_s, 0.0
        self._looking: Future[Sequence[SliceReport]] | None = None
        self._acting: list[_Acting] = []
        self._unsaid: list[Observation] = []
        self._is_over = self._is_refused = self._is_closed = False
        self._deciding = RLock()
        threads = 1 + 2 * len(self._slices)  # the provider is asked, whatever hosts take
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="slices")

    def close(self) -> None:
        """End the threads; what is on its way may end later, by itself or with the fleet."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------- what the fleet asks

    def condition(self, name: str) -> Condition | None:
        """Condition of the slice of a node, by the provider's last report; None: it has none."""
        return self._slices[name].report.condition if name in self._slices else None

    def note_begun(self, name: str, incarnation: int) -> None:
        """Note the start of its node: from now on a loss of its slice is repaired."""
        known = self._slices[name]
        with self._deciding:
            known.is_alive, known.incarnation, known.hosts_lost_s = True, incarnation, None

    def do(self, act: SliceAct, *names: str) -> None:
        """Do this to the slices of nodes, side by side; now they are under a fault.

        FleetError names those for which it was refused; where that is sure to have changed nothing,
        the slice is not under one. FleetError for a node that has none.
        """
        if strangers := [name for name in names if name not in self._slices]:
            raise FleetError(f"{', '.join(strangers)}: no slice, but hosts by the inventory")
        refused, before = list[str](), dict[str, tuple[bool, SliceReport | None]]()
        with self._deciding:  # before a turn can see that a slice is lost
            for known in map(self._slices.__getitem__, names):
                before[known.report.node] = known.is_faulted, known.before
                known.is_faulted, known.before = True, known.report
        asked = [(name, self._pool.submit(self._provider.do, act, name)) for name in names]
        for name, future in asked:
            try:
                future.result()
            except ProviderError as error:
                refused.append(f"{name}: {error}")
                if error.refusal not in _MAY_BE_DONE:
                    known = self._slices[name]
                    known.is_faulted, known.before = before[name]
        if refused:
            raise FleetError("; ".join(refused))

    def repair(self, name: str, cause: Cause, now_s: float) -> bool:
        """Release the slice of a node, and replace it; whether a repair is going on now."""
        known = self._slices.get(name)
        if known is None:
            return False
        with self._deciding:
            if known.is_faulted:
                known.is_faulted = False
                self._begin(known, cause, now_s)
            return known.repair is not None and not known.repair.is_over

    def require(self, name: str, now_s: float) -> bool:
        """Whether its node can be started now; if not, its slice is repaired.

        What the provider does not know, the hosts of the slice do: they are tried.
        """
        known = self._slices[name]
        with self._deciding:
            if known.is_faulted or known.is_repaired:
                return False
            if known.report.condition in (Condition.UP, Condition.UNKNOWN):
                return True
            if known.incarnation:
                self._begin(known, known.cause, now_s)
            return False

    def hear(self, seen: Sequence[Observation], now_s: float) -> None:
        """Note reports and ends of nodes."""
        for one in seen:
            known, said = self._slices.get(one.source), one.payload
            if known is None or not isinstance(said, LearnerStep | NodeExited):
                continue  # of a node without a slice
            with self._deciding:
                self._hear(known, one, said, now_s)

    def _hear(
        self, known: _KeptSlice, one: Observation, said: LearnerStep | NodeExited, now_s: float
    ) -> None:
        if said.incarnation != known.incarnation:
            if said.incarnation > known.incarnation:
                known.early.append((one, now_s))
            return  # else of a former life, told late
        if isinstance(said, NodeExited):
            known.is_alive = False
            known.hosts_lost_s = now_s if said.host_lost else None
            if known.repair is not None and not said.sent:
                known.repair.ended(now_s, f"{one.source} ended on its new slice")
        elif known.repair is not None:
            known.repair.stepped(now_s)

    # ---------------------------------------------------------------- a turn

    def turn(self, now_s: float) -> list[Observation]:
        """Take in what came, do what is due, and say what is new; nothing after `close`."""
        if self._is_closed:
            return []
        with self._deciding:
            self._look(now_s)
            acting, self._acting = self._acting, []
            for one in acting:
                self._go_on(one, now_s)
            if not self._is_over and (why := self._provider.why_not()):
                self._is_over = True
                _log.warning("%s: a slice that is lost now is not replaced", why)
            for known in self._slices.values():
                early, known.early = known.early, []
                for seen, heard_s in early:
                    self.hear([seen], heard_s)
                if known.is_gone(now_s) and not known.is_faulted:
                    self._begin(known, known.cause, now_s)
                if known.repair is not None:
                    self._advance(known, known.repair, now_s)
            said, self._unsaid = self._unsaid, []
            return said

    def _look(self, now_s: float) -> None:
        """Ask the provider when it is time, and take in what it says. One that refuses knows
        nothing, which is said once; any other error is raised here.
        """
        if self._looking is None and now_s >= self._look_due_s:
            self._looking = self._pool.submit(self._provider.look)
        if self._looking is None or not self._looking.done():
            return
        looked, self._looking, self._look_due_s = self._looking, None, now_s + self._look_s
        try:
            reports, self._is_refused = looked.result(), False
        except ProviderError as error:
            unknown = SliceReport(node="", condition=Condition.UNKNOWN, detail=str(error))
            reports = [] if self._is_refused else [replace(unknown, node=n) for n in self._slices]
            self._is_refused = True
        for report in reports:
            self._take(report)

    def _take(self, report: SliceReport) -> None:
        """A report of the provider. What it says of a slice that chaoslab has lost ends its node;
        of any other, only what the node shows itself does.
        """
        known = self._slices[report.node]
        if report == known.report:
            return
        known.report, known.resource = report, report.resource or known.resource
        self._unsaid.append(_reported(report))
        if known.is_faulted and report.condition in (*LOST, Condition.STOPPED):
            self._hosts.lose(report.node, f"its slice is {report.condition.value}")

    def _begin(self, known: _KeptSlice, cause: Cause, now_s: float) -> None:
        """Begin a repair, unless one goes on or was given up."""
        if known.repair is not None and known.repair.stage is not Stage.BACK:
            return
        known.repair = SliceRepair(
            node=known.report.node,
            cause=cause,
            begun_s=now_s,
            limits=self._provider.inventory.repair,
            used=known.used,
            lost=known.resource,
            before=known.before,
        )
        known.before = None
        self._say(known, known.repair)

    def _advance(self, known: _KeptSlice, repair: SliceRepair, now_s: float) -> None:
        step = repair.advance(known.report, now_s)
        if step is not None:
            work = self._work(repair.node, step)
            self._acting.append(_Acting(repair, step, work, next(work)))
        self._say(known, repair)

    def _say(self, known: _KeptSlice, repair: SliceRepair) -> None:
        """Report where a repair is, unless that was done."""
        moved, before = repair.moved, known.said
        if before is None or moved != replace(before, detail=moved.detail):
            known.said = moved
            self._unsaid.append(Observation.of(repair.node, moved))

    def _work(self, name: str, step: Step) -> _Work:
        """One step of a repair."""
        submit = self._pool.submit
        match step:
            case Step.CLEAR:
                yield submit(self._provider.do, SliceAct.DELETE, name)
            case Step.REQUEST:
                return str((yield submit(self._provider.request, name)))
            case Step.RESUME:
                yield submit(self._provider.do, SliceAct.START, name)
            case Step.START:
                hosts = yield submit(self._provider.hosts, name)
                yield submit(self._hosts.make_ready, name, hosts)
                yield submit((yield submit(self._hosts.take_in_hosts, name, hosts)))
                self.note_begun(name, (yield submit(self._hosts.begin, name, hosts)))
        return ""

    def _go_on(self, one: _Acting, now_s: float) -> None:
        """Go on with a step, if what it waits for is done."""
        if not one.future.done():
            self._acting.append(one)
            return
        refusal: Refusal | None = None
        try:
            one.future = one.work.send(one.future.result())
        except StopIteration as end:
            one.repair.done(one.step, now_s, resource=end.value)
            return
        except ProviderError as error:
            refusal, why = error.refusal, str(error)
        except (FleetError, AbilityError, PlanError) as error:  # of the new hosts
            why = str(error)
        else:
            self._acting.append(one)
            return
        one.repair.refused(one.step, refusal, why, now_s)
        if one.repair.stage is Stage.GIVEN_UP and one.step is Step.CLEAR:
            _log.warning("the slice of %s may still be created: %s", one.repair.node, why)


def _reported(report: SliceReport) -> Observation:
    """Report of the provider, for the record."""
    said = ProviderReported(
        node=report.node,
        condition=report.condition.value,
        resource=report.resource,
        state=report.state,
        health=report.health,
        request=report.request,
        detail=report.detail,
        is_by_us=report.is_gone_by_us,
    )
    return Observation.of(report.node, said)
