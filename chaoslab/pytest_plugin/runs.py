"""Runs for tests: one at a time on a machine, and each once for all tests that need it.

    mark ─► parts ─► a test for each check of `expect`, in its order, and one for the verdict
                         └─► SharedRuns.run ─┬─ the first one: make ─► record, result.json
                                             └─ all others, also other workers of xdist: read it

Workers of pytest-xdist are processes, so a result is handed on as a file in the folder that all
workers of a session have in common, and a file lock keeps them, and other sessions, apart.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.left_out import left_out
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ChaoslabError, ExitCode, FleetError, HarnessBug, PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import PhaseEntered, RunStarted
from chaoslab.core.private_files import open_file, replace_file, require_folder
from chaoslab.prepare.lacking import lacking
from chaoslab.prepare.launch import compilation_cache
from chaoslab.prepare.plans import Asked, decode, prepare
from chaoslab.report.console import Plain
from chaoslab.report.files import read_verdict
from chaoslab.report.story import RunStory
from chaoslab.run.judged_run import JudgedRun, run_and_judge

_VERDICT = "verdict"
_LOCK = "one_run.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRun:
    """A run that was made for tests."""

    record: Path
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Subject of one test of a marked function: a finding, or the whole verdict."""

    asked: Asked
    id: str
    from_end: int = 0
    """Number of the finding, counted from the last: those of `expect` come last. 0: the verdict."""
    why_skipped: str = ""
    """Reason for which the run does not answer it; empty if it does."""

    @property
    def is_verdict(self) -> bool:
        """Whether it is about the outcome of all, with every rule that always holds."""
        return self.from_end == 0

    def problem(self, made: SharedRun) -> str:
        """Reason for which its test fails: each finding that is not PASS, and the record."""
        verdict = made.verdict
        if self.is_verdict:
            if verdict.exit_code is ExitCode.PASS:
                return ""
            left = [f"left behind: {one['what']}, {one['where']}" for one in verdict.residue]
            lines = [verdict.explain(), *left]
        else:
            finding = verdict.findings[-self.from_end]
            if finding.outcome is Outcome.PASS:
                return ""
            lines = [str(finding)]
        again = f"next: chaoslab show {quote(str(made.record))}"
        return "\n".join([*lines, f"record: {made.record}", again])


def parts(marks: Sequence[pytest.Mark], config: pytest.Config) -> tuple[Part, ...]:
    """The tests of a function that `chaos` decorates; UsageError if its plan cannot work."""
    if len(marks) != 1:
        raise pytest.UsageError("a test has one `chaos`: write one function for each plan")
    try:
        asked = asked_for(
            *marks[0].args,
            **marks[0].kwargs,
            home=config.rootpath,
            fleet=config.getoption("--chaos-fleet"),
        )
        plan, _ = decode(asked)
    except (PlanError, TypeError) as error:
        raise pytest.UsageError(f"chaos: {error}") from error
    seen: dict[str, int] = {}
    found = []
    without = lacking(plan)
    reasons = [
        next((one.reason for one in left_out(spec.settings, without) if not one.setting), "")
        for spec in plan.expect
    ]
    for number, (spec, reason) in enumerate(zip(plan.expect, reasons, strict=True)):
        seen[spec.check] = seen.get(spec.check, 0) + 1
        again = f":{seen[spec.check]}" if seen[spec.check] > 1 else ""
        from_end = sum(not other for other in reasons[number:])
        part = Part(asked=asked, id=f"{spec.check}{again}", from_end=from_end, why_skipped=reason)
        found.append(part)
    return (*found, Part(asked=asked, id=_VERDICT))


def asked_for(
    plan: str | Path,
    *,
    home: Path,
    set: Mapping[str, object] | None = None,  # noqa: A002  # as in `chaoslab run --set`
    seed: int | None = None,
    twin: bool = True,
    fleet: str | None = None,
) -> Asked:
    """A plan as `chaoslab run` would be asked for it; relative paths start at `home`."""
    near = home / plan
    settings = [f"{key}={value}" for key, value in (set or {}).items()]
    settings += [] if twin else ["twin=false"]
    path = str(near if near.is_file() else plan)
    return Asked(plan=path, settings=tuple(settings), seed=seed, fleet=fleet)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRuns:
    """The runs of a session, each made once, whichever worker needs it first."""

    results: Path
    """A folder that all workers of the session have in common, and no other session."""
    root: Path
    """Takes the records."""
    tell: Callable[[str], object]
    """Shows a line to people who wait."""

    @classmethod
    def of(cls, config: pytest.Config, temporary: Path) -> "SharedRuns":
        """`temporary`: of this process; with xdist it lies in the one of the session."""
        session = temporary.parent if hasattr(config, "workerinput") else temporary
        out = config.getoption("--chaos-out")
        root = config.invocation_params.dir / out if out else session / "chaoslab-runs"
        results = session / "chaoslab-results"
        results.mkdir(mode=0o700, exist_ok=True)
        return cls(results=results, root=root, tell=partial(tell, config))

    def run(self, asked: Asked) -> SharedRun:
        """The run, made now or before; the test is failed if it was refused or broke."""
        name = hashlib.sha256(asked.again().encode()).hexdigest()[:16]
        path = self.results / f"{name}.json"
        if not path.is_file():
            try:
                with one_run_at_a_time():
                    if not path.is_file():  # no other made it while this one waited
                        replace_file(path, json.dumps(self._result(asked)))
            except FleetError as error:
                raise pytest.fail.Exception(str(error), pytrace=False) from None
        result = json.loads(path.read_text(encoding="utf-8"))
        if result["error"]:
            pytest.fail(f"{result['error']}\nrecord: {result['record'] or 'none'}", pytrace=False)
        record = Path(result["record"])
        verdict = read_verdict(record)
        if verdict is None:
            pytest.fail(f"{record} has lost its verdict.json since the run", pytrace=False)
        return SharedRun(record=record, verdict=verdict)

    def _result(self, asked: Asked) -> Mapping[str, str | None]:
        try:
            judged = _carried_out(asked, self.root, self.tell)
        except ChaoslabError as error:  # refused, or there is no record to judge
            return {"record": None, "error": f"{asked.again()}: {error}"}
        broken = None if judged.error is None else str(judged.error)
        return {"record": str(judged.directory.path), "error": broken}


def make(asked: Asked, root: Path, tell: Callable[[str], object]) -> JudgedRun:
    """Run a plan once no other run of a test goes on here; KeyboardInterrupt if it was ended so.

    What is wrong with the plan or the machine leaves without its traceback: where chaoslab found it
    is of no use to a test.
    """
    __tracebackhide__ = True
    try:
        with one_run_at_a_time():
            return _carried_out(asked, root, tell)
    except HarnessBug:
        raise
    except ChaoslabError as error:
        raise error.with_traceback(None) from None


def tell(config: pytest.Config, line: str) -> None:
    """Write a line to pytest's terminal, although what tests write is captured; nothing with -q,
    or in a worker of pytest-xdist.
    """
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.get_verbosity() < 0:
        return
    capture = config.pluginmanager.get_plugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        terminal.ensure_newline()
        terminal.write_line(line)
        terminal.flush()


@dataclass(slots=True)
class _Phases:
    """An observer that says which phase a run is in."""

    tell: Callable[[str], object]
    plan: str = ""

    def see(self, event: Event) -> None:
        """A line for each phase of the run, and of its twin."""
        said = event.payload if event.kind in (Kind.RUN_STARTED, Kind.PHASE_ENTERED) else None
        if isinstance(said, RunStarted):
            self.plan = said.plan
        elif isinstance(said, PhaseEntered):
            self.tell(f"{self.plan}: {said.phase}, {event.time_s:.1f} s")


def _carried_out(asked: Asked, root: Path, tell: Callable[[str], object]) -> JudgedRun:
    shown = Plain(sys.stderr, RunStory())
    judged = run_and_judge(
        prepare(asked), root, [shown, _Phases(tell)], await_twin=shown.await_twin
    )
    sys.stderr.write(f"the record lies in {judged.directory.path}\n")
    if judged.error is None and judged.verdict.exit_code is ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return judged


@contextmanager
def one_run_at_a_time() -> Iterator[None]:
    """Wait until no test of this user makes a run on this machine: two would slow each other."""
    folder = compilation_cache().parent
    require_folder(folder, mode=0o700)
    file = open_file(folder, _LOCK, flags=os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("waiting: another test makes a run on this machine\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
