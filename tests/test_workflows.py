"""Workflows: who runs proposed code can write nothing, and who writes runs none of it."""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from chaoslab.cli.main import main

FOLDER = Path(__file__).parent.parent / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
COMMENT = FOLDER / "resilience-comment.yml"
TOOLS = ("bash", "unzip", "iconv", "head", "sed", "tr")


def read(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = YAML(typ="safe", pure=True).load(path.read_text())
    return found


def steps(workflow: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def rights(workflow: Mapping[str, Any]) -> dict[str, str]:
    """All that any of its jobs may do."""
    found = dict(workflow["permissions"])
    for job in workflow["jobs"].values():
        found |= job.get("permissions", {})
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_says_what_it_may_do_and_makes_no_expression_part_of_a_command(
    path: Path,
) -> None:
    workflow = read(path)
    assert "permissions" in workflow
    assert "pull_request_target" not in workflow["on"]
    assert not [step for step in steps(workflow) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_runs_proposed_code_may_write_nothing_and_what_may_write_runs_nothing_of_it(
    path: Path,
) -> None:
    workflow, text = read(path), path.read_text()
    if "pull_request" in workflow["on"]:
        assert set(rights(workflow).values()) <= {"read"}
        assert "secrets." not in text
        assert "github.token" not in text
    if "write" in rights(workflow).values():
        assert set(workflow["on"]) == {"workflow_run"}
        assert not [step["uses"] for step in steps(workflow) if "uses" in step]


@pytest.mark.deep
def test_actionlint_finds_nothing_in_them_nor_in_what_init_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("go") is None:
        pytest.skip("actionlint is built by Go, which is not on PATH")
    monkeypatch.chdir(tmp_path)
    written = CliRunner().invoke(main, ("init", "--trains", "builtin", "--ci", "github"))
    assert written.exit_code == 0, written.output
    made = tmp_path / ".github" / "workflows" / "resilience.yml"
    program = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
    alone = ("-shellcheck=", "-pyflakes=")  # whether or not this machine has them
    command = ("go", "run", program, *alone, *map(str, (*WORKFLOWS, made)))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------- the comment, really made

GH = """#!/usr/bin/env bash
case "$*" in
  *"/artifacts --jq"*) cat "$FAKE/list" ;;
  *"/artifacts/"*"/zip") cat "$FAKE/$(basename "$(dirname "$2")").zip" ;;
  "pr comment"*) echo "$*" > "$FAKE/told"; cp "${@: -1}" "$FAKE/comment" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""


def comment(folder: Path, artifacts: Mapping[str, Mapping[str, bytes]]) -> str | None:
    """What the script puts on the request for these artifacts, by id; None: nothing."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"{missing} are not on PATH")
    fake, work = folder / "fake", folder / "work"
    for one in (fake, work):
        one.mkdir()
    (fake / "gh").write_text(GH)
    (fake / "gh").chmod(0o755)
    (fake / "list").write_text("".join(f"{id_} resilience-report-{id_}\n" for id_ in artifacts))
    for id_, members in artifacts.items():
        with zipfile.ZipFile(fake / f"{id_}.zip", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    workflow = read(COMMENT)
    (step,) = steps(workflow)
    fixed = {k: v for k, v in workflow["jobs"]["comment"]["env"].items() if "${{" not in v}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={
            **os.environ,
            **fixed,
            "PATH": f"{fake}:{os.environ['PATH']}",
            "FAKE": str(fake),
            "RUNNER_TEMP": str(work),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GH_REPO": "a/b",
            "RUN": "7",
            "NUMBER": "12",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if not (fake / "told").exists():
        return None
    assert (fake / "told").read_text().split() == [
        "pr",
        "comment",
        "12",
        "--body-file",
        "comment.md",
    ]
    return (fake / "comment").read_text()


def test_reports_become_one_comment(tmp_path: Path) -> None:
    said = comment(tmp_path, {"1": {"report.md": b"**PASS**"}, "2": {"report.md": b"**FAIL**"}})
    assert said is not None
    assert said.index("### resilience-report-1\n\n**PASS**") < said.index("**FAIL**")


def test_a_report_of_a_stranger_is_text_and_no_more(tmp_path: Path) -> None:
    hostile = b"$(touch owned) `touch owned` @everybody \x00\xff" + "é".encode() * 50_000
    members = {"report.md": hostile, "../../escaped": b"x", "comment.md": b"y"}
    said = comment(tmp_path, {"1": members})
    assert said is not None
    assert "$(touch owned) `touch owned` @\u200beverybody" in said
    assert len(said.encode()) < 25_000
    assert not list(tmp_path.rglob("owned"))
    assert not list(tmp_path.rglob("escaped"))


def test_without_a_report_nothing_is_said(tmp_path: Path) -> None:
    assert comment(tmp_path, {}) is None
