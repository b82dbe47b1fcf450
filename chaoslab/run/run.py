"""One run, from the first process to the last.

    start ─► baseline ─► inject ─► settle ─► stop ─► evaluate        each waits by `RunLoop.until`:
    fleet.poll ─► journal ─► progress ─► injector, abort rules ─► fleet, and round again

`Run.execute` is the page to read: its phases follow each other, and whatever happens in one of
them, what is open is healed, every node is ended and the record says how it went. Nothing here
knows a kind of fault or a kind of fleet, and nothing here judges.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType

from chaoslab import __version__
from chaoslab.core.errors import ChaoslabError, FleetError
from chaoslab.core.events import Json, read
from chaoslab.core.payloads import (
    Need,
    PhaseEntered,
    PlanEntry,
    ResidueFound,
    RunFinished,
    RunOutcome,
    RunSettled,
    RunStarted,
    ScriptStarted,
)
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import Attached
from chaoslab.plan.model import AFTER_S, SYNCER, FaultPlan, Injection
from chaoslab.prepare.launch import EVALUATOR, Launch
from chaoslab.record.exits import how_it_ended
from chaoslab.record.journal import Journal
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.baseline import await_steady, keep_pace
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.injector import Injector
from chaoslab.run.interrupts import Interrupts
from chaoslab.run.machine_load import Machine
from chaoslab.run.nodes_end import NodesEnd
from chaoslab.run.nodes_start import NodesStart, last_words
from chaoslab.run.open_injection import OpenInjections
from chaoslab.run.pacer import Pacer
from chaoslab.run.run_loop import Ended, RunLoop
from chaoslab.run.script_files import ScriptFiles
from chaoslab.run.script_links import ScriptLinks
from chaoslab.run.verbs import Verbs
from chaoslab.run.waiting import WaitingInjections
from chaoslab.trainers.script_progress import ScriptProgress
from chaoslab.undo.heartbeat import Heartbeat

FINISH_S = 60.0
"""For all nodes to give their accounts and exit once training has ended."""
EVALUATE_S = 180.0
"""For all snapshots."""
AGAIN_S = 1.0
"""After this a signal that could not be sent is tried again."""
END_S = 5.0
"""For nodes that still run to obey SIGTERM, and then SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a run and its fault-free twin must have in common, and which of the two this is."""

    provenance: Mapping[str, str] = field(default_factory=dict)
    plan_digest: str = ""
    """SHA-256 of plan.resolved.yaml as it was written; empty without that file."""
    is_twin: bool = False
    without: frozenset[Need] = frozenset()
    """What the run was never to have."""
    least_tokens: float = 0.0
    """A twin goes on until it has committed this many, beyond its stop rule: as its run did."""


class Run:
    """A plan, its injections and all it takes to carry them out once."""

    def __init__(
        self,
        plan: FaultPlan,
        injections: Iterable[Injection],
        *,
        fleet: Fleet,
        journal: Journal,
        directory: RunDirectory,
        interrupts: Interrupts,
        heartbeat: Heartbeat | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.plan, self.injections = plan, tuple(injections)
        self.heartbeat = heartbeat = heartbeat or Heartbeat()
        self.fleet, self.directory = fleet, directory
        self.recorder = EventRecorder(fleet=fleet, journal=journal)
        self.script_progress: ScriptProgress | None = None
        self.files: ScriptFiles | None = None
        self.links: ScriptLinks | None = None
        if (script := plan.training.script) is not None:
            self.script_progress = ScriptProgress(
                script.names,
                is_one_for_all=script.reports == "one",
                stop=plan.training.stop.limits,
            )
            self.recorder.derive = self.script_progress.see
            if fleet.node_site.is_here and (script.reads_files or script.checkpoints_of(0)):
                self.files = ScriptFiles(
                    script, directory.script, self.script_progress, journal.clock
                )
                self.recorder.other_sources.append(self.files.read)
            if script.ports:
                self.links = ScriptLinks(script, fleet, journal.clock)
                self.recorder.other_sources.append(self.links.read)
        self.progress = self.recorder.progress
        self.launch = Launch(
            plan=plan,
            snapshots=directory.snapshots,
            tokens=directory.tokens,
            folder=directory.script,
            node_site=fleet.node_site,
            secrets=journal.secrets,
        )
        self.verbs = Verbs(fleet=fleet, clock=journal.clock)
        self.injector = Injector(
            recorder=self.recorder,
            verbs=self.verbs,
            directory=directory,
            waiting=WaitingInjections(
                recorder=self.recorder,
                verbs=self.verbs,
                injections=self.injections,
                holds=plan.held if interrupts.inbox else frozenset(),
                due_within=heartbeat.due_within,
            ),
            opened=OpenInjections(limits=plan.limits, progress=self.progress),
            due_within=heartbeat.due_within,
        )
        self.run_loop = RunLoop(
            plan=plan,
            recorder=self.recorder,
            injector=self.injector,
            pacer=Pacer(training=plan.training, recorder=self.recorder, verbs=self.verbs),
            interrupts=interrupts,
            heartbeat=heartbeat,
            machine=machine,
        )
        self.nodes_end = NodesEnd(run_loop=self.run_loop)
        self.has_faults = bool(self.injector.waiting)
        self.outcome = RunOutcome.BROKEN
        self.remarks: list[str] = []
        self.basis = Basis()

    # ---------------------------------------------------------------- the run, as nested phases

    def execute(self, basis: Basis | None = None) -> RunOutcome:
        """Carry the plan out once. An error leaves a finished record behind."""
        self.basis = basis or self.basis
        with (
            self._recorded(),
            self.verbs,
            self._residue_noted(),
            self._in_fleet(),
            self._every_node_ended(),
            self._every_fault_healed(),
        ):
            self._start()
            self._measure_baseline()
            self._run_faults()
            self._settle()
            self._stop()
            if self.plan.is_evaluated:
                self._evaluate()
        return self.outcome

    def _start(self) -> None:
        self._note_phase("start")
        keeps_training = self.has_faults or self.basis.is_twin
        nodes = NodesStart(
            launch=self.launch,
            directory=self.directory,
            run_loop=self.run_loop,
            files=self.files,
            links=self.links,
        )
        nodes.start(keeps_training=keeps_training)
        self.run_loop.begin_training()

    def _measure_baseline(self) -> None:
        self._note_phase("baseline")
        keep_pace(self.run_loop)
        await_steady(self.run_loop, is_optional=not self.has_faults)

    def _run_faults(self) -> None:
        """Train until all faults are over, beyond the stop rule if one is at work."""
        self._note_phase("inject")
        self.injector.waiting.enable_triggers()
        self.run_loop.until(
            lambda: (
                self.injector.is_done
                or (self.progress.is_stop_rule_met and not self.injector.is_busy)
            )
        )

    def _settle(self) -> None:
        """Every learner that a fault took away contributes again, or the record names it.

        Then, if there were faults, as many rounds follow as there were before them to compare.
        """
        self._note_phase("settle")
        self._await_contributions()
        pending = self.injector.returns.pending()
        self.recorder.note(RunSettled(is_settled=not pending, pending=tuple(pending)))
        if self.has_faults:
            self._train_on()

    def _train_on(self) -> None:
        """Until as many rounds have followed as the baseline was measured over, and as a verdict on
        the life after a return takes.

        A fault whose step or loss is reached only now has its whole time, too.
        """
        last_round = self.progress.rounds + self.plan.baseline.rounds_after
        least_s = self.recorder.now_s + AFTER_S
        self.run_loop.until(
            lambda: (
                (self.progress.rounds >= last_round and self.recorder.now_s >= least_s)
                or self.injector.is_busy
            ),
            within_s=self.plan.settle_s,
        )
        if self.injector.is_busy and not self.run_loop.is_training_over:
            self.run_loop.until(lambda: not self.injector.is_busy)
            self._await_contributions()
            self._train_on()

    def _stop(self) -> None:
        """What is open is healed. Training ends by its own rule, unless others had started it."""
        self._note_phase("stop")
        if isinstance(self.fleet, Attached):
            self.run_loop.close_faults("the run is over")
            return
        seen = self.progress
        self.run_loop.until(
            lambda: (
                seen.committed_tokens >= self.basis.least_tokens
                and (seen.is_stop_rule_met or not self.plan.training.stop.limits)
            )
        )
        if self.script_progress is not None:
            self._end_workers(self.script_progress)
            return
        self._release_syncer()
        inside = {name for name in seen.alive() if not seen.is_outside(name)}
        finishing = inside - self.injector.opened.away
        self.run_loop.close_faults("training ended")
        if not self.run_loop.until(
            lambda: not finishing & set(seen.alive()), within_s=FINISH_S, outlasts_training=True
        ):
            late = ", ".join(sorted(finishing & set(seen.alive())))
            self.remarks.append(f"{late} still ran {FINISH_S:g} s after training ended")

    def _end_workers(self, progress: ScriptProgress) -> None:
        """Tell those of a script to end, unless they have; what they do last, they may do."""
        self.run_loop.close_faults("training ended")
        if not self.run_loop.is_training_over:
            for follows in progress.stop():
                self.recorder.take(follows)
            self.nodes_end.end("SIGTERM", within_s=FINISH_S)

    def _release_syncer(self) -> None:
        """Tell the syncer that it need not go on; again, while it is out of reach."""
        told = list[bool]()

        async def tell() -> None:
            told.append(await self.nodes_end.signal(SYNCER, "SIGTERM"))

        while not self.run_loop.is_training_over:
            if SYNCER not in self.verbs.busy:
                self.verbs.begin(tell())
            self.run_loop.until(lambda: any(told), within_s=AGAIN_S)
            if any(told):
                self.run_loop.until(lambda: False)

    def _evaluate(self) -> None:
        self._note_phase("evaluate")
        try:
            start = partial(self.fleet.start, self.launch.evaluator())
            self.run_loop.carry_out([EVALUATOR], start, "the start")
        except FleetError as error:
            self.remarks.append(f"the evaluator could not be started: {error}")
            return
        self.run_loop.until(
            lambda: EVALUATOR in self.progress.exits, within_s=EVALUATE_S, outlasts_training=True
        )
        exited = self.progress.exits.get(EVALUATOR)
        if exited is None or exited.payload.exit_code != 0:
            running = f"still running after {EVALUATE_S:g} s"
            ending = running if exited is None else how_it_ended(exited)
            words = last_words(self.directory, EVALUATOR)
            self.remarks.append(f"the evaluator failed: {ending}{words}")

    # ---------------------------------------------------------------- whatever happens in them

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        started = None
        if (script := self.plan.training.script) is not None:
            started = ScriptStarted(
                max_pause_s=script.max_pause_s,
                says_saved=script.patterns.saved is not None or bool(script.checkpoints_of(0)),
            )
        self.recorder.note(
            RunStarted(
                plan=self.plan.name,
                seed=self.plan.seed,
                fleet=self.fleet.kind,
                algorithm=self.plan.training.described,
                learners=self.plan.training.learner_names,
                reserve=self.plan.training.reserve_names,
                entries=tuple(
                    PlanEntry(
                        spec=spec.id,
                        fault=spec.fault,
                        injections=sum(one.spec == spec.id for one in self.injections),
                    )
                    for spec in self.plan.faults
                ),
                stop=self.plan.training.stop.limits,
                script=started,
                version=__version__,
                plan_digest=self.basis.plan_digest,
                is_twin=self.basis.is_twin,
                provenance=self.basis.provenance,
                without=tuple(sorted(self.basis.without)),
            )
        )
        try:
            yield
            self.outcome = RunOutcome.COMPLETED
        except Ended as ended:
            self.outcome = ended.outcome
            self.remarks.append(str(ended))
        except ChaoslabError as error:
            self.remarks.append(str(error))
            raise
        finally:
            self.run_loop.hear_operators()
            is_crash = self.outcome is RunOutcome.BROKEN and not self.remarks
            if late := self.verbs.late():
                self.remarks.append(f"{late}; it is left to the undo log and the janitor")
            reason = "the harness crashed" if is_crash else "; ".join(self.remarks)
            self.run_loop.close()
            for one in (self.files, self.links):
                if one is not None:
                    one.close()
            self.recorder.note(RunFinished(outcome=self.outcome, reason=reason))

    @contextmanager
    def _residue_noted(self) -> Iterator[None]:
        """What is left once every fault is healed and every node ended."""
        found = list[Mapping[str, Json]]()
        try:
            yield
        finally:
            if not self.run_loop.is_given_up:
                self.run_loop.beside(lambda: found.extend(self.heartbeat.residue()), "a last look")
            for left in found:
                self.recorder.note(read(ResidueFound, left, "residue"))

    @contextmanager
    def _in_fleet(self) -> Iterator[None]:
        is_entered = self.run_loop.beside(self.fleet.__enter__, "the start of the fleet")
        with ExitStack() as leaving:
            if is_entered:
                leaving.push(self._leave_fleet)
            self.run_loop.end_if_interrupted()
            yield

    def _leave_fleet(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave = partial(self.fleet.__exit__, kind, error, trace)
        if not self.run_loop.beside(leave, "the end of the fleet") and error is None:
            self.run_loop.end_if_interrupted()

    @contextmanager
    def _every_fault_healed(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.run_loop.close_faults("the run ended first")

    @contextmanager
    def _every_node_ended(self) -> Iterator[None]:
        try:
            yield
        finally:
            if isinstance(self.fleet, Attached):
                self.nodes_end.leave()
            else:
                self.nodes_end.end("SIGTERM", within_s=END_S)
                self.nodes_end.end("SIGKILL", within_s=END_S)

    # ---------------------------------------------------------------- helpers

    def _await_contributions(self) -> None:
        """Wait until learners that faults took away are back, at most for the plan's `settle`."""
        self.run_loop.until(
            lambda: not self.injector.returns.pending(), within_s=self.plan.settle_s
        )

    def _note_phase(self, phase: str) -> None:
        self.recorder.note(PhaseEntered(phase=phase))
