"""Lines of progress that nothing tells apart: what can be judged of them, and what to do.

    trainer.mixed ─┬─► the rule `lines`: UNKNOWN, and what to do
                   └─► a finding that rests on whose lines they are: UNKNOWN

That a process did not come back, or that all are silent, is known in any case.
"""

from typing import Final

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.violations import unknown
from chaoslab.core.events import Event
from chaoslab.core.payloads import Mixing, TrainerMixed
from chaoslab.core.units import plural
from chaoslab.record.history import History

RULE: Final = "lines"
_OF_PROCESSES: Final = frozenset({"cleanup", "injections"})
"""Checks that read no progress."""
_KNOWN: Final = frozenset({Code.NOT_RESTARTED, Code.NOT_REJOINED, Code.TRAINING_STOPPED})
"""Failures that no line of another worker can cause."""
_APART: Final = (
    "print the rank before each line, as in `[rank1]: step 7`, or give each worker a file"
)


def mixed(history: History) -> Event[TrainerMixed] | None:
    """The first line that showed it; None: each line has its worker."""
    return next(iter(history.of(TrainerMixed)), None)


def as_known(finding: Finding, history: History) -> Finding:
    """The finding; UNKNOWN if it would rest on whose lines they are."""
    shown = mixed(history)
    is_known = finding.outcome is Outcome.FAIL and not _KNOWN.isdisjoint(finding.codes)
    is_doubt = finding.outcome is Outcome.UNKNOWN
    if shown is None or is_doubt or is_known or finding.check in _OF_PROCESSES:
        return finding
    text = f"whose steps they are is not known (`{RULE}`)"
    return unknown(finding.check, Code.LINES_MIXED, text, samples=finding.samples, evidence=[shown])


def said_of_mixed(shown: TrainerMixed) -> str:
    """What shows it, and what to do, as a sentence."""
    if shown.how is Mixing.REPEATED:
        return (
            f"each step is printed {plural(len(shown.workers), 'time')}, without a rank, so the "
            f"lines are those of as many workers, and nothing tells whose each is: {_APART}, or "
            "write `reports: one` if they make each step together, as with DDP"
        )
    return (
        f"step {shown.step:,} came after step {shown.before:,} in the same process, so the lines "
        f"are those of several workers, and nothing tells whose each is: {_APART}, or let one "
        "print for all that make each step together (`reports: one`). Of one worker, either "
        "steps begin anew in each epoch (`steps_per_epoch`), or `progress` matches other lines too"
    )
