"""The composite GitHub action, carried out step by step as a runner would.

The interpreter here knows what action.yml uses and refuses everything else: expressions of inputs,
contexts and outputs; `if` of `always()`, `!=` and `&&`; steps with `run` for bash. Steps that `use`
another action are not run, but their inputs are evaluated.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
ACTION: Mapping[str, Any] = YAML(typ="safe", pure=True).load((ROOT / "action.yml").read_text())
EXPRESSION = re.compile(r"\$\{\{ *([^}]+?) *\}\}")


@dataclass
class Runner:
    """A GitHub runner in small."""

    work: Path
    inputs: Mapping[str, str]
    environment: Mapping[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    used: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    log: str = ""
    has_failed: bool = False

    def __post_init__(self) -> None:
        known = ACTION["inputs"]
        assert set(self.inputs) <= set(known)
        missing = {name for name, about in known.items() if about.get("required")}
        assert missing <= set(self.inputs)
        defaults = {name: about.get("default", "") for name, about in known.items()}
        self.inputs = {**defaults, **self.inputs}

    def value(self, expression: str) -> str:
        kind, _, rest = expression.partition(".")
        if kind == "inputs":
            return self.inputs[rest]
        if kind == "steps":
            return self.outputs.get(rest.replace(".outputs.", "."), "")
        contexts = {"github.action_path": str(ROOT), "github.sha": "0" * 40, "runner.os": "Linux"}
        return contexts[expression]

    def filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self.value(found[1]), text)

    def is_due(self, condition: str) -> bool:
        terms = [term.strip() for term in condition.split("&&")]
        if "always()" not in terms and self.has_failed:
            return False
        for term in terms:
            if term in {"always()", "success()"}:
                continue
            left, operator, right = term.partition(" != ")
            assert operator, f"unknown condition {term!r}"
            if self.value(left) == right.strip("'"):
                return False
        return True

    def carry_out(self) -> None:
        assert ACTION["runs"]["using"] == "composite"
        for step in ACTION["runs"]["steps"]:
            if not self.is_due(step.get("if", "success()")):
                continue
            if "uses" in step:
                given = {key: self.filled(str(text)) for key, text in step["with"].items()}
                self.used.append((step["uses"], given))
            else:
                self.run(step)

    def run(self, step: Mapping[str, Any]) -> None:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input would become part of a command"
        told = {name: self.work / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        told["GITHUB_OUTPUT"].write_text("")
        env = {name: self.filled(text) for name, text in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={**self.environment, **env, **{name: str(path) for name, path in told.items()}},
            cwd=self.work, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.log += done.stdout + done.stderr
        self.has_failed = self.has_failed or done.returncode != 0
        for line in told["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, text = line.partition("=")
            self.outputs[f"{step['id']}.{name}"] = text

    @property
    def summary(self) -> str:
        return (self.work / "GITHUB_STEP_SUMMARY").read_text()


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """A PATH on which `python` is this one, whose pip only notes what it is asked for."""
    tools = tmp_path / "tools"
    tools.mkdir()
    python = f"""#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then shift 3; printf '%s\\n' "$@" >> {tmp_path}/installed; exit 0; fi
exec {sys.executable} "$@"
"""
    for name, text in {
        "python": python,
        "chaoslab": f'#!/bin/sh\nexec {sys.executable} -m chaoslab "$@"\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


def runner(tmp_path: Path, environment: Mapping[str, str], **inputs: str) -> Runner:
    work = tmp_path / "work"
    work.mkdir()
    return Runner(
        work, {name.replace("_", "-"): text for name, text in inputs.items()}, environment
    )


def test_no_input_becomes_part_of_a_command() -> None:
    steps = ACTION["runs"]["steps"]
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []
    assert all(step.get("shell") == "bash" for step in steps if "run" in step)


def test_options_and_seed_are_words_of_their_own(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    tool = Path(environment["PATH"].split(":")[0]) / "chaoslab"
    tool.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/words\n")
    options = "--fail-on=low-margin\n\n--set=training.learners=3\n"
    runner(tmp_path, environment, plan="a b", seed="5", options=options, out="my runs").carry_out()
    assert (tmp_path / "words").read_text().splitlines() == [
        "run", "a b", "--out", "my runs", "--fail-on=low-margin", "--set=training.learners=3",
        "--seed", "5",
    ]  # fmt: skip


@pytest.mark.parametrize("missing", ["latest", "verdict.json", "junit.xml", "report.md"])
def test_a_command_that_makes_no_verdict_is_red_whatever_it_ends_with(
    tmp_path: Path, environment: Mapping[str, str], missing: str
) -> None:
    """As `chaoslab run PLAN --help`, or a run whose harness was killed."""
    tool = Path(environment["PATH"].split(":")[0]) / "chaoslab"
    tool.write_text(
        f"#!/bin/sh\ncd runs; cp -r old new; ln -s new latest; rm -f {missing} */{missing}\n"
    )
    action = runner(tmp_path, environment, plan="kill_one", python_version="")
    (action.work / "runs" / "old").mkdir(parents=True)
    for name in ("verdict.json", "junit.xml", "report.md"):
        (action.work / "runs" / "old" / name).write_text("{}")
    (action.work / "runs" / "latest").symlink_to("old")
    action.carry_out()
    assert action.has_failed, action.log
    assert "verdict.outcome" not in action.outputs
    is_kept = "artifact" in action.used[-1][0]
    assert is_kept == (missing != "latest"), "what there is of this run's record is kept"


KILLED = ROOT / "chaoslab" / "selftest" / "plans" / "killed.yaml"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("more", "outcome"), [("", "PASS"), ("--set=expect.1.within=100ms", "FAIL")]
)
def test_the_verdict_turns_the_build_green_or_red_and_the_record_is_kept(
    tmp_path: Path, environment: Mapping[str, str], more: str, outcome: str
) -> None:
    """Simulated: `test_selftest.py` has real runs. In the second, no learner is back so soon."""
    action = runner(
        tmp_path, environment, plan=str(KILLED), options=f"--fleet=sim\n{more}", python_version=""
    )
    action.carry_out()
    assert action.has_failed == (outcome != "PASS"), action.log
    assert action.outputs["verdict.outcome"] == outcome
    record = Path(action.outputs["verdict.record"])
    assert action.used[-1] == (
        "actions/upload-artifact@v4",
        {"name": "resilience", "path": str(record)},
    )
    assert outcome in action.summary.splitlines()[0]
    assert json.loads((record / "verdict.json").read_text())["outcome"] == outcome
    assert Xml.parse(record / "junit.xml").getroot().tag == "testsuites"
