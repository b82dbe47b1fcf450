"""A plan as the code of one commit runs it: `chaoslab run` in a work tree at that commit.

    commit ─► checkout ─► python -m chaoslab run PLAN ─► exit code ─► Answer
               └─ the plan's file, the task and the programs are the commit's

A signal to end is handed to the run, once, and awaited: it heals, and then the search ends.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.prepare.plans import Asked, decode
from chaoslab.record.run_directory import RunDirectory, list_runs
from chaoslab.replay.commits import Repository, WorkTree
from chaoslab.replay.minimise import Answer

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ANSWERS: Mapping[int, Answer] = {
    ExitCode.PASS: Answer.PASSES,
    ExitCode.FAIL: Answer.FAILS,
    ExitCode.UNKNOWN: Answer.UNRESOLVED,
    ExitCode.REFUSED: Answer.UNRESOLVED,  # the commit has no such plan, or one that cannot be run
    ExitCode.INTERRUPTED: Answer.INTERRUPTED,
}
_ORIGIN = (
    "import importlib.util as u, sys; s = u.find_spec(sys.argv[1]); print(s and s.origin or '')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """One run of one commit."""

    commit: str
    exit_code: int
    directory: RunDirectory | None
    """Its record; None if the run was refused."""

    @property
    def answer(self) -> Answer:
        """What it says. Python exits with 1 as well if the commit's code cannot be imported: a
        pass or a failure is believed with the record that says so.
        """
        answer = _ANSWERS.get(self.exit_code, Answer.BROKEN)
        said = None if self.directory is None else self.directory.facts.get("exit_code")
        is_verdict = answer in (Answer.PASSES, Answer.FAILS)
        return Answer.UNRESOLVED if is_verdict and said != self.exit_code else answer


@dataclass(slots=True, kw_only=True)
class CommitRuns:
    """A `bisect.CommitRunner` that runs a plan for real."""

    repository: Repository
    tree: WorkTree
    asked: Asked
    out: Path
    """Folder of the records, absolute."""
    options: Sequence[str] = ()
    """Options of `chaoslab run`."""
    tries: int = 1
    """Number of runs after which a commit counts as not failing."""
    begin: Callable[[str], object] = lambda _: None
    """Told of each commit before its first run."""
    tell: Callable[[CommitRun], object] = lambda _: None
    python: Sequence[str] = (sys.executable,)
    is_interrupted: bool = False
    _child: "subprocess.Popen[str] | None" = field(default=None, init=False)

    def __call__(self, commit: str) -> Answer:
        """The first answer that is not a pass; PlanError if the code is not the commit's."""
        self.tree.checkout(commit)
        self.begin(commit)
        answer = Answer.PASSES
        for _ in range(self.tries):
            if self.is_interrupted:
                return Answer.INTERRUPTED
            run = self._run(commit)
            self.tell(run)
            if run.answer is not Answer.PASSES:
                answer = run.answer
            if run.answer not in (Answer.PASSES, Answer.UNRESOLVED):
                break
        return answer

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """While this lasts, a signal to end goes to the run that goes on, and no run follows."""

        def end(number: int, _frame: FrameType | None) -> None:
            self.is_interrupted = True
            if self._child is not None and self._child.poll() is None:
                self._child.send_signal(number)

        before = {number: signal.signal(number, end) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self, commit: str) -> CommitRun:
        known = {run.id for run in list_runs(self.out)}
        words = shlex.split(self._again().again())
        command = (*self.python, "-m", "chaoslab", "run", *words, *self.options, "--json",
                   "--out", str(self.out))  # fmt: skip
        self._child = subprocess.Popen(
            command, cwd=self._folder, env=self._environment, stdout=subprocess.DEVNULL, text=True,
            process_group=0,  # or Ctrl-C in a terminal would reach it twice, and hurry it
        )  # fmt: skip
        if self.is_interrupted:  # between the last look and the start
            self._child.send_signal(signal.SIGINT)
        exit_code = self._child.wait()
        if self.is_interrupted and -exit_code in _SIGNALS:  # it had not begun to listen to signals
            exit_code = ExitCode.INTERRUPTED
        made = [run for run in list_runs(self.out) if run.id not in known]
        return CommitRun(commit=commit, exit_code=exit_code, directory=made[0] if made else None)

    def refuse_missing_plan(self, *commits: str) -> None:
        """PlanError if the plan is a file of the repository, and one of the commits lacks it."""
        file = self._plan_inside
        for commit in commits:
            if file is not None and not self.repository.has(commit, file):
                raise PlanError(
                    f"{file} is not in {self.repository.title(commit)}: commit it, name another "
                    "commit, or give a copy of the file that lies outside of the repository, which "
                    "is then run with every commit"
                )

    def refuse_other_code(self) -> None:
        """PlanError if a module of the plan is found in the user's own work tree, and not in the
        one of the commit that is checked out: then every commit would run the same code.
        """
        asked = self._again()
        if not Path(asked.plan).is_file():
            return
        plan, _ = decode(asked)
        task = plan.training.task
        modules = [task.partition(":")[0]] if task else []
        for module in (*modules, *plan.fleet.modules.values()):
            origin = self._origin(module.partition(".")[0])
            is_own = origin is not None and origin.is_relative_to(self.repository.root)
            if origin is not None and is_own and not origin.is_relative_to(sys.prefix):
                raise PlanError(
                    f"{module} is imported from {origin}, so every commit would run the code that "
                    f"is there: uninstall it, and put its folder on PYTHONPATH instead"
                )

    def _origin(self, module: str) -> Path | None:
        done = subprocess.run(
            (*self.python, "-c", _ORIGIN, module), cwd=self._folder, env=self._environment,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return Path(done.stdout.strip()).resolve() if done.stdout.strip() else None

    # ---------------------------------------------------------------- where it runs

    def _again(self) -> Asked:
        """The plan as it is named in the work tree: by the same path below its top. Hosts and costs
        are those of the files that were given, with every commit.
        """
        given = Path(self.asked.plan)
        if self._plan_inside is not None:
            plan = str(self.tree.path / self._plan_inside)
        else:
            plan = str(_absolute(given)) if given.is_file() else self.asked.plan
        return replace(
            self.asked,
            plan=plan,
            inventory=_from_here(self.asked.inventory),
            costs=_from_here(self.asked.costs),
        )

    @property
    def _plan_inside(self) -> Path | None:
        """The plan's path below the top of the repository; None if it is not a file of it."""
        path, top = _absolute(Path(self.asked.plan)), self.repository.root
        is_file = path.suffix in (".yaml", ".yml") and path.is_relative_to(top)
        return path.relative_to(top) if is_file else None

    @property
    def _folder(self) -> Path:
        """The folder of the work tree that stands for the one that this was called in."""
        here = Path.cwd().resolve()
        if not here.is_relative_to(self.repository.root):
            return self.tree.path
        inside = self.tree.path / here.relative_to(self.repository.root)
        return inside if inside.is_dir() else self.tree.path

    @property
    def _environment(self) -> Mapping[str, str]:
        """Folders of the repository from which this process imports are those of the work tree."""
        paths = [Path(entry or ".").resolve() for entry in sys.path]
        ours = [
            str(self.tree.path / path.relative_to(self.repository.root))
            for path in paths
            if path.is_relative_to(self.repository.root) and not path.is_relative_to(sys.prefix)
        ]
        given = os.environ.get("PYTHONPATH")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([*ours, *([given] if given else [])])}


def _absolute(path: Path) -> Path:
    """Absolute path from the current folder, which is real; `..` goes up by name."""
    return Path(os.path.normpath(Path.cwd().resolve() / path))


def _from_here(file: str | None) -> str | None:
    """A file by its whole path; the runs have another current folder."""
    return str(Path(file).absolute()) if file else file
