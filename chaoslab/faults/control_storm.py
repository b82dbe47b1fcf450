"""A storm of returns: learners that died come back in the same instant, once or again and again.

    learner-0  ▇▇▇▇▇✝           ┌▸ start ─ join ─ checkpoint ─ first contribution
    learner-1  ▇▇▇▇▇✝   down    ├▸ start ─ join ─ checkpoint ─ …       all ask for the state of
    learner-2  ▇▇▇▇▇✝           └▸ start ─ join ─ …                    the run at once
    learner-3  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ (donor)

They come back while the fault is open, so that the evidence can show that they came together and
what it cost: `for` is the time from the first death to the judgement, and nothing is left to heal
but a learner that died again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import NodeExited
from chaoslab.core.units import Duration, delay, plural
from chaoslab.faults.actions import start_all
from chaoslab.faults.base import Fault, HasStrength, Layer
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.lives import Life, lives
from chaoslab.faults.evidence.window import (
    EvidenceWindow,
    Found,
    evidence_of_each,
    evidence_windows,
    no_evidence,
)
from chaoslab.faults.process import Signal
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.plan.model import Injection
from chaoslab.record.exits import was_ended_by
from chaoslab.record.history import History

TOGETHER_S = 1.0
"""Starts further apart than this are no storm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRejoinStorm(HasStrength, Fault):
    """Kill the targets and start all of them again at once, after `down`; as often as asked."""

    times: int = 1
    """Number of storms."""
    down_s: Duration = 4.0
    """Time for which they are gone before all of them come back."""
    up_s: Duration = 12.0
    """With `times` above 1: time from a return to the next death."""

    name = "control.rejoin_storm"
    summary = "learners die, and all come back in the same instant"
    strength: ClassVar[Mapping[str, float]] = {"times": 0.0, "down_s": 0.0}
    layer = Layer.PROCESS
    imitates = "a zone whose machines all come back at once"
    proof = "exits by SIGKILL, and returns that were all under way at one time"
    needs = frozenset({Ability.KILL})
    takes_away = True
    comes_back = True
    brings_in = False
    roles = frozenset({Role.LEARNER})

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"`times: {self.times}`: a storm comes at least once")
        if self.down_s <= 0 or self.up_s <= 0:
            raise PlanError("`down` and `up` are durations above 0s")

    def steps(self) -> tuple[float, ...]:
        """A return, then a death and a return for each further storm."""
        cycles_s = [storm * (self.down_s + self.up_s) for storm in range(self.times)]
        moments = [moment for at_s in cycles_s for moment in (at_s, at_s + self.down_s)]
        return tuple(moments[1:])

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Kill all targets for the first storm."""
        fleet.kill(*injection.targets)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """All come back, or all die again."""
        if step_index % 2 == 0:
            self.heal(injection, fleet)
        else:
            fleet.kill(*injection.targets)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start those that are down."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Deaths and returns of each, how close together, from which donors, how soon of use."""
        storms = _storms(evidence_windows(injection, history).values(), self.times)
        requested: dict[str, Json] = {"times": self.times, "down_s": self.down_s}
        return evidence_of_each(
            injection, history, lambda window: self._look(window, storms), requested
        )

    def _look(self, window: EvidenceWindow, storms: Sequence["_Storm"]) -> Found:
        deaths, returns = _deaths(window), lives(window)
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if not deaths or deaths[0].payload.incarnation != window.incarnation:
            return no_evidence(Code.NOT_KILLED, "was not killed when the fault began")
        if not returns:
            text = "was killed and did not come back while the fault lasted"
            return no_evidence(Code.NOT_RESTARTED, text)
        if min(len(deaths), len(returns)) < self.times:
            code = Code.FEWER_TIMES
        elif not all(storm.is_one for storm in storms):
            code = Code.NOT_TOGETHER
        else:
            code = Code.AS_ASKED
        last = returns[-1]
        return Found(
            code=code,
            text=f"{_how_often(deaths, returns)}{_together(storms)}"
            + (
                f"; after its last start it contributed {delay(last.contributed_s, 'within {}')}"
                if last.contributed_s is not None
                else "; it had not contributed when the fault ended"
            ),
            measured={
                "deaths": len(deaths),
                "returns": len(returns),
                "contributed_after_s": last.contributed_s,
                "source": last.source,
                "donor": last.donor,
                **_measured(storms),
            },
            proof=(*deaths, *(one.started for one in returns), last.member, last.complete,
                   last.accepted),
        )  # fmt: skip


# ---------------------------------------------------------------- one storm


@dataclass(frozen=True, slots=True, kw_only=True)
class _Storm:
    """The returns of one instant, one of each target."""

    returns: Sequence[Life]
    asked: int
    """Number of learners that were to come back."""

    @property
    def is_one(self) -> bool:
        """Whether all of them started together, and all were on their way at the same time."""
        is_close = self.start_spread_s <= TOGETHER_S
        return len(self.returns) == self.asked and is_close and self.on_their_way == self.asked

    @property
    def start_spread_s(self) -> float:
        """Time from the first start to the last."""
        return _spread_s(one.started.time_s for one in self.returns)

    @property
    def join_spread_s(self) -> float:
        """Time from the first to the last admission by the syncer."""
        return _spread_s(one.member.time_s for one in self.returns if one.member)

    @property
    def on_their_way(self) -> int:
        """The most that had been started and were not complete yet, at one time."""
        return _most_at_once((one.started.time_s, one.complete_s) for one in self.returns)

    @property
    def transfers_at_once(self) -> int:
        """The most that waited for their checkpoint at one time."""
        return _most_at_once(
            (one.member.time_s, one.complete_s) for one in self.returns if one.member
        )


def _storms(windows: Iterable[EvidenceWindow], times: int) -> list[_Storm]:
    """Storm k is the k-th return of every target."""
    returns = [lives(window) for window in windows]
    return [
        _Storm(returns=[own[k] for own in returns if len(own) > k], asked=len(returns))
        for k in range(times)
    ]


def _deaths(window: EvidenceWindow) -> list[Event[NodeExited]]:
    return [e for e in window.of(NodeExited) if was_ended_by(e, Signal.SIGKILL)]


def _how_often(deaths: Sequence[Event], returns: Sequence[Life]) -> str:
    if len(deaths) == len(returns) == 1:
        return "died and came back"
    died, back = plural(len(deaths), "time"), plural(len(returns), "time")
    return f"died {died} and came back {back}"


def _together(storms: Sequence[_Storm]) -> str:
    asked = storms[0].asked
    if asked < 2:
        return ", alone"
    fewest = min(storm.on_their_way for storm in storms)
    spread_s = max(storm.join_spread_s for storm in storms)
    let_in = f"let in {delay(spread_s, 'within {} of each other', soon='together')}"
    return f", {fewest} of {asked} on their way at once and {let_in}"


def _measured(storms: Sequence[_Storm]) -> Mapping[str, Json]:
    """Measurements of the worst storm; donors of all storms together."""
    donors = Counter(one.donor for storm in storms for one in storm.returns if one.donor)
    return {
        "start_spread_s": max(storm.start_spread_s for storm in storms),
        "join_spread_s": max(storm.join_spread_s for storm in storms),
        "on_their_way_at_once": min(storm.on_their_way for storm in storms),
        "transfers_at_once": max(storm.transfers_at_once for storm in storms),
        "donors": dict(donors),
    }


def _spread_s(times_s: Iterable[float]) -> float:
    found = list(times_s)
    return max(found) - min(found) if found else 0.0


def _most_at_once(stretches: Iterable[tuple[float, float]]) -> int:
    """The most stretches that have an instant in common."""
    known = list(stretches)
    return max((sum(a <= start <= b for a, b in known) for start, _ in known), default=0)
