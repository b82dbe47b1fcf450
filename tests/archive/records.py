"""Run directories that hold just enough for the index: run.json, verdict.json, plan, first line."""

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chaoslab.archive.index import PastRun
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.checks.work_lost import WorkLost
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.journal_file import JournalFile
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory
from chaoslab.report.files import VERDICT_JSON, verdict_json

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
HOST = {"system": "Linux", "machine": "x86_64", "cores": 8, "release": "6.1"}
PLAN = (
    "version: 1\nname: kill_half\nseed: 1\nfaults:\n- id: dies\n  fault: process.kill\n  for: 5s\n"
)
CODE = {"code": "c0de", "versions": "1.0", "data": "da7a"}
CODES = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.UNKNOWN: 3}


def finding(check: str, found: float | Outcome | None) -> Finding:
    """By its margin, or by its outcome alone; a negative margin fails, None is PASS without one."""
    if isinstance(found, Outcome):
        return Finding(check=check, outcome=found, reason=f"{check} is {found}")
    outcome = Outcome.FAIL if (found or 0.0) < 0 else Outcome.PASS
    return Finding(check=check, outcome=outcome, reason=f"{check} says so", margin=found)


def verdict(
    found: Mapping[str, float | Outcome | None], effective_share: float | None = None
) -> Verdict:
    findings = tuple(finding(check, one) for check, one in found.items())
    outcomes = {one.outcome for one in findings}
    worst = next(o for o in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS) if o in outcomes)
    return Verdict(
        outcome=worst, exit_code=ExitCode(CODES[worst]), training_continued=True,
        longest_gap_s=0.5, learners_rejoined={}, findings=findings, injections=(), residue=(),
        work_lost=None if effective_share is None
        else WorkLost(steps=1.0, seconds=1.0, share=0.01, effective_share=effective_share),
    )  # fmt: skip


def record(
    root: Path,
    found: Mapping[str, float | Outcome | None] | None = None,
    *,
    plan: str = "kill_half",
    day: float = 0.0,
    text: str = PLAN,
    code: Mapping[str, Json] = CODE,
    effective_share: float | None = None,
    **facts: Json,
) -> PastRun:
    """A run that began so many days after `BEGAN`; not judged without findings."""
    began = BEGAN + timedelta(days=day)
    taken = len(list(root.glob("*/*")))
    path = root / plan / f"{began:%Y%m%dT%H%M%SZ}-{taken:06x}"
    path.mkdir(parents=True)
    run = RunDirectory(path=path)
    told: dict[str, Json] = {
        "started": began.isoformat(), "plan": plan, "seed": 1, "fleet": "local", "host": HOST,
        "git": {"commit": "a" * 40, "has_changes": False}, "versions": {"jax": "0.6"},
        "schedule_hash": "5c", "outcome": "completed",
    }  # fmt: skip
    if found is not None:
        said = verdict(found, effective_share)
        (path / VERDICT_JSON).write_text(verdict_json(said))
        told |= {"verdict": said.outcome.value, "exit_code": int(said.exit_code)}
    (path / RESOLVED_PLAN).write_text(text)
    began_line = Event(
        seq=0, time_s=0.0, source="harness", kind=Kind.RUN_STARTED,
        data={"plan": plan, "seed": 1, "fleet": "local", "algorithm": "decoupled",
              "learners": ["learner-0"], "version": "0.1.0", "provenance": dict(code)},
    )  # fmt: skip
    with closing(JournalFile(path)) as journal:
        journal.append(began_line.to_line())
        told["journal"] = journal.seal.to_json()
    run.note(**json.loads(json.dumps({**told, **facts})))
    return PastRun.of(run)
