"""Repair of one slice as a state machine: no I/O, time is an argument.

    begun ─┬─ stopped: resume ──────────────────────────┐
           ├─ maintained: wait for the provider ────────┤
           └─ gone or bad: clear, request ─► waiting ─► coming ─► up: start the node
                                   ▲                                  │
                                   └── it ended or never stepped ◄── trial ──► back: it made a step

`advance` says what to do next; the caller does it and reports by `done`, `refused`, `stepped`,
`ended`. Preemptions and failures have budgets of their own (`RepairLimits`): a bad host on which
every start crashes uses up the failures, however many preemptions a busy zone brings.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chaoslab.core.payloads import RepairMoved
from chaoslab.fleet.remote.slices import RepairLimits
from chaoslab.fleet.tpu.states import LASTING, TAKEN, Condition, Refusal, SliceReport

AGAIN_S: Final = 5.0
"""After a refusal or a failed request it is repeated after this long, then after twice as long, and
so on, until a slice comes.
"""
AGAIN_S_MAX: Final = 60.0
LATE_S: Final = 60.0
"""A state that an accepted call or a lost host should have changed may be told for this long."""
_WORD_S: Final = 10.0
"""Time after the end of a node in which the provider may report that it has taken its slice."""


class Cause(StrEnum):
    """Reason for the repair of a slice."""

    FAULT = "fault"
    """A fault of the plan: no budget counts it."""
    PREEMPTION = "preemption"
    """The provider took it, or a fault did as the provider does."""
    FAILURE = "failure"
    """The slice broke, or its learner ended before its first step there."""


class Stage(StrEnum):
    """Stage of a repair."""

    BEGUN = "begun"
    CLEARED = "cleared"
    """The rest of the former slice is being deleted."""
    REQUESTED = "requested"
    WAITING = "waiting"
    """Waiting in the provider's queue."""
    COMING = "coming"
    """Being created, started or maintained."""
    UP = "up"
    """Up by the provider's word; its hosts are being made ready."""
    TRIAL = "trial"
    """The node was started there and has not made a step yet."""
    BACK = "back"
    GIVEN_UP = "given_up"


class Step(StrEnum):
    """Next action."""

    CLEAR = "clear"
    """Delete the slice and its request."""
    REQUEST = "request"
    RESUME = "resume"
    """Start the slice, which is stopped."""
    START = "start"
    """Make the hosts ready and start the node on them."""


@dataclass(slots=True, kw_only=True)
class SliceRepair:
    """One repair, from the loss of a slice to the first step of its node on another."""

    node: str
    cause: Cause
    begun_s: float
    limits: RepairLimits
    used: Counter[Cause]
    """What the repairs of the node have used of the budgets, over the whole run."""
    lost: str = ""
    """Name of the slice that was lost."""
    before: SliceReport | None = None
    """The report of before the fault: while it is repeated, it is taken for late."""
    stage: Stage = Stage.BEGUN
    attempt: int = 0
    """Slices that were requested."""
    may_come: bool = False
    """The provider was asked for a slice, whatever it answered: a request may arrive although its
    answer is lost.
    """
    detail: str = ""
    """Reason for giving up, or the provider's last text."""
    expected: str = ""
    """Name of the slice that was requested; reports of others are of former ones."""
    _since_s: float = 0.0
    """Beginning of the stage."""
    _not_before_s: float = 0.0
    _again_s: float = AGAIN_S
    _is_acting: bool = False
    """A step was given out, and nothing was told of it yet."""
    _must_clear: bool = False
    """What is up is a bad slice."""
    _ended_s: float | None = None
    """End of the node on trial."""

    def __post_init__(self) -> None:
        self._since_s = self.begun_s
        self.used[self.cause] += 1

    @property
    def is_over(self) -> bool:
        """Whether no slice is waited for any more."""
        return self.stage in (Stage.BACK, Stage.GIVEN_UP)

    @property
    def moved(self) -> RepairMoved:
        """Where it is now, for the record."""
        return RepairMoved(
            node=self.node,
            cause=self.cause.value,
            stage=self.stage.value,
            attempt=self.attempt,
            lost=self.lost,
            resource=self.expected,
            preemptions=self.used[Cause.PREEMPTION],
            failures=self.used[Cause.FAILURE],
            detail=self.detail,
        )

    # ---------------------------------------------------------------- what to do

    def advance(self, report: SliceReport, now_s: float) -> Step | None:
        """The next step, given once; None: wait. `done` or `refused` must follow it."""
        if self._is_acting:
            return None
        if self.stage is Stage.TRIAL:
            self._watch_trial(report, now_s)
        elif not self.is_over and now_s - self.begun_s > self.limits.wait_s:
            self._give_up(f"no slice after {self.limits.wait_s:g} s: {self.stage.value}", now_s)
        if not self.is_over:
            self._look_at_budgets(now_s)
        step = None if now_s < self._not_before_s else self._next(report, now_s)
        self._is_acting = step is not None
        return step

    def _look_at_budgets(self, now_s: float) -> None:
        """Give up when one is exceeded."""
        budgets = {Cause.PREEMPTION: self.limits.preemptions, Cause.FAILURE: self.limits.failures}
        for cause, most in budgets.items():
            if (used := self.used[cause]) > most:
                self._give_up(f"{used} {cause.value}s, {most} are allowed: {self.detail}", now_s)

    def _next(self, report: SliceReport, now_s: float) -> Step | None:
        match self.stage:
            case Stage.GIVEN_UP:
                return Step.CLEAR if self.may_come else None  # as it would cost
            case Stage.CLEARED:
                return Step.REQUEST
            case Stage.BACK | Stage.TRIAL:
                return None
            case Stage.BEGUN if self._must_clear:
                is_late = False
            case Stage.BEGUN:
                is_late = report == self.before and now_s - self.begun_s < LATE_S
            case _:
                is_late = self.expected not in ("", report.resource)
        return None if is_late else self._follow(report, now_s)

    def _follow(self, report: SliceReport, now_s: float) -> Step | None:
        """Step by what is left of a slice, or on its way."""
        is_new = self.stage is Stage.BEGUN
        self.detail = report.detail or self.detail
        match report.condition:
            case Condition.ABSENT | Condition.LEAVING:
                return Step.REQUEST
            case Condition.WAITING:
                self._move(Stage.WAITING, now_s)
            case Condition.COMING | Condition.MAINTAINED:
                self._move(Stage.COMING, now_s)
            case Condition.STOPPED if is_new or now_s - self._since_s > LATE_S:
                return Step.RESUME
            case Condition.UP if is_new and self._must_clear:
                return Step.CLEAR
            case Condition.UP:
                return self._start(now_s)
            case Condition.PREEMPTED | Condition.FAILED:
                if not is_new and report.condition is Condition.PREEMPTED:
                    self.used[Cause.PREEMPTION] += 1
                elif not is_new:  # the request was not served in time, or no slice came of it
                    self._wait(now_s)
                return Step.CLEAR
        return None

    def _start(self, now_s: float) -> Step | None:
        """Hosts that cannot be made ready, though the provider calls them up, are bad hosts."""
        self._move(Stage.UP, now_s)
        if now_s - self._since_s > self.limits.probation_s:
            self._again(Cause.FAILURE, now_s, self.detail)
            return None
        return Step.START

    def _watch_trial(self, report: SliceReport, now_s: float) -> None:
        """A node that ended before its first step did so with its slice, or because of it: which of
        both is not decided while the provider cannot be asked.
        """
        if self._ended_s is None:
            if now_s - self._since_s > self.limits.probation_s:
                self._again(Cause.FAILURE, now_s, f"no step within {self.limits.probation_s:g} s")
            return
        if report.condition is Condition.UNKNOWN:
            return
        is_its_own = not self.expected or report.resource in (self.expected, "")
        if is_its_own and report.condition in TAKEN:
            self._again(Cause.PREEMPTION, now_s, "preempted before its first step")
        elif report.condition is Condition.FAILED or now_s - self._ended_s > _WORD_S:
            self._again(Cause.FAILURE, now_s, report.detail or self.detail)

    # ---------------------------------------------------------------- what came of it

    def done(self, step: Step, now_s: float, *, resource: str = "") -> None:
        """Note that a step was accepted; of a request the name of the slice that is to come."""
        self._is_acting = False
        match step:
            case Step.CLEAR if self.is_over:
                self.may_come = False
            case Step.CLEAR:
                self._move(Stage.CLEARED, now_s)
            case Step.REQUEST:
                self.attempt += 1
                self.may_come = True
                self.expected = resource
                self._move(Stage.REQUESTED, now_s)
            case Step.RESUME:
                self._move(Stage.COMING, now_s)
            case Step.START:
                self._move(Stage.TRIAL, now_s)

    def refused(self, step: Step, refusal: Refusal | None, why: str, now_s: float) -> None:
        """Note a refusal by the provider (with a code) or by the hosts; the step is tried again."""
        self._is_acting = False
        self.detail = why
        if step is Step.REQUEST and refusal not in (None, Refusal.EXPIRED):
            self.may_come = True
        if refusal not in LASTING:
            self._wait(now_s)
        elif self.is_over:
            self.may_come = False
        else:
            self._give_up(why, now_s)

    def stepped(self, now_s: float) -> None:
        """The node itself reported a step: only this ends a repair well."""
        if self.stage is Stage.TRIAL:
            self._move(Stage.BACK, now_s)

    def ended(self, now_s: float, why: str) -> None:
        """The node ended; before its first step that is a failure of its slice, unless the provider
        says soon that it has taken it.
        """
        if self.stage is Stage.TRIAL and self._ended_s is None:
            self._ended_s, self.detail = now_s, why

    # ---------------------------------------------------------------- inside

    def _give_up(self, why: str, now_s: float) -> None:
        """Request nothing more; what may still come is deleted."""
        self.detail, self._not_before_s = why, now_s
        self._move(Stage.GIVEN_UP, now_s)

    def _again(self, cause: Cause, now_s: float, why: str) -> None:
        """Begin anew, with another slice."""
        self.used[cause] += 1
        self.cause, self.detail = cause, why
        self._must_clear, self._ended_s = True, None
        self.begun_s = now_s
        self._move(Stage.BEGUN, now_s)

    def _wait(self, now_s: float) -> None:
        """Do nothing for a while, and for longer the next time."""
        self._not_before_s = now_s + self._again_s
        self._again_s = min(AGAIN_S_MAX, 2 * self._again_s)

    def _move(self, stage: Stage, now_s: float) -> None:
        if stage is self.stage:
            return
        self.stage, self._since_s = stage, now_s
        if stage in (Stage.COMING, Stage.UP):
            self._again_s = AGAIN_S
