"""Staleness: versions that each learner trains on, against the versions that were merged.

    merged   v7 ── v8 ── v9 ── v10          learner-1 holds v7 when v10 is merged: 3 behind
    adopted  v7 ──────── v8 ── v9

A learner at work is never further behind than the bound, whatever its link does. One that a fault
took away cannot adopt; it has some time from the heal on to catch up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.stretches import holds, union_by_name
from chaoslab.checks.timeline import baseline_end_s, training_end_s
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LearnerAdopted, LearnerJoined, NodeExited, RoundMerged
from chaoslab.core.units import Duration, plural
from chaoslab.record.history import History

_ADOPTIONS_LEAST = 10
"""Fewest adoptions that are judged."""


@dataclass(slots=True, kw_only=True)
class _Replica:
    """Versions that one learner holds, as the record advances; keyed by number of the fragment."""

    learner: str
    versions: dict[str, int] = field(default_factory=dict)
    outdated_s: dict[str, float] = field(default_factory=dict)
    """Time since which a newer version than its own exists, by fragment."""
    worst: int = 0
    """Versions behind, at work."""
    worst_away: int = 0
    """Versions behind, while a fault had taken it away or soon after."""
    oldest_s: float = 0.0
    """Longest work on an outdated version."""

    def look(self, newest: Mapping[str, int], outdated_s: float, *, is_away: bool) -> int:
        """Note how far it is behind now; the worst is kept."""
        lag = max((newest.get(f, 0) - version for f, version in self.versions.items()), default=0)
        if is_away:
            self.worst_away = max(self.worst_away, lag)
        else:
            self.worst = max(self.worst, lag)
            self.oldest_s = max(self.oldest_s, outdated_s)
        return lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """Learners at work have versions that are hardly behind; those that were away catch up."""

    name: ClassVar[str] = "staleness"
    summary: ClassVar[str] = "no learner trains on versions that are too far behind"

    max_rounds: int = binding(8, most=100, is_of_rounds=True)
    """Versions of any fragment by which a learner at work may be behind the syncer."""
    within_s: Duration = 30.0
    """Time from the heal for a victim to be within that bound again."""

    def __post_init__(self) -> None:
        if self.max_rounds < 0:
            raise PlanError(f"must be at least 0, got {self.max_rounds}", key="max_rounds")

    def judge(self, history: History) -> Finding:
        """Follow every learner from the end of the baseline to the end of training."""
        start_s, end_s = baseline_end_s(history), training_end_s(history)
        if start_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to measure from")
        away = absences(history)
        excused = [
            (one, one.since.time_s + self.within_s if one.since else one.until_s) for one in away
        ]
        replicas, violations, adoptions = self._follow(history, start_s, end_s, excused)
        worst = max((replica.worst for replica in replicas), default=0)
        return conclude(
            self.name,
            [*violations, _doubt(excused, end_s, adoptions)],
            passed=f"no learner at work was more than {plural(worst, 'version')} of a "
            "fragment behind",
            samples=adoptions,
            measured=Measured(worst, self.max_rounds, Unit.ROUNDS) if adoptions else None,
            numbers={
                "behind_at_work_rounds": {h.learner: h.worst for h in replicas},
                "behind_while_away_rounds": {
                    h.learner: h.worst_away for h in replicas if h.worst_away
                },
                "oldest_at_work_s": {h.learner: round(h.oldest_s, 3) for h in replicas},
            },
        )

    def _follow(
        self,
        history: History,
        start_s: float,
        end_s: float,
        excused: Sequence[tuple[Absence, float]],
    ) -> tuple[Sequence[_Replica], Sequence[Violation], int]:
        replicas = {learner: _Replica(learner=learner) for learner in history.learners}
        newest: dict[str, int] = {}
        violations: dict[str, Violation] = {}
        adoptions = 0
        newcomers = history.newcomers
        away = union_by_name((one.learner, one.gone_s, until_s) for one, until_s in excused)
        for event in history.of(RoundMerged, LearnerJoined, LearnerAdopted, NodeExited):
            if event.time_s > end_s:
                break
            said = event.payload
            if isinstance(said, NodeExited):
                if said.node in newcomers:  # it was not there before, nor is it now
                    replicas[said.node].versions.clear()
                continue
            if isinstance(said, RoundMerged):
                newest[str(said.fragment)] = said.version
                touched = list(replicas.values())
            else:
                touched = [replicas[said.learner]] if said.learner in replicas else []
                adoptions += isinstance(said, LearnerAdopted) and event.time_s >= start_s
            for replica in touched:
                is_away = holds(away.get(replica.learner, ()), event.time_s)
                outdated_s = event.time_s - min(replica.outdated_s.values(), default=event.time_s)
                _note(replica, said, event.time_s, newest)
                if event.time_s < start_s:
                    continue
                lag = replica.look(newest, outdated_s, is_away=is_away)
                if lag > self.max_rounds and not is_away and replica.learner not in violations:
                    text = (
                        f"{replica.learner} was {plural(lag, 'version')} of a fragment behind the "
                        f"syncer at {event.time_s:.1f} s; the bound is {self.max_rounds}"
                    )
                    violations[replica.learner] = Violation.at(
                        event, Code.BEHIND, text, replica.learner
                    )
        return list(replicas.values()), list(violations.values()), adoptions


def _note(
    replica: _Replica,
    said: RoundMerged | LearnerJoined | LearnerAdopted,
    time_s: float,
    newest: Mapping[str, int],
) -> None:
    """Note what an event says that the learner holds now, and what is outdated by it."""
    if isinstance(said, RoundMerged):
        fragment = str(said.fragment)
        if fragment in replica.versions:
            replica.outdated_s.setdefault(fragment, time_s)
        return
    if isinstance(said, LearnerJoined):
        replica.versions = dict(said.versions)
    else:
        replica.versions[str(said.fragment)] = said.version
    for fragment, version in replica.versions.items():
        if version >= newest.get(fragment, 0):
            replica.outdated_s.pop(fragment, None)


def _doubt(excused: Sequence[tuple[Absence, float]], end_s: float, adoptions: int) -> Doubt | None:
    """Learners that could still be behind when training ended; too few adoptions."""
    if adoptions < _ADOPTIONS_LEAST:
        return Doubt(
            Code.TOO_FEW_SAMPLES,
            f"only {plural(adoptions, 'version was', 'versions were')} adopted",
        )
    open_ = [
        str(absence)
        for absence, until_s in excused
        if absence.is_last and absence.since is not None and until_s > end_s
        if absence.accepted is None
    ]
    text = f"training ended before {' and '.join(open_)} had to be up to date"
    return Doubt(Code.TOO_LITTLE_TIME, text) if open_ else None
