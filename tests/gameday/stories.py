"""Stories of game-days: what people say and do, beside what training does.

Day().baseline().opened().waits().predicts("Bo", gap_s=3.0).acts("Ann", "go")
     .kill(*VICTIMS, spec=HALF).train(6).heal().train(35).settle().end()
"""

from typing import Self

from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.events import Json, Kind
from chaoslab.faults.process import ProcessKill
from chaoslab.gameday.outcomes import FaultOutcome, outcomes
from chaoslab.plan.model import FaultPlan, FaultSpec, GameDay, Outage, Target, Trigger
from chaoslab.record.history import History
from tests.histories import Story

HALF = "half-dies"
VICTIMS = ("learner-1", "learner-3")
CHARTER = GameDay(
    owner="Infra",
    facilitator="Ann",
    scribe="Di",
    responders=("Bo", "Cy"),
    hypotheses={HALF: "Training goes on."},
    holds=(HALF,),
)


def spec_of(name: str = HALF, *, fault: str = "process.kill") -> FaultSpec:
    return FaultSpec(
        id=name,
        fault=fault,
        settings=ProcessKill(),
        target=Target(share=0.5),
        at=Trigger(round=60),
        outage=Outage(seconds=6.0),
    )


def plan_of(*specs: FaultSpec, gameday: GameDay | None = CHARTER) -> FaultPlan:
    return FaultPlan(name="a_story", faults=specs or (spec_of(),), gameday=gameday)


class Day(Story):
    """A story with a room that watches it."""

    def opened(self, charter: GameDay = CHARTER) -> Self:
        """The charter is on record."""
        return self.say(
            Kind.GAMEDAY_OPENED,
            owner=charter.owner,
            facilitator=charter.facilitator,
            scribe=charter.scribe,
            responders=list(charter.responders),
            hypotheses=dict(charter.hypotheses),
            holds=list(charter.holds or ()),
        )

    def waits(self, spec: str = HALF) -> Self:
        """Its trigger has come."""
        return self.say(
            Kind.FAULT_HELD,
            spec=spec,
            fault="process.kill",
            trigger="at round 60",
            injections=1,
            targets=list(VICTIMS),
        )

    def acts(self, by: str, action: str, spec: str = "", reason: str = "") -> Self:
        """An operator gets what was asked for."""
        return self.say(Kind.OPERATOR_ACTED, by=by, spec=spec, action=action, reason=reason)

    def predicts(self, by: str, /, **expected: Json) -> Self:
        """Somebody says what will happen, by default of the fault that kills half."""
        return self.say(Kind.OPERATOR_PREDICTED, by=by, **{"spec": HALF, **expected})

    def notes(self, by: str, text: str, spec: str = "") -> Self:
        """Somebody notices something."""
        return self.say(Kind.OPERATOR_NOTED, by=by, spec=spec, text=text)

    def left_out(self, by: str, spec: str = HALF, reason: str = "") -> Self:
        """An operator skips it."""
        self.acts(by, "skip", spec, reason)
        return self.say(
            Kind.FAULT_SKIPPED,
            injection="injection-0",
            spec=spec,
            fault="process.kill",
            targets=list(VICTIMS),
            reason=f"{by} left 1 injection out",
            obstacle="operator",
        )

    def killed(self, **more: float | None) -> Self:
        """Half of the learners die, once Ann has let it go."""
        return self.acts("Ann", "go", HALF).kill(*VICTIMS, spec=HALF, **more)

    def over(self) -> Self:
        """The victims have come back, and training ends by its rule."""
        return self.train(35).settle().end()

    def cut_short(self, outcome: str = "aborted") -> Self:
        """The harness ends the run before training ended by itself."""
        return self.end(outcome=outcome).altered(Kind.SYNCER_FINAL, lambda _: {"was_asked": True})


def begun() -> Day:
    """A game-day in which the fault waits, 5 s after the start."""
    return Day().baseline().opened().waits()


def judged(story: Story) -> tuple[History, Verdict]:
    history = story.history()
    return history, judge(history, (Continuity(), Rejoin()))


def found(story: Story, plan: FaultPlan | None = None) -> tuple[FaultOutcome, ...]:
    return outcomes(*judged(story), plan or plan_of())


def of_half(story: Story) -> FaultOutcome:
    (one,) = found(story)
    return one
