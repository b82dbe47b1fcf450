"""Plans that come with chaoslab, by the command line, from the first process to the last file.

`kill_half` runs with its twin, once for all that is asked of it here; `make plans` runs all plans.
The verdict is asserted as a gate would read it; the record, as `docs/record.md` describes it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from chaoslab.checks.verdict import schema
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import BaselineMeasured
from chaoslab.faults.catalogue import FAULTS
from chaoslab.plan.schedule import from_lines
from chaoslab.record.history import History
from chaoslab.undo.log import open_undos
from tests.chromium import APPEARANCES, Browser
from tests.report.web.stories import CHARTS, values_of_charts

pytestmark = [pytest.mark.gate, pytest.mark.alone]

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Done:
    """A plan that was run, and what it left."""

    plan: str
    root: Path
    exit_code: int
    verdict: Mapping[str, Any]
    told: str

    @property
    def record(self) -> Path:
        return (self.root / "latest").resolve()

    @property
    def history(self) -> History:
        return History.read(self.record)


def run(plan: str, root: Path, *more: str) -> Done:
    """`chaoslab run PLAN --json`; the verdict is what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "chaoslab", "run", plan, "--json", "--out", str(root), *more],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )
    return Done(plan, root, done.returncode, json.loads(done.stdout), done.stderr)


def why(done: Done) -> str:
    """For an assertion's message: what was not found to be right."""
    wrong = [f for f in done.verdict["findings"] if f["outcome"] != "PASS"]
    return f"{json.dumps(wrong, indent=1)}\n{done.told[-3000:]}"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The main job. Half are dead for longer than the plan says: on a slow machine few rounds are
    merged in its 6 seconds.
    """
    return run(
        "kill_half", tmp_path_factory.mktemp("kill_half"), "--set", "faults.half-dies.for=12s"
    )


@pytest.fixture
def kill_half(judged: Done) -> Done:
    """A run that passed, for tests of what it left; whether it did is asked once, below."""
    if judged.verdict["outcome"] != "PASS":
        pytest.skip("the run of kill_half did not pass")
    return judged


# ---------------------------------------------------------------- the answers


def test_kill_half_passes_and_answers_both_questions(judged: Done) -> None:
    verdict = judged.verdict
    assert (judged.exit_code, verdict["outcome"]) == (0, "PASS"), why(judged)
    assert verdict["training_continued"] is True
    (injection,) = verdict["injections"]
    assert injection["status"] == "proved"
    assert len(injection["targets"]) == 2
    assert set(verdict["learners_rejoined"]) == set(injection["targets"])
    for back in verdict["learners_rejoined"].values():
        assert back["rejoined"] is True
        assert 0 < back["after_s"] < 30
    assert verdict["residue"] == []
    asked = re.findall(r"check: (\w+)", (ROOT / "fault_plans" / "kill_half.yaml").read_text())
    assert sorted(f["check"] for f in verdict["findings"]) == sorted(asked)
    assert all(finding["samples"] > 0 for finding in verdict["findings"])


def test_half_was_dead_for_five_seconds_and_rounds_were_merged_meanwhile(kill_half: Done) -> None:
    history = kill_half.history
    (story,) = history.faults
    assert story.healing.time_s - story.injected.time_s >= 5
    dead = set(story.targets)
    meanwhile = list(
        history.between(story.injected.time_s, story.healing.time_s, Kind.ROUND_MERGED)
    )
    measured = history.last(BaselineMeasured)
    assert measured.payload.gap_s_median is not None
    assert len(meanwhile) > max(6, 5 / measured.payload.gap_s_median / 2)
    for merged in meanwhile[5:]:
        assert not dead & {one.learner for one in merged.payload.contributors}


def test_the_verdict_is_the_same_wherever_it_is_and_obeys_its_schema(kill_half: Done) -> None:
    jsonschema.validate(kill_half.verdict, schema())
    assert json.loads((kill_half.record / "verdict.json").read_text()) == kill_half.verdict
    done = subprocess.run(
        [sys.executable, "-m", "chaoslab", "show", str(kill_half.record), "--judge", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert json.loads(done.stdout) == kill_half.verdict


def test_the_web_page_draws_every_chart_of_a_real_run(kill_half: Done) -> None:
    with Browser() as browser:
        for name, how in APPEARANCES.items():
            page = browser.open(kill_half.record / "report.html", **how)
            page.screenshot(f"kill_half-{name}")
            assert set(values_of_charts(page)) == set(CHARTS)
            assert all(values_of_charts(page).values()), values_of_charts(page)
            assert page.troubles == []
            assert len(page.requests) == 1


# ---------------------------------------------------------------- the record


def test_the_run_directory_holds_what_it_should(kill_half: Done) -> None:
    record = kill_half.record
    files = {path.name for path in record.iterdir()}
    assert files == {
        "run.json", "plan.source.yaml", "plan.resolved.yaml", "schedule.jsonl", "journal.jsonl",
        "undo_log.jsonl", "evidence", "nodes", "snapshots", "twin", "verdict.json",
        "junit.xml", "report.md", "report.html", "tokens",
    }  # fmt: skip
    assert (kill_half.root / "kill_half" / "latest").resolve() == record
    source = (ROOT / "fault_plans" / "kill_half.yaml").read_text()
    assert (record / "plan.source.yaml").read_text() == source
    assert list((record / "snapshots").glob("*.npz"))
    assert not open_undos(record), "all is undone, the twin's too"
    facts = json.loads((record / "run.json").read_text())
    assert (facts["outcome"], facts["exit_code"], facts["verdict"]) == ("completed", 0, "PASS")
    assert facts["twin"]["outcome"] == "completed"


def test_the_schedule_reads_back_and_is_what_happened(kill_half: Done) -> None:
    lines = (kill_half.record / "schedule.jsonl").read_text().splitlines()
    (planned,) = from_lines(lines, FAULTS).injections
    (story,) = kill_half.history.faults
    assert (story.injection, story.targets) == (planned.id, planned.targets)
    evidence = json.loads((kill_half.record / "evidence" / f"{planned.id}.json").read_text())
    assert [piece["status"] for piece in evidence["evidence"]] == ["proved", "proved"]
    last = {probe["node"]: probe["state"] for probe in evidence["probes"]}
    assert last == dict.fromkeys(planned.targets, "gone")


@pytest.mark.parametrize("part", ["", "twin"], ids=["run", "twin"])
def test_the_journal_is_one_line_of_whole_events_without_gaps(kill_half: Done, part: str) -> None:
    lines = (kill_half.record / part / "journal.jsonl").read_text().splitlines()
    events = [Event.from_line(line) for line in lines]
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(a.time_s <= b.time_s for a, b in pairwise(events))
    assert (events[0].kind, events[-1].kind) == (Kind.RUN_STARTED, Kind.RUN_FINISHED)
    nodes = {event.payload.node for event in events if event.kind is Kind.NODE_STARTED}
    assert {event.source for event in events} == {"harness", *nodes}
    for event, line in zip(events, lines, strict=True):  # they read back as they were written
        assert line.startswith(f'{event.to_line()[:-1]},"chain":')
