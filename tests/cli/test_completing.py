"""What a shell is offered, and what `--version` says."""

from contextlib import chdir
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from chaoslab.checks.catalogue import CHECKS
from chaoslab.cli.main import SUMMARIES, main
from chaoslab.faults.catalogue import FAULTS
from tests.replay.test_commits import git, repository


def offered(*words: str) -> list[str]:
    *before, begun = words
    found = ShellComplete(main, {}, "chaoslab", "_X").get_completions(before, begun)
    return [item.value for item in found]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("run --fail", ["--fail-on"]),
        ("run --fail-on l", ["low-margin"]),
        ("catalog plans kill_h", ["kill_half"]),
        ("catalog checks rej", ["rejoin"]),
        ("catalog faults process.k", ["process.kill"]),
        ("replay 3f9a1c --minimise --check rej", ["rejoin"]),
        ("show --expect-from kill_h", ["kill_half"]),
        ("run --fleet d", ["docker"]),
        ("research selftest --only deaf_s", ["deaf_syncer"]),
        ("run kill_half --bisect ", []),
    ],
)
def test_commands_options_and_names_are_offered(words: str, found: list[str]) -> None:
    assert offered(*words.split(" ")) == found


def test_without_a_beginning_all_is_offered() -> None:
    assert offered("") == list(SUMMARIES)
    assert set(offered("catalog", "checks", "")) >= set(CHECKS)
    assert set(offered("catalog", "faults", "")) >= {*FAULTS, "storage"}


def test_plans_are_offered_by_name_and_as_files(folder: Path) -> None:
    (folder / "kill_it.yaml").touch()
    (folder / "fault_plans").mkdir()
    (folder / "fault_plans" / "mine.yaml").touch()
    for command in ("run", "plan"):
        assert offered(command, "kill_h") == ["kill_half"]
    assert offered("run", "kill_i") == ["kill_it.yaml"]
    assert offered("run", "fault") == ["fault_plans/mine.yaml"]


def test_runs_are_offered_by_plan_and_id(folder: Path) -> None:
    for name in ("20261120T050742Z-3f9a1c", "20261121T050742Z-3c0000"):
        run = folder / "runs" / "kill_half" / name
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
    for command in ("show", "heal", "halt", "replay", "compare"):
        assert offered(command, "") == ["latest", "kill_half", "3c0000", "3f9a1c"]
        assert offered(command, "3f") == ["3f9a1c"]
    (folder / "runs").rename(folder / "elsewhere")
    assert offered("list", "--out", "elsewhere", "--plan", "") == ["kill_half"]
    assert offered("show", "--out", "elsewhere", "3f") == ["3f9a1c"]


def test_bisect_is_offered_branches_tags_and_new_commits(folder: Path) -> None:
    repo, commits = repository(folder / "repo", 3)
    git(repo.root, "tag", "v1.2", commits[0])
    git(repo.root, "branch", "work", commits[1])
    with chdir(repo.root):
        names = offered("run", "kill_half", "--bisect", "")
        assert names[0] == "HEAD"
        assert set(names[1:4]) == {"main", "work", "v1.2"}
        assert all(commits[2 - at].startswith(names[4 + at]) for at in range(3))
        assert offered("run", "kill_half", "--bisect", "v1.2", "wo") == ["work"]
        assert offered("run", "kill_half", "--bisect", commits[1][:3])[0] in commits[1]


def test_a_repository_without_commits_has_none_to_offer(folder: Path) -> None:
    git(folder, "init", "--quiet")
    assert offered("run", "kill_half", "--bisect", "") == []


def test_the_versions_that_matter_are_told() -> None:
    lines = CliRunner().invoke(main, ["--version"]).output.splitlines()
    told = {name for name, _, version in (line.partition(" ") for line in lines) if version}
    assert told >= {"chaoslab", "python", "jax", "numpy", "grpcio", "platform"}
