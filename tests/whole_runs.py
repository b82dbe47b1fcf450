"""Whole runs as a user starts them: `chaoslab run` in a process of its own, and what it told."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from chaoslab.core.events import Kind
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.record.history import History

ROOT = Path(__file__).parent.parent


def start(
    plan: str, folder: Path, *more: str, inside: Sequence[str] = ()
) -> "subprocess.Popen[str]":
    """`chaoslab run` with the verdict as JSON; `inside`: words before the command."""
    command = (*inside, sys.executable, "-m", "chaoslab", "run", plan, "--json", "--quiet")
    return subprocess.Popen(
        [*command, "--out", str(folder), *more], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that has ended."""

    code: int
    verdict: Mapping[str, Any]
    record: Path

    @property
    def history(self) -> History:
        """What it recorded."""
        return History.read(self.record)

    @property
    def statuses(self) -> list[str]:
        """Of its injections, by what they left of evidence."""
        return [one["status"] for one in self.verdict["injections"]]

    def finding(self, check: str) -> Mapping[str, Any]:
        """The one finding of a check."""
        (found,) = [one for one in self.verdict["findings"] if one["check"] == check]
        return dict(found)


def begin(plan: str, folder: Path, *more: str) -> "subprocess.Popen[str]":
    """A run of a plan of this text; its record is below the folder."""
    file = folder / "plan.yaml"
    file.write_text(plan)
    return start(str(file), folder, *more)


def ended(run: "subprocess.Popen[str]", folder: Path, limit_s: float = 600) -> Ran:
    """A run that has begun, once it is over."""
    verdict = verdict_of(run, limit_s)
    return Ran(code=run.returncode, verdict=verdict, record=(folder / "latest").resolve())


def passed(plan: str, folder: Path, *more: str) -> Ran:
    """A run of a plan of this text, which must PASS."""
    ran = ended(begin(plan, folder, *more), folder)
    assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
    return ran


def verdict_of(run: "subprocess.Popen[str]", limit_s: float = 600) -> Mapping[str, object]:
    """Once it has ended by itself; a run that takes too long is ended."""
    try:
        told, said = run.communicate(timeout=limit_s)
    finally:
        if run.poll() is None:  # the tests that follow are not to share the machine with it
            run.terminate()
            run.wait(60)
    assert told, said
    found = json.loads(told)
    assert isinstance(found, dict)
    return found


def left_over(root: Path) -> list[psutil.Process]:
    """Processes that a run below a folder started and that still live."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(root) in process.environ().get(NODE_MARK, ""):
                found.append(process)
    return found


def whole(verdict: Mapping[str, object]) -> str:
    """What a test that fails says of it: pytest would cut it short before the reasons."""
    return json.dumps({part: verdict[part] for part in ("findings", "injections")}, indent=1)


def await_event(folder: Path, kind: Kind, within_s: float = 180) -> None:
    """Until the first record below a folder of records has it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = list(folder.glob("*/2*/journal.jsonl"))
        if found and f'"{kind}"' in found[0].read_text():
            return
        time.sleep(0.1)
    raise AssertionError(f"no {kind} within {within_s:g} s")


def await_round(folder: Path, number: int, within_s: float = 200) -> Path:
    """The first record below a folder of records, once all have joined and so many rounds are
    merged.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for journal in folder.glob("*/2*/journal.jsonl"):
            told = journal.read_text()
            has_begun = told.count(f'"kind":"{Kind.PHASE_ENTERED}"') > 1
            if has_begun and told.count(f'"kind":"{Kind.ROUND_MERGED}"') >= number:
                return journal.parent
        time.sleep(0.1)
    raise AssertionError(f"no round {number} within {within_s:g} s")
