"""A real training without the harness: syncer and learners by command line, for tests.

    start ─► Popen ─ stdout, one event per line ─► told ─► wait(kind, …) in the test

Waits are for what the nodes say, never for time; each is bounded, and says on failure what was said
last. Leaving the context ends every process by its own handle.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from chaoslab.core.events import Kind, read_node_line
from chaoslab.prepare.launch import compilation_cache

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120.0
"""Far more than anything here takes; only a failing test waits for it."""
SYNCER = "syncer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event, as a node printed it."""

    node: str
    kind: Kind
    data: Mapping[str, Any]


class Processes:
    """One training in one folder. `rules` are syncer settings; see `diloco/settings.py`."""

    def __init__(
        self,
        folder: Path,
        *,
        learners: int = 3,
        model: tuple[str, ...] = ("--model", "nano"),
        environment: Mapping[str, str] | None = None,
        hosts: Mapping[str, int] | None = None,
        has_hooks: bool = False,
        **rules: Any,
    ) -> None:
        self._hooks = ("--test-hooks",) if has_hooks else ()
        self.folder = folder
        self.names = tuple(f"learner-{index}" for index in range(learners))
        self._model = model
        self._hosts = dict(hosts or {})
        self._environment = dict(environment or {})
        self._rules = {"learners": self.names, "sync_every": 12, **rules}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        self._told: list[Line] = []
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
        for process in self._processes.values():
            process.wait(PATIENCE_S)
            if process.stdin is not None:
                process.stdin.close()
        for reader in self._readers:
            reader.join(PATIENCE_S)

    # ---------------------------------------------------------------- starting and ending

    def start(self) -> Self:
        """The syncer, then all learners."""
        self.start_syncer()
        for name in self.names:
            self.start_learner(name)
        return self

    def start_syncer(self) -> None:
        """Start it, or start it again on the same state, and wait until it is ready."""
        mark = self.mark()
        self._start(
            SYNCER,
            "chaoslab.diloco.syncer",
            "--settings-json", json.dumps(self._rules),
            "--snapshots", str(self.folder / "snapshots"),
        )  # fmt: skip
        self.address = str(self.wait(Kind.SYNCER_READY, mark=mark)["address"])

    def start_learner(self, name: str, *, module: str = "chaoslab.diloco.learner") -> None:
        """Start a learner's next life."""
        self._start(
            name,
            module,
            "--syncer", self.address,
            "--token-file", str(self.folder / SYNCER / "tokens" / name),
            "--shard", str(self.names.index(name)), "--shards", str(len(self.names)),
            *self._model,
            *(("--hosts", str(self._hosts[name])) if name in self._hosts else ()),
            "--compilation-cache", str(compilation_cache()),
            *self._hooks,
        )  # fmt: skip

    def tell(self, name: str, do: str, **facts: Any) -> None:
        """Ask something of a learner's test hooks."""
        hearing = self._processes[name].stdin
        assert hearing is not None
        hearing.write(json.dumps({"do": do, **facts}) + "\n")
        hearing.flush()

    def _start(self, name: str, module: str, *flags: str) -> None:
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with (home / "stderr.log").open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", module, "--name", name, "--directory", str(home), *flags],
                stdin=subprocess.PIPE if self._hooks else None,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self.folder,
                env={**os.environ, "NPROC": "1", "PYTHONPATH": path, **self._environment},
            )
        assert process.stdout is not None
        self._processes[name] = process
        reader = threading.Thread(target=self._read, args=(name, process.stdout), daemon=True)
        self._readers.append(reader)
        reader.start()

    def _read(self, name: str, pipe: IO[str]) -> None:
        with pipe:
            for text in pipe:
                report = read_node_line(text.rstrip("\n"), name)
                if report is not None:
                    with self._changed:
                        self._told.append(Line(node=name, kind=report.kind, data=report.data))
                        self._changed.notify_all()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a node's present process."""
        self._processes[name].send_signal(number)

    def pid(self, name: str) -> int:
        """Of a node's present process."""
        return self._processes[name].pid

    def kill(self, *names: str) -> None:
        """SIGKILL, and wait until they are gone."""
        for name in names:
            self._processes[name].kill()
        for name in names:
            self._processes[name].wait(PATIENCE_S)

    def exit_code(self, name: str) -> int:
        """Wait until a node has ended by itself."""
        return self._processes[name].wait(PATIENCE_S)

    def is_running(self, name: str) -> bool:
        """Whether its present process lives."""
        return name in self._processes and self._processes[name].poll() is None

    # ---------------------------------------------------------------- listening

    def mark(self) -> int:
        """A place in what was told: `wait` can begin there."""
        with self._changed:
            return len(self._told)

    def told(self, kind: Kind, *, mark: int = 0, **wanted: Any) -> list[Mapping[str, Any]]:
        """What was said of a kind since `mark`, with these values."""
        with self._changed:
            lines = self._told[mark:]
        return [line.data for line in lines if line.kind is kind and _fits(line, wanted)]

    def wait(self, kind: Kind, *, mark: int = 0, **wanted: Any) -> Mapping[str, Any]:
        """The first event of a kind since `mark` with these values."""
        deadline_s = time.monotonic() + PATIENCE_S
        at = mark
        with self._changed:
            while True:
                for line in self._told[at:]:
                    if line.kind is kind and _fits(line, wanted):
                        return line.data
                at = len(self._told)
                left_s = deadline_s - time.monotonic()
                assert left_s > 0, f"no {kind} with {wanted}\n{self._last_words()}"
                self._changed.wait(left_s)

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for something that no line says."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline_s, f"{what} never came\n{self._last_words()}"
            time.sleep(0.01)

    def contributes(self, name: str, *, mark: int, **wanted: Any) -> Mapping[str, Any]:
        """The learner's part of the first round since `mark` with it and these values."""
        at = mark
        while True:
            merged = self.wait(Kind.ROUND_MERGED, mark=at)
            for part in merged["contributors"]:
                if part["learner"] == name and wanted.items() <= part.items():
                    return dict(part)
            at = self.place_after(merged)

    def versions(self, *, before: int | None = None) -> dict[str, int]:
        """The version vector as the syncer last told it, or told it before a mark."""
        with self._changed:
            lines = self._told[:before]
        merged = [line.data for line in lines if line.kind is Kind.ROUND_MERGED]
        return {str(one["fragment"]): one["version"] for one in merged}

    def place_after(self, data: Mapping[str, Any]) -> int:
        """The mark behind a line that was returned."""
        with self._changed:
            return next(i for i, line in enumerate(self._told) if line.data is data) + 1

    def _last_words(self) -> str:
        lines = [f"{line.node}: {line.kind} {dict(line.data)}" for line in self._told[-15:]]
        for name in self._processes:
            errors = (self.folder / name / "stderr.log").read_text()[-1500:]
            lines.append(f"--- {name}, running: {self.is_running(name)}, stderr: {errors}")
        return "\n".join(lines)


def _fits(line: Line, wanted: Mapping[str, Any]) -> bool:
    return all(
        want(line.data.get(key)) if callable(want) else line.data.get(key) == want
        for key, want in wanted.items()
    )
