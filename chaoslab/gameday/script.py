"""Script of a game-day: orders and waits from a file or a pipe, given as the run goes on.

    # kill_half.gameday                 events of the run ─► Script.see ─► its next lines
    wait half-dies held                                                        │ orders
    Bo> predict half-dies gap=2s                                               ▼
    go half-dies                                            Inbox ─► the run (`run.operators`)
    wait half-dies healed
    wait 5s
    note half-dies: both came back

Waits are met by events and by their times, so that a script works in simulated time as well. One
that is not met for 10 minutes of the run is given up, and with it the lines that follow.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from threading import RLock
from typing import Final, TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    Action,
    FaultHealed,
    FaultHeld,
    FaultInjected,
    FaultSkipped,
    OperatorActed,
    OperatorRefused,
    PhaseEntered,
    RunStarted,
)
from chaoslab.core.units import duration_s, show_duration
from chaoslab.gameday.orders import FORMS, Names, known_fault, order_of, said, unknown
from chaoslab.plan.file.document import nearest, printable
from chaoslab.run.operators import Ask, Inbox, Order

WAIT: Final = "wait"
WAIT_FORM: Final = "wait FAULT held|injected|healed, wait inject or wait 5s"
PHASES: Final = ("start", "baseline", "inject", "settle", "stop", "evaluate")
"""Phases of a run, in their order."""
_GRACE_S = 5.0
"""Time for the last orders, before faults that still wait are left out."""
_WAIT_MOST_S: Final = 600.0
"""Longest wait for a fault or a phase before it is given up."""


class Stage(IntEnum):
    """Stage of an entry of the plan."""

    WAITING = 0
    HELD = 1
    """Its trigger was met; it waits for an operator."""
    INJECTED = 2
    """The first of its injections."""
    HEALED = 3
    """All of its injections are over, those that were left out or failed too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait until an entry has reached a stage, until a phase, or for a time."""

    spec: str = ""
    stage: Stage = Stage.WAITING
    phase: str = ""
    for_s: float = 0.0

    def __str__(self) -> str:
        until = f"{self.spec} {self.stage.name.lower()}" if self.spec else self.phase
        return f"{WAIT} {until or show_duration(self.for_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a script."""

    where: str
    """`file:line`."""
    text: str
    does: Order | Wait

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


Lines: TypeAlias = Sequence[Line]


def read_script(text: str, *, source: str, by: str, names: Names) -> Lines:
    """All lines of a script; PlanError names every mistake with file and line number.

    `by` says them, unless a line begins with `NAME>`.
    """
    lines, mistakes = [], []
    for number, written in enumerate(text.splitlines(), 1):
        try:
            line = line_of(written, where=f"{source}:{number}", by=by, names=names)
        except PlanError as error:
            mistakes.append(str(error))
        else:
            lines += [line] if line else []
    if mistakes:
        raise PlanError("\n".join(mistakes))
    return tuple(lines)


def line_of(written: str, *, where: str, by: str, names: Names) -> Line | None:
    """Parse a line; None if it is blank or a comment. PlanError with `where`."""
    text = written.strip()
    if not text or text.startswith("#"):
        return None
    try:
        return Line(where=where, text=text, does=_does(text, by, names))
    except PlanError as error:
        raise PlanError(error.message, where=where) from error


def _does(text: str, by: str, names: Names) -> Order | Wait:
    _, word, rest = said(text, by=by)
    if word == WAIT:
        return _wait(rest, names)
    if word not in FORMS:
        raise PlanError(unknown(word, (*FORMS, WAIT)))
    return order_of(text, by=by, names=names)


def _wait(rest: str, names: Names) -> Wait:
    spec, _, last = rest.rpartition(" ")
    stages = {one.name.lower(): one for one in Stage if one is not Stage.WAITING}
    if spec:
        if last not in stages:
            raise PlanError(nearest(printable(last), stages, noun="moment", lists_all=True))
        return Wait(spec=known_fault(spec.strip(), names), stage=stages[last])
    if last in PHASES:
        return Wait(phase=last)
    if last[:1].isdecimal():
        return Wait(for_s=duration_s(last))
    raise PlanError(f"{printable(rest) or 'nothing'!r} is nothing to wait for: write {WAIT_FORM}")


def is_ended_by(lines: Iterable[Line]) -> bool:
    """Whether one of the lines asks for the end of the run."""
    orders = [line.does for line in lines if isinstance(line.does, Ask)]
    return any(order.action is Action.END for order in orders)


class Script:
    """An observer that gives orders. Lines may be added from any thread while the run goes on."""

    def __init__(
        self,
        inbox: Inbox,
        lines: Iterable[Line] = (),
        *,
        by: str,
        holds: Iterable[str] = (),
        has_others: bool = False,
    ) -> None:
        """`holds`: ids of the entries that `by` decides on when no other operator does, see `end`;
        `has_others`: others decide, in a window of their own.
        """
        self._inbox, self._by, self._holds = inbox, by, tuple(holds)
        self._lines = deque(lines)
        self._progress = _Progress()
        self._since_s = 0.0
        """Time at which the present first line became the first."""
        self._is_open = True
        self._is_cut = False
        """The run ends early: nothing is left to decide."""
        self._has_given_up = False
        """Nothing of what is left will be carried out."""
        self._has_others = has_others
        self._has_no_operator = False
        self._lock = RLock()

    def see(self, event: Event) -> None:
        """Take it in, and give the orders that waited for it."""
        with self._lock:
            self._progress.see(event)
            self._is_cut |= event.kind is Kind.ABORT_FIRED
            self._advance()
            self._leave_out()
            self._is_open &= event.kind is not Kind.RUN_FINISHED

    def add(self, line: Line) -> None:
        """After those that there are; at once if none waits."""
        with self._lock:
            if not self._lines:
                self._since_s = self._progress.now_s
            self._lines.append(line)
            self._advance()

    def end(self) -> None:
        """No more lines come; unless others decide: 5 s after the last line, or after a wait was
        given up, what is held and did not begin is left out, and a run that waits for its end is
        ended.
        """
        with self._lock:
            self._has_no_operator = not self._has_others

    def left(self) -> Lines:
        """The lines that were not carried out yet, in order."""
        with self._lock:
            return tuple(self._lines)

    def _advance(self) -> None:
        while self._lines and self._is_open and not self._has_given_up:
            does = self._lines[0].does
            if isinstance(does, Wait):
                if not self._progress.has_met(does, since_s=self._since_s):
                    self._give_up_late(does)
                    return
            elif self._inbox.put(does):
                self._progress.ordered(does)
            else:
                return
            self._lines.popleft()
            self._since_s = self._progress.now_s

    def _give_up_late(self, wait: Wait) -> None:
        """Unless it is a wait for a time, which lasts as long as it says."""
        if not wait.for_s and self._progress.now_s >= self._since_s + _WAIT_MOST_S:
            self._has_given_up = True
            self._since_s = self._progress.now_s

    def _leave_out(self) -> None:
        has_ended = not self._lines or self._has_given_up
        is_over = self._progress.now_s >= self._since_s + _GRACE_S
        if self._is_cut or not has_ended or not self._has_no_operator or not is_over:
            return
        self._has_no_operator = False
        actions = [(Action.SKIP, spec) for spec in self._progress.not_begun(self._holds)]
        actions += [(Action.END, "")] if self._inbox.keep else []
        for action, spec in actions:
            reason = "no operator is left to decide"
            self._inbox.put(Ask(by=self._by, action=action, spec=spec, reason=reason))


class _Progress:
    """Progress of a run, for which a script can wait."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._phase = 0
        self._injections: Counter[str] = Counter()
        """Number of injections by entry."""
        self._over: Counter[str] = Counter()
        """Number of injections by entry that were healed or left out."""
        self._stages: dict[str, Stage] = {}
        self._repeats: Counter[tuple[str, str]] = Counter()
        """By operator and entry: repetitions that this script asked for, and the run has not yet
        begun or refused.
        """

    def see(self, event: Event) -> None:
        self.now_s = event.time_s
        match event.payload:
            case RunStarted(entries=entries):
                self._injections.update({one.spec: one.injections for one in entries})
            case PhaseEntered(phase=phase) if phase in PHASES:
                self._phase = PHASES.index(phase)
            case FaultHeld(spec=spec):
                self._reach(spec, Stage.HELD)
            case FaultInjected(spec=spec):
                self._reach(spec, Stage.INJECTED)
            case OperatorActed(by=by, spec=spec, action=Action.REPEAT):
                self._answered(by, spec)
                self._injections[spec] += 1
                self._stages[spec] = Stage.HELD
            case OperatorRefused(by=by, asked=asked, spec=spec) if asked == _repeat(spec):
                self._answered(by, spec)
            case FaultHealed(spec=spec) | FaultSkipped(spec=spec):
                self._over[spec] += 1
                self._look(spec)

    def ordered(self, order: Order) -> None:
        """Note an order; the stages of a repeated entry begin anew when the run answers."""
        if isinstance(order, Ask) and order.action is Action.REPEAT:
            self._repeats[order.by, order.spec] += 1

    def has_met(self, wait: Wait, *, since_s: float) -> bool:
        if wait.spec:
            if any(spec == wait.spec for _, spec in self._repeats):
                return False
            return self._stages.get(wait.spec, Stage.WAITING) >= wait.stage
        if wait.phase:
            return self._phase >= PHASES.index(wait.phase)
        return self.now_s >= since_s + wait.for_s

    def not_begun(self, specs: Iterable[str]) -> Sequence[str]:
        """Entries without an injection yet, and with some that wait."""
        return [spec for spec in specs if self._stages.get(spec, Stage.WAITING) < Stage.INJECTED]

    def _answered(self, by: str, spec: str) -> None:
        self._repeats -= Counter([(by, spec)])  # which leaves none below 1

    def _look(self, spec: str) -> None:
        if self._over[spec] >= self._injections[spec]:
            self._reach(spec, Stage.HEALED)

    def _reach(self, spec: str, stage: Stage) -> None:
        self._stages[spec] = max(stage, self._stages.get(spec, stage))


def _repeat(spec: str) -> str:
    return f"{Action.REPEAT} {spec}"
