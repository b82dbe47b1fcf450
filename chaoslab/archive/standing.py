"""What holds now: the last verdict of each plan, and whether it is still one.

    the last judged run of a plan ─► its verdict ─┬─ older than asked ────► EXPIRED
                                                  ├─ made by other code ──► OTHER_CODE
                                                  ├─ cannot be read ──────► DAMAGED
                                                  └─ else ────────────────► PASS, FAIL, UNKNOWN

A pass that is too old, or of code that is not here any more, says nothing about this code.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from chaoslab.archive.index import PastRun, plans
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.plan.file import load
from chaoslab.prepare.kinds import kinds
from chaoslab.record.run_directory import RESOLVED_PLAN
from chaoslab.run.twin import provenance
from chaoslab.undo.log import is_held

CODE = ("code", "versions")
"""Parts of a run's provenance that are code: sources of chaoslab, of the task and of programs; and
versions of Python and of the libraries that compute."""

CodeOf = Callable[[PastRun], Mapping[str, Json] | None]


class State(StrEnum):
    """What the last verdict of a plan is worth now."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    EXPIRED = "expired"
    """It was PASS, longer ago than asked."""
    OTHER_CODE = "other code"
    """It was PASS, and the code that is here now is not what was run."""
    NOT_JUDGED = "not judged"
    """No verdict.json says what was found, whatever run.json remembers."""
    DAMAGED = "damaged"
    """run.json or verdict.json of the newest run that may have a verdict cannot be read."""


_EXIT_CODES = {State.PASS: ExitCode.PASS, State.FAIL: ExitCode.FAIL}
"""All others are UNKNOWN: nobody can tell whether the plan would pass now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One plan."""

    plan: str
    state: State
    run: PastRun
    """The last one that was judged, or whose run.json is damaged; the last one if none was."""
    age_s: float | None
    is_running: bool
    """Whether a run of it goes on now."""
    damage: str = ""
    """Why the state is DAMAGED."""
    tightest: Finding | None = None
    """The finding with the smallest margin."""

    @property
    def exit_code(self) -> ExitCode:
        """PASS, FAIL or UNKNOWN."""
        return _EXIT_CODES.get(self.state, ExitCode.UNKNOWN)


def standings(
    runs: Sequence[PastRun], now: datetime, *, max_age_s: float | None, code_of: CodeOf | None
) -> tuple[Standing, ...]:
    """Each plan that has runs, by name; the runs come the newest first.

    `code_of` tells the code that is here now, for a run's plan; None: any code will do.
    """
    return tuple(
        _standing(plan, of_plan, now, max_age_s, code_of) for plan, of_plan in plans(runs).items()
    )


def worst(found: Sequence[Standing]) -> ExitCode:
    """FAIL if any plan fails, UNKNOWN if one is not known to pass, or there is none."""
    codes = {one.exit_code for one in found} or {ExitCode.UNKNOWN}
    order = (ExitCode.FAIL, ExitCode.UNKNOWN, ExitCode.PASS)
    return next(code for code in order if code in codes)


def _standing(
    plan: str,
    runs: Sequence[PastRun],
    now: datetime,
    max_age_s: float | None,
    code_of: CodeOf | None,
) -> Standing:
    last = next((run for run in runs if run.outcome is not None or run.damage), runs[0])
    verdict, damage = _read(last)
    margins = [one for one in verdict.findings if one.margin is not None] if verdict else []
    return Standing(
        plan=plan,
        state=State.DAMAGED
        if damage
        else _state(last, verdict, last.age_s(now), max_age_s, code_of),
        run=last,
        age_s=last.age_s(now),
        is_running=is_held(runs[0].directory.path),
        damage=damage,
        tightest=min(margins, key=lambda one: one.margin or 0.0, default=None),
    )


def _read(run: PastRun) -> tuple[Verdict | None, str]:
    """Its verdict, and why that or run.json cannot be read."""
    if run.outcome is None:
        return None, run.damage
    try:
        return run.verdict(), ""
    except FleetError as error:
        return None, str(error)


def _state(
    run: PastRun,
    verdict: Verdict | None,
    age_s: float | None,
    max_age_s: float | None,
    code_of: CodeOf | None,
) -> State:
    if run.outcome is None or verdict is None:
        return State.NOT_JUDGED
    if run.outcome is not Outcome.PASS:
        return State(run.outcome.value)
    if not run.is_pass:  # it passed, and left something behind or was interrupted
        return State.UNKNOWN
    if code_of is not None and not _is_same_code(run.provenance(), code_of(run)):
        return State.OTHER_CODE
    is_old = max_age_s is not None and (age_s is None or abs(age_s) > max_age_s)
    return State.EXPIRED if is_old else State.PASS


def _is_same_code(was: Mapping[str, Json], is_now: Mapping[str, Json] | None) -> bool:
    """Whether both are known and equal; a simulation is the same with all versions."""
    parts = [part for part in CODE if part != "versions" or "costs" not in was]
    return is_now is not None and all(was.get(part) == is_now[part] for part in parts)


def code_here(run: PastRun) -> Mapping[str, Json] | None:
    """Digests of the code with which this machine, from this folder, would run the same plan now.

    None if that is not known: the record has no plan, or this version cannot read it.
    """
    try:
        plan, _ = load(run.directory.path / RESOLVED_PLAN, kinds(), is_record=True)
        return provenance(plan)
    except (PlanError, FleetError):
        return None
