"""Last verdicts: the newest run of each plan on each fleet, and whether it still says anything.

    plan, --set, fleet ─► its newest run that is over ─┬─ without a verdict ──► NOT_JUDGED
                                                       ├─ older than asked ───► EXPIRED
                                                       ├─ made by other code ─► OTHER_CODE
                                                       ├─ cannot be read ─────► DAMAGED
                                                       └─ else ───────────────► PASS, FAIL, UNKNOWN

A pass that is too old, or of code that is not here any more, says nothing about this code; nor does
one on another fleet, with other settings, or before a run that has no verdict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from chaoslab.archive.index import PastRun, plans
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.fleet.settings import BringsClock
from chaoslab.plan.file import load
from chaoslab.prepare.kinds import fleet_of, kinds
from chaoslab.prepare.plans import fleet_setup
from chaoslab.record.run_directory import RESOLVED_PLAN
from chaoslab.run.twin import CODE, code
from chaoslab.undo.harness import is_in_progress

CodeOf = Callable[[PastRun], Mapping[str, Json] | None]


class State(StrEnum):
    """Present validity of the last verdict of a plan."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    EXPIRED = "expired"
    """It was PASS, but is older than allowed."""
    OTHER_CODE = "other code"
    """It was PASS, but the present code is not the one that was run."""
    NOT_JUDGED = "not judged"
    """The newest run that is over has no verdict.json, whatever run.json remembers."""
    DAMAGED = "damaged"
    """run.json or verdict.json of that run cannot be read."""


_EXIT_CODES = {State.PASS: ExitCode.PASS, State.FAIL: ExitCode.FAIL}
"""All others are UNKNOWN: whether the plan would pass now is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVerdict:
    """One plan with its settings, on one fleet."""

    plan: str
    fleet: str
    version: str
    """Digest of the resolved plan without its seed."""
    state: State
    run: PastRun
    """The newest one that is over; the newest one if none is."""
    age_s: float | None
    is_running: bool
    """Whether a run of it is in progress."""
    damage: str = ""
    """Reason for which the state is DAMAGED."""
    tightest: Finding | None = None
    """The finding with the smallest margin."""

    @property
    def exit_code(self) -> ExitCode:
        """PASS, FAIL or UNKNOWN."""
        return _EXIT_CODES.get(self.state, ExitCode.UNKNOWN)


def last_verdicts(
    runs: Sequence[PastRun], now: datetime, *, max_age_s: float | None, code_of: CodeOf | None
) -> tuple[LastVerdict, ...]:
    """Each plan that has runs, by name, on each fleet; the runs come the newest first.

    Runs with other settings (`--set`) stand for themselves until the plan's file is another one.
    `code_of` tells the code that is here now, for a run's plan; None: any code will do.
    """
    return tuple(
        _last_verdict(of_one, now, max_age_s, code_of)
        for of_plan in plans(runs).values()
        for of_one in _by_version(of_plan)
    )


def worst(found: Sequence[LastVerdict]) -> ExitCode:
    """FAIL if any plan fails, UNKNOWN if one is not known to pass, or there is none."""
    codes = {one.exit_code for one in found} or {ExitCode.UNKNOWN}
    order = (ExitCode.FAIL, ExitCode.UNKNOWN, ExitCode.PASS)
    return next(code for code in order if code in codes)


def _by_version(runs: Sequence[PastRun]) -> Iterator[Sequence[PastRun]]:
    """The runs of a plan by fleet and version, without versions of older plan files."""
    found: dict[tuple[str, str], list[PastRun]] = {}
    sources: dict[str, bytes] = {}
    for run in runs:
        found.setdefault((run.fleet, run.plan_version()), []).append(run)
        if source := run.source():
            sources.setdefault(run.fleet, source)
    for (fleet, _), of_one in found.items():
        known = set(filter(None, map(PastRun.source, of_one)))
        if not known or sources[fleet] in known:
            yield of_one


def _last_verdict(
    runs: Sequence[PastRun], now: datetime, max_age_s: float | None, code_of: CodeOf | None
) -> LastVerdict:
    going = [is_in_progress(run.directory.path) for run in runs]
    last = next((run for run, goes_on in zip(runs, going, strict=True) if not goes_on), runs[0])
    verdict, damage = _read(last)
    age_s = last.age_s(now)
    return LastVerdict(
        plan=last.plan,
        fleet=last.fleet,
        version=last.plan_version(),
        state=State.DAMAGED if damage else _state(last, verdict, age_s, max_age_s, code_of),
        run=last,
        age_s=age_s,
        is_running=any(going),
        damage=damage,
        tightest=verdict.tightest if verdict else None,
    )


def _read(run: PastRun) -> tuple[Verdict | None, str]:
    """Its verdict, and the error of that or of run.json."""
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
    """Whether both are known and equal."""
    if is_now is None or not was:
        return False
    return all(was.get(part) == is_now.get(part) for part in CODE)


def code_here(run: PastRun) -> Mapping[str, Json] | None:
    """Digests of the code with which this machine, from this folder, would run the same plan now.

    None if that is not known: the record has no plan, or this version cannot read it.
    """
    try:
        plan, _ = load(run.directory.path / RESOLVED_PLAN, kinds(), is_record=True)
        is_simulated = isinstance(fleet_of(plan), BringsClock)
        return code(plan, simulated_by=fleet_setup(plan).fleet if is_simulated else None)
    except (PlanError, FleetError):
        return None
