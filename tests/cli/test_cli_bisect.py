"""`chaoslab run --bisect` in a repository whose commits bring a stand-in for chaoslab."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.replay.commit_runs import CommitRuns
from tests.replay.test_commit_runs import commit, runs  # noqa: F401  # a fixture
from tests.replay.test_commits import git

pytestmark = [pytest.mark.deep]


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def commits(runs: CommitRuns) -> list[str]:  # noqa: F811
    """Two that pass, one that cannot be judged, two that fail; HEAD is the last."""
    made = [commit(runs, number) for number in ("0", "00", "3", "1", "01")]
    assert git(runs.repository.root, "rev-parse", "HEAD") == made[-1]
    return made


def test_the_first_bad_commit_or_those_it_may_be_are_named(commits: list[str]) -> None:
    done = call("run", "my.yaml", "--bisect", "HEAD~4", "HEAD", "--json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert (found["ending"], found["first_bad"]) == ("skipped", commits[3])
    assert found["suspects"] == [commits[2]]


def test_a_found_commit_is_the_answer_and_nothing_is_left(commits: list[str]) -> None:
    done = call("run", "my.yaml", "--bisect", commits[1], commits[3], "--quiet")
    assert done.exit_code == 3
    done = call("run", "my.yaml", "--bisect", commits[3], commits[4], "--quiet")
    assert "GOOD does not pass" in done.stdout
    done = call("run", "my.yaml", "--bisect", commits[2], commits[3], "--quiet")
    assert "GOOD has no answer" in done.stdout
    worktrees = git(Path.cwd(), "worktree", "list", "--porcelain").count("worktree ")
    assert worktrees == 2  # the repository, and that of the fixture
    assert git(Path.cwd(), "status", "--porcelain", "--untracked-files=no") == ""


def test_a_single_step_is_found_with_its_records(runs: CommitRuns) -> None:  # noqa: F811
    good, bad = commit(runs, "0"), commit(runs, "1")
    done = call("run", "my.yaml", "--bisect", good, bad, "--quiet", "--out", "all runs")
    assert done.exit_code == 0
    assert f"the first bad commit is {bad[:7]}" in done.stdout
    assert "chaoslab compare 'all runs/bisect/p/" in done.stderr


@pytest.mark.parametrize("words", [("new.yaml", "HEAD~1", "HEAD"), ("my.yaml", "HEAD", "HEAD~1")])
def test_a_plan_that_an_end_lacks_and_ends_in_the_wrong_order_are_refused_before_any_run(
    commits: list[str], words: tuple[str, ...]
) -> None:
    Path("new.yaml").write_text("version: 1\nname: p\n")
    assert call("run", words[0], "--bisect", *words[1:]).exit_code == 2
    assert not Path("runs").exists()
