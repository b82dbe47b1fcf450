"""Start of the nodes of a run: the syncer, then the learners, which are told where it listens.

a script         its workers, each by itself
each by itself   syncer ─► it reports its address ─► links ─► learners
as one           syncer, links, learners ─► the fleet asks for all of them ─► the syncer reports

`NodesStart.start` returns once all of them train.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.core.terminal import ends_with
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import Attached, BringsRecords, Networked, StartsTogether
from chaoslab.plan.model import LAUNCHER, SYNCER, Script
from chaoslab.prepare.launch import Launch
from chaoslab.record.exits import how_it_ended
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.run_loop import RunLoop
from chaoslab.run.script_files import ScriptFiles
from chaoslab.run.script_links import ScriptLinks
from chaoslab.run.triggers import Progress
from chaoslab.trainers.reading import nearest_lines

T = TypeVar("T")
_START: Final = "the start"
START_S = 120.0
"""For the syncer to be ready, and for what the learners are asked before faults; for all learners
to join and step where `training.start_patience` is shorter."""
LINES_S = 60.0
"""For a line of a script that its patterns match, if others look like progress; its `max_pause` if
that is longer."""
_OF_LINES = "line", "write `progress` for them, or let it print `chaoslab: step=12 loss=3.25`"
_OF_VALUES = "value", "name them in `from`, as in `step: KEY, loss: KEY`"
"""What a script says that no pattern or name of its plan reads, and what to write."""


class CarryOut(Protocol):
    """Calls a verb for these nodes, and waits for its result, as `RunLoop.carry_out`."""

    def __call__(self, names: Iterable[str], verb: Callable[[], T], what: str) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesStart:
    """Start of the nodes of one run, and the wait until they train."""

    launch: Launch
    directory: RunDirectory
    run_loop: RunLoop
    files: ScriptFiles | None
    """Where a script's progress is read, beside its output."""
    links: ScriptLinks | None
    """Those of a script's workers to ports that its plan names."""

    def start(self, *, keeps_training: bool) -> None:
        """Start all, or adopt those of an attached fleet; FleetError names those that do not train.

        `keeps_training`: the syncer lets training go on when the stop rule is met, until SIGTERM.
        """
        plan, fleet = self.launch.plan, self.run_loop.recorder.fleet
        training, call = plan.training, self.run_loop.carry_out
        if isinstance(fleet, Attached):
            names = training.roster if training.script is None else training.script.names
            adopt = partial(fleet.adopt, plan.labels)
            call((SYNCER, LAUNCHER, *names), adopt, "the search for what runs")
        else:
            ports = call((), self.links.open, "the links") if self.links is not None else {}
            start_nodes(fleet, self.launch, keeps_training, call, self._syncer_address, ports)
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
        """Wait for progress of all; not for long where something came near that is none."""
        names, begun_s = script.names, self.run_loop.recorder.now_s
        lines_s = max(LINES_S, script.max_pause_s)
        self._wait(names, self._has_stepped, lines_s)
        missing = [name for name in names if not self._has_stepped(name)]
        if missing and isinstance(fleet := self.run_loop.recorder.fleet, BringsRecords):
            fleet.bring_records()
        near = [line for name in missing for line in self._nearest(name, script)]
        is_running = not any(name in self._progress.exits for name in missing)
        if near and is_running:
            shown = "\n".join(dict.fromkeys(near))
            others = len(missing) < len(names)
            remedy = "; if one worker reports for all, write `reports: one`" if others else ""
            has_lines = self.files is None or self.files.has_lines
            what, write = _OF_LINES if has_lines else _OF_VALUES
            raise FleetError(
                f"no {what} of {', '.join(missing)} within {lines_s:g} s is progress by "
                f"`training.script`; these came nearest:\n{shown}\n{write}{remedy}"
            )
        for lacks in dict.fromkeys(map(self._lacks, missing if is_running else ())):
            if lacks:
                logging.getLogger(__name__).warning("no progress within %g s: %s", lines_s, lacks)
        patience_s = max(START_S, script.max_pause_s)
        waited_s = self.run_loop.recorder.now_s - begun_s
        self._await(names, self._has_stepped, "report progress", patience_s, waited_s)

    def _has_stepped(self, name: str) -> bool:
        return name in self._progress.members and name in self._progress.steps

    def _nearest(self, worker: str, script: Script) -> Sequence[str]:
        if script.reads_files:
            return self.files.nearest(worker) if self.files else ()
        speaker = LAUNCHER if LAUNCHER in self.run_loop.recorder.fleet.nodes else worker
        logs = (self.directory.nodes / speaker / "1").glob("std*.log")
        text = "\n".join(log.read_text(errors="replace") for log in logs)
        return nearest_lines(text.splitlines(), script.patterns)

    def _lacks(self, worker: str) -> str:
        """What is not there yet of the file with its progress."""
        return self.files.lacks(worker) if self.files else ""

    def _await(
        self,
        names: Iterable[str],
        is_up: Callable[[str], bool],
        what: str,
        within_s: float = START_S,
        waited_s: float = 0.0,
    ) -> None:
        """Wait until all are up. FleetError names those that are not, and what was said last by the
        first of them that ended.
        """
        names = tuple(names)
        self._wait(names, is_up, within_s - waited_s)
        if absent := [name for name in names if not is_up(name)]:
            ended = self._progress.exits
            needed = {*absent, SYNCER, LAUNCHER} & ended.keys()
            dead = sorted(needed, key=lambda name: ended[name].seq)
            states = "; ".join(f"{name}: {self._state(name)}" for name in dead or absent)
            late = "" if dead else f" within {within_s:g} s"
            words = last_words(self.directory, *(dead or absent))
            raise FleetError(f"{', '.join(absent)} did not {what}{late} ({states}){words}")

    def _wait(self, names: Sequence[str], is_up: Callable[[str], bool], within_s: float) -> None:
        """Wait until all are up, or one has ended that is needed for it."""

        def is_decided() -> bool:
            missing, ended = [name for name in names if not is_up(name)], self._progress.exits
            return not missing or any(name in ended for name in (SYNCER, LAUNCHER, *missing))

        self.run_loop.until(is_decided, within_s=within_s, outlasts_training=True)

    def _state(self, node: str) -> str:
        if (exited := self._progress.exits.get(node)) is not None:
            return how_it_ended(exited)
        lacks = self._lacks(node)
        running = f"still running, and {lacks}" if lacks else "still running"
        return running if self._progress.is_alive(node) else "not started"


def start_nodes(
    fleet: Fleet,
    launch: Launch,
    keeps_training: bool,
    call: CarryOut,
    await_address: Callable[[], str],
    ports: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Returns once the syncer is ready. `await_address` waits for that: its address. Each start is
    a verb, which `call` waits for.

    `keeps_training`: the syncer lets training go on when the stop rule is met, until SIGTERM.
    `ports`: see `Launch.workers`.
    """
    if launch.plan.training.script is not None:
        if launch.node_site.folder is None:
            launch.folder.mkdir()
        for spec in launch.workers(launch.plan.training.script, ports):
            call([spec.name], partial(fleet.start, spec), _START)
        return
    with ExitStack() as as_one:
        together = fleet.start_together() if isinstance(fleet, StartsTogether) else nullcontext()
        known = as_one.enter_context(together)
        syncer = launch.syncer(keeps_training=keeps_training)
        call([SYNCER], partial(fleet.start, syncer), _START)
        _start_learners(fleet, launch, known or await_address(), call)
        call((SYNCER, *launch.plan.training.roster), as_one.close, _START)
    if known:
        await_address()


def _start_learners(fleet: Fleet, launch: Launch, upstream: str, call: CarryOut) -> None:
    """Those of the start; those in reserve are enlisted."""
    roster = launch.plan.training.roster
    addresses = dict.fromkeys(roster, upstream)
    if isinstance(fleet, Networked):
        for name in roster:
            addresses[name] = call([name], partial(fleet.link, name, upstream), "the link").address
    for spec in launch.learners(addresses):
        call([spec.name], partial(fleet.start, spec), _START)
    for spec in launch.reserve(addresses):
        call([spec.name], partial(fleet.enlist, spec), _START)


def last_words(directory: RunDirectory, *nodes: str) -> str:
    """The end of what the first of these nodes printed that printed anything, as a clause."""
    logs = filter(None, map(directory.last_log, nodes))
    return next(filter(None, map(ends_with, logs)), "")
