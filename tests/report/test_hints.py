"""Hints: one for each code, and none that leads to a dead end."""

import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import click
import pytest

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.cli.main import main
from chaoslab.faults.evidence.codes import Code as EvidenceCode
from chaoslab.plan.file import resolved_yaml
from chaoslab.plan.file.document import Tree
from chaoslab.prepare.plans import Asked, decode
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory
from chaoslab.report.hints import HINTS, OTHERWISE, Record, hint

RECORD = Record(run="3f9a1c", plan="kill_half", journal="runs/journal.jsonl")


def finding(*codes: str, who: str = "learner-3") -> Finding:
    return Finding(check="some", outcome=Outcome.FAIL, reason="", codes=codes, culprits=(who,))


def commands(text: str) -> list[list[str]]:
    return [shlex.split(one)[1:] for one in re.findall("`(chaoslab [^`]+)`", text)]


EVERY = {**{code.value: hint(finding(code), RECORD) for code in HINTS}, "": hint(finding(), RECORD)}


def test_every_code_has_a_hint() -> None:
    assert set(HINTS) == set(Code)


@pytest.mark.parametrize("code", EVERY)
def test_every_command_in_a_hint_is_one(code: str) -> None:
    for name, *words in commands(EVERY[code]):
        command = main.get_command(click.Context(main), name)
        assert command is not None, name
        command.make_context(name, words)


def test_every_setting_in_a_hint_is_a_key_of_a_plan() -> None:
    lines = {tuple(words) for text in EVERY.values() for words in commands(text)}
    runs = [words for name, *words in lines if name == "run" and "--set" in words]
    assert runs
    for words in runs:
        settings = [value for key, value in pairwise(words) if key == "--set"]
        decode(Asked(plan=words[0], settings=settings))


def hint_in(code: Code, *, training: Tree = None, settle: str = "30s") -> str:
    """What is said of a finding with this code, by the plan that was carried out."""
    settings: dict[str, Tree] = {"settle": settle, "training": training or {}}
    return hint(finding(code), replace(RECORD, settings=settings))


@pytest.mark.parametrize("code", HINTS)
def test_a_hint_for_a_script_names_nothing_that_it_does_not_have(code: Code) -> None:
    found = hint_in(code, training={"script": {"command": "train"}}).replace("learner-3", "")
    assert not [word for word in ("training.", "learner", "syncer") if word in found]


@pytest.mark.parametrize("kind", ["processes", "compose", "namespace", "hosts"])
def test_no_hint_starts_a_training_after_one_that_was_attached(kind: str) -> None:
    record = replace(RECORD, settings={"fleet": {"kind": kind}})
    for code in HINTS:
        said = commands(hint(finding(code), record))
        assert not [name for name, *_ in said if name in {"run", "replay"}], code


@pytest.mark.parametrize(
    ("fleet", "target"),
    [
        ({"kind": "processes", "syncer": 4711}, "processes"),
        ({"kind": "processes", "pid": 4711}, "pid:PID"),
        ({"kind": "processes", "pattern": "train .*py"}, "'pattern:train .*py'"),
        ({"kind": "compose", "project": "mine"}, "compose:mine"),
        ({"kind": "namespace", "namespace": "a", "context": "b"}, "namespace:a@b"),
        (
            {"kind": "compose", "project": "a", "services": ["b", "c"]},
            "compose:a --service b --service c",
        ),
        (
            {"kind": "namespace", "namespace": "a", "selector": "app in (b, c)"},
            "namespace:a --selector 'app in (b, c)'",
        ),
        (
            {"kind": "hosts", "hosts": ["10.0.0.3", "b"], "pattern": "a b", "inventory": "f.yaml"},
            "ssh:10.0.0.3,b --pattern 'a b' --inventory f.yaml",
        ),
        ({"kind": "local"}, None),
    ],
)
def test_a_record_is_repeated_where_its_training_is(
    fleet: dict[str, Tree], target: str | None
) -> None:
    record = replace(RECORD, settings={"fleet": fleet})
    command = "run" if target is None else f"attach {target}"
    assert record.again == f"chaoslab {command} {RECORD.plan}"


def test_a_setting_that_the_plan_has_already_is_not_suggested() -> None:
    assert "--set" not in hint_in(Code.PACE_TOO_LOW, training={"step_time": "auto"})
    assert "step_time=auto" in hint_in(Code.PACE_TOO_LOW, training={"step_time": "off"})


def test_more_is_more_than_the_plan_says() -> None:
    assert "--set settle=60s" in hint_in(Code.OUT_OF_DATE)
    assert "--set settle=4m" in hint_in(Code.OUT_OF_DATE, settle="2m")
    longer = hint_in(Code.TOO_FEW_SAMPLES, training={"stop": {"rounds": 791}})
    assert "--set training.stop.rounds=1582" in longer


@pytest.mark.parametrize("name", ["kill_half", "mtbf_soak"])
def test_the_settings_of_a_record_are_those_of_its_resolved_plan(tmp_path: Path, name: str) -> None:
    plan, _ = decode(Asked(plan=name))
    (tmp_path / RESOLVED_PLAN).write_text(resolved_yaml(plan))
    record = Record.of(RunDirectory(path=tmp_path), run="3f9a1c", path=tmp_path)
    assert record.setting("training.step_time") == "auto"
    assert record.setting("training.no_such.key") is None


def test_a_damaged_plan_is_named_by_its_name(tmp_path: Path) -> None:
    run = tmp_path / "kill_half" / "3f9a1c"
    run.mkdir(parents=True)
    (run / RESOLVED_PLAN).write_text("{")
    assert Record.of(RunDirectory(path=run), run="3f9a1c", path=run).plan == "kill_half"


def test_codes_of_packages_and_findings_without_codes_have_a_hint_too() -> None:
    said = OTHERWISE.format(run=RECORD.run)
    assert hint(finding("of_a_package"), RECORD) == hint(finding(), RECORD) == said


def test_standard_error_is_read_above_only_if_something_of_it_stands_there() -> None:
    dead = finding(Code.UNEXPECTED_EXIT)
    assert "above" in hint(dead, RECORD, {"learner-3": "Killed"})
    for stderr in ({"learner-3": ""}, {"learner-1": "Killed"}):
        assert "above" not in hint(dead, RECORD, stderr)


def test_the_syncer_is_suspected_once() -> None:
    assert hint(finding(Code.TOKEN_LOST, who="syncer"), RECORD).count("syncer") == 1
    assert "learner-3" in hint(finding("of_a_package", Code.TOKEN_LOST, Code.LEFT_OVER), RECORD)


def test_evidence_in_doubt_leads_to_what_proves_a_fault() -> None:
    for code in EvidenceCode:
        assert "chaoslab catalog faults" in hint(finding(Code.NOT_PROVED, code), RECORD)
