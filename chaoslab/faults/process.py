"""Faults that end a process: kill, crash_loop, preempt.

What proves each is in its `proof`; the kernel's word (exit status, process state) comes first, the
node's and the syncer's words beside it. That the syncer did not notice a death is a finding about
the syncer (check `detection`), not a doubt about the fault: the text says so, the status stays.
Whether a syncer that comes back merged nothing twice and lost nothing, `succession`, `ledger` and
`versions` say.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerLeft,
    LearnerNoticed,
    MemberLeft,
    NodeExited,
    NodeStarted,
    RoundMerged,
)
from chaoslab.core.units import Duration, delay, plural
from chaoslab.faults.actions import EndsProcess, GivesNotice, HitsTogether
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import LAG_S, EvidenceWindow, Found, no_evidence, of
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.plan.model import SYNCER, Injection
from chaoslab.record.exits import how_it_ended, was_ended_by


class Signal(StrEnum):
    """Signals that end a process."""

    SIGKILL = "SIGKILL"
    SIGTERM = "SIGTERM"
    SIGINT = "SIGINT"
    SIGQUIT = "SIGQUIT"
    SIGABRT = "SIGABRT"
    SIGSEGV = "SIGSEGV"
    SIGBUS = "SIGBUS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessKill(HitsTogether, EndsProcess):
    """Kill the node's whole tree of processes; heal by starting its next incarnation.

    With `restart` it starts at once, as by a supervisor; the heal starts one that died again. The
    syncer goes on from its disk. Of a script's launcher the workers are left: they end by
    themselves, or are ended before it is started again, and then the verdict is FAIL.
    """

    signal: Signal = Signal.SIGKILL
    """SIGKILL ends it at once; SIGTERM and SIGINT let a learner leave in order, and are refused for
    the syncer, which ends training on them."""
    restart: bool = False
    """Start it again at once, whatever `for` says."""

    name = "process.kill"
    summary = "end the process and all its children by a signal; learners, syncer, launcher"
    imitates = "a crash, a kill out of memory, a lost machine; no chip error, no device is damaged"
    proof = "exit status with that signal; the syncer dropped the member; of the syncer, no round"

    def __post_init__(self) -> None:
        if self.signal not in list(Signal):
            raise PlanError(f"`signal: {self.signal}` ends no process: use {', '.join(Signal)}")

    @property
    def roles(self) -> frozenset[Role]:
        """Learners and launchers; the syncer if the signal does not ask it to end training."""
        is_order = self.signal in (Signal.SIGTERM, Signal.SIGINT)
        syncer = frozenset() if is_order else frozenset({Role.SYNCER})
        return syncer | {Role.LEARNER, Role.LAUNCHER}

    @property
    def comes_back(self) -> bool:
        """Whether a victim is back before the heal."""
        return self.restart

    @property
    def duration_key(self) -> str:
        """None for a fault that restarts at once."""
        return "" if self.restart else "down_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Send the signal to all targets at once; then start all of them, if so set."""
        fleet.signal(*injection.targets, signal=self.signal)
        for name in injection.targets if self.restart else ():
            fleet.restart(name)

    def look(self, window: EvidenceWindow) -> Found:
        """The exit of the life that was met, by the signal, and how long it was not replaced."""
        exited = window.exited
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, f"did not exit on {self.signal}")
        if not was_ended_by(exited, self.signal):
            text = f"ended by itself ({how_it_ended(exited)}), not by {self.signal}"
            return no_evidence(Code.EXITED_INSTEAD, text)
        if self.restart:
            return _returned(window, exited)
        return (_syncer_death if window.target == SYNCER else death)(window, exited)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCrashLoop(HitsTogether, EndsProcess):
    """Kill the node, then start it and kill it again several times before it may stay up."""

    times: int = 3
    """Number of restarts and kills after the first kill."""
    lives_s: Duration = 1.0
    """Duration of each of these lives."""

    name = "process.crash_loop"
    summary = "start and die, several times in a row"
    strength: ClassVar[Mapping[str, float]] = {"times": 0.0}
    imitates = "a bad host on which every start crashes"
    proof = "as many exits by SIGKILL, each of another incarnation"

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"`times: {self.times}`: a crash loop crashes again at least once")
        if self.lives_s <= 0:
            raise PlanError("`lives` is a duration above 0s")

    def steps(self) -> tuple[float, ...]:
        """The end of each short life."""
        return tuple(self.lives_s * life for life in range(1, self.times + 1))

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """The first kill; the first short life begins at once."""
        self._crash(injection, fleet, is_last=False)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """End one short life and begin the next; after the last one it stays down."""
        self._crash(injection, fleet, is_last=step_index == self.times - 1)

    def requested(self) -> Mapping[str, Json]:
        """Number of kills, and duration of the lives between them."""
        return {"crashes": self.times + 1, "life_s": self.lives_s}

    def _crash(self, injection: Injection, fleet: Fleet, *, is_last: bool) -> None:
        fleet.kill(*injection.targets)
        for name in () if is_last else injection.targets:
            fleet.restart(name)

    def look(self, window: EvidenceWindow) -> Found:
        """Exits by SIGKILL, counted; fewer than asked are weak."""
        crashes = {
            e.payload.incarnation: e
            for e in window.of(NodeExited)
            if was_ended_by(e, Signal.SIGKILL)
        }
        if window.incarnation not in crashes:
            return no_evidence(
                Code.NOT_KILLED, "was not killed when the fault began", crashes=len(crashes)
            )
        asked = self.times + 1
        return Found(
            code=Code.AS_ASKED if len(crashes) >= asked else Code.FEWER_TIMES,
            text=f"died by SIGKILL {plural(len(crashes), 'time')}; {asked} were asked",
            measured={"crashes": len(crashes), "life_s": _median_life_s(window, crashes)},
            proof=tuple(crashes.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPreempt(GivesNotice, EndsProcess):
    """Tell the node that it will lose its place, ask it to leave, end it if it does not.

    A node that hears the notice and is ended by force was preempted, too: `left_by_itself` tells.
    """

    notice_s: Duration = 2.0
    """Time from the notice to SIGTERM."""
    grace_s: Duration = 5.0
    """Time from SIGTERM to SIGKILL."""

    name = "process.preempt"
    summary = "preemption notice, then SIGTERM, then SIGKILL"
    imitates = "a spot or maintenance preemption with notice; the machine itself stays"
    proof = "the node reported the notice and was gone when the grace ended"
    needs = frozenset({Ability.KILL, Ability.NOTICE})

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Ask, then force; a victim that has left already is left alone."""
        fleet.signal(
            *injection.targets, signal=Signal.SIGTERM if step_index == 0 else Signal.SIGKILL
        )

    def look(self, window: EvidenceWindow) -> Found:
        """The node's own word on the notice, and its end in time."""
        exited, noticed = window.exited, window.first(LearnerNoticed)
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            heard = "noticed the notice but" if noticed else "did not notice and"
            text = f"{heard} was still running when the fault ended"
            return no_evidence(Code.STILL_RUNNING, text)
        if not any(was_ended_by(exited, signal) for signal in _PREEMPTING):
            text = f"crashed ({how_it_ended(exited)}) instead of leaving"
            return no_evidence(Code.EXITED_INSTEAD, text)
        gone_after_s = exited.time_s - window.begin_s
        if not noticed:
            code = Code.NO_NOTICE
        elif gone_after_s > self.notice_s + self.grace_s + LAG_S:
            code = Code.TOO_LATE
        else:
            code = Code.AS_ASKED
        by_itself = exited.payload.exit_code == 0
        return Found(
            code=code,
            text=f"{'noticed' if noticed else 'never reported the notice'}, then "
            f"{'left by itself' if by_itself else f'ended ({how_it_ended(exited)})'} "
            f"{delay(gone_after_s)}",
            measured={
                "noticed_after_s": noticed.time_s - window.begin_s if noticed else None,
                "gone_after_s": gone_after_s,
                "left_by_itself": by_itself,
                "down_s": window.down_s(exited),
            },
            proof=(noticed, window.first(LearnerLeft), exited, window.first(MemberLeft)),
        )


_PREEMPTING = ("SIGHUP", Signal.SIGTERM, Signal.SIGKILL)
"""Signals to a node that is preempted, in order."""


# ---------------------------------------------------------------- evidence


def death(window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
    """Finding about a life that a signal ended: how, how soon noticed, for how long."""
    down_s = window.down_s(exited)
    dropped = window.first(MemberLeft, lambda e: e.payload.incarnation == window.incarnation)
    dropped_s = max(0.0, dropped.time_s - exited.time_s) if dropped else None
    text = f"exited ({how_it_ended(exited)}) and was down for {down_s:.1f} s"
    if not window.has_syncer:
        dropped = dropped_s = None
    elif dropped_s is not None:
        text += f"; the syncer dropped it {delay(dropped_s)}"
    elif window.was_member:
        text += "; the syncer had not dropped it when the fault ended"
    counted = window.job_restart
    restarts = counted.payload.restarts if counted is not None else None
    if counted is not None:
        text += f"; its JobSet started it again, and counts {plural(restarts or 0, 'restart')}"
    elif window.restarted is not None and (by := window.restarted.payload.started_by):
        text += f"; its {by} started it again"
    return Found(
        code=window.was_away(down_s),
        text=text,
        measured={
            "signal": exited.payload.signal,
            "exit_code": exited.payload.exit_code,
            "exited_after_s": exited.time_s - window.begin_s,
            "down_s": down_s,
            "dropped_after_s": dropped_s,
            **({} if restarts is None else {"job_restarts": restarts}),
        },
        proof=(exited, dropped, counted, window.restarted),
    )


def _returned(window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
    """Whether the next life of a target that is to start again at once has begun."""
    restarted = window.restarted
    if restarted is None or restarted.seq < exited.seq:
        text = "was killed and not started again before the fault ended"
        return no_evidence(Code.NOT_RESTARTED, text)
    down_s = restarted.time_s - exited.time_s
    return Found(
        code=Code.AS_ASKED,
        text=f"was killed and started again {delay(down_s, '{} later')}",
        measured={"down_s": down_s},
        proof=(exited, restarted),
    )


def _syncer_death(window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
    """End and outage of the syncer, and its merges before."""
    down_s = window.down_s(exited)
    up_seq = window.restarted.seq if window.restarted else math.inf
    late = window.first(RoundMerged, lambda e: exited.seq < e.seq < up_seq)
    versions = {e.payload.fragment: e.payload.version for e in of(window.before, RoundMerged)}
    return Found(
        code=Code.WORKED_MEANWHILE if late else window.was_away(down_s),
        text=f"exited ({how_it_ended(exited)}) and was down for {down_s:.1f} s; it had merged "
        f"{plural(sum(versions.values()), 'round')}"
        + (", and another one while it was down" if late else ""),
        measured={
            "signal": exited.payload.signal,
            "exited_after_s": exited.time_s - window.begin_s,
            "down_s": down_s,
            "versions": {str(fragment): version for fragment, version in versions.items()},
        },
        proof=(exited, window.restarted, late),
    )


def _median_life_s(
    window: EvidenceWindow, crashes: Mapping[int, Event[NodeExited]]
) -> float | None:
    born = {e.payload.incarnation: e.time_s for e in window.of(NodeStarted)}
    lives_s = [crashes[life].time_s - born[life] for life in crashes if life in born]
    return median(lives_s) if lives_s else None
