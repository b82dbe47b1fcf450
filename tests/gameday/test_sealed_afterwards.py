"""Sealed faults afterwards: what came is what was drawn, and is debriefed."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.checks.verdict import judge
from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Action, Status
from chaoslab.gameday.as_plan import as_plan, unplanned
from chaoslab.gameday.debrief import actions_page, debrief_page
from chaoslab.gameday.outcomes import NOT_KNOWN
from chaoslab.plan.model import Trigger
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL
from chaoslab.run.operators import Note
from tests.gameday_room import after_round, ask, kind
from tests.sealed_day import (
    ONE,
    PLANNED,
    SKIP_HALF,
    call,
    drawn,
    history_of,
    prepared,
    record,
    sealed_day,
    within,
)
from tests.stage import HALF

pytestmark = pytest.mark.usefixtures("folder")


def test_what_came_is_what_was_drawn_and_was_proved(day: Path) -> None:
    history = history_of(day)
    stories = {story.spec: story for story in history.faults}
    for one in drawn(prepared()):
        story = stories[one.spec]
        assert (story.injection, story.fault, story.targets) == (one.id, one.fault, one.targets)
        assert story.status is Status.PROVED


def test_the_debrief_says_what_it_was_and_who_noticed_it(day: Path) -> None:
    with within(day):
        page = (record().path / "debrief.md").read_text()
    for one in drawn(prepared()):
        assert f"| {one.spec} ({one.fault} on {one.targets[0]}) | sealed: not announced |" in page
    assert re.search(r"\| sealed-1 \| [\d.]+ s \| Bo \|", page)
    assert "| sealed-2 | never | none |" in page


def test_one_that_was_left_out_is_told_with_what_it_would_have_been(tmp_path: Path) -> None:
    orders = [SKIP_HALF, (after_round(30), ask(Action.END))]
    later = replace(ONE, trigger=Trigger(time_s=50.0))
    history = sealed_day(tmp_path, orders, one=later, keep=True)
    page = debrief_page(tmp_path, history, judge(history, ()), PLANNED)
    assert "| sealed-1 (process.kill) | sealed: not announced |" in page


def test_a_note_that_names_a_node_that_was_hit_notices_a_sealed_fault(tmp_path: Path) -> None:
    note = Note(by="Bo", text="learner-0 is gone!")
    orders = [SKIP_HALF, (kind(Kind.FAULT_INJECTED, "sealed-1"), note)]
    history = sealed_day(tmp_path, orders)
    page = debrief_page(tmp_path, history, judge(history, ()), PLANNED)
    assert re.search(r"\| sealed-1 \| .* s \| Bo \|", page)


def test_what_came_becomes_a_part_of_the_gate(day: Path, tmp_path: Path) -> None:
    with within(day):
        gate = tmp_path / "gate.yaml"
        done = call("latest", "--as-plan", str(gate))
    assert done.exit_code == ExitCode.PASS, done.output
    written = prepare(Asked(plan=str(gate)))
    assert written.plan.gameday is None
    hit = {one.spec: (one.fault, one.targets) for one in written.schedule.injections}
    assert hit == {one.spec: (one.fault, one.targets) for one in drawn(prepared())}
    run = CliRunner().invoke(main, ["run", str(gate), "--quiet"])
    assert run.exit_code == ExitCode.PASS, run.output


def test_a_repeated_one_is_in_the_gate_twice(tmp_path: Path) -> None:
    again = (kind(Kind.FAULT_HEALED, "sealed-1"), ask(Action.REPEAT, "sealed-1"))
    history = sealed_day(tmp_path, [SKIP_HALF, again])
    plan = PLANNED
    made = as_plan(plan, (HALF, *unplanned(plan, history, _fakes())), history)
    assert [one.id for one in made.faults] == ["sealed-1-1", "sealed-1-2"]
    assert {one.target.names for one in made.faults} == {("learner-0",)}


def _fakes() -> dict[str, type]:
    return {"process.kill": type(ONE.settings)}


# ---------------------------------------------------------------- of a run that broke off


def cut_off(day: Path, folder: Path) -> Path:
    """A copy of the record as it is when the harness dies while the first sealed fault is open."""
    with within(day):
        whole = record().path
    copy = folder / "runs" / "one_dies" / whole.name
    shutil.copytree(whole, copy)
    lines = (copy / JOURNAL).read_text().splitlines(keepends=True)
    until = next(
        number for number, line in enumerate(lines)
        if '"fault.injected"' in line and '"sealed-1"' in line
    )  # fmt: skip
    (copy / JOURNAL).write_text("".join(lines[: until + 1]))
    facts = json.loads((copy / "run.json").read_text())
    del facts["journal"]
    (copy / "run.json").write_text(json.dumps({**facts, "outcome": None}))
    return copy


def test_a_record_that_breaks_off_tells_of_what_had_come(day: Path, tmp_path: Path) -> None:
    copy = cut_off(day, tmp_path)
    done = CliRunner().invoke(main, ["show", str(copy), "--judge"])
    assert done.exit_code == ExitCode.UNKNOWN, done.output
    history = History.read(copy)
    plan = prepared().plan
    page = debrief_page(copy, history, judge(history, ()), plan)
    assert f"sealed-2 ({NOT_KNOWN})" in page
    assert actions_page(history, judge(history, ()), plan)
    kept = tmp_path / "gate.yaml"
    assert call(str(copy), "--as-plan", str(kept)).exit_code == ExitCode.PASS
    assert [one.spec for one in prepare(Asked(plan=str(kept))).schedule.injections] == ["sealed-1"]
