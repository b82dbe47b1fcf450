"""Runs of commits: which plan and code they get, what their exit codes say, how they are ended."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.prepare.plans import Asked
from chaoslab.replay.commit_runs import CommitRun, CommitRuns
from chaoslab.replay.minimise import Answer
from tests.replay.test_commits import git, repository
from tests.waiting import wait_until

STAND_IN = """
import json, os, pathlib, signal, sys, time, uuid
signals = []
def end(number, frame):
    signals.append(number)
    time.sleep(0.2)  # a second signal would come now
    told["signals"] = signals
    out.write_text(json.dumps(told))
    os._exit(130)
signal.signal(signal.SIGINT, end)
told = {"words": sys.argv[1:], "cwd": os.getcwd(), "path": os.environ["PYTHONPATH"]}
out = pathlib.Path(os.environ["TOLD"])
out.write_text(json.dumps(told))
code = pathlib.Path("number").read_text()
while code == "wait":
    time.sleep(0.05)  # a signal just before `pause` would be waited for in vain
record = pathlib.Path(sys.argv[-1]) / "p" / uuid.uuid4().hex
record.mkdir(parents=True)
(record / "run.json").write_text(json.dumps({"exit_code": int(code)}))
sys.exit(int(code))
"""
"""In the place of chaoslab: it tells how it was called, and exits with what its commit says."""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommitRuns]:
    repo, _ = repository(tmp_path / "repo", 1)
    package = repo.root / "chaoslab"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STAND_IN)
    (repo.root / "my.yaml").write_text("version: 1\nname: p\n")
    git(repo.root, "add", "chaoslab", "my.yaml")
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("TOLD", str(tmp_path / "told.json"))
    with repo.work_tree("HEAD") as tree:
        yield CommitRuns(
            repository=repo, tree=tree, asked=Asked(plan="my.yaml", seed=7), out=tmp_path / "runs"
        )


def commit(runs: CommitRuns, number: str) -> str:
    (runs.repository.root / "number").write_text(number)
    git(runs.repository.root, "commit", "--quiet", "--all", "-m", f"exits with {number}")
    return git(runs.repository.root, "rev-parse", "HEAD")


def told() -> dict[str, Any]:
    found = json.loads(Path(os.environ["TOLD"]).read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (0, Answer.UNRESOLVED),
        (1, Answer.UNRESOLVED),
        (2, Answer.UNRESOLVED),
        (3, Answer.UNRESOLVED),
        (4, Answer.BROKEN),
        (130, Answer.INTERRUPTED),
        (-9, Answer.BROKEN),
        (7, Answer.BROKEN),
    ],
)
def test_an_exit_code_without_a_record_is_no_verdict(code: int, answer: Answer) -> None:
    assert CommitRun(commit="c0", exit_code=code, directory=None).answer is answer


def test_a_commit_runs_in_its_work_tree_with_its_plan_and_its_modules(
    runs: CommitRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(runs.repository.root / "src"))
    assert runs(commit(runs, "1")) is Answer.FAILS
    assert told()["cwd"] == str(runs.tree.path)
    assert told()["path"].split(os.pathsep)[0] == str(runs.tree.path / "src")
    words = told()["words"]
    assert words[:2] == ["run", str(runs.tree.path / "my.yaml")]
    assert words[2:4] == ["--seed", "7"]
    assert words[-2:] == ["--out", str(runs.out)]


def test_hosts_and_costs_are_those_of_the_folder_that_it_is_called_in(
    runs: CommitRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs.repository.root / "studies"
    folder.mkdir()
    monkeypatch.chdir(folder)
    runs.asked = Asked(plan="../my.yaml", inventory="hosts.yaml", costs="../../costs.toml")
    (tmp_path / "costs.toml").touch()
    assert runs(commit(runs, "1")) is Answer.FAILS
    words = told()["words"]
    assert words[words.index("--inventory") + 1] == str(folder / "hosts.yaml")
    assert Path(words[words.index("--costs") + 1]).resolve() == tmp_path / "costs.toml"


def test_a_commit_that_cannot_be_imported_is_no_bad_one(runs: CommitRuns) -> None:
    main = runs.repository.root / "chaoslab/__main__.py"
    main.write_text("import nowhere_to_be_found\n")
    seen: list[int] = []
    runs.tell = lambda run: seen.append(run.exit_code)
    assert runs(commit(runs, "0")) is Answer.UNRESOLVED
    assert seen == [1]


def test_a_plan_outside_of_the_repository_and_an_included_one_stay_what_they_are(
    runs: CommitRuns, tmp_path: Path
) -> None:
    head = commit(runs, "0")
    (tmp_path / "other.yaml").write_text("")
    for plan, named in (("../other.yaml", str(tmp_path / "other.yaml")), ("kill_half",) * 2):
        runs.asked = Asked(plan=plan)
        assert runs(head) is Answer.PASSES
        assert told()["words"][1] == named


def test_a_commit_is_run_until_it_fails(runs: CommitRuns) -> None:
    seen: list[int] = []
    runs.tries, runs.tell = 3, lambda run: seen.append(run.exit_code)
    answers = [runs(commit(runs, number)) for number in ("0", "3", "1")]
    assert answers == [Answer.PASSES, Answer.UNRESOLVED, Answer.FAILS]
    assert seen == [0, 0, 0, 3, 3, 3, 1]


@contextmanager
def signalled(number: int, told: Path) -> Iterator[None]:
    """Send it to the own process as soon as the file is there."""

    def send() -> None:
        wait_until(told.exists)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    yield
    sender.join()


def test_a_signal_goes_to_the_run_once_and_no_run_follows(runs: CommitRuns, tmp_path: Path) -> None:
    waits = commit(runs, "wait")
    before = signal.getsignal(signal.SIGINT)
    with runs.handling_signals(), signalled(signal.SIGINT, tmp_path / "told.json"):
        assert runs(waits) is Answer.INTERRUPTED
        assert runs(waits) is Answer.INTERRUPTED
    assert told()["signals"] == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_that_ends_by_the_signal_before_it_listens_was_interrupted(
    runs: CommitRuns, tmp_path: Path
) -> None:
    (runs.repository.root / "chaoslab/__main__.py").write_text(
        "import os, pathlib, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "pathlib.Path(os.environ['TOLD']).touch()\n"
        "signal.pause()\n"
    )
    head = commit(runs, "0")
    with runs.handling_signals(), signalled(signal.SIGTERM, tmp_path / "told.json"):
        assert runs(head) is Answer.INTERRUPTED


def test_a_task_that_every_commit_would_take_from_the_same_folder_is_refused(
    runs: CommitRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = runs.repository.root
    (root / "installed").mkdir()
    (root / "installed/my_task.py").write_text("")
    (root / "my.yaml").write_text("version: 1\nname: p\ntraining: {task: 'my_task:make'}\n")
    git(root, "add", "my.yaml")
    runs.tree.checkout(commit(runs, "0"))
    runs.refuse_other_code()
    monkeypatch.setenv("PYTHONPATH", str(root / "installed"))
    with pytest.raises(PlanError, match="every commit would run the code"):
        runs.refuse_other_code()
    assert sys.executable in runs.python
