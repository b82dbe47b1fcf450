"""`chaoslab attach --write`: what is refused first, and what is said beside the plan."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.cli.commands.attached_gate import write_attached_gate
from chaoslab.cli.main import main
from chaoslab.fleet.attached.found import Found, of_script
from chaoslab.fleet.attached.settings import Processes
from chaoslab.fleet.base import Role
from chaoslab.prepare.attach import Target
from chaoslab.prepare.plans import Asked, decode

NODES = (
    of_script("launcher", "process 1", "1", Role.LAUNCHER),
    *(of_script(f"worker-{rank}", "process 2", "2", Role.LEARNER) for rank in (0, 1)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing(Processes):
    """A training below a launcher that has printed these lines."""

    lines: tuple[str, ...]

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """By its launcher."""
        return {nodes[0].name: self.lines}


def written(file: Path, *lines: str) -> None:
    settings = Printing(pid=1, lines=lines)
    write_attached_gate(Target(kind="processes", settings=settings, words="pid:1"), NODES, file)


def test_a_file_that_is_there_is_refused_before_anything_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("mine")
    done = CliRunner().invoke(main, ("attach", f"pid:{os.getpid()}", "--write", str(file)))
    assert (done.exit_code, str(file) in done.stderr, file.read_text()) == (2, True, "mine")


def test_what_the_lines_lack_is_said_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [f"step {step} loss 2" for step in range(1, 9) for _ in range(2)]
    file = tmp_path / "gate.yaml"
    written(file, *steps)
    assert capsys.readouterr().err.count("warning: ") == 2
    script = decode(Asked(plan=str(file)))[0].training.script
    assert script is not None
    assert script.reports == "one"
    written(tmp_path / "whole.yaml", *steps[::2], "checkpoint written: ckpt_8.pkl")
    assert capsys.readouterr().err == ""
