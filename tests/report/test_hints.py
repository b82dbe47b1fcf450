"""Hints: one for each code, and none that leads to a dead end."""

import re
import shlex
from itertools import pairwise

import click
import pytest

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.cli.main import main
from chaoslab.faults.evidence.codes import Code as EvidenceCode
from chaoslab.prepare.plans import Asked, decode
from chaoslab.report.hints import HINTS, OTHERWISE, Record, hint

RECORD = Record(run="3f9a1c", plan="kill_half", journal="runs/journal.jsonl")


def finding(*codes: str) -> Finding:
    return Finding(check="some", outcome=Outcome.FAIL, reason="", codes=codes)


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


def test_the_first_known_code_decides_and_names_the_culprit() -> None:
    found = Finding(check="rejoin", outcome=Outcome.FAIL, reason="", culprits=("learner-3",),
                    codes=("of_a_package", Code.NOT_REJOINED, Code.LEFT_OVER))  # fmt: skip
    assert "learner-3" in hint(found, RECORD)


def test_codes_of_packages_and_old_verdicts_have_a_hint_too() -> None:
    said = OTHERWISE.format(run=RECORD.run)
    assert hint(finding("of_a_package"), RECORD) == hint(finding(), RECORD) == said


def culprit(code: Code, who: str = "learner-3") -> Finding:
    return Finding(check="some", outcome=Outcome.FAIL, reason="", codes=(code,), culprits=(who,))


def test_standard_error_is_read_above_only_if_something_of_it_stands_there() -> None:
    dead = culprit(Code.EXIT_NOT_ASKED)
    assert "wrote to standard error above" in hint(dead, RECORD, {"learner-3": "Killed"})
    silent = hint(dead, RECORD, {"learner-3": ""})
    assert "learner-3 wrote nothing to standard error" in silent
    assert f"`grep -F learner-3 {RECORD.journal} | tail`" in silent
    absent = hint(dead, RECORD, {"learner-1": "Killed"})
    assert "`chaoslab show 3f9a1c --all`" in absent
    assert all("above" not in text for text in (silent, absent))


def test_the_syncer_is_suspected_once() -> None:
    assert "a defect of the syncer." in hint(culprit(Code.TOKEN_LOST, "syncer"), RECORD)
    assert "a defect of the syncer or of learner-3." in hint(culprit(Code.TOKEN_LOST), RECORD)


def test_evidence_in_doubt_leads_to_what_proves_a_fault() -> None:
    for code in EvidenceCode:
        assert "chaoslab faults" in hint(finding(Code.NOT_PROVED, code), RECORD)
