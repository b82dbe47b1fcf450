"""Sealed faults afterwards: opened with the key on record, compared with what came, debriefed."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.checks.codes import Code
from chaoslab.checks.seals import opened_faults, seal_doubts
from chaoslab.checks.verdict import judge
from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import (
    Action,
    BaselineMeasured,
    GamedaySealed,
    GamedayUnsealed,
    Status,
)
from chaoslab.gameday.as_plan import as_plan, unplanned
from chaoslab.gameday.debrief import actions_page, debrief_page
from chaoslab.gameday.key_file import secret_in, secret_in_or_new
from chaoslab.gameday.sealing import seal
from chaoslab.plan.model import Trigger, sealed_ids
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.journal import JOURNAL, History
from chaoslab.record.sealed import NotOpened, digest_of, opened
from chaoslab.run.operators import Note
from chaoslab.run.sealed import SealedInjections
from tests.gameday_room import after_round, ask, kind
from tests.sealed_day import (
    ONE,
    PLANNED,
    SECRET,
    SKIP_HALF,
    call,
    history_of,
    prepared,
    record,
    sealed_day,
    within,
)
from tests.stage import HALF

pytestmark = pytest.mark.usefixtures("folder")


def test_the_key_comes_on_record_when_all_faults_are_over(day: Path) -> None:
    history = history_of(day)
    sealed, unsealed = history.last(GamedaySealed), history.last(GamedayUnsealed)
    assert sealed.seq < history.of(BaselineMeasured)[0].seq
    faults_s = [event.time_s for event in history.events if event.kind.startswith("fault.")]
    assert unsealed.time_s >= max(faults_s)
    assert digest_of(bytes.fromhex(unsealed.payload.key)) == sealed.payload.key_digest
    secret = secret_in(day / "day.key").hex()
    assert all(secret not in text.read_text() for text in day.rglob("*.jsonl"))
    assert unsealed.payload.key != secret


def test_what_came_is_what_was_sealed_and_was_proved(day: Path) -> None:
    history = history_of(day)
    assert not list(seal_doubts(history))
    stories = {story.spec: story for story in history.faults}
    faults_sealed = opened_faults(history)
    assert list(faults_sealed) == list(sealed_ids(2))
    for spec, one in faults_sealed.items():
        assert (stories[spec].fault, stories[spec].targets) == (one.fault, one.targets)
        assert stories[spec].status is Status.PROVED


def test_the_debrief_says_what_it_was_and_who_noticed_it(day: Path) -> None:
    with within(day):
        page = (record().path / "debrief.md").read_text()
    for one in opened_faults(history_of(day)).values():
        assert f"| {one.spec} | {one.fault} | {one.targets[0]} | " in page
        assert f"| {one.spec} ({one.fault} on {one.targets[0]}) | sealed: nobody was told |" in page
    assert re.search(r"\| sealed-1 \| [\d.]+ s \| Bo \|", page)
    assert "| sealed-2 | never | nobody |" in page


def test_one_that_was_left_out_is_told_with_what_it_would_have_been(tmp_path: Path) -> None:
    orders = [SKIP_HALF, (after_round(30), ask(Action.END))]
    later = replace(ONE, trigger=Trigger(time_s=50.0))
    history = sealed_day(tmp_path, orders, one=later, keep=True)
    assert (
        "| sealed-1 | process.kill | learner-0 | 50.0 s after faults began "
        "| no: Ann ended the game-day before it came |"
    ) in debrief_page(tmp_path, history, judge(history, ()), PLANNED)


def test_a_note_that_names_a_node_that_was_hit_notices_a_sealed_fault(tmp_path: Path) -> None:
    note = Note(by="Bo", text="learner-0 is gone!")
    orders = [SKIP_HALF, (kind(Kind.FAULT_INJECTED, "sealed-1"), note)]
    history = sealed_day(tmp_path, orders)
    page = debrief_page(tmp_path, history, judge(history, ()), PLANNED)
    assert re.search(r"\| sealed-1 \| .* s \| Bo \|", page)


def test_judge_report_and_show_work_on_the_finished_record(day: Path) -> None:
    with within(day):
        for words in (["judge", "latest"], ["report", "latest"], ["show", "latest"]):
            done = CliRunner().invoke(main, words)
            assert done.exit_code in (ExitCode.PASS, ExitCode.UNKNOWN), done.output
        verdict = json.loads((record().path / "verdict.json").read_text())
    assert "sealed" not in {one["check"] for one in verdict["findings"]}


def test_what_came_becomes_a_part_of_the_gate(day: Path, tmp_path: Path) -> None:
    with within(day):
        gate = tmp_path / "gate.yaml"
        done = call("latest", "--as-plan", str(gate))
    assert done.exit_code == ExitCode.PASS, done.output
    written = prepare(Asked(plan=str(gate)))
    assert written.plan.gameday is None
    hit = {one.spec: (one.fault, one.targets) for one in written.schedule.injections}
    sealed = opened_faults(history_of(day))
    assert hit == {spec: (one.fault, one.targets) for spec, one in sealed.items()}
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


# ---------------------------------------------------------------- opened, or not


def test_who_has_the_key_sees_what_is_sealed_before_during_and_after(day: Path) -> None:
    with within(day):
        after = call("latest", "--unseal")
        with_key = call("latest", "--unseal", "--key", "day.key", "--json")
    assert after.exit_code == ExitCode.PASS, after.output
    assert after.stdout.startswith("sealed-1: process.")
    assert "healed after 3s" in after.stdout
    assert [one["spec"] for one in json.loads(with_key.stdout)["sealed"]] == [
        "sealed-1",
        "sealed-2",
    ]


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


def test_a_record_that_breaks_off_is_judged_and_says_what_is_sealed_still(
    day: Path, tmp_path: Path
) -> None:
    copy = cut_off(day, tmp_path)
    done = CliRunner().invoke(main, ["judge", str(copy)])
    assert done.exit_code == ExitCode.UNKNOWN, done.output
    verdict = json.loads((copy / "verdict.json").read_text())
    (finding,) = [one for one in verdict["findings"] if one["check"] == "sealed"]
    assert finding["codes"] == [Code.STILL_SEALED]
    history = History.read(copy)
    plan = prepared().plan
    page = debrief_page(copy, history, judge(history, ()), plan)
    assert "sealed-2 (still sealed)" in page
    assert actions_page(history, judge(history, ()), plan)
    assert "--key" in call(str(copy), "--unseal").stderr
    opened_now = call(str(copy), "--unseal", "--key", str(day / "day.key"))
    assert "sealed-2: process." in opened_now.stdout
    kept = tmp_path / "gate.yaml"
    assert call(str(copy), "--as-plan", str(kept)).exit_code == ExitCode.PASS
    assert [one.spec for one in prepare(Asked(plan=str(kept))).schedule.injections] == ["sealed-1"]


def test_another_key_opens_nothing(day: Path, tmp_path: Path) -> None:
    copy = cut_off(day, tmp_path)
    secret_in_or_new(Path("other.key"))
    done = call(str(copy), "--unseal", "--key", "other.key")
    assert done.exit_code == ExitCode.REFUSED
    assert not done.stdout
    gone = call(str(copy), "--unseal", "--key", "none.key")
    assert "none.key" in gone.stderr
    assert not Path("none.key").exists()


def changed(history: History, wanted: Kind, change: Callable[[dict[str, Json]], object]) -> History:
    """The record with the data of the first event of a kind changed."""
    events = list(history.events)
    number = next(n for n, event in enumerate(events) if event.kind is wanted and _is_sealed(event))
    data = dict(events[number].data)
    change(data)
    events[number] = Event(
        seq=number, time_s=events[number].time_s, source="harness", kind=wanted, data=data
    )
    return History(events)


def _is_sealed(event: Event) -> bool:
    spec = event.data.get("spec", "sealed-1")
    return isinstance(spec, str) and spec.startswith("sealed-")


def _flip(data: dict[str, Json]) -> None:
    first, second = data["lines"]  # type: ignore[misc]
    end = "A" if first[100] != "A" else "B"
    data["lines"] = [f"{first[:100]}{end}{first[101:]}", second]


def _swap(data: dict[str, Json]) -> None:
    data["lines"] = list(reversed(data["lines"]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "change", "said"),
    [
        (Kind.GAMEDAY_SEALED, _flip, "what is sealed of sealed-1 was changed: it does not open"),
        (Kind.GAMEDAY_SEALED, _swap, "what is sealed of sealed-1 was changed: it does not open"),
        (Kind.GAMEDAY_SEALED, lambda data: data.update(lines=[]), "there are 0 lines"),
        (Kind.GAMEDAY_SEALED, lambda data: data.update(key_digest="00"), "not the key"),
        (Kind.GAMEDAY_UNSEALED, lambda data: data.update(key="00" * 32), "not the key"),
        (Kind.GAMEDAY_UNSEALED, lambda data: data.update(key="?"), "not hexadecimal"),
        (
            Kind.FAULT_INJECTING,
            lambda data: data.update(fault="process.restart"),
            "`sealed-1` was sealed as",
        ),
        (
            Kind.FAULT_INJECTING,
            lambda data: data.update(targets=["learner-9"]),
            "on learner-9",
        ),
        (Kind.FAULT_INJECTING, lambda data: data.update(for_s=30.0), "with other settings"),
        (
            Kind.FAULT_INJECTING,
            lambda data: data.update(asked_s=1000.0),
            "after faults began, and came",
        ),
        (
            Kind.FAULT_INJECTING,
            lambda data: data.update(injection="injection-7"),
            "`sealed-1` was sealed, and neither came nor was left out",
        ),
    ],
)
def test_what_was_exchanged_is_noticed(
    day: Path, wanted: Kind, change: Callable[[dict[str, Json]], object], said: str
) -> None:
    history = changed(history_of(day), wanted, change)
    verdict = judge(history, ())
    (finding,) = [one for one in verdict.findings if one.check == "sealed"]
    assert said in finding.reason
    assert finding.codes == (Code.SEAL_BROKEN,)
    page = debrief_page(day, history, verdict, prepared().plan)
    assert "is what was sealed" not in page


def test_a_line_of_the_journal_that_was_changed_is_named(day: Path, tmp_path: Path) -> None:
    with within(day):
        copy = tmp_path / "copy"
        shutil.copytree(record().path, copy)
    text = (copy / JOURNAL).read_text()
    said = history_of(day).last(GamedaySealed)
    line = said.payload.lines[0]
    (copy / JOURNAL).write_text(text.replace(line, f"{line[:-4]}AAA=", 1))
    done = CliRunner().invoke(main, ["judge", str(copy)])
    assert done.exit_code == ExitCode.BROKEN
    assert "was changed" in done.stderr


def test_the_key_of_one_run_opens_no_other() -> None:
    plan = prepared()
    first, second = seal(plan, SECRET), seal(plan, SECRET)
    assert first.injections == second.injections
    said = [_payload(one) for one in (first, second)]
    assert [one.spec for one in opened(said[0], first.key)] == ["sealed-1", "sealed-2"]
    with pytest.raises(NotOpened):
        opened(said[1], first.key)


def _payload(sealed: SealedInjections) -> GamedaySealed:
    event = Event(seq=0, time_s=0.0, source="harness", kind=Kind.GAMEDAY_SEALED, data=sealed.facts)
    assert isinstance(event.payload, GamedaySealed)
    return event.payload
