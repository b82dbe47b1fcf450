"""Start of the nodes of a run: the syncer, then the learners, which are told where it listens.

a script         its workers, each by itself
each by itself   syncer ─► it reports its address ─► links ─► learners
as one           syncer, links, learners ─► the fleet asks for all of them ─► the syncer reports

`NodesStart.start` returns once all of them train.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import Attached, Networked, StartsTogether
from chaoslab.plan.model import LAUNCHER, SYNCER, FaultPlan, Script
from chaoslab.prepare.launch import Launch
from chaoslab.record.exits import how_it_ended
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.run_loop import RunLoop
from chaoslab.run.triggers import Progress
from chaoslab.trainers.reading import nearest_lines

START_S = 120.0
"""For the syncer to be ready, and for what the learners are asked before faults; for all learners
to join and step where `training.start_patience` is shorter."""
LINES_S = 60.0
"""For a line of a script that its patterns match, if others look like progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesStart:
    """Start of the nodes of one run, and the wait until they train."""

    launch: Launch
    directory: RunDirectory
    run_loop: RunLoop

    def start(self, *, keeps_training: bool) -> None:
        """Start all, or adopt those of an attached fleet; FleetError names those that do not train.

        `keeps_training`: the syncer lets training go on when the stop rule is met, until SIGTERM.
        """
        plan, fleet = self.launch.plan, self.run_loop.recorder.fleet
        if isinstance(fleet, Attached):
            fleet.adopt(plan.labels)
        else:
            start_nodes(fleet, self.launch, keeps_training, self._syncer_address)
        training = plan.training
        if training.script is None:
            within_s = max(START_S, training.start_patience_s)
            self._await(training.learner_names, self._has_stepped, "join and step", within_s)
        else:
            self._await_workers(training.script)

    @property
    def _progress(self) -> Progress:
        return self.run_loop.recorder.progress

    def _syncer_address(self) -> str:
        """Where the syncer says that it listens, once it does."""
        progress = self._progress
        self._await([SYNCER], lambda _: progress.address is not None, "report that it is ready")
        return str(progress.address)

    def _await_workers(self, script: Script) -> None:
        """Wait for progress of all; not for long where lines came near that no pattern matches."""
        names, begun_s = script.names, self.run_loop.recorder.now_s
        self.run_loop.until(lambda: self._is_decided(names, self._has_stepped), within_s=LINES_S)
        missing = [name for name in names if not self._has_stepped(name)]
        near = [line for name in missing for line in self._nearest(name, script)]
        if near and not any(name in self._progress.exits for name in missing):
            shown = "\n".join(dict.fromkeys(near))
            others = len(missing) < len(names)
            remedy = "; if one worker reports for all, write `reports: one`" if others else ""
            raise FleetError(
                f"no line of {', '.join(missing)} within {LINES_S:g} s is progress by "
                f"`training.script`; these came nearest:\n{shown}\nwrite `progress` for them, or "
                f"let it print `chaoslab: step=12 loss=3.25`{remedy}"
            )
        left_s = max(START_S, script.max_pause_s) - (self.run_loop.recorder.now_s - begun_s)
        self._await(names, self._has_stepped, "report progress", within_s=max(1.0, left_s))

    def _has_stepped(self, name: str) -> bool:
        return name in self._progress.members and name in self._progress.steps

    def _nearest(self, worker: str, script: Script) -> Sequence[str]:
        speaker = LAUNCHER if LAUNCHER in self.run_loop.recorder.fleet.nodes else worker
        log = self.directory.nodes / speaker / "1" / "stdout.log"
        if script.reads_files or not log.is_file():
            return ()
        return nearest_lines(log.read_text(errors="replace").splitlines(), script.patterns)

    def _await(
        self,
        names: Iterable[str],
        is_up: Callable[[str], bool],
        what: str,
        within_s: float = START_S,
    ) -> None:
        """Wait until all are up. FleetError names those that are not, and what they said last."""
        names = tuple(names)
        self.run_loop.until(lambda: self._is_decided(names, is_up), within_s=within_s)
        if absent := [name for name in names if not is_up(name)]:
            ended = self._progress.exits
            culprits = [name for name in (*absent, SYNCER, LAUNCHER) if name in ended] or absent
            states = "; ".join(
                f"{name}: {self._state(name)}{last_words(self.launch.plan, self.directory, name)}"
                for name in dict.fromkeys(culprits)
            )
            late = "" if any(name in ended for name in culprits) else f" within {within_s:g} s"
            raise FleetError(f"{', '.join(absent)} did not {what}{late} ({states})")

    def _is_decided(self, names: Iterable[str], is_up: Callable[[str], bool]) -> bool:
        missing, ended = [name for name in names if not is_up(name)], self._progress.exits
        return not missing or any(name in ended for name in (SYNCER, LAUNCHER, *missing))

    def _state(self, node: str) -> str:
        if (exited := self._progress.exits.get(node)) is not None:
            return how_it_ended(exited)
        return "still running" if self._progress.is_alive(node) else "not started"


def start_nodes(
    fleet: Fleet, launch: Launch, keeps_training: bool, await_address: Callable[[], str]
) -> None:
    """Returns once the syncer is ready. `await_address` waits for that: its address.

    `keeps_training`: the syncer lets training go on when the stop rule is met, until SIGTERM.
    """
    if launch.plan.training.script is not None:
        launch.folder.mkdir()
        for spec in launch.workers(launch.plan.training.script):
            fleet.start(spec)
        return
    as_one = fleet.start_together() if isinstance(fleet, StartsTogether) else nullcontext()
    with as_one as known:
        fleet.start(launch.syncer(keeps_training=keeps_training))
        _start_learners(fleet, launch, known or await_address())
    if known:
        await_address()


def _start_learners(fleet: Fleet, launch: Launch, upstream: str) -> None:
    """Those of the start; those in reserve are enlisted."""
    through = fleet if isinstance(fleet, Networked) else None
    addresses = {
        name: through.link(name, upstream).address if through else upstream
        for name in launch.plan.training.roster
    }
    for spec in launch.learners(addresses):
        fleet.start(spec)
    for spec in launch.reserve(addresses):
        fleet.enlist(spec)


def last_words(plan: FaultPlan, directory: RunDirectory, node: str) -> str:
    """The end of what a node printed, for a message; empty if it printed nothing."""
    words = directory.stderr_tail(node)
    what = "standard error" if plan.training.script is None else "output"
    return f", its {what} ends with:\n{words}\n" if words else ""
