"""`chaoslab init`: what is asked, what is written, and what is left alone."""

import io
import json
import re
import subprocess
from collections.abc import Callable
from functools import partial
from importlib import metadata
from os import PathLike
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from chaoslab.cli.main import main
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.plans import Asked, decode, prepare

PLAN = "fault_plans/first_gate.yaml"
GITHUB = ".github/workflows/resilience.yml"
GITLAB = ".gitlab/resilience.yml"
TEST = "tests/test_resilience.py"
BUILTIN = ("--trains", "builtin", "--ci")
WORKFLOWS = pytest.mark.parametrize(("ci", "file"), [("github", GITHUB), ("gitlab", GITLAB)])


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(main, ("init", *words), input=answers)


def files(project: Path) -> dict[str, bytes | None]:
    """Content of each file, None of whatever else is there."""
    found = (path for path in project.rglob("*"))
    return {
        str(path.relative_to(project)): path.read_bytes() if path.is_file() else None
        for path in found
        if path.is_file() or path.is_symlink() or not any(path.iterdir())
    }


def plan() -> FaultPlan:
    return decode(Asked(plan=PLAN))[0]


@pytest.mark.parametrize(
    ("ci", "workflow"), [("github", {GITHUB}), ("gitlab", {GITLAB, ".gitlab-ci.yml"})]
)
def test_an_empty_folder_gets_plan_workflow_and_test_and_nothing_the_second_time(
    project: Path, ci: str, workflow: set[str]
) -> None:
    done = init(*BUILTIN, ci)
    assert done.exit_code == 0, done.output
    assert "?" not in done.stderr, "nothing is asked"
    before = files(project)
    assert set(before) == {PLAN, TEST, *workflow}
    assert prepare(Asked(plan=PLAN)).warnings == ()
    test = (before[TEST] or b"").decode()
    compile(test, TEST, "exec")
    assert "from chaoslab.pytest_plugin import chaos\n" in test, "else it passes without the plugin"
    assert init(*BUILTIN, ci).exit_code == 0
    assert files(project) == before


def test_what_no_flag_answers_is_asked(project: Path) -> None:
    done = init(answers="task\nmy.module:make\nbooks/*.txt\ngitlab\n")
    assert done.exit_code == 0, done.output
    training = plan().training
    assert (training.task, training.data) == ("my.module:make", "books/*.txt")
    assert GITLAB in files(project)


def test_a_task_without_data_gets_none_in_the_plan(project: Path) -> None:
    assert init("--ci", "none", answers="task\nmy.module:make\n\n").exit_code == 0
    assert "data:" not in Path(PLAN).read_text()
    assert set(files(project)) == {PLAN, TEST}


def test_who_has_no_task_gets_a_complete_one(project: Path) -> None:
    assert init("--ci", "none", answers="task\n\n").exit_code == 0
    assert set(files(project)) == {PLAN, TEST, "next_byte.py"}
    assert plan().training.task == "next_byte:make"


@pytest.mark.gate
def test_the_task_that_is_written_can_be_trained_by_the_plan() -> None:
    init("--ci", "none", answers="task\n\n")
    assert prepare(Asked(plan=PLAN)).warnings == ()


def test_an_interrupt_at_a_question_is_no_missing_answer(project: Path) -> None:
    class Interrupted(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> int:
            raise KeyboardInterrupt

    done = CliRunner().invoke(main, ("init",), input=io.BufferedReader(Interrupted()))
    assert (done.exit_code, files(project)) == (130, {})


def test_a_learner_of_ones_own_is_in_the_plan(project: Path) -> None:
    assert init("--trains", "learner", "--program", "a.b", "--ci", "none").exit_code == 0
    assert plan().fleet.programs["learner"] == "a.b"
    assert set(files(project)) == {PLAN, TEST}


TASK, LEARNER = ("--trains", "task", "--program"), ("--trains", "learner", "--program")
DATA = ("--data", "stdlib")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--trains, --program, --data, --ci"),
        ((*TASK, "a.b", *DATA), "--program: "),
        ((*TASK, "a.b:c"), "--data"),
        ((*LEARNER, "a.b", *DATA), "--data"),
        *(((*trains, name, *data), repr(name)) for trains, data in ((TASK, DATA), (LEARNER, ()))
          for name in ("a: [b", "a.b\nc: d")),
        *(((*trains, "a.\udcff:b", *data), "--program: ")
          for trains, data in ((TASK, DATA), (LEARNER, ()))),
        (("--trains", "builtin", "--install", "chaoslab\n  - run: more"), "--install"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_refused_and_nothing_is_written(
    project: Path, words: tuple[str, ...], said: str
) -> None:
    done = init(*words, *(("--ci", "github") if words else ()), answers="")
    assert (done.exit_code, files(project)) == (2, {}), done.output
    assert said in done.stderr
    assert "/first_gate.yaml" not in done.stderr, "no file that is there no more"


def test_the_next_command_names_the_plan_as_a_shell_takes_it(project: Path) -> None:
    (project / "p é 日本").mkdir()
    asked = ("p é 日本", *BUILTIN, "none")
    again = f"chaoslab run 'p é 日本/{PLAN}'"
    assert f"next: {again}   " in init(*asked).stderr
    assert json.loads(init(*asked, "--json").stdout)["next"] == again


@pytest.mark.parametrize(
    ("way", "make"),
    [
        *((way, Path.touch) for way in (TEST, "fault_plans", ".gitlab", "tests")),
        (".gitlab-ci.yml", Path.mkdir),
        (TEST, partial(Path.symlink_to, target="nowhere/at_all.py")),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_is_written(
    project: Path, way: str, make: Callable[[Path], None]
) -> None:
    (project / way).parent.mkdir(exist_ok=True)
    make(project / way)
    before = files(project)
    done = init(*BUILTIN, "gitlab")
    assert done.exit_code == 2, done.output
    assert f"{way}: " in done.stderr
    assert files(project) == before
    if way == TEST:
        assert init(*BUILTIN, "gitlab", "--no-test").exit_code == 0


@pytest.mark.parametrize(
    ("content", "has_hint"),
    [
        (b"# \xfc\ninclude: {local: .gitlab/resilience.yml}\n", False),
        (b"test: {script: [make]}\n", True),
    ],
)
def test_an_own_gitlab_file_is_left_alone_and_a_line_that_it_lacks_is_shown(
    project: Path, content: bytes, has_hint: bool
) -> None:
    (project / ".gitlab-ci.yml").write_bytes(content)
    done = init(*BUILTIN, "gitlab")
    assert done.exit_code == 0, done.output
    assert ("include: {local: .gitlab/resilience.yml}" in done.stdout) is has_hint
    assert files(project)[".gitlab-ci.yml"] == content


def came_from(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    """As if pip had noted this about chaoslab."""

    class Noted(metadata.PathDistribution):
        def read_text(self, filename: str | PathLike[str]) -> str | None:
            assert filename == "direct_url.json"
            return said

    monkeypatch.setattr(metadata, "distribution", lambda name: Noted(Path(name)))


VCS = {"url": "https://git.example/c.git", "vcs_info": {"vcs": "git", "commit_id": "c0de"}}
WHEEL = {"url": "https://example.org/c.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("there", "said", "words", "installed"),
    [
        ("readme", None, (), "pip install chaoslab"),
        ("pyproject.toml", VCS, (), "pip install . 'chaoslab @ git+https://git.example/c.git@c0de'"),
        ("requirements.txt", WHEEL, (),
         "pip install -r requirements.txt 'chaoslab @ https://example.org/c.whl'"),
        ("readme", WHEEL, ("--install", "chaoslab @ file:x"), "pip install 'chaoslab @ file:x'"),
    ],
)  # fmt: skip
@WORKFLOWS
def test_the_workflow_installs_the_project_and_chaoslab_from_where_this_one_came(
    project: Path, monkeypatch: pytest.MonkeyPatch, there: str, said: object,
    words: tuple[str, ...], installed: str, ci: str, file: str,
) -> None:  # fmt: skip
    (project / there).touch()
    came_from(monkeypatch, None if said is None else json.dumps(said))
    done = init(*BUILTIN, ci, *words)
    assert done.exit_code == 0, done.output
    assert installed in commands(project / file)
    assert "--install" not in done.stderr


@WORKFLOWS
def test_a_workflow_never_installs_the_name_of_a_package_that_came_from_a_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch, ci: str, file: str
) -> None:
    came_from(monkeypatch, json.dumps({"url": "file:///here", "dir_info": {"editable": True}}))
    done = init(*BUILTIN, ci)
    assert done.exit_code == 0, done.output
    found = commands(project / file)
    assert not [line for line in found if line.startswith("pip install")]
    (unset,) = (line for line in found if "what pip installs" in line)
    ended = subprocess.run(("sh", "-c", unset), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")


def commands(workflow: Path) -> list[str]:
    """The shell commands of a workflow, as its YAML gives them."""
    tree = YAML(typ="safe", pure=True).load(workflow.read_text())
    if "jobs" not in tree:
        return [str(line) for line in tree["resilience"]["script"]]
    return [str(step["run"]) for step in tree["jobs"]["gate"]["steps"] if "run" in step]


@WORKFLOWS
def test_each_record_is_kept_once_and_its_tests_are_reported_once(
    project: Path, ci: str, file: str
) -> None:
    init(*BUILTIN, ci)
    run = project / "runs/first_gate/20261120T120000Z-c0ffee"
    run.mkdir(parents=True)
    (run / "junit.xml").touch()
    (run.parent / "latest").symlink_to(run.name)
    text = (project / file).read_text()
    (pattern,) = re.findall(r"(?:path|junit): (runs/first_gate/\S+)", text)
    (found,) = project.glob(pattern)
    assert found.relative_to(run) in {Path(), Path("junit.xml")}


def test_the_workflow_runs_proposed_code_without_rights_or_secrets(project: Path) -> None:
    init(*BUILTIN, "github")
    text = (project / GITHUB).read_text()
    workflow = YAML(typ="safe", pure=True).load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text


def test_the_workflow_also_runs_where_pull_requests_get_their_cache_from(project: Path) -> None:
    init(*BUILTIN, "github")
    workflow = YAML(typ="safe", pure=True).load((project / GITHUB).read_text())
    assert {"main", "master"} <= {*workflow["on"]["push"]["branches"]}
    steps = workflow["jobs"]["gate"]["steps"]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert {step["uses"].partition("@")[0] for step in steps if "uses" in step} == {
        "actions/checkout", "actions/setup-python", "actions/cache", "actions/upload-artifact",
    }  # fmt: skip
