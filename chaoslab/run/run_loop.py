"""Run loop: reads the fleet's events, does what is due, samples, and applies the abort rules.

    until done ─┬─► recorder.read(until the next thing is due)
                ├─► injector.act        injections, their steps and heals at their times
                ├─► pacer.tell          the step time, to learners that have started
                ├─► counts, once a second
                └─► Ended               a signal, an abort rule, or no learner left to train

The only loop of the harness. It never sleeps beyond the next due time and never spins.
"""

import gc
import logging
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from chaoslab.core.errors import ChaoslabError
from chaoslab.core.payloads import (
    AbortFired,
    HarnessStalled,
    NodeStarted,
    PhaseEntered,
    RunOutcome,
)
from chaoslab.core.process_identity import identify
from chaoslab.core.realtime import realtime_priority
from chaoslab.fleet.base import Role
from chaoslab.plan.model import SYNCER, FaultPlan
from chaoslab.record.exits import how_it_ended
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.injector import Injector
from chaoslab.run.interrupts import Interrupts
from chaoslab.run.machine_load import Machine
from chaoslab.run.operators import Operators
from chaoslab.run.pacer import Pacer
from chaoslab.run.triggers import Progress, fired, fires_s, rule_text
from chaoslab.run.verbs import LEAVE_S, LOOK_S
from chaoslab.undo.heartbeat import BEAT_S, SILENT_S, Heartbeat, Silence

_log = logging.getLogger(__name__)
T = TypeVar("T")
SAMPLE_S = 1.0
_SOON_S = 0.2
"""This long before something is due the harness prepares it, and sees to it that it gets a core."""
_URGENT_S = 0.05
"""This long before it nothing else is begun that could take long."""
_TELL_S = 5.0
"""Interval in which a run that ends tells for which verb it waits."""
_HURRIED_S = 1.0
"""Longest wait for a verb after another interrupt."""
_ORDINARY = nullcontext()
"""The priority that the harness has anyway."""


class Ended(Exception):
    """The run ends here, on purpose and before its last phase."""

    def __init__(self, outcome: RunOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(slots=True, kw_only=True)
class RunLoop:
    """Waiting, for one run. Rules about training apply between `begin_training` and its end."""

    plan: FaultPlan
    recorder: EventRecorder
    injector: Injector
    pacer: Pacer
    interrupts: Interrupts
    heartbeat: Heartbeat
    machine: Machine | None = None
    """Where the run goes on, to be sampled; None: it is not sampled."""
    is_given_up: bool = False
    """Whether something `beside` did not return."""
    _training_since_s: float | None = None
    _operators: Operators | None = None
    _told_s: float = 0.0
    """When it was last told what is waited for."""
    _progress: Progress = field(init=False)
    _sample_s: float = field(init=False)
    _deadline_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._progress = self.recorder.progress
        self._sample_s = self.recorder.now_s + SAMPLE_S
        self._deadline_s = self.recorder.now_s + self.plan.limits.timeout_s
        if (inbox := self.interrupts.inbox) is not None:
            self._operators = Operators(
                inbox=inbox, plan=self.plan, recorder=self.recorder, injector=self.injector
            )
        self.heartbeat.beat()  # what was before is no part of this run

    def until(
        self,
        is_done: Callable[[], bool],
        *,
        within_s: float = math.inf,
        outlasts_training: bool = False,
    ) -> bool:
        """Wait until `is_done`, at most `within_s`; whether it came to pass. Raises Ended.

        The end of training ends the wait, too, unless it `outlasts_training`. Each turn waits for
        news or for what is due, and does that; if it is urgent, it waits for that alone, and keeps
        the priority meanwhile.
        """

        def is_over() -> bool:
            return is_done() or (self.is_training_over and not outlasts_training)

        until_s = self.recorder.now_s + within_s
        try:
            while not is_over():
                now_s, next_s = self.recorder.now_s, self.injector.next_time_s
                if now_s >= until_s:
                    return False
                is_urgent = now_s >= next_s - _URGENT_S
                self._defer_observers(is_urgent=is_urgent)
                with realtime_priority() if now_s >= next_s - _SOON_S else _ORDINARY:
                    self.injector.waiting.prepare(within_s=_SOON_S)
                    wake_s = min(until_s, next_s if is_urgent else self._wake_s(next_s))
                    has_acted, is_waiting = False, True
                    while is_waiting:
                        self.recorder.read(wake_s, leave_s=next_s)
                        self._do_orders()
                        has_acted = self.injector.act()
                        self._beat()
                        is_early = is_urgent and self.recorder.now_s < wake_s
                        is_waiting = is_early and not (has_acted or is_over())
                self._look_around(has_acted=has_acted, is_urgent=is_urgent)
            return True
        finally:
            self._defer_observers(is_urgent=False)

    def _do_orders(self) -> None:
        """Orders of the operators of a game-day."""
        if self._operators is not None and (reason := self._operators.act()):
            self._abort("an operator", reason)

    def _look_around(self, *, has_acted: bool, is_urgent: bool) -> None:
        """What each turn does besides, unless something is urgent. Raises Ended."""
        if has_acted:
            self.recorder.drain()  # what it started and ended counts from now on
        if has_acted or not is_urgent:
            self.pacer.tell()
            self._sample()
            self._end_if_due()

    def close_faults(self, because: str) -> None:
        """End all faults, see `Injector.close`, while the janitor hears that the harness lives.

        A verb that takes long is told of, and given up after `LEAVE_S`, or by another interrupt.
        """
        verbs, asked, self._told_s = self.injector.verbs, self.interrupts.count, self.recorder.now_s
        verbs.leave()

        def turn() -> None:
            self._heard()
            if self.interrupts.count > asked:
                verbs.leave(within_s=_HURRIED_S)
            self._tell(verbs.awaited)
            self.recorder.read(self.recorder.now_s + LOOK_S)

        self.injector.close(because, wait=turn)

    def carry_out(self, names: Iterable[str], verb: Callable[[], T], what: str) -> T:
        """Call a verb for these nodes, see `Verbs.call`, and wait for its result. Raises Ended; an
        error that follows is logged.
        """
        verbs, done = self.injector.verbs, Future[T]()

        async def code() -> None:
            try:
                done.set_result(await verbs.call(names, verb, what=what))
            except ChaoslabError as error:
                done.set_exception(error)

        verbs.begin(code())
        self._told_s = self.recorder.now_s
        try:
            while not self.until(done.done, within_s=_TELL_S, outlasts_training=True):
                self._tell(verbs.awaited)
        except Ended:
            done.add_done_callback(_log_error)
            raise
        return done.result()

    def beside(self, work: Callable[[], object], what: str) -> bool:
        """Do what concerns the whole fleet, such as to enter it, on a worker, and read nothing
        meanwhile. False if another interrupt came, and it has not returned.
        """
        begun_s, asked, until_s = self.recorder.now_s, self.interrupts.count, math.inf
        self._told_s, done = begun_s, self.injector.verbs.do(work)
        while not wait([done], timeout=LOOK_S).done:
            now_s, count = self.recorder.now_s, self.interrupts.count
            self._heard(drains=False)
            if count > asked:
                until_s = min(until_s, now_s + (_HURRIED_S if count > 1 else LEAVE_S))
            if now_s >= until_s:
                self.is_given_up = True
                self.injector.verbs.note_late(what, done)
                return False
            self._tell(f"{what}, {now_s - begun_s:.0f} s")
        done.result()
        return True

    def _tell(self, awaited: str) -> None:
        """Tell what is waited for, every `_TELL_S`."""
        if awaited and self.recorder.now_s >= self._told_s + _TELL_S:
            self._told_s = self.recorder.now_s
            again = "again " if self.interrupts.count else ""
            _log.warning("waiting for %s; Ctrl-C %sends now", awaited, again)

    def begin_training(self) -> None:
        """From now on the plan's abort rules count."""
        self._training_since_s = self.recorder.now_s

    def hear_operators(self) -> None:
        """All faults are over: the record gets what operators of a game-day said meanwhile."""
        if self._operators is not None:
            self._operators.take_late()

    def close(self) -> None:
        """The record is about to end: it gets what operators said last, and they are not heard any
        more.
        """
        if self._operators is not None:
            self._operators.close()

    @property
    def is_training_over(self) -> bool:
        """Whether the syncer has ended training by its stop rule."""
        return self._progress.is_training_over

    @property
    def _since_s(self) -> float | None:
        """Since when training must go on; None while it need not."""
        return None if self.is_training_over else self._training_since_s

    def _defer_observers(self, *, is_urgent: bool) -> None:
        """Let wait what may take long: observers, and the collection of garbage."""
        self.recorder.journal.defer_observers(is_urgent=is_urgent)
        if is_urgent:
            gc.disable()
        else:
            gc.enable()

    def _wake_s(self, next_s: float) -> float:
        """When there is something to do even without news, until `next_s` becomes urgent."""
        now_s, progress = self.recorder.now_s, self._progress
        times_s = [self._sample_s, self._deadline_s, now_s + BEAT_S, next_s - _URGENT_S]
        if self.injector.verbs.are_pending:
            times_s.append(now_s + LOOK_S)
        if next_s - _SOON_S > now_s:
            times_s.append(next_s - _SOON_S)
        if (since_s := self._since_s) is not None:
            times_s += [fires_s(rule, progress, since_s=since_s) for rule in self.plan.abort]
        return min(times_s)

    def _beat(self) -> None:
        """Tell the janitor that the harness lives; record a stall of the harness, and the death of
        the janitor.

        The run ends if the janitor undid something meanwhile, and after a long stall in training:
        what was due was not done in time.
        """
        if (silence := self._heard()) is None:
            return
        is_long = silence.for_s >= SILENT_S and self._since_s is not None
        if silence.undone or is_long:
            undone = f", and its janitor undid: {'; '.join(silence.undone)}"
            self._abort(
                "harness stalled",
                f"{silence.for_s:.1f} s, limit {SILENT_S:g} s{undone if silence.undone else ''}",
            )

    def _heard(self, *, drains: bool = True) -> Silence | None:
        """Beat, and record what is known by it; before it what nodes said, if it `drains`."""
        if (lapse := self.heartbeat.lapse()) is not None:
            self.recorder.note(lapse)
        if (silence := self.heartbeat.beat()) is not None:
            since_s = self.recorder.now_s - silence.for_s
            if drains:
                self.recorder.drain()
            undone = tuple(silence.undone)
            self.recorder.note(
                HarnessStalled(silent_s=silence.for_s, since_s=since_s, undone=undone)
            )
        return silence

    def _sample(self) -> None:
        now_s = self.recorder.now_s
        if now_s < self._sample_s:
            return
        patience_s = self.plan.training.suspect_after_s
        self.recorder.note(self._progress.counts(now_s, stepping_within_s=patience_s))
        self._sample_machine(now_s)
        self._sample_s += SAMPLE_S * math.ceil((now_s - self._sample_s + 1e-9) / SAMPLE_S)

    def _sample_machine(self, now_s: float) -> None:
        if self.machine is None:
            return
        started = self.recorder.journal.history.of(NodeStarted)
        pids = {one.node: one.pid for event in started if _is_here(one := event.payload)}
        alive = {name: pids[name] for name in self._progress.alive() if name in pids}
        if (sampled := self.machine.sample(now_s, alive)) is not None:
            self.recorder.note(sampled)

    # ---------------------------------------------------------------- reasons to end

    def end_if_interrupted(self) -> None:
        """Raises Ended after an interrupt."""
        if self.interrupts.count:
            self.recorder.note(PhaseEntered(phase=RunOutcome.INTERRUPTED))
            raise Ended(RunOutcome.INTERRUPTED, "interrupted by a signal")

    def _end_if_due(self) -> None:
        self.end_if_interrupted()
        now_s, limit_s = self.recorder.now_s, self.plan.limits.timeout_s
        if now_s >= self._deadline_s:
            key = "limits.timeout" if self.interrupts.inbox is None else "gameday.length"
            self._abort(key, f"the run took longer than {limit_s:g} s")
        progress = self._progress
        if progress.links_lost and not progress.is_training_over:
            self._abort("links lost", progress.links_lost)
        if (since_s := self._since_s) is None:
            return
        for rule in self.plan.abort:
            if observed := fired(rule, progress, now_s, since_s=since_s):
                self._abort(rule_text(rule), observed)
        if SYNCER in self.injector.opened.away - self.injector.opened.returning:
            self._end_without_syncer()
        elif reason := self._why_training_cannot_go_on():
            self._abort("training cannot continue", reason)

    def _end_without_syncer(self) -> None:
        """A fault took the syncer for good: the run shows for `settle` what follows, and ends."""
        idle_s = self.recorder.now_s - self._progress.last_round_s
        if idle_s >= self.plan.settle_s:
            raise Ended(RunOutcome.COMPLETED, "")

    def _why_training_cannot_go_on(self) -> str | None:
        progress, injector = self._progress, self.injector
        exited, is_starting = progress.exits.get(SYNCER), self.recorder.is_starting
        if exited is not None and not (
            SYNCER in injector.opened.returning or is_starting([SYNCER])
        ):
            return f"the syncer ended ({how_it_ended(exited)}), and no injection restarts it"
        if progress.alive(Role.LAUNCHER):  # which may start them again
            return None
        has_learner = not injector.opened.away.issuperset(progress.alive(Role.LEARNER))
        if has_learner or injector.opened.returning or progress.is_stopping:
            return None
        if is_starting(name for name in progress.exits if name != SYNCER):  # it has been healed
            return None
        return "no learner is left, and no injection restarts one"

    def _abort(self, rule: str, observed: str) -> NoReturn:
        self.recorder.note(AbortFired(rule=rule, observed=observed))
        raise Ended(RunOutcome.ABORTED, f"{rule}: {observed}")


def _log_error(done: "Future[T]") -> None:
    if (error := done.exception()) is not None:
        _log.warning("%s", error)


def _is_here(process: NodeStarted) -> bool:
    """Whether its pid counts on this machine: not that of a pod, nor of a container elsewhere."""
    if not process.pid:
        return False
    own = identify(os.getpid())
    where = (process.boot_id, process.namespaces)
    return process.boot_id is None or (own is not None and where == (own.boot_id, own.namespaces))
