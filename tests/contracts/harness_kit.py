"""What a fleet of this machine leaves when its harness ends: nothing, whatever ends the harness.

A subclass provides the fixture `kind`: the fleet as plans name it. Processes of its nodes are known
by their mark, so it finds them in any namespace of this machine, and asks no node.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaoslab.core.process_identity import node_mark
from chaoslab.fleet.private_folder import UNDO_PRIVATE
from chaoslab.undo.janitor import heal
from chaoslab.undo.log import open_undos
from tests.contracts import harness_program
from tests.waiting import wait_until

_CHECKOUT = Path(__file__).parents[2]
_LEAST = 4
"""Two nodes, each with a child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A harness in a process of its own, and what it has started."""

    process: "subprocess.Popen[str]"
    nodes: Sequence[psutil.Process]
    """Its own children that belong to nodes."""
    keys: Sequence[Path]
    """Folders of the private files of its nodes."""

    def end(self, by: signal.Signals) -> None:
        """Send it a signal that ends it, and wait for that."""
        self.process.send_signal(by)
        self.process.wait()


def marked(run_directory: Path) -> set[int]:
    """Pids of what belongs to the nodes of a run."""
    below = f"{run_directory}/"
    return {pid for pid in psutil.pids() if (node_mark(pid) or "").startswith(below)}


@contextmanager
def harness(run_directory: Path, kind: str, *flags: str) -> Iterator[Harness]:
    """One whose nodes run. It is killed with the block, if it still lives."""
    command = [sys.executable, "-m", harness_program.__name__, str(run_directory), kind, *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_CHECKOUT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            started = marked(run_directory)
            assert len(started) >= _LEAST
            children = psutil.Process(process.pid).children()
            entries = [one for one in open_undos(run_directory) if one.do == UNDO_PRIVATE]
            keys = [Path(str(one.facts["folder"])) for one in entries]
            assert all(
                {harness_program.KEY} == {key.read_bytes() for key in one.glob("*/*")}
                for one in keys
            )
            yield Harness(
                process=process, nodes=[one for one in children if one.pid in started], keys=keys
            )
        finally:
            process.kill()


class HarnessKit:
    """Rules for fleets whose nodes are processes of this machine."""

    def test_nodes_end_with_a_harness_that_is_killed_and_heal_does_the_rest(
        self, kind: str, tmp_path: Path
    ) -> None:
        with harness(tmp_path, kind, "--no-janitor") as running:
            running.end(signal.SIGKILL)
            assert running.nodes
            wait_until(lambda: all(is_gone(node) for node in running.nodes))
            assert not heal(tmp_path).remaining
            assert_nothing_is_left(running, tmp_path)

    def test_the_janitor_ends_all_when_the_harness_is_killed(
        self, kind: str, tmp_path: Path
    ) -> None:
        with harness(tmp_path, kind) as running:
            running.end(signal.SIGKILL)
            wait_until(lambda: not open_undos(tmp_path))
            assert_nothing_is_left(running, tmp_path)
            assert not (tmp_path / "janitor.log").read_text()

    def test_a_harness_that_is_interrupted_cleans_up_by_itself(
        self, kind: str, tmp_path: Path
    ) -> None:
        with harness(tmp_path, kind) as running:
            running.end(signal.SIGINT)
            assert_nothing_is_left(running, tmp_path)
            assert not (tmp_path / "janitor.log").exists()


def assert_nothing_is_left(of: Harness, run_directory: Path) -> None:
    """No process, no key, no open undo entry."""
    assert marked(run_directory) == set()
    assert [key for key in of.keys if key.exists()] == []
    assert not open_undos(run_directory)


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
