"""A `chaoslab run` in a process of its own, watched by its journal, so that it can be hit at a
chosen moment.

    start_run(plan text) ─► Harness ── until(seen in the journal) ─► kill, stop, fill its disk …
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.events import Kind
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL
from tests.harness.machine import MARK, Machine, look, residue

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 240.0
"""Far more than a run takes to any moment, or to its end; only a failing test waits for it."""
_GONE_S = 60.0
_AS_ON_A_TERMINAL = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("chaoslab", run_name="__main__", alter_sys=True)
"""

LITTLE = """
version: 1
name: little
seed: 1
fleet:
  links: {links}
  programs: {{syncer: tests.harness.little_syncer, learner: tests.harness.little_learner}}
training:
  learners: 4
  fragments: 1
  stop: {{time: {time}}}
  suspect_after: 1500ms
  drop_after: 4s
twin: false
baseline: {{warmup: 2 rounds, window: 6 rounds, max_variation: 300%}}
settle: 3s
limits: {{min_alive: 0, max_affected: 100%, timeout: 2m}}
faults:
  - {{id: dies, fault: process.kill, {common}, target: {{learners: [learner-0]}}}}
  - {{id: stops, fault: process.pause, {common}, target: {{learners: [learner-1]}}}}
  - {{id: far, fault: network.latency, mean: 30ms, {common}, target: {{learners: [learner-2]}}}}
  - {{id: hangs, fault: process.hang, {common}, target: {{learners: [learner-3]}}}}
expect: [{{check: continuity, max_gap: 20s}}]
"""
"""Several kinds of faults at once, on nodes that start in a blink."""


def little(*, links: str = "embedded", last: str = "600ms", time: str = "2s") -> str:
    """The plan; its faults last so long."""
    common = f"at: {{round: 10}}, for: {last}"
    return LITTLE.format(links=links, common=common, time=time)


@dataclass(slots=True, kw_only=True)
class Harness:
    """One harness under test, and the folder that is all its own."""

    process: "subprocess.Popen[str]"
    root: Path
    mark: str
    _read_bytes: int = -1
    _history: History = field(default_factory=lambda: History(()))

    @property
    def runs(self) -> Path:
        """What it was given as --out."""
        return self.root / "runs"

    @property
    def records(self) -> Sequence[Path]:
        """The directories of all runs below its root."""
        return list(self.runs.glob("[!.]*/2*"))  # the link `latest` is replaced meanwhile

    @property
    def record(self) -> Path | None:
        """The directory of its run, once there is one."""
        return self.records[0] if self.records else None

    @property
    def history(self) -> History:
        """What it has recorded so far; empty before it begins to."""
        record = self.record
        if record is not None and (record / JOURNAL).exists():
            size_bytes = (record / JOURNAL).stat().st_size
            if size_bytes != self._read_bytes:
                self._read_bytes, self._history = size_bytes, History.read(record)
        return self._history

    def until(self, is_so: Callable[[History], bool]) -> bool:
        """Wait until its journal says so; whether it did before the harness ended."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so(self.history):
            if self.process.poll() is not None:
                return is_so(self.history)
            assert time.monotonic() < deadline_s, f"not in {self.history.events[-20:]}"
            time.sleep(0.004)
        return True

    def end(self, number: signal.Signals | None = None) -> tuple[str, str]:
        """Send it a signal, if any, and wait for its end; what it printed."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE_S)


def begun(kind: Kind, count: int = 1) -> Callable[[History], bool]:
    """Whether so many events of a kind are there."""
    return lambda history: len(history.of(kind)) >= count


def in_phase(phase: str) -> Callable[[History], bool]:
    """Whether the run has entered a phase."""
    return lambda history: any(
        event.payload.phase == phase for event in history.of(Kind.PHASE_ENTERED)
    )


@contextmanager
def start_run(
    root: Path, plan: str, *flags: str, before: tuple[str, ...] = ()
) -> Iterator[Harness]:
    """`chaoslab run` on a plan, below `root`; killed at the end of the block if it still runs.

    `before` is put before the command: in which surroundings it shall run.
    """
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    path = root / "little.yaml"
    path.write_text(plan)
    mark = secrets.token_hex(8)
    command = (sys.executable, "-c", _AS_ON_A_TERMINAL, "run", str(path), "--json", "--quiet")
    with subprocess.Popen(
        [*before, *command, "--out", str(root / "runs"), *flags],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT, env=environment(mark, root),
    ) as process:  # fmt: skip
        try:
            yield Harness(process=process, root=root, mark=mark)
        finally:
            process.kill()


def environment(mark: str, root: Path) -> Mapping[str, str]:
    """With the mark, and a folder of its own for temporary files."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, MARK: mark, "TMPDIR": str(root / "tmp"), "PYTHONPATH": path}


def chaoslab(*words: str) -> Result:
    """Another command, to its end, in this process: its imports are paid for once."""
    return CliRunner().invoke(main, words, catch_exceptions=False)


def nothing_is_left(
    before: Machine,
    harness: Harness,
    api: str | None = None,
    *,
    elsewhere: Callable[[Path], Sequence[str]] = lambda _: (),
) -> None:
    """Soon: whoever cleans up after a dead harness needs a moment. What is there later stays.

    `elsewhere`: what of the run with a record is left on its hosts, its engine or its cluster.
    """
    deadline_s = time.monotonic() + _GONE_S
    while left := [
        *residue(before, look(harness.mark, harness.root, toxiproxy=api)),
        *(one for record in harness.records for one in elsewhere(record)),
    ]:
        assert time.monotonic() < deadline_s, "\n".join(left)
        time.sleep(0.05)
