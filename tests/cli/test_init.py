"""`chaoslab init`: what is asked, what is written, and what is left alone."""

import io
import json
import re
import subprocess
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
TEST = "tests/test_resilience.py"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(main, ("init", *words), input=answers)


def files(project: Path) -> dict[str, str]:
    return {str(p.relative_to(project)): p.read_text() for p in project.rglob("*") if p.is_file()}


def plan() -> FaultPlan:
    return decode(Asked(plan=PLAN))[0]


def test_an_empty_folder_gets_plan_workflow_and_test(project: Path) -> None:
    done = init("--trains", "builtin", "--ci", "github")
    assert done.exit_code == 0, done.output
    assert set(files(project)) == {PLAN, GITHUB, TEST}
    assert "?" not in done.stderr, "nothing is asked"
    assert f"next: chaoslab run {PLAN}" in done.stderr
    assert prepare(Asked(plan=PLAN)).warnings == ()
    compile(files(project)[TEST], TEST, "exec")


def test_what_no_flag_answers_is_asked(project: Path) -> None:
    done = init(answers="task\nmy.module:make\ngitlab\n")
    assert done.exit_code == 0, done.output
    assert plan().training.task == "my.module:make"
    assert set(files(project)) == {PLAN, ".gitlab/resilience.yml", ".gitlab-ci.yml", TEST}


def test_without_answers_the_flags_are_named(project: Path) -> None:
    done = init(answers="")
    assert done.exit_code == 2
    assert "--trains, --program, --ci" in done.stderr
    assert files(project) == {}


def test_an_interrupt_at_a_question_is_no_missing_answer(project: Path) -> None:
    class Interrupted(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> int:
            raise KeyboardInterrupt

    done = CliRunner().invoke(main, ("init",), input=io.BufferedReader(Interrupted()))
    assert done.exit_code == 130
    assert done.stderr.endswith("chaoslab: interrupted\n")
    assert files(project) == {}


def test_a_learner_of_ones_own_is_in_the_plan(project: Path) -> None:
    assert init("--trains", "learner", "--program", "a.b", "--ci", "none").exit_code == 0
    assert plan().fleet.programs["learner"] == "a.b"
    assert set(files(project)) == {PLAN, TEST}


def test_a_name_of_the_wrong_form_is_refused_and_nothing_is_written(project: Path) -> None:
    done = init("--trains", "task", "--program", "a.b", "--ci", "none")
    assert done.exit_code == 2
    assert "'a.b'" in done.stderr
    assert "--program: " in done.stderr
    assert "/first_gate.yaml" not in done.stderr, "no file that is there no more"
    assert not re.search(r"\d+:\d+", done.stderr), "nor a position in it"
    assert files(project) == {}


@pytest.mark.parametrize("trains", ["task", "learner"])
@pytest.mark.parametrize("program", ["a: [b", "a.b\nc: d", "a.\udcff:b"])
def test_no_name_can_break_the_plan(project: Path, trains: str, program: str) -> None:
    done = init("--trains", trains, "--program", program, "--ci", "none")
    assert done.exit_code == 2, done.output
    assert f"got {program!r}" in done.stderr
    assert files(project) == {}


def test_a_requirement_that_would_end_its_line_is_refused(project: Path) -> None:
    done = init("--trains", "builtin", "--ci", "github", "--install", "chaoslab\n  - run: more")
    assert done.exit_code == 2
    assert "--install" in done.stderr
    assert files(project) == {}


def test_twice_is_as_once(project: Path) -> None:
    for ci in ("github", "gitlab"):
        init("--trains", "builtin", "--ci", ci)
        before = files(project)
        done = init("--trains", "builtin", "--ci", ci)
        assert done.exit_code == 0
        assert "written" not in done.stdout
        assert files(project) == before


def test_nothing_is_overwritten_nor_written_half(project: Path) -> None:
    (project / "tests").mkdir()
    (project / TEST).write_text("mine")
    done = init("--trains", "builtin", "--ci", "github")
    assert done.exit_code == 2
    assert f"{TEST}: " in done.stderr
    assert files(project) == {TEST: "mine"}
    assert init("--trains", "builtin", "--ci", "github", "--no-test").exit_code == 0


def test_the_next_command_names_the_plan_as_a_shell_takes_it(project: Path) -> None:
    (project / "p é 日本").mkdir()
    asked = ("p é 日本", "--trains", "builtin", "--ci", "none")
    again = f"chaoslab run 'p é 日本/{PLAN}'"
    assert f"next: {again}   " in init(*asked).stderr
    assert json.loads(init(*asked, "--json").stdout)["next"] == again


@pytest.mark.parametrize("way", ["fault_plans", ".gitlab", "tests"])
def test_a_file_in_the_way_of_a_folder_is_named_and_nothing_is_written(
    project: Path, way: str
) -> None:
    (project / way).write_text("mine")
    done = init("--trains", "builtin", "--ci", "gitlab")
    assert done.exit_code == 2, done.output
    assert f"{way}: " in done.stderr
    assert [one.name for one in project.iterdir()] == [way]


def test_what_was_written_goes_again_if_the_rest_cannot_be_written(project: Path) -> None:
    (project / "tests").mkdir()
    (project / TEST).symlink_to("nowhere/at_all.py")
    done = init("--trains", "builtin", "--ci", "github")
    assert done.exit_code == 2, done.output
    assert f"{TEST}: " in done.stderr
    assert [one.name for one in project.iterdir()] == ["tests"]
    assert (project / TEST).is_symlink()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_refused() -> None:
    done = init("/proc", "--trains", "builtin", "--ci", "none")
    assert done.exit_code == 2, done.output
    assert "/proc/fault_plans: " in done.stderr


def test_a_folder_in_the_place_of_the_gitlab_file_is_refused(project: Path) -> None:
    (project / ".gitlab-ci.yml").mkdir()
    done = init("--trains", "builtin", "--ci", "gitlab")
    assert done.exit_code == 2, done.output
    assert ".gitlab-ci.yml: " in done.stderr
    assert files(project) == {}


def test_a_gitlab_file_in_another_encoding_is_left_alone(project: Path) -> None:
    (project / ".gitlab-ci.yml").write_bytes(b"# \xfc\ninclude: {local: .gitlab/resilience.yml}\n")
    done = init("--trains", "builtin", "--ci", "gitlab")
    assert done.exit_code == 0, done.output
    assert "add to" not in done.stdout, "the line is there"
    assert (project / ".gitlab-ci.yml").read_bytes().startswith(b"# \xfc\n")


def test_an_own_gitlab_file_is_left_alone_and_the_line_is_shown(project: Path) -> None:
    (project / ".gitlab-ci.yml").write_text("test: {script: [make]}\n")
    done = init("--trains", "builtin", "--ci", "gitlab")
    assert "add to .gitlab-ci.yml: include: {local: .gitlab/resilience.yml}" in done.stdout
    assert files(project)[".gitlab-ci.yml"] == "test: {script: [make]}\n"


@pytest.mark.parametrize(
    ("there", "installed"),
    [
        ("pyproject.toml", "pip install . 'chaoslab @ file:x'"),
        ("requirements.txt", "pip install -r requirements.txt 'chaoslab @ file:x'"),
        ("readme", "pip install 'chaoslab @ file:x'"),
    ],
)
def test_the_workflow_installs_the_project_too(project: Path, there: str, installed: str) -> None:
    (project / there).touch()
    init("--trains", "builtin", "--ci", "github", "--install", "chaoslab @ file:x")
    assert f"run: {installed}\n" in files(project)[GITHUB]


def came_from(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    """As if pip had noted this about chaoslab."""

    class Noted(metadata.PathDistribution):
        def read_text(self, filename: str | PathLike[str]) -> str | None:
            assert filename == "direct_url.json"
            return said

    monkeypatch.setattr(metadata, "distribution", lambda name: Noted(Path(name)))


@pytest.mark.parametrize(
    ("said", "installed"),
    [
        (None, "pip install chaoslab"),
        ({"url": "https://git.example/c.git", "vcs_info": {"vcs": "git", "commit_id": "c0de"}},
         "pip install 'chaoslab @ git+https://git.example/c.git@c0de'"),
        ({"url": "https://example.org/c.whl", "archive_info": {}},
         "pip install 'chaoslab @ https://example.org/c.whl'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("ci", "file"), [("github", GITHUB), ("gitlab", ".gitlab/resilience.yml")])
def test_the_workflow_installs_chaoslab_from_where_this_one_came(
    project: Path, monkeypatch: pytest.MonkeyPatch, said: object, installed: str, ci: str, file: str
) -> None:
    came_from(monkeypatch, None if said is None else json.dumps(said))
    done = init("--trains", "builtin", "--ci", ci)
    assert done.exit_code == 0, done.output
    assert installed in commands(files(project)[file])
    assert "--install" not in done.stderr


@pytest.mark.parametrize(("ci", "file"), [("github", GITHUB), ("gitlab", ".gitlab/resilience.yml")])
def test_a_workflow_never_installs_the_name_of_a_package_that_came_from_a_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch, ci: str, file: str
) -> None:
    came_from(monkeypatch, json.dumps({"url": "file:///here", "dir_info": {"editable": True}}))
    done = init("--trains", "builtin", "--ci", ci)
    assert done.exit_code == 0, done.output
    found = commands(files(project)[file])
    assert not [line for line in found if line.startswith("pip install")]
    (unset,) = (line for line in found if "what pip installs" in line)
    ended = subprocess.run(("sh", "-c", unset), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")


def commands(workflow: str) -> list[str]:
    """The shell commands of a workflow, as its YAML gives them."""
    tree = YAML(typ="safe", pure=True).load(workflow)
    if "jobs" not in tree:
        return [str(line) for line in tree["resilience"]["script"]]
    return [str(step["run"]) for step in tree["jobs"]["gate"]["steps"] if "run" in step]


@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_each_record_is_kept_once_and_its_tests_are_reported_once(project: Path, ci: str) -> None:
    init("--trains", "builtin", "--ci", ci)
    run = project / "runs/first_gate/20261120T120000Z-c0ffee"
    run.mkdir(parents=True)
    (run / "junit.xml").touch()
    (run.parent / "latest").symlink_to(run.name)
    text = files(project)[GITHUB if ci == "github" else ".gitlab/resilience.yml"]
    (pattern,) = re.findall(r"(?:path|junit): (runs/first_gate/\S+)", text)
    (found,) = project.glob(pattern)
    assert found.relative_to(run) in {Path(), Path("junit.xml")}


def test_the_workflow_runs_proposed_code_without_rights_or_secrets(project: Path) -> None:
    init("--trains", "builtin", "--ci", "github")
    text = files(project)[GITHUB]
    workflow = YAML(typ="safe", pure=True).load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    steps = workflow["jobs"]["gate"]["steps"]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert {step["uses"].partition("@")[0] for step in steps if "uses" in step} == {
        "actions/checkout", "actions/setup-python", "actions/cache", "actions/upload-artifact",
    }  # fmt: skip
