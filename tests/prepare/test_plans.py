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
from xml.etree import ElementTree as Xml

import jsonschema
import pytest

from chaoslab.checks.verdict import schema
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import BaselineMeasured
from chaoslab.faults.catalogue import FAULTS
from chaoslab.plan.schedule import from_lines
from chaoslab.record.journal import History
from chaoslab.undo.log import open_undos
from tests.chromium import APPEARANCES, Browser
from tests.payload_reading import read_whole
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
    assert len(meanwhile) >= 5 / measured.payload.gap_s_median / 2
    assert len(meanwhile) > 6
    for merged in meanwhile[5:]:
        assert not dead & {one.learner for one in merged.payload.contributors}


def test_the_four_counts_are_recorded_and_tell_the_story(kill_half: Done) -> None:
    history = kill_half.history
    samples = history.of(Kind.COUNTS_SAMPLED)
    keys = ("alive", "believed", "stepping", "contributing")
    assert all(sample.data.keys() == set(keys) for sample in samples)
    (story,) = history.faults
    before = [s for s in samples if s.time_s < story.injected.time_s][-1]
    late = [s for s in samples if s.time_s < story.healing.time_s][-1]
    assert [before.data[key] for key in keys] == [4, 4, 4, 4]
    assert [late.data[key] for key in keys] == [2, 2, 2, 2]
    assert [4, 4, 4, 4] in [
        [s.data[key] for key in keys] for s in samples if s.time_s > story.healing.time_s
    ]


def test_every_expected_check_was_judged(kill_half: Done) -> None:
    asked = re.findall(r"check: (\w+)", (ROOT / "fault_plans" / "kill_half.yaml").read_text())
    assert sorted(f["check"] for f in kill_half.verdict["findings"]) == sorted(asked)
    for finding in kill_half.verdict["findings"]:
        assert finding["samples"] > 0, finding
        assert finding["reason"]


# ---------------------------------------------------------------- the files for people and CI


def test_the_verdict_obeys_its_published_schema(kill_half: Done) -> None:
    written = json.loads((kill_half.record / "verdict.json").read_text())
    jsonschema.validate(written, schema())
    assert written == kill_half.verdict, "what is printed is what is kept"


def test_junit_has_a_green_case_for_each_finding(kill_half: Done) -> None:
    suites = Xml.parse(kill_half.record / "junit.xml").getroot()
    (suite,) = suites
    cases = [case.get("name") for case in suite.iter("testcase")]
    assert {finding["check"] for finding in kill_half.verdict["findings"]} <= set(cases)
    assert "verdict" in cases
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert suite.get("tests") == str(len(cases))


def test_the_report_says_the_answers_first(kill_half: Done) -> None:
    report = (kill_half.record / "report.md").read_text()
    head = report[: report.index("### Findings")]
    assert "PASS" in head.splitlines()[0]
    for victim in kill_half.verdict["learners_rejoined"]:
        assert victim in head
    for finding in kill_half.verdict["findings"]:
        assert f"`{finding['check']}`" in report


def test_the_web_page_draws_every_chart_of_a_real_run(kill_half: Done) -> None:
    with Browser() as browser:
        for name, how in APPEARANCES.items():
            page = browser.open(kill_half.record / "report.html", **how)
            page.screenshot(f"kill_half-{name}")
            assert set(values_of_charts(page)) == set(CHARTS)
            assert all(values_of_charts(page).values()), values_of_charts(page)
            assert page.troubles == []
            assert len(page.requests) == 1


def test_judging_the_record_again_gives_the_same_verdict(kill_half: Done) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chaoslab", "judge", str(kill_half.record), "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout) == kill_half.verdict


# ---------------------------------------------------------------- the record


def test_the_run_directory_holds_what_it_should(kill_half: Done) -> None:
    record = kill_half.record
    files = {path.name for path in record.iterdir()}
    assert files == {
        "run.json", "plan.source.yaml", "plan.resolved.yaml", "schedule.jsonl", "journal.jsonl",
        "obligations.jsonl", "evidence", "nodes", "snapshots", "control", "verdict.json",
        "junit.xml", "report.md", "report.html", "tokens",
    }  # fmt: skip
    assert (kill_half.root / "kill_half" / "latest").resolve() == record
    source = (ROOT / "fault_plans" / "kill_half.yaml").read_text()
    assert (record / "plan.source.yaml").read_text() == source
    assert list((record / "snapshots").glob("*.npz"))
    assert not open_undos(record), "all is undone, the twin's too"


def test_run_json_says_where_and_of_what_the_run_was(kill_half: Done) -> None:
    facts = json.loads((kill_half.record / "run.json").read_text())
    assert (facts["plan"], facts["seed"], facts["fleet"]) == ("kill_half", 7, "local")
    assert (facts["outcome"], facts["exit_code"], facts["verdict"]) == ("completed", 0, "PASS")
    assert facts["training_continued"] is True
    assert facts["learners_rejoined"] == kill_half.verdict["learners_rejoined"]
    assert {"python", "chaoslab", "jax", "numpy"} <= facts["versions"].keys()
    assert {"system", "cores"} <= facts["host"].keys()
    assert facts["control"]["outcome"] == "completed"
    started = kill_half.history.of(Kind.RUN_STARTED)[0]
    assert facts["schedule_hash"] == started.payload.schedule_hash


def test_the_schedule_reads_back_and_is_what_happened(kill_half: Done) -> None:
    lines = (kill_half.record / "schedule.jsonl").read_text().splitlines()
    (planned,) = from_lines(lines, FAULTS).injections
    (story,) = kill_half.history.faults
    assert story.injection == planned.id
    assert story.targets == planned.targets
    evidence = json.loads((kill_half.record / "evidence" / f"{planned.id}.json").read_text())
    assert [piece["status"] for piece in evidence["evidence"]] == ["proved", "proved"]
    last = {probe["node"]: probe["state"] for probe in evidence["probes"]}
    assert last == dict.fromkeys(planned.targets, "gone")


@pytest.mark.parametrize("part", ["", "control"], ids=["run", "twin"])
def test_every_life_of_every_node_left_its_files(kill_half: Done, part: str) -> None:
    record = kill_half.record / part
    history = History.read(record)
    lives = {(e.payload.node, e.payload.incarnation) for e in history.of(Kind.NODE_STARTED)}
    assert len(lives) == (8 if part == "" else 6), "syncer, four learners, evaluator; two again"
    exited = {(e.payload.node, e.payload.incarnation): e for e in history.of(Kind.NODE_EXITED)}
    assert lives == exited.keys()
    for node, life in lives:
        home = record / "nodes" / node / str(life)
        assert (home / "stdout.log").stat().st_size > 0
        assert (home / "stderr.log").is_file()
        command = json.loads((home / "command.json").read_text())
        assert f"chaoslab.diloco.{'learner' if node.startswith('learner') else ''}" in str(command)
        ending = json.loads((home / "exit.json").read_text())
        assert ending["signal"] == exited[node, life].data["signal"]
        assert (ending["refused_lines"], ending["lost_log_bytes"]) == (0, 0)


@pytest.mark.parametrize("part", ["", "control"], ids=["run", "twin"])
def test_the_journal_is_one_line_of_events_without_gaps(kill_half: Done, part: str) -> None:
    lines = (kill_half.record / part / "journal.jsonl").read_text().splitlines()
    events = [Event.from_line(line) for line in lines]
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(a.time_s <= b.time_s for a, b in pairwise(events))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", e.wall) for e in events)
    assert events[0].kind is Kind.RUN_STARTED
    assert events[-1].kind is Kind.RUN_FINISHED
    nodes = {event.payload.node for event in events if event.kind is Kind.NODE_STARTED}
    assert {event.source for event in events} == {"harness", *nodes}
    for event, line in zip(events, lines, strict=True):  # they read back as they were written
        said, chained, _ = line.rpartition(',"chain":')
        assert chained
        assert event.to_line() == said + "}"


@pytest.mark.parametrize("part", ["", "control"], ids=["run", "twin"])
def test_every_event_carries_the_keys_that_its_kind_promises(kill_half: Done, part: str) -> None:
    for event in History.read(kill_half.record / part).events:
        read_whole(event.kind, event.data)


# ---------------------------------------------------------------- one more


@pytest.mark.deep  # `tests/faults` proves and heals process.hang on real processes
def test_wedge_one_passes_although_heartbeats_went_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Without its twin, and without most of the rounds after the fault, which are for a loss that
    can be compared. It hangs for longer than the plan says: on a slow machine, whose steps take up
    to 0.3 s, a learner is dropped after 60 of them.
    """
    shorter = ("--no-control", "--set", "training.stop.rounds=120", "--set", "faults.0.for=20s")
    done = run("wedge_one", tmp_path_factory.mktemp("wedge_one"), *shorter)
    wrong = {f["check"] for f in done.verdict["findings"] if f["outcome"] != "PASS"}
    assert wrong == {"loss_parity"}, why(done)  # there is nothing to compare with
    assert (done.exit_code, done.verdict["outcome"]) == (3, "UNKNOWN")
    (story,) = done.history.faults
    (victim,) = story.targets
    left = [e for e in done.history.of(Kind.MEMBER_LEFT) if e.payload.learner == victim]
    assert left[0].payload.reason == "no_progress"
    lives = [e for e in done.history.of(Kind.NODE_STARTED) if e.payload.node == victim]
    assert len(lives) == 1, "it joined again in the same life"
    assert done.verdict["learners_rejoined"][victim]["rejoined"] is True
