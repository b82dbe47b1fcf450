"""Check `rejoin`: each learner that a fault hit contributes again, in time and to the end.

Three clocks from the restart or the resume: process up, first step, first accepted contribution
(`absence`). A process that is up but never contributes has not rejoined; neither has one that
contributes once, or one that works on an old version to the end. A learner that the plan never
heals (`for: rest`) is not asked to return.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.arrivals import FAIR_CHANCES, Arrival, arrivals, numbers_of, problem_of
from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import by_label, of_learner
from chaoslab.checks.violations import (
    Counted,
    Doubt,
    Measured,
    Violation,
    after_longest,
    conclude,
    time_left,
)
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerFinal,
    LearnerJoined,
    RoundMerged,
    SyncerFinal,
)
from chaoslab.core.units import Duration, delay, plural
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoin:
    """Every learner that the plan gives back, or brings in, contributes again and again.

    An absence that the next one cut short is not judged if it had left less time than the returns
    of this run take; the last one of a learner always is.
    """

    name: ClassVar[str] = "rejoin"
    summary: ClassVar[str] = "each learner taken away or brought in contributes repeatedly, in time"

    within_s: Duration = 30.0
    """Longest time from the beginning of the heal, or from the start of one that is brought in, to
    its first accepted contribution."""
    contributions: int = 3
    """Rounds merged with it after its return, or while it was there."""
    max_lag: int = binding(1, most=20, is_of_rounds=True)
    """Versions of any fragment by which one that returned may be behind the syncer at the end."""

    def __post_init__(self) -> None:
        if self.contributions < 1:
            raise PlanError(f"`contributions: {self.contributions}` asks for nothing: use 3")

    def judge(self, history: History) -> Finding:
        """Judge each absence and arrival; one that was left too little time is a doubt."""
        came = list(arrivals(history))
        found = [one for one in absences(history) if one.was_to_be_healed or one.fenced_pushes]
        finals = {absence.learner: absence for absence in found}
        back = [absence for absence in found if absence.accepted is not None]
        waited_s = [absence.waited_s for absence in back]
        joined_s = [one.contributed_s for one in came if one.contributed_s is not None]
        longest_s = max([*(absence.waited_s for absence in found), *joined_s], default=None)
        return conclude(
            self.name,
            [
                *(
                    self._problem(
                        absence,
                        history,
                        max(waited_s, default=0.0),
                        is_final=absence is finals[absence.learner],
                    )
                    for absence in found
                ),
                *(
                    problem_of(
                        one, history, within_s=self.within_s, contributions=self.contributions
                    )
                    for one in came
                ),
            ],
            nothing=Doubt(
                Code.NO_FAULT,
                f"no fault brought a {history.who} in, or took one away that the plan gives back",
            ),
            passed="; ".join(
                [
                    *([_said_of_returns(finals, waited_s, found)] if found else ()),
                    *([_said_of_arrivals(came, joined_s)] if came else ()),
                ]
            ),
            samples=len(found) + len(came),
            measured=None
            if longest_s is None
            else Measured(longest_s, self.within_s, Unit.SECONDS),
            numbers=_numbers(found, came),
        )

    def _problem(
        self, absence: Absence, history: History, usual_s: float, *, is_final: bool
    ) -> Violation | Doubt | None:
        """A violation, a doubt, or nothing to object to.

        `usual_s`: the longest return. `is_final`: the plan gives this learner back no later.
        """
        if absence.fenced_pushes:
            text = (
                f"{absence.learner} was dropped by the syncer, yet a push of its former self was "
                f"accepted at {absence.fenced_pushes[0].time_s:.1f} s"
            )
            return _violation(Code.FORMER_SELF_ACCEPTED, absence, text, absence.fenced_pushes[0])
        if absence.since is None:
            text = f"training ended before {absence} was healed"
            return Doubt(Code.TOO_LITTLE_TIME, text)
        clock_s = absence.clock_s(absence.accepted)
        if clock_s is None:
            return self._never_contributed(absence, usual_s, is_final=is_final)
        if clock_s > self.within_s:
            text = (
                f"{absence.learner} took {clock_s:.1f} s from the heal of {absence.faults} to its "
                f"first accepted contribution; the bound is {self.within_s:g} s"
            )
            return _violation(Code.TOO_LATE, absence, text, absence.accepted)
        few = self._too_few(absence, history, is_final=is_final)
        return few or self._out_of_date(absence, history)

    def _never_contributed(
        self, absence: Absence, usual_s: float, *, is_final: bool
    ) -> Violation | Doubt | None:
        room_s = absence.waited_s
        if room_s < self.within_s:
            what = "" if absence.is_last else ", when another fault took it away"
            text = f"{time_left(room_s)} for {absence} to come back{what}"
            is_judged = is_final or room_s > usual_s
            return Doubt(Code.TOO_LITTLE_TIME, text) if is_judged else None
        up_s, stepped_s = absence.clock_s(absence.up), absence.clock_s(absence.stepped)
        if up_s is None:
            code, how = Code.NOT_RESTARTED, "its process never came up"
        elif stepped_s is None:
            code = Code.NO_STEP
            how = f"its process was up {delay(up_s)}, but it never made a step"
        else:
            code = Code.NOTHING_ACCEPTED
            how = f"it stepped {delay(stepped_s)}, but nothing that it sent was accepted"
        text = f"{absence.learner} did not rejoin in {room_s:.1f} s after {absence.faults}: {how}"
        return _violation(code, absence, text, absence.up)

    def _too_few(
        self, absence: Absence, history: History, *, is_final: bool
    ) -> Violation | Doubt | None:
        if len(absence.merged) >= self.contributions:
            return None
        rounds = history.between(absence.back_s, absence.until_s, RoundMerged)
        chances = sum(1 for _ in rounds)
        text = (
            f"{absence.learner} contributed to {len(absence.merged)} of {chances} rounds merged "
            f"after its return from {absence.faults}; {self.contributions} are asked for"
        )
        if chances >= FAIR_CHANCES * self.contributions:
            counted = Counted(len(absence.merged), self.contributions, "contributions")
            return _violation(Code.TOO_FEW_CONTRIBUTIONS, absence, text, absence.accepted, counted)
        return Doubt(Code.TOO_LITTLE_TIME, text) if is_final else None

    def _out_of_date(self, absence: Absence, history: History) -> Violation | None:
        if not absence.is_last:
            return None
        versions, current = _versions(absence, history), _current(history)
        lags = (
            {f: version - versions.get(f, 0) for f, version in current.items()} if versions else {}
        )
        worst = max(lags, key=lambda fragment: lags[fragment], default="")
        if not worst or lags[worst] <= self.max_lag:
            return None
        text = (
            f"{absence.learner} ended with version {versions.get(worst, 0)} of fragment {worst}, "
            f"the syncer with {current[worst]}: it is not up to date"
        )
        counted = Counted(lags[worst], self.max_lag, "versions")
        return _violation(Code.OUT_OF_DATE, absence, text, absence.merged[-1], counted)


def _violation(
    code: Code, absence: Absence, text: str, event: Event | None, counted: Counted | None = None
) -> Violation:
    seen = event or absence.since or absence.stories[0].injecting
    return Violation.at(seen, code, text, absence.learner, counted)


def _versions(absence: Absence, history: History) -> Mapping[str, int]:
    """The versions the learner ended with: by its final word, or by what it said to adopt."""
    versions: dict[str, int] = {}
    events: list[Event[LearnerJoined] | Event[LearnerAdopted] | Event[LearnerFinal]] = [
        *of_learner(history, LearnerJoined, absence.learner),
        *of_learner(history, LearnerAdopted, absence.learner),
        *of_learner(history, LearnerFinal, absence.learner),
    ]
    for event in sorted(events, key=attrgetter("seq")):
        said = event.payload
        if said.incarnation != absence.incarnation:
            continue
        if isinstance(said, LearnerAdopted):
            versions[str(said.fragment)] = said.version
        else:
            versions |= said.versions
    return versions


def _current(history: History) -> Mapping[str, int]:
    final = history.last(SyncerFinal)
    if final:
        return final.payload.versions
    merged = history.of(RoundMerged)
    return {str(event.payload.fragment): event.payload.version for event in merged}


def _numbers(found: Sequence[Absence], came: Sequence[Arrival]) -> Mapping[str, Json]:
    """The clocks, and how often each contributed, by learner and injection."""
    numbers = {name: dict(of) for name, of in (numbers_of(came) if came else {}).items()}
    for name, of in _numbers_of_returns(found).items():
        numbers[name] = {**of, **numbers.get(name, {})}
    return numbers


def _numbers_of_returns(found: Sequence[Absence]) -> Mapping[str, Mapping[str, Json]]:
    labels = [f"{a.learner} ({', '.join(s.injection for s in a.stories)})" for a in found]
    labelled = list(zip(labels, found, strict=True))
    of_cluster: Mapping[str, Mapping[str, float | int | None]] = {
        "cluster_start_s": {label: a.cluster_start_s for label, a in labelled},
        "job_restart_s": {label: a.job_restart_s for label, a in labelled},
        "job_restarts": {label: len(a.counted) or None for label, a in labelled},
    }
    return {
        "up_s": by_label(labels, (a.clock_s(a.up) for a in found)),
        "first_step_s": by_label(labels, (a.clock_s(a.stepped) for a in found)),
        "first_contribution_s": by_label(labels, (a.clock_s(a.accepted) for a in found)),
        "contributions": by_label(labels, (float(len(a.merged)) for a in found)),
        **{name: known for name, of in of_cluster.items() if (known := _known(of))},
    }


def _known(values: Mapping[str, float | int | None]) -> Mapping[str, Json]:
    known = {label: value for label, value in values.items() if value is not None}
    return by_label(known, known.values())


def _said_of_returns(
    finals: Mapping[str, Absence], waited_s: Sequence[float], found: Sequence[Absence]
) -> str:
    """Those that were hit, then those that ran on beside them or were started again with them."""
    beside = {name: one.has_run_on for name, one in finals.items() if not one.was_hit}
    hit = [name for name in finals if name not in beside]
    back = f"{', '.join(hit or finals)} came back and contributed again {after_longest(waited_s)}"
    for has_run_on, how in ((False, "started again with them"), (True, "ran on")):
        names = [name for name, is_so in beside.items() if is_so is has_run_on]
        back += f"; {', '.join(names)} not hit, {how}" if names and hit else ""
    return f"{back}{_said_of_cluster(found)}"


def _said_of_arrivals(came: Sequence[Arrival], joined_s: Sequence[float]) -> str:
    names = ", ".join(dict.fromkeys(one.learner for one in came))
    return f"{names} joined and contributed {after_longest(joined_s)}"


def _said_of_cluster(found: Sequence[Absence]) -> str:
    took_s = [a.cluster_start_s for a in found if a.cluster_start_s is not None]
    if not took_s:
        return ""
    counted = sum(len(a.counted) for a in found)
    by_job_set = f" ({plural(counted, 'restart')} by the count of its JobSet)" if counted else ""
    return f"; the cluster started {len(took_s)} of them again, {after_longest(took_s)}{by_job_set}"
