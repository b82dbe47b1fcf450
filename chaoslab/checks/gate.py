"""Gate: from a verdict to an exit code, if more than a PASS, or a FAIL, is expected.

    Verdict ─► Gate.judge ─► exit code, and why it is not the verdict's own

The verdict itself, its file and its reports stay as they are: they say what the run was, not what
is accepted.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, PlanError

MIN_MARGIN = 0.1
_RULES = (
    "training_continues", "learners_rejoin", "cadence", "participation", "real_work", "ledger",
    "agreement", "versions", "numeric_health", "resume", "divergence", "unasked", "strangers",
    "orphans", "stop",
)  # fmt: skip
"""Rules of every run that can be FAIL, whatever the plan expects."""


class FailOn(StrEnum):
    """What is not accepted besides a FAIL; each includes those before it."""

    UNKNOWN = "unknown"
    LOW_MARGIN = "low-margin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """Result of a gate."""

    exit_code: ExitCode
    reasons: tuple[str, ...] = ()
    """Reasons for which the exit code is not the verdict's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Verdicts that are accepted. The default accepts a PASS, with the verdict's own exit codes."""

    fail_on: FailOn | None = None
    min_margin: float = MIN_MARGIN
    """Smallest margin of a finding, with WEAK."""
    must_fail: tuple[str, ...] = ()
    """For a run that is broken on purpose: a FAIL of all these findings is accepted, by their names
    in `Verdict.by_name`, and nothing else."""

    def refuse_unknown(self, expect: Sequence[str], *, left_out: Collection[str] = ()) -> None:
        """PlanError for a name that can never fail where these checks are expected, in order.

        `left_out`: checks that the run is never to answer.
        """
        seen = Counter[str]()
        known = list[str]()
        for check in expect:
            seen[check] += 1
            known.append(check if seen[check] == 1 else f"{check} ({seen[check]})")
        known = [one for one in dict.fromkeys((*known, *_RULES)) if one not in left_out]
        if wrong := [name for name in self.must_fail if name not in known]:
            raise PlanError(
                f"--expect fail:{wrong[0]} names nothing that can fail here: write fail:NAME with "
                f"one of {', '.join(known)}"
            )

    def judge(self, verdict: Verdict) -> Gated:
        """Judge a verdict; one of an interrupted run, or a failed harness, is never accepted."""
        own = verdict.exit_code
        if own in {ExitCode.INTERRUPTED, ExitCode.BROKEN}:
            return Gated(exit_code=own)
        if self.must_fail:
            return self._turned(verdict)
        if self.fail_on is not None and verdict.outcome is Outcome.UNKNOWN:
            return Gated(exit_code=ExitCode.FAIL, reasons=("--fail-on: the verdict is UNKNOWN",))
        if self.fail_on is FailOn.LOW_MARGIN and verdict.outcome is Outcome.PASS:
            reasons = tuple(self._weak(verdict))
            return Gated(exit_code=ExitCode.FAIL if reasons else own, reasons=reasons)
        return Gated(exit_code=own)

    def _weak(self, verdict: Verdict) -> Iterator[str]:
        """Findings of a PASS near their bound. With weak evidence a verdict is no PASS anyway."""
        for finding in verdict.findings:
            if finding.margin is not None and finding.margin < self.min_margin:
                yield (
                    f"--fail-on low-margin: {finding.check} passes with a margin of "
                    f"{finding.margin:.1%}, less than {self.min_margin:.1%}"
                )

    def _turned(self, verdict: Verdict) -> Gated:
        """Invert a verdict. A FAIL for another reason is not accepted: the defect was missed."""
        if verdict.outcome is Outcome.UNKNOWN:
            return Gated(exit_code=verdict.exit_code)
        failed = [name for name, one in verdict.by_name.items() if one.outcome is Outcome.FAIL]
        asked = f"--expect fail:{', fail:'.join(self.must_fail)}"
        found = f"{asked}: {', '.join(failed) or 'nothing'} failed"
        if missed := [name for name in self.must_fail if name not in failed]:
            why = f"{found}, and not {', '.join(missed)}"
            return Gated(exit_code=ExitCode.FAIL, reasons=(why,))
        return Gated(exit_code=ExitCode.PASS, reasons=(f"{found}, as expected",))
