"""Did enough of the plan's faults take place? For plans in which chance decides how many come."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.answers import injections
from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.violations import margin_above
from chaoslab.core.errors import PlanError
from chaoslab.record.journal import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Injections:
    """So many injections are proved; with fewer, the run tells too little: UNKNOWN."""

    name: ClassVar[str] = "injections"
    summary: ClassVar[str] = "enough injections are proved; moot ones do not count"

    min_proved: int = 1
    """Injections of all faults together whose evidence is proved on every target."""

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
