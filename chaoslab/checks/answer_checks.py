"""The first two answers as checks: judged in every run; `expected: false` inverts them.

    {check: training_continues, expected: false}     a stop of training is what the plan wants
    {check: learners_rejoin, expected: false}        so is a victim that does not come back

    {check: injections, min_proved: 20}              this many injections are proved

A plan that names neither answer expects both to be yes: NO is a FAIL, and one that is not known is
UNKNOWN. A learner that the plan never heals (`for: rest`) is not asked to return.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.answers import (
    Return,
    injections,
    longest_gap_s,
    overdue,
    returns,
    training_continued,
)
from chaoslab.checks.base import Check, Finding, Outcome, Unit
from chaoslab.checks.cadence import Cadence
from chaoslab.checks.codes import Code
from chaoslab.checks.convergence import NumericHealth
from chaoslab.checks.divergence import Divergence
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.left_out import judgeable
from chaoslab.checks.participation import Participation
from chaoslab.checks.real_work import RealWork
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.resume import Resume, began_anew, lives, script_of, stopped_saving
from chaoslab.checks.versions import Versions
from chaoslab.checks.violations import margin_above, unknown
from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import PushAccepted
from chaoslab.core.units import Duration, elapsed
from chaoslab.record.history import History

_VIOLATED_ONLY = frozenset({Ledger.name, Agreement.name, Versions.name, NumericHealth.name})
"""Checks that count only when violated: UNKNOWN is ignored if the plan does not name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingContinues:
    """Rounds go on being merged to the end of training: the first answer is yes."""

    name: ClassVar[str] = "training_continues"
    summary: ClassVar[str] = "training goes on to its end; in every run, unless inverted here"

    expected: bool = True
    """false: training must stop for longer than the first answer allows, and PASS means it did."""

    def judge(self, history: History) -> Finding:
        """The first answer against what is expected of it."""
        answer, gap_s = training_continued(history), longest_gap_s(history)
        if answer is None or gap_s is None:
            return unknown(
                self.name,
                Code.END_UNKNOWN,
                "the record does not show whether training continued to its end",
            )
        said = "training continued" if answer else "training did not continue"
        if anew := began_anew(history):
            said += f", it began anew at {anew.time_s:.1f} s"
        code = Code.TRAINING_WENT_ON if answer else Code.TRAINING_STOPPED
        return Finding(
            check=self.name,
            outcome=_outcome(answer, self.expected),
            reason=f"{said}: no round for {elapsed(gap_s)} at the longest{_wanted(self.expected)}",
            codes=() if answer is self.expected else (code,),
            observed=answer,
            bound=self.expected,
            samples=1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnersRejoin:
    """Every learner that the plan gives back is back at the end: the second answer is yes."""

    name: ClassVar[str] = "learners_rejoin"
    summary: ClassVar[str] = "every learner given back returns; in every run, unless inverted"

    expected: bool = True
    """false: at least one of them must not return, and PASS means that it did not."""
    within_s: Duration = 30.0
    """Longest time from the heal after which a learner that is not back is a FAIL; before: UNKNOWN.
    What a `rejoin` check says comes first."""

    def judge(self, history: History) -> Finding:
        """The second answer against what is expected of it."""
        found = asked(returns(history, within_s=self.within_s))
        missing = tuple(learner for learner, back in found.items() if back.rejoined is False)
        late = overdue(history, within_s=self.within_s)
        if not found:
            text = f"no fault took a {history.who} away that the plan gives back"
            return unknown(self.name, Code.NO_FAULT, text)
        if not late and any(back.rejoined is not True for back in found.values()):
            away = [learner for learner, back in found.items() if back.rejoined is not True]
            text = f"{', '.join(away)} did not rejoin, and had less than {self.within_s:g} s for it"
            return unknown(self.name, Code.TOO_LITTLE_TIME, text, samples=len(found), culprits=away)
        is_met = (not missing) is self.expected
        said = (
            f"{', '.join(missing)} did not rejoin" if missing else f"every {history.who} rejoined"
        )
        return Finding(
            check=self.name,
            outcome=_outcome(not missing, self.expected),
            reason=f"{said}{_wanted(self.expected)}",
            codes=() if is_met else (Code.NOT_REJOINED if missing else Code.ALL_REJOINED,),
            observed=not missing,
            bound=self.expected,
            samples=len(found),
            culprits=missing,
        )


def asked(found: Mapping[str, Return]) -> Mapping[str, Return]:
    """The learners that the plan asks to return, and what became of them."""
    return {learner: back for learner, back in found.items() if back.was_asked}


def rejoin_within_s(expect: Sequence[Check]) -> float:
    """The time that a learner has to return: the shortest that a check gives it."""
    named = [check.within_s for check in expect if isinstance(check, Rejoin)]
    named = named or [check.within_s for check in expect if isinstance(check, LearnersRejoin)]
    return min(named, default=LearnersRejoin().within_s)


def unnamed(history: History, expect: Sequence[Check]) -> list[Check]:
    """Checks that the plan does not name and that judge it in any case.

    Tokens, versions and digests are compared if pushes have a norm: those of systems of others
    have none, and these count tokens and hold parameters in other ways.
    """
    within_s = rejoin_within_s(expect)
    checks: list[Check] = [TrainingContinues(), RealWork(), NumericHealth()]
    if script_of(history) is not None:
        checks += [Divergence()]
        if any(len(own) > 1 for own in lives(history).values()) or stopped_saving(history):
            checks += [Resume()]
    if any(push.payload.norm is not None for push in history.of(PushAccepted)):
        checks += [Ledger(), Agreement(), Versions()]
    if asked(returns(history, within_s=within_s)):
        checks.append(LearnersRejoin(within_s=within_s))
    if not any(isinstance(check, TrainingContinues) and not check.expected for check in expect):
        checks += [Cadence(), Participation()]
    named = {check.name for check in expect}
    return list(judgeable(history, (one for one in checks if one.name not in named))[0])


def against_pass(answers: Sequence[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """What stands against PASS by what the plan does not name: NO, or not known.

    An answer that is not known is left to a finding that is no PASS already, if there is one. Left
    out is what cannot be asked of this run: accounts that the record lacks, a cadence without a
    settled stretch that is long enough, and a pace that is in order, but compared with a baseline
    that its plan lets be noisier.
    """
    has_doubt = any(finding.outcome is not Outcome.PASS for finding in findings)
    least = Outcome.FAIL if has_doubt else Outcome.UNKNOWN
    return [
        one
        for one in answers
        if one.outcome is Outcome.FAIL or (one.outcome is least and _could_be_known(one))
    ]


def _could_be_known(one: Finding) -> bool:
    is_too_short = one.check == Cadence.name and one.codes == (Code.TOO_FEW_SAMPLES,)
    is_noisy = one.codes == (Code.BASELINE_NOT_STEADY,)
    return not (is_too_short or is_noisy or one.check in _VIOLATED_ONLY)


def _outcome(answer: bool, expected: bool) -> Outcome:
    return Outcome.PASS if answer is expected else Outcome.FAIL


def _wanted(expected: bool) -> str:
    return "" if expected else "; the plan expects NO"


# ---------------------------------------------------------------- how many injections


@dataclass(frozen=True, slots=True, kw_only=True)
class Injections:
    """At least `min_proved` injections are proved; with fewer the run is UNKNOWN."""

    name: ClassVar[str] = "injections"
    summary: ClassVar[str] = "enough injections are proved; moot ones do not count"

    min_proved: int = 1
    """Fewest injections, of all faults together, whose evidence is proved on every target."""

    def __post_init__(self) -> None:
        if self.min_proved < 1:
            raise PlanError(f"{self.min_proved} asks for nothing: use 1 or more", key="min_proved")

    def judge(self, history: History) -> Finding:
        """Count them by status."""
        counts = Counter(one.status for one in injections(history))
        proved, all_ = counts["proved"], counts.total()
        said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        best = all_ - counts["moot"]
        is_enough = proved >= self.min_proved
        return Finding(
            check=self.name,
            outcome=Outcome.PASS if is_enough else Outcome.UNKNOWN,
            codes=() if is_enough else (Code.NOT_PROVED,),
            reason=f"{proved} of {all_} injections are proved, {self.min_proved} are asked for"
            + (f" ({said})" if said else ""),
            observed=proved,
            bound=self.min_proved,
            unit=Unit.INJECTIONS,
            margin=margin_above(proved, self.min_proved, best),
            best=best,
            samples=all_,
            numbers=dict(counts),
        )
