"""`chaoslab init --trains script`: what is understood of a command, written, and said."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.commands.init_script import command_line
from chaoslab.cli.main import main
from chaoslab.plan.model import FaultPlan, Script
from chaoslab.prepare.plans import Asked, decode, prepare
from chaoslab.selftest.mutants import trainer

PLAN = "fault_plans/first_gate.yaml"
TRAINER = Path(trainer.__file__)
LAUNCHER = Path(__file__).parents[1] / "trainers" / "launcher.py"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(program: str, *words: str, options: tuple[str, ...] = ()) -> Result:
    """For a command that runs this Python program."""
    command = (sys.executable, "-c", program, *words)
    options = ("--trains", "script", "--ci", "none", "--json", *options)
    return CliRunner().invoke(main, ("init", *options, "--", *command))


def understood(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)["understood"]
    return found


def script() -> Script:
    found = plan().training.script
    assert found is not None
    return found


def plan() -> FaultPlan:
    return decode(Asked(plan=PLAN))[0]


STEPS = """
import pathlib, sys
for step in range(1, 20_001):
    print(f"it's {step=} loss={4 / step}" if step % 10 == 0 else "")
    if step % 200 == 0:
        print(f"saved checkpoint, step {step}")
        pathlib.Path(sys.argv[1], f"{step}").touch()
"""


def test_lines_are_recognized_and_the_kill_is_between_two_checkpoints() -> None:
    found = understood(init(STEPS, "{folder}"))
    told = (found["progress"]["step"], found["saved"]["step"], found["resumed"])
    assert told == (20_000, 200, None)
    assert (found["steps_between_reports"], found["saves_every"]) == (10, 200)
    assert (found["kill_step"] % 200, found["keeps_files_in_folder"]) == (100, True)
    assert plan().faults[0].at is not None
    assert plan().faults[0].at.step == found["kill_step"]
    read = script().patterns.read("it's step=30 loss=0.5")
    assert [(one.step, one.loss) for one in read] == [(30, 0.5)]
    assert prepare(Asked(plan=PLAN)).warnings == ()


def test_a_command_line_of_a_user_is_that_of_the_plan() -> None:
    assert command_line(["python", "a b.py", "--out={folder}"]) == "python 'a b.py' --out={folder}"
    assert command_line(["torchrun train.py"]) == "torchrun train.py"


def test_the_programs_own_lines_need_no_pattern() -> None:
    own = "for step in range(1, 1_000): print(f'chaoslab: {step=} loss=1')"
    assert understood(init(own))["preset"] == "chaoslab"
    assert (script().progress, script().saved) == ("", "")


def test_without_losses_there_is_no_twin_to_compare_them_with() -> None:
    found = understood(init("for step in range(1, 1_000): print(f'{step=}')", "{folder}"))
    assert (found["progress"]["loss"], found["saved"]) == (None, None)
    assert not plan().twin
    assert [spec.check for spec in plan().expect] == ["rejoin", "resume", "cleanup"]


def test_patterns_of_the_user_are_taken() -> None:
    pattern = r"#(?P<step>\d+) (?P<loss>\S+)"
    lines = "for n in range(1, 1_000): print(f'#{n} {1 / n}')"
    understood(init(lines, options=("--progress", pattern)))
    assert script().progress == pattern


def test_one_worker_that_reports_for_all_is_recognized() -> None:
    lines = (
        "import sys\nfor step in range(1, 1_000):\n if sys.argv[1] == '0': print(f'{step=} loss=1')"
    )
    assert understood(init(lines, "{rank}", options=("--workers", "2")))["reports"] == "one"
    assert (script().workers, plan().limits.min_alive) == (2, 1)


@pytest.mark.parametrize(
    ("program", "options", "said"),
    [
        ("print('step 1'); raise SystemExit('no GPU here')", (), ["exit code 1", "no GPU here"]),
        ("print('3 of the epochs done'); print('bye')", (), ["3 of the epochs done", "--progress"]),
        ("print('Step 7, loss 3')", ("--progress", r"steps (?P<step>\d+)"), ["Step 7, loss 3"]),
        ("print('step 1 loss 2')", (), ["step 1 loss 2"]),
        ("for n in range(1, 40): print(f'step {n} loss 2')", (), ["step 39"]),
        ("pass", (), ["--sample"]),
        ("pass", ("--progress", "(?P<stp>x)"), ["progress", "step"]),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_judged_is_refused_with_its_lines(
    project: Path, program: str, options: tuple[str, ...], said: list[str]
) -> None:
    done = init(program, options=options)
    assert done.exit_code == 2, done.output
    assert [word for word in said if word not in done.stderr] == []
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("there", [PLAN, "tests/test_resilience.py", "fault_plans"])
def test_what_is_in_the_way_is_refused_before_the_command_is_run(project: Path, there: str) -> None:
    (project / there).parent.mkdir(exist_ok=True)
    (project / there).write_text("mine")
    done = init("import pathlib; pathlib.Path('has_run').touch()")
    assert (done.exit_code, there in done.stderr) == (2, True)
    assert not (project / "has_run").exists()


def test_words_after_the_dashes_are_of_a_script_alone() -> None:
    done = CliRunner().invoke(main, ("init", "--trains", "builtin", "--ci", "none", "--", "a"))
    assert done.exit_code == 2


@pytest.mark.gate
@pytest.mark.alone
@pytest.mark.parametrize(("flags", "reports"), [(("--prefix",), "each"), (("--one",), "one")])
def test_the_lines_of_a_launcher_are_those_of_its_workers(
    flags: tuple[str, ...], reports: str
) -> None:
    launcher = (sys.executable, str(LAUNCHER), *flags, "--", sys.executable, str(TRAINER),
                "--rank", "RANK", "--folder", "{folder}", "--pause", "0.01")  # fmt: skip
    words = ("init", "--trains", "script", "--ci", "none", "--json", "--sample", "2m",
             "--workers", "2", "--")  # fmt: skip
    found = understood(CliRunner().invoke(main, (*words, *launcher)))
    assert (found["saves_every"], found["reports"]) == (trainer.EVERY, reports)
    assert found["resumed"]["step"] >= found["saved_step"]


@pytest.mark.gate
@pytest.mark.alone
@pytest.mark.parametrize("broken", ["none", "no_resume"])
def test_a_training_is_killed_started_again_and_says_where_it_goes_on(broken: str) -> None:
    command = (sys.executable, str(TRAINER), "--folder", "{folder}", "--pause", "0.01",
               f"--broken={broken}")  # fmt: skip
    words = ("init", "--trains", "script", "--ci", "none", "--json", "--sample", "2m", "--")
    found = understood(CliRunner().invoke(main, (*words, *command)))
    assert found["saves_every"] == trainer.EVERY
    goes_on = found["resumed_step"] >= found["saved_step"]
    is_sound = broken == "none"
    assert (goes_on, found["resumed"] is not None) == (is_sound, is_sound)
