"""Faults that end a process: kill, restart, crash_loop, preempt.

What proves each is in its `proof`; the kernel's word (exit status, process state) comes first, the
node's and the syncer's words beside it. That the syncer did not notice a death is a finding about
the syncer (check `detection`), not a doubt about the fault: the text says so, the status stays.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LearnerLeft, LearnerNoticed, MemberLeft, NodeExited, NodeStarted
from chaoslab.core.units import Duration, delay, plural
from chaoslab.faults.actions import EndsProcess, HitsTogether
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import AFTERGLOW_S, EvidenceWindow, Found, no_evidence
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import Notifiable, able
from chaoslab.plan.model import Injection
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


class EndsBySignal(HitsTogether, EndsProcess):
    """A fault that ends its targets by a signal, all at once."""

    __slots__ = ()
    signal: Signal

    duration_key = "down_s"

    def __post_init__(self) -> None:
        if self.signal not in list(Signal):
            raise PlanError(f"`signal: {self.signal}` ends no process: use {', '.join(Signal)}")

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Send the signal to all targets at once."""
        fleet.signal(*injection.targets, signal=self.signal)

    def look(self, window: EvidenceWindow) -> Found:
        """The exit of the life that was met, by the signal, and how long nobody replaced it."""
        exited = window.exited
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, f"did not exit on {self.signal}")
        if not was_ended_by(exited, self.signal):
            text = f"ended by itself ({how_it_ended(exited)}), not by {self.signal}"
            return no_evidence(Code.EXITED_INSTEAD, text)
        return self.look_at_death(window, exited)

    @abstractmethod
    def look_at_death(self, window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
        """What the record shows of a target that the signal ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessKill(EndsBySignal):
    """Kill the node's whole tree of processes; heal by starting its next incarnation."""

    signal: Signal = Signal.SIGKILL
    """SIGKILL ends it at once; SIGTERM and SIGINT let it leave in order."""

    name = "process.kill"
    summary = "end the process and all its children by a signal"
    imitates = (
        "a crash, a kill for want of memory, a lost machine; no chip error, no device is damaged"
    )
    proof = "exit status with that signal; the syncer dropped the member"

    def look_at_death(self, window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
        """How it ended, how soon that was noticed, and for how long it was down."""
        return death(window, exited)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRestart(HitsTogether, EndsProcess):
    """Kill the node's tree and start its next incarnation at once, as a supervisor would.

    The heal starts a target that died again meanwhile.
    """

    name = "process.restart"
    summary = "kill and start again at once"
    imitates = "a crash that a supervisor answers at once"
    proof = "exit by SIGKILL, then the next incarnation started"
    comes_back = True

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Kill all victims, then start all of them again."""
        fleet.kill(*injection.targets)
        for name in injection.targets:
            fleet.restart(name)

    def requested(self) -> Mapping[str, Json]:
        return {"restarts": 1}

    def look(self, window: EvidenceWindow) -> Found:
        """The exit by SIGKILL, then the start."""
        exited, restarted = window.exited, window.restarted
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None or not was_ended_by(exited, Signal.SIGKILL):
            text = f"was not killed{f' ({how_it_ended(exited)})' if exited else ''}"
            return no_evidence(Code.NOT_KILLED, text)
        if restarted is None or restarted.seq < exited.seq:
            text = "was killed and not started again before the fault ended"
            return no_evidence(Code.NOT_RESTARTED, text)
        down_s = restarted.time_s - exited.time_s
        return Found(
            code=Code.AS_ASKED,
            text=f"was killed and started again {delay(down_s, '{} later')}",
            measured={"restarts": 1, "down_s": down_s},
            proof=(exited, restarted),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCrashLoop(HitsTogether, EndsProcess):
    """Kill the node, then start it and kill it again several times before it may stay up."""

    times: int = 3
    """How often it is started and killed again after the first kill."""
    lives_s: Duration = 1.0
    """How long each of these lives lasts."""

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
        """How many kills, and how long the lives between them."""
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
class ProcessPreempt(EndsProcess):
    """Tell the node that it will lose its place, ask it to leave, end it if it does not.

    A node that hears the notice and is ended by force was preempted, too: `left_by_itself` tells.
    """

    notice_s: Duration = 2.0
    """From the notice to SIGTERM."""
    grace_s: Duration = 5.0
    """From SIGTERM to SIGKILL."""

    name = "process.preempt"
    summary = "preemption notice, then SIGTERM, then SIGKILL"
    imitates = "a spot or maintenance preemption with notice; the machine itself stays"
    proof = "the node reported the notice and was gone when the grace ended"
    needs = frozenset({Ability.KILL, Ability.NOTICE})

    def __post_init__(self) -> None:
        if self.notice_s < 0 or self.grace_s < 0:
            raise PlanError("`notice` and `grace` are durations of at least 0s")

    def steps(self) -> tuple[float, ...]:
        """When SIGTERM and SIGKILL follow the notice."""
        return (self.notice_s, self.notice_s + self.grace_s)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Send every target the preemption notice."""
        for name in injection.targets:
            able(fleet, Notifiable).notice(name)

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
        elif gone_after_s > self.notice_s + self.grace_s + AFTERGLOW_S:
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
"""What a node that is preempted is sent, in order."""


# ---------------------------------------------------------------- evidence


def death(window: EvidenceWindow, exited: Event[NodeExited]) -> Found:
    """What is told of a life that a signal ended: how, how soon noticed, for how long."""
    down_s = window.down_s(exited)
    dropped = window.first(MemberLeft, lambda e: e.payload.incarnation == window.incarnation)
    dropped_s = max(0.0, dropped.time_s - exited.time_s) if dropped else None
    text = f"exited ({how_it_ended(exited)}) and was down for {down_s:.1f} s"
    if dropped_s is not None:
        text += f"; the syncer dropped it {delay(dropped_s)}"
    elif window.was_member:
        text += "; the syncer had not dropped it when the fault ended"
    counted = window.job_restart
    restarts = counted.payload.restarts if counted is not None else None
    if counted is not None:
        text += f"; its JobSet started it again, and counts {plural(restarts or 0, 'restart')}"
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


def _median_life_s(
    window: EvidenceWindow, crashes: Mapping[int, Event[NodeExited]]
) -> float | None:
    born = {e.payload.incarnation: e.time_s for e in window.of(NodeStarted)}
    lives_s = [crashes[life].time_s - born[life] for life in crashes if life in born]
    return median(lives_s) if lives_s else None
