"""Repair of a slice as a state machine: which step follows which report."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pytest

from chaoslab.fleet.remote.slices import RepairLimits
from chaoslab.fleet.tpu.repair import Cause, SliceRepair, Stage, Step
from chaoslab.fleet.tpu.states import Condition, Refusal, SliceReport

NODE = "learner-1"
ENDED, STEPPED = "the node ended", "the node made a step"


@dataclass(frozen=True)
class Sees:
    """A report of the provider, and the step that has to follow, which is done unless `but`."""

    condition: Condition
    step: Step | None = None
    resource: str = "new"
    after_s: float = 1.0
    but: str = ""
    """`refused`: the step is; `unheard`: nothing is told of it."""


Rows = Iterable[Sees | str]


class Told:
    """A repair, and the provider's word of the slice."""

    def __init__(
        self,
        cause: Cause = Cause.PREEMPTION,
        *,
        limits: RepairLimits | None = None,
        preemptions: int = 0,
        before: Condition | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        self.now_s, self.refusal = 100.0, refusal
        self.repair = SliceRepair(
            node=NODE,
            cause=cause,
            begun_s=self.now_s,
            limits=limits or RepairLimits(),
            used=Counter({Cause.PREEMPTION: preemptions}),
            lost="old",
            before=SliceReport(node=NODE, condition=before, resource="old") if before else None,
        )

    def play(self, rows: Rows) -> "Told":
        """Report by report; each has to be followed by its step."""
        for row in rows:
            if row == ENDED:
                self.repair.ended(self.now_s, "exit code 1")
            elif row == STEPPED:
                self.repair.stepped(self.now_s)
            elif isinstance(row, Sees):
                self._see(row)
        return self

    def _see(self, row: Sees) -> None:
        self.now_s += row.after_s
        report = SliceReport(node=NODE, condition=row.condition, resource=row.resource)
        step = self.repair.advance(report, self.now_s)
        assert step is row.step, row
        if step is not None and not row.but:
            self.repair.done(step, self.now_s, resource="new")
        elif step is not None and row.but == "refused":
            self.repair.refused(step, self.refusal, "no", self.now_s)


REQUESTED = (
    Sees(Condition.PREEMPTED, Step.CLEAR, "old"),
    Sees(Condition.LEAVING, Step.REQUEST, "old"),
)
IN_TRIAL = (*REQUESTED, Sees(Condition.COMING), Sees(Condition.UP, Step.START))
CRASH: Sequence[Sees | str] = (
    ENDED,
    Sees(Condition.UP, Step.CLEAR, after_s=11.0),
    Sees(Condition.LEAVING, Step.REQUEST),
    Sees(Condition.UP, Step.START),
)
FAILED = Sees(Condition.FAILED, Step.CLEAR, after_s=0.0)


def later_and_later(*pauses_s: float, first: Rows = (), but: str = "") -> Rows:
    """A request that follows only when each of these times has gone by."""
    for pause_s in pauses_s:
        yield from first
        yield Sees(Condition.ABSENT, None, "", pause_s - 0.1)
        yield Sees(Condition.ABSENT, Step.REQUEST, "", 0.2, but)


@pytest.mark.parametrize(
    ("told", "rows", "ends"),
    [
        pytest.param(
            Told,
            [STEPPED, *REQUESTED, Sees(Condition.PREEMPTED, None, "old"),
             Sees(Condition.UP, None, "old"), Sees(Condition.WAITING), Sees(Condition.COMING),
             Sees(Condition.UP, Step.START), Sees(Condition.UP), STEPPED],
            (Stage.BACK, Cause.PREEMPTION, 1, 0),
            id="only a step on the new slice brings a preempted one back",
        ),
        pytest.param(
            Told, [*REQUESTED, Sees(Condition.WAITING)],
            (Stage.WAITING, Cause.PREEMPTION, 1, 0),
            id="a request may wait",
        ),
        pytest.param(
            Told,
            [Sees(Condition.PREEMPTED, Step.CLEAR, "old", but="unheard"),
             Sees(Condition.PREEMPTED, None, "old")],
            (Stage.BEGUN, Cause.PREEMPTION, 1, 0),
            id="a step is given once until something is told of it",
        ),
        pytest.param(
            lambda: Told(Cause.FAULT),
            [Sees(Condition.STOPPED, Step.RESUME, "old"), Sees(Condition.STOPPED, None, "old"),
             Sees(Condition.STOPPED, Step.RESUME, "old", 61.0)],
            (Stage.COMING, Cause.FAULT, 0, 0),
            id="a stopped slice is started, and its late state believed for a while",
        ),
        pytest.param(
            lambda: Told(Cause.FAULT),
            [Sees(Condition.MAINTAINED, None, "old"), Sees(Condition.UP, Step.START, "old")],
            (Stage.TRIAL, Cause.FAULT, 0, 0),
            id="a maintained slice is awaited",
        ),
        pytest.param(
            lambda: Told(limits=RepairLimits(wait_s=60.0)),
            [*REQUESTED, Sees(Condition.WAITING, after_s=30.0),
             Sees(Condition.WAITING, Step.CLEAR, after_s=30.0), Sees(Condition.LEAVING)],
            (Stage.GIVEN_UP, Cause.PREEMPTION, 1, 0),
            id="no slice in time is given up",
        ),
        pytest.param(
            Told,
            [*REQUESTED,
             *later_and_later(5.0, 10.0, 20.0, first=[FAILED]),
             Sees(Condition.COMING),
             *later_and_later(5.0, first=[FAILED])],
            (Stage.REQUESTED, Cause.PREEMPTION, 1, 0),
            id="requests that fail count as nothing and are made later and later",
        ),
        pytest.param(
            Told,
            [*IN_TRIAL, ENDED, Sees(Condition.UP, after_s=9.0), *CRASH[1:]],
            (Stage.TRIAL, Cause.FAILURE, 1, 1),
            id="a node that ends before its first step has a bad host",
        ),
        pytest.param(
            Told, [*IN_TRIAL, Sees(Condition.UP, Step.CLEAR, after_s=301.0)],
            (Stage.CLEARED, Cause.FAILURE, 1, 1),
            id="a node without a step in time has a bad host",
        ),
        pytest.param(
            lambda: Told(limits=RepairLimits(preemptions=1000, failures=2)),
            [*IN_TRIAL, *CRASH, *CRASH, ENDED, Sees(Condition.UP, Step.CLEAR, after_s=11.0)],
            (Stage.GIVEN_UP, Cause.FAILURE, 1, 3),
            id="crashes use up the failures, however many preemptions are allowed",
        ),
        pytest.param(
            lambda: Told(limits=RepairLimits(preemptions=2, failures=0), preemptions=2),
            [Sees(Condition.PREEMPTED, None, "old")],
            (Stage.GIVEN_UP, Cause.PREEMPTION, 3, 0),
            id="preemptions use up their own budget",
        ),
        pytest.param(
            Told,
            [*IN_TRIAL, Sees(Condition.PREEMPTED), ENDED, Sees(Condition.UNKNOWN, None, "", 60.0),
             Sees(Condition.PREEMPTED, Step.CLEAR)],
            (Stage.CLEARED, Cause.PREEMPTION, 2, 0),
            id="a preemption before the first step is no failure, once the provider says so",
        ),
        pytest.param(
            lambda: Told(Cause.FAULT), IN_TRIAL, (Stage.TRIAL, Cause.FAULT, 0, 0),
            id="a fault of the plan uses up nothing",
        ),
        pytest.param(
            lambda: Told(limits=RepairLimits(probation_s=30.0)),
            [*REQUESTED, *2 * [Sees(Condition.UP, Step.START, after_s=20.0, but="refused")],
             Sees(Condition.UP, after_s=20.0), Sees(Condition.UP, Step.CLEAR)],
            (Stage.CLEARED, Cause.FAILURE, 1, 1),
            id="hosts that are up and cannot be reached are bad hosts",
        ),
        pytest.param(
            lambda: Told(Cause.FAULT, before=Condition.UP),
            [Sees(Condition.UP, None, "old"), Sees(Condition.UP, Step.START, "old", 60.0)],
            (Stage.TRIAL, Cause.FAULT, 0, 0),
            id="a report that did not change since the fault is believed after a while",
        ),
        pytest.param(
            lambda: Told(Cause.FAULT, before=Condition.UP),
            [Sees(Condition.ABSENT, Step.REQUEST, "")],
            (Stage.REQUESTED, Cause.FAULT, 0, 0),
            id="a report that changed since the fault is believed at once",
        ),
    ],
)  # fmt: skip
def test_steps_follow_reports(
    told: Callable[[], Told], rows: Rows, ends: tuple[Stage, Cause, int, int]
) -> None:
    repair = told().play(rows).repair
    used = repair.used
    assert (repair.stage, repair.cause, used[Cause.PREEMPTION], used[Cause.FAILURE]) == ends


@pytest.mark.parametrize("refusal", [Refusal.QUOTA, Refusal.STOCK_OUT, Refusal.UNAVAILABLE, None])
def test_a_refused_request_is_repeated_later_and_later(refusal: Refusal | None) -> None:
    told = Told(refusal=refusal).play([Sees(Condition.ABSENT, Step.REQUEST, "", but="refused")])
    told.play(later_and_later(5.0, 10.0, 20.0, 40.0, 60.0, 60.0, but="refused"))


@pytest.mark.parametrize("refusal", [Refusal.DENIED, Refusal.INVALID])
def test_what_will_always_be_refused_is_given_up(refusal: Refusal) -> None:
    told = Told(refusal=refusal).play([Sees(Condition.ABSENT, Step.REQUEST, "", but="refused")])
    assert (told.repair.stage, told.repair.detail) == (Stage.GIVEN_UP, "no")
