"""A whole run and its record: directory, janitor, fleet, journal, the run itself, and its twin.

    plan, schedule ─► RunDirectory ─► janitor ┬─► fleet ─► Run.execute ─► journal.jsonl, evidence/
                                              └─► then, if asked for, the twin in twin/;
                                                  that of a simulation beside the run

It judges nothing and draws nothing: a verdict is made later, from the directory alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.payloads import Need, PaceSet, RunOutcome
from chaoslab.core.secrets import Secrets
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.plan.schedule import to_lines
from chaoslab.prepare.disk_room import refuse_full_disk
from chaoslab.prepare.lacking import lacking
from chaoslab.prepare.plans import Prepared
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.prepare.setup import FleetSetup, LinkSetup
from chaoslab.record.history import History
from chaoslab.record.journal import Journal, Observer
from chaoslab.record.provenance import git_state, host, versions
from chaoslab.record.run_directory import RunDirectory, fingerprint
from chaoslab.run import twin
from chaoslab.run.interrupts import Interrupts, counted_signals
from chaoslab.run.machine_load import Machine
from chaoslab.run.operators import Inbox
from chaoslab.run.records import residue
from chaoslab.run.run import Basis, Run
from chaoslab.undo.actions import leftovers
from chaoslab.undo.heartbeat import UNDONE, Heartbeat
from chaoslab.undo.janitor import Guard, start_janitor
from chaoslab.undo.log import UndoLogFile

GAMEDAY: Final = "gameday"
"""Key of run.json: whether operators decided of its faults."""
_TWIN_GOES_ON = 1.1
_SIMULATED_TWIN_GOES_ON = 1.02
"""Committed tokens of a twin, as a multiple of its run's: later runs of the plan, which differ
little in a simulation, can then use it, too."""
_SIMULATED_LINES = 256
"""Lines of a simulation's journal that are written at once. Losing some does no harm: nothing
outlives this process, and the simulation can be repeated."""
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Means:
    """What a run and its twin share."""

    fleet_setup: FleetSetup
    links: LinkSetup
    secrets: Secrets
    interrupts: Interrupts
    guard: Guard | None
    """The janitor of both; None for a simulation, which leaves nothing to undo."""
    undo_log: UndoLogFile


def run_plan(
    prepared: Prepared,
    root: Path,
    observers: Sequence[Observer] = (),
    *,
    judge: Callable[[RunDirectory], _Found],
    made: Callable[[RunDirectory], object] = lambda _: None,
    before_twin: Callable[[History], object] = lambda _: None,
    inbox: Inbox | None = None,
) -> _Found:
    """Run a plan, and return what `judge` finds in its record while the janitor still runs.

    `judge` is asked whatever the `outcome` in run.json is, unless the run broke.
    `made` is told the directory as soon as it is there: other runs may be made under the same root.
    `before_twin` is told the history of the run, if a twin is yet to be run after it.
    `inbox`: orders of the operators of a game-day, whose run has no twin, which would take as long.

    AbilityError or PlanError before anything was made. FleetError or HarnessBug when the run broke:
    everything was healed and ended before, and the record is kept.
    """
    plan, fleet_setup, is_gameday = prepared.plan, prepared.fleet_setup, inbox is not None
    links = prepared.links.ask().kind
    refuse_impossible(plan, prepared.schedule, fleet_setup.fleet, prepared.links)
    refuse_full_disk(plan, root)
    directory = RunDirectory.create(root, plan.name, fleet_setup.calendar)
    made(directory)
    _write_plan(directory, prepared, links, is_gameday=is_gameday)
    if is_gameday:
        plan = replace(plan, limits=replace(plan.limits, timeout_s=plan.charter.length_s))
    basis = Basis(
        provenance=twin.provenance(
            plan,
            links=links,
            simulated_by=fleet_setup.fleet if fleet_setup.is_simulated else None,
        ),
        plan_digest=directory.plan_digest() or "",
        without=lacking(plan, is_gameday=is_gameday),
    )
    janitor: AbstractContextManager[Guard | None] = (
        nullcontext() if fleet_setup.is_simulated else start_janitor(directory.path)
    )
    with janitor as guard:
        with (
            counted_signals(inbox) as interrupts,
            UndoLogFile(directory.path) as undo_log,  # so it is held until the twin is there, too
        ):
            means = _Means(
                fleet_setup=fleet_setup,
                links=prepared.links,
                secrets=prepared.text.secrets,
                interrupts=interrupts,
                guard=guard,
                undo_log=undo_log,
            )
            outcome, run = _execute(
                plan, prepared.schedule.injections, directory, means, basis, observers
            )
            if outcome is RunOutcome.COMPLETED and Need.TWIN not in basis.without:
                twin_run = _Twin(
                    plan=plan,
                    basis=basis,
                    directory=directory,
                    root=root,
                    means=means,
                    name=twin.key(plan, basis.provenance),
                )
                directory.note(twin=twin_run.reuse_or_run(run, observers, before_twin))
        return judge(directory)


def _write_plan(
    directory: RunDirectory, prepared: Prepared, links: str, *, is_gameday: bool
) -> None:
    """run.json as it is before the run, the plan and the schedule."""
    plan, schedule, text = prepared.plan, prepared.schedule, prepared.text
    fleet = prepared.fleet_setup.fleet
    own: dict[str, Json] = {}
    if text.resolved:
        own = {"versions": versions(), "git": git_state(Path.cwd()), "host": host()}
    if is_gameday:
        own[GAMEDAY] = True
    directory.note(
        started=prepared.fleet_setup.calendar.wall(),
        links=links,
        plan=plan.name,
        seed=plan.seed,
        fleet=fleet.kind,
        abilities=sorted(fleet.abilities),
        plan_hash=fingerprint(plan),
        schedule_hash=fingerprint(schedule.injections),
        **own,
        outcome=None,
        exit_code=None,
        training_continued=None,
        learners_rejoined=None,
    )
    directory.write_plan(source=text.source, resolved=text.resolved)
    directory.write_schedule(text.secrets.lines(to_lines(schedule)))


def was_interrupted(directory: RunDirectory) -> bool:
    """Whether the run or its twin was ended by a signal."""
    twin = directory.facts.get("twin")
    outcomes = [directory.facts.get("outcome")]
    if isinstance(twin, Mapping):
        outcomes.append(twin.get("outcome"))
    return RunOutcome.INTERRUPTED.value in outcomes


def _execute(
    plan: FaultPlan,
    injections: Sequence[Injection],
    directory: RunDirectory,
    means: _Means,
    basis: Basis,
    observers: Sequence[Observer],
) -> tuple[RunOutcome, History]:
    """Make the journal, the links and the fleet, execute the run, and note how it ended."""
    clock = means.fleet_setup.clock()
    undo_log = means.undo_log
    with Journal(
        directory.path,
        clock,
        observers=observers,
        secrets=means.secrets,
        lines_at_once=_SIMULATED_LINES if means.fleet_setup.is_simulated else 1,
    ) as journal:
        node_links = NodeLinks(
            clock=clock,
            made_by=means.links.factory(directory.path, undo_log=undo_log),
            initial_effects=means.links.initial_effects,
            is_excused=(directory.path / UNDONE).exists,
        )
        run = Run(
            plan,
            injections,
            fleet=means.fleet_setup.fleet(
                directory.path, clock, undo_log=undo_log, node_links=node_links
            ),
            journal=journal,
            directory=directory,
            interrupts=means.interrupts,
            heartbeat=_heartbeat(means, directory),
            machine=None if means.fleet_setup.is_simulated else Machine(),
        )
        with _concluded(journal, partial(_conclude, run, journal, directory, means)):
            return run.execute(basis), journal.history


@contextmanager
def _concluded(journal: Journal, conclude: Callable[[], None]) -> Iterator[None]:
    """Conclude after an error, too. A full disk makes several writes fail, also those of
    `conclude`: one error holds all their messages, that of the journal first.
    """
    first: FleetError | None = None
    try:
        yield
    except FleetError as error:
        first = error
        raise
    finally:
        try:
            conclude()
        except FleetError as error:
            if first is None:
                raise
            first.args = (f"{first}; {error}",)
        if first is not None and journal.trouble not in str(first):
            first.args = (f"{journal.trouble}; {first}",)


def _conclude(run: Run, journal: Journal, directory: RunDirectory, means: _Means) -> None:
    simulated: dict[str, Json] = {}
    if means.fleet_setup.is_simulated:
        simulated["simulated_s"] = journal.history.end_s
    directory.note(
        outcome=run.outcome.value,
        reason=means.secrets.text("; ".join(run.remarks)),
        ended=means.fleet_setup.calendar.wall(),
        **simulated,
        journal=journal.seal.to_json(),
    )
    for log in directory.logs() if means.secrets.values else ():
        means.secrets.rewrite(log)


def _heartbeat(means: _Means, directory: RunDirectory) -> Heartbeat:
    """What stands behind the harness while it runs; nothing behind a simulation."""
    if means.guard is None:
        return Heartbeat()
    return Heartbeat(
        beat=means.guard.beat,
        lapse=means.guard.lapse,
        due_within=means.undo_log.due_within,
        residue=partial(residue, directory, leftovers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Twin:
    """The fault-free twin of a run, made in twin/.

    A twin that breaks does not break its run: what needs a comparison is UNKNOWN, and run.json says
    why. It trains a little longer than its run, so that later runs of the plan can use it, too.
    """

    plan: FaultPlan
    basis: Basis
    directory: RunDirectory
    root: Path
    means: _Means
    name: str | None
    """Among those that are kept; None: it is made each time."""

    def reuse_or_run(
        self,
        run: History,
        observers: Sequence[Observer],
        before: Callable[[History], object],
    ) -> Mapping[str, Json]:
        """Fill twin/ from the kept twins or by a run without faults, which `before` is told; what
        came of it.
        """
        is_simulated = self.means.fleet_setup.is_simulated
        goes_on = _SIMULATED_TWIN_GOES_ON if is_simulated else _TWIN_GOES_ON
        tokens = goes_on * twin.reach_tokens(run)
        folder = self.directory.make_twin()
        if self.name is not None and twin.fetch(self.name, self.root, folder, run):
            return {"outcome": RunOutcome.COMPLETED.value, "reason": "", "was_kept": True}
        before(run)
        pace = run.last(PaceSet)
        step_s = pace.payload.step_s if pace is not None else None
        self._make(folder, step_s, tokens, observers)
        facts = folder.facts
        return {"outcome": facts["outcome"], "reason": facts["reason"], "was_kept": False}

    def _make(
        self,
        folder: RunDirectory,
        step_s: float | None,
        least_tokens: float,
        observers: Sequence[Observer],
    ) -> None:
        plan, means = self.plan, self.means
        folder.note(plan=plan.name, seed=plan.seed, started=means.fleet_setup.calendar.wall())
        try:
            with UndoLogFile(folder.path) as undo_log:
                basis = replace(self.basis, plan_digest="", is_twin=True, least_tokens=least_tokens)
                _, made = _execute(
                    twin.without_faults(plan, step_s),
                    (),
                    folder,
                    replace(means, undo_log=undo_log),
                    basis,
                    observers,
                )
            if self.name is not None:
                twin.keep(self.name, self.root, folder, made)
        except FleetError as error:
            reason = means.secrets.text(str(error))
            folder.note(outcome=RunOutcome.BROKEN.value, reason=reason)
