"""Real trainings for the benchmarks, with and without the harness, in temporary folders.

    run_plan   a plan ─► `chaoslab run` in a process of its own ─► History of its journal
    by_hand    the plan's syncer and learners by the harness's command lines ─► their events

Every process started here is ended here, also after an error or a timeout.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from chaoslab.core.events import Event, Kind, read_node_line
from chaoslab.core.payloads import RunFinished, RunOutcome, SyncerReady
from chaoslab.fleet.base import NodeSpec
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.plans import Asked, decode
from chaoslab.record.history import History

_HEAL_S = 30.0
"""Seconds that a run may take to end when asked, before it is killed."""
_POLL_S = 0.02


class BenchmarkError(Exception):
    """A training did not behave as expected; the message ends with its last output."""


@contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder for runs."""
    with TemporaryDirectory(prefix="chaoslab-benchmark-") as folder:
        yield Path(folder)


# ---------------------------------------------------------------- with the harness


def run_plan(
    folder: Path,
    plan: str,
    *,
    within_s: float,
    beside: Callable[[Path], None] | None = None,
    settings: Sequence[str] = (),
) -> History:
    """Run a plan (its YAML) and return the record; any verdict is accepted.

    `beside(journal)` is called repeatedly while it runs. BenchmarkError unless the run ended by its
    own stop rule within `within_s`.
    """
    folder.mkdir(parents=True)
    file = folder / "plan.yaml"
    file.write_text(plan)
    command = [sys.executable, "-m", "chaoslab", "run", str(file), "--out", str(folder / "runs")]
    command += [f"--set={setting}" for setting in settings]
    with (folder / "progress.log").open("wb") as log, ended(command, log=log) as process:
        _wait(process, folder / "runs" / "latest" / "journal.jsonl", within_s, beside)
    if not (folder / "runs" / "latest").exists():
        raise BenchmarkError(f"the run did not begin\n{_tail(folder / 'progress.log')}")
    history = History.read((folder / "runs" / "latest").resolve())
    finished = history.last(RunFinished)
    if finished is None or finished.payload.outcome is not RunOutcome.COMPLETED:
        why = "it was cut off" if finished is None else finished.payload.reason
        raise BenchmarkError(f"the run did not complete: {why}\n{_tail(folder / 'progress.log')}")
    return history


def _wait(
    process: "subprocess.Popen[bytes]",
    journal: Path,
    within_s: float,
    beside: Callable[[Path], None] | None,
) -> None:
    deadline_s = time.monotonic() + within_s
    while process.poll() is None:
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"a run took longer than {within_s:g} s")
        if beside is not None and journal.exists():
            beside(journal)
        else:
            time.sleep(_POLL_S)


@contextmanager
def ended(
    command: Sequence[str], *, log: object, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is asked to end, then killed, when the block is left."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,  # type: ignore[call-overload]  # a binary file
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_HEAL_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# ---------------------------------------------------------------- without the harness


def by_hand(
    folder: Path, yaml: str, *, within_s: float, syncer_flags: Sequence[str] = ()
) -> Mapping[str, list[Event]]:
    """Run the plan's syncer and learners without the harness; the events of each node, by name.

    They are started by the command lines that the harness uses, the syncer with additional flags;
    the output of each goes to a file.
    """
    folder.mkdir(parents=True)
    (folder / "plan.yaml").write_text(yaml)
    plan, _ = decode(Asked(plan=str(folder / "plan.yaml")))
    launch = Launch(plan=plan, snapshots=folder / "snapshots", tokens=folder / "tokens")
    deadline_s = time.monotonic() + within_s
    syncer = launch.syncer()
    syncer = replace(syncer, command=(*syncer.command, *syncer_flags))
    with _node(folder, syncer):
        ready = _await_word(folder / f"{syncer.name}.log", Kind.SYNCER_READY, deadline_s).payload
        if not isinstance(ready, SyncerReady):
            raise BenchmarkError(f"{syncer.name} said {ready} when it was ready")
        names = plan.training.learner_names
        learners = launch.learners(dict.fromkeys(names, ready.address))
        _until_all_end(folder, learners, deadline_s)
    return {spec.name: read_events(folder / f"{spec.name}.log") for spec in (syncer, *learners)}


def read_events(log: Path) -> list[Event]:
    """Events that a node has printed so far, on its own clock."""
    found: list[Event] = []
    for line in log.read_bytes().split(b"\n")[:-1]:
        report = read_node_line(line.decode(errors="replace"), log.stem)
        if report is not None:
            stamp_s = report.node_s or 0.0
            found.append(
                Event(
                    seq=len(found),
                    time_s=stamp_s,
                    node_s=stamp_s,
                    source=log.stem,
                    kind=report.kind,
                    data=report.data,
                )
            )
    return found


@contextmanager
def _node(folder: Path, spec: NodeSpec) -> Iterator["subprocess.Popen[bytes]"]:
    home = folder / spec.name
    command = [
        word.replace("{incarnation}", "1").replace("{directory}", str(home))
        for word in spec.command
    ]
    with (
        (folder / f"{spec.name}.log").open("wb") as log,
        ended(command, log=log, environment=spec.environment) as process,
    ):
        yield process


def _until_all_end(folder: Path, specs: Sequence[NodeSpec], deadline_s: float) -> None:
    if not specs:
        return
    with _node(folder, specs[0]) as process:
        _until_all_end(folder, specs[1:], deadline_s)
        try:
            code = process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"{specs[0].name} did not end in time") from None
        if code:
            log = _tail(folder / f"{specs[0].name}.log")
            raise BenchmarkError(f"{specs[0].name} ended with exit code {code}\n{log}")


def _await_word(log: Path, kind: Kind, deadline_s: float) -> Event:
    while time.monotonic() < deadline_s:
        for event in read_events(log):
            if event.kind is kind:
                return event
        time.sleep(_POLL_S)
    raise BenchmarkError(f"{log.stem} did not say {kind}\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
