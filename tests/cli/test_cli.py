"""The command line, on a fake fleet and a virtual clock: what is printed, written and returned."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import SUMMARIES, main
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.fleet.base import Ability
from chaoslab.prepare import plans
from chaoslab.record.journal import JOURNAL
from chaoslab.record.run_directory import RunDirectory, list_runs
from chaoslab.report.telemetry.grafana import TOKEN
from chaoslab.report.webhook import SECRET
from chaoslab.run import experiment
from tests import stage
from tests.fakes import FakeFleet, Troubles
from tests.report.telemetry.http_receiver import http_receiver
from tests.virtual_clock import VirtualClock

PLAN = """
version: 1
name: one_dies
description: One learner dies and comes back.
seed: 3
training: {learners: 3, stop: {rounds: 60}}
baseline: {warmup: 2 rounds, window: 8 rounds}
faults:
  - {id: one-dies, fault: process.kill, target: {learners: 1}, at: {round: 15}, for: 3s}
expect:
  - {check: continuity}
  - {check: rejoin, within: 5s}
"""


class FakeFleets(stage.FakeFleets):
    """Stands where the local fleet stands."""

    kind = "local"

    def __init__(self) -> None:
        super().__init__()
        self.interrupted_at_s: float | None = None
        self.crash: Exception | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        """Happens right before the crash."""
        self.prepare = self._script

    def _script(self, fleet: FakeFleet) -> None:
        if self.interrupted_at_s is not None:
            fleet.at(self.interrupted_at_s, lambda: os.kill(os.getpid(), signal.SIGINT))
        if self.crash is not None:
            fleet.at(5.0, self._break)

    def _break(self) -> None:
        self.meanwhile()
        raise self.crash


@pytest.fixture
def fleets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeFleets:
    """An empty folder to work in, with one plan in it and a fake fleet under the command line."""
    fakes = FakeFleets()
    fleet_setup = plans.FleetSetup(fleet=fakes, clock=VirtualClock)
    monkeypatch.setattr(plans, "fleet_setup", lambda _: fleet_setup)
    monkeypatch.setattr(experiment, "start_janitor", stage.no_janitor)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one_dies.yaml").write_text(PLAN)
    return fakes


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def run_once(*more: str) -> Result:
    return call("run", "one_dies.yaml", *more)


# ---------------------------------------------------------------- the frame


def test_help_needs_click_alone() -> None:
    script = textwrap.dedent("""
        import sys
        from chaoslab.cli.main import main
        try:
            main(["--help"])
        except SystemExit as end:
            assert not end.code
        heavy = {"jax", "grpc", "docker", "rich", "pydantic", "ruamel", "numpy", "optax", "psutil"}
        print("heavy:", sorted(heavy & set(sys.modules)))
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_no_command_imports_what_only_the_run_under_test_needs() -> None:
    script = f"""
import sys, chaoslab.cli.main
for name in {list(SUMMARIES)!r}:
    chaoslab.cli.main.main.get_command(None, name)
    print(name, sorted({{"jax", "grpc", "optax", "docker"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"{name} []" for name in SUMMARIES]


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_command_has_help_with_an_example(name: str) -> None:
    shown = CliRunner().invoke(main, (name, "--help"), terminal_width=80)
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    assert f"chaoslab {name}" in shown.output
    command = main.get_command(click.Context(main), name)
    assert (command.help or "").splitlines()[0] == SUMMARIES[name]


def test_help_has_every_exit_code_and_variable_in_80_columns() -> None:
    shown = CliRunner().invoke(main, ("--help",), terminal_width=80).output
    assert max(map(len, shown.splitlines())) <= 80
    assert [code for code in ExitCode if f"\n    {code:<3}  " not in shown] == []
    assert [
        name
        for name in (SECRET, TOKEN, "CHAOSLAB_CACHE", "DOCKER_HOST", "KUBECONFIG")
        if name not in shown
    ] == []


def test_a_run_warns_of_settings_of_another_fleet(fleets: FakeFleets) -> None:
    said = run_once("--set", "fleet.containers.memory=2GB").stderr
    assert "fleet.containers: " in said


# ---------------------------------------------------------------- run


def test_a_run_that_stands_the_test_passes(fleets: FakeFleets, tmp_path: Path) -> None:
    done = run_once()
    assert done.exit_code == 0, done.output
    assert "PASS" in done.stdout
    assert "Did training continue?" in done.stdout
    record = tmp_path / "runs" / "latest"
    short_id = record.resolve().name.rpartition("-")[2]
    assert f"next: chaoslab show {short_id} " in done.stderr
    (report,) = (line for line in done.stdout.splitlines() if line.startswith("report  "))
    assert Path(report.split()[1]).is_file()
    names = {path.name for path in record.iterdir()}
    assert names >= {
        "verdict.json",
        "junit.xml",
        "report.md",
        "report.html",
        "journal.jsonl",
        "run.json",
    }


def test_progress_goes_to_stderr_and_the_verdict_to_stdout(fleets: FakeFleets) -> None:
    done = run_once()
    assert "exited: SIGKILL" in done.stderr
    assert "exited: SIGKILL" not in done.stdout
    assert run_once("--quiet").stderr.count("\n") == 1


def test_json_is_all_of_stdout_and_equals_the_file(fleets: FakeFleets, tmp_path: Path) -> None:
    done = run_once("--json")
    assert done.exit_code == 0
    written = (tmp_path / "runs/latest/verdict.json").read_text()
    assert done.stdout == written
    assert json.loads(written)["training_continued"] is True
    assert "next:" not in done.stderr


def test_a_learner_that_never_comes_back_fails_the_run(fleets: FakeFleets) -> None:
    fleets.troubles = Troubles(not_back=frozenset({"learner-0", "learner-1", "learner-2"}))
    done = run_once("--json")
    verdict = json.loads(done.stdout)
    assert done.exit_code == verdict["exit_code"] == 1
    assert [one["rejoined"] for one in verdict["learners_rejoined"].values()] == [False]


def test_an_interrupt_heals_writes_the_record_and_leaves_with_130(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    fleets.interrupted_at_s = 9.0
    done = run_once("--json")
    assert done.exit_code == 130
    verdict = json.loads(done.stdout)
    assert (verdict["outcome"], verdict["exit_code"]) == ("UNKNOWN", 130)
    assert (tmp_path / "runs/latest/junit.xml").is_file()


def test_a_run_that_cannot_start_is_broken_and_its_record_is_judged(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    fleets.troubles = Troubles(crash_at_start=frozenset({"learner-1"}))
    done = run_once("--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["exit_code"] == 4
    assert "learner-1: exit code 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_crash_of_the_harness_leaves_with_4_and_its_traceback_in_the_record(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    fleets.crash = ZeroDivisionError("a bug of ours")
    done = run_once()
    assert done.exit_code == 4
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
    assert "a bug of ours" in (tmp_path / "runs/latest/crash.txt").read_text()


@pytest.mark.parametrize("crash", [FleetError("a proxy is gone"), ZeroDivisionError("a bug")])
def test_a_harness_that_breaks_leaves_the_record_of_another_one_under_the_same_folder_alone(
    fleets: FakeFleets, tmp_path: Path, crash: Exception
) -> None:
    others: list[RunDirectory] = []

    def another_begins() -> None:
        others.append(RunDirectory.create(tmp_path / "runs", "one_dies", VirtualClock()))
        (others[0].path / JOURNAL).write_bytes(b"")
        others[0].note(verdict="PASS")

    fleets.crash, fleets.meanwhile = crash, another_begins
    assert run_once().exit_code == 4
    (other,) = others
    (own,) = (run for run in list_runs(tmp_path / "runs") if run != other)
    assert (tmp_path / "runs" / "latest").resolve() == other.path
    assert other.facts == {"verdict": "PASS"}
    assert sorted(path.name for path in other.path.iterdir() if path.is_file()) == [
        JOURNAL, "run.json",
    ]  # fmt: skip
    if isinstance(crash, FleetError):
        assert own.facts["verdict"] == "UNKNOWN"
    else:
        assert (own.path / "crash.txt").is_file()


def test_a_crash_without_a_record_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_context: click.Context) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("chaoslab.cli.commands.list.command", click.Command("list", callback=crash))
    monkeypatch.setattr(click.Command, "invoke", lambda self, context: crash(context))
    done = call("list")
    assert done.exit_code == 4
    assert "Traceback" in done.stderr


def test_overrides_and_seed_reach_the_record(fleets: FakeFleets, tmp_path: Path) -> None:
    assert run_once("--set", "training.learners=4", "--seed", "11").exit_code == 0
    resolved = (tmp_path / "runs/latest/plan.resolved.yaml").read_text()
    assert "seed: 11" in resolved
    assert "learners: 4" in resolved


def test_without_control_no_twin_is_made(fleets: FakeFleets, tmp_path: Path) -> None:
    assert run_once("--set", "control=twin", "--no-control").exit_code == 0
    assert not (tmp_path / "runs/latest/control").exists()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("target:", "targt:"), "did you mean"),
        (("for: 3s", "for: 3"), "3s"),
        (("learners: 1}", "learners: [learner-9]}"), "learner-9"),
        (("process.kill", "process.kil"), "process.kill"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_at_its_place(
    fleets: FakeFleets, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    (tmp_path / "one_dies.yaml").write_text(PLAN.replace(*change))
    done = run_once()
    assert done.exit_code == 2
    assert "one_dies.yaml:9:" in done.stderr
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.model=nanoo", "`nano`"),
        ("training.data=/nonexistent", "'/nonexistent'"),
        ("training.task=foo.bar:baz", "'foo'"),
        ("training.outer.lr=-1", "above 0"),
        ("faults.one-dies.for=20m", "`limits.timeout`"),
        (
            "faults.one-dies.target={syncer: all}",
            "one_dies.yaml:9:5: process.kill (fault 'one-dies')",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_plan_as_by_run_and_nothing_starts(
    fleets: FakeFleets, tmp_path: Path, command: str, setting: str, said: str
) -> None:
    done = call(command, "one_dies.yaml", "--set", setting)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.deep
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_task_that_cannot_be_trained_is_refused_in_one_line_by_plan_as_by_run(
    fleets: FakeFleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    example = Path(__file__).parent.parent.parent / "docs/examples/next_byte.py"
    source = example.read_text().replace("return float(self", "return str(self")
    (tmp_path / "own_model.py").write_text(source)
    (tmp_path / "book.txt").write_text("It was the best of times. " * 4000)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = ("--set", "training.task=own_model:make", "--set", "training.data=book.txt")
    done = call(command, "one_dies.yaml", *own, "--set", "training.fragments=2")
    assert done.exit_code == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("chaoslab:")]
    assert "evaluate returns str" in line
    assert not (tmp_path / "runs").exists()


def test_a_preview_shows_no_secret(
    fleets: FakeFleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSH", "s3cret-9f3k-7d")
    text = PLAN.replace("One learner dies", "With ${env:HUSH}, one dies")
    (tmp_path / "hush.yaml").write_text(text)
    page, as_json = call("plan", "hush.yaml"), call("plan", "hush.yaml", "--json")
    assert (page.exit_code, as_json.exit_code) == (0, 0)
    for said in (page.output, as_json.output):
        assert "With ${env:HUSH}, one dies" in said
        assert "s3cret" not in said


def test_a_record_is_not_judged_by_another_plan_than_was_carried_out(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once("--quiet", "--no-control")
    plan = tmp_path / "runs/latest/plan.resolved.yaml"
    plan.write_text(plan.read_text().partition("expect:")[0] + "expect:\n- check: cleanup\n")
    done = call("judge")
    assert done.exit_code == 4
    assert "plan.resolved.yaml" in done.stderr


def test_a_record_is_judged_when_its_data_is_long_gone(fleets: FakeFleets, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("It was the best of times. " * 40_000)
    assert run_once("--quiet", "--set", "training.data=book.txt").exit_code == 0
    (tmp_path / "book.txt").unlink()
    assert call("judge").exit_code == 0


def test_records_that_cannot_be_written_are_refused_before_anything_starts(
    fleets: FakeFleets,
) -> None:
    done = run_once("--out", "/proc/nowhere")
    assert done.exit_code == 2
    assert "--out" in done.stderr


def test_a_plan_that_is_no_regular_file_is_called_what_it_is(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "lost.yaml").symlink_to("nothing")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "kill_one").mkdir()
    assert "pipe" in call("plan", "pipe.yaml").stderr
    assert "link" in call("plan", "lost.yaml").stderr
    assert "folder" in call("run", "folder.yaml").stderr
    assert call("run", "folder.yaml").exit_code == 2
    assert call("plan", "kill_one").exit_code == 0, "a folder hides no bundled plan"


def test_a_plan_with_another_ending_is_told_the_file_beside_it(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    assert "did you mean 'one_dies.yaml'?" in call("plan", "one_dies.yml").stderr
    (tmp_path / "sub").mkdir()
    (tmp_path / "one_dies.yaml").rename(tmp_path / "sub/one_dies.yaml")
    assert "did you mean 'sub/one_dies.yaml'?" in call("run", "sub/one_dy.yaml").stderr
    assert "`chaoslab plans` lists" in call("run", "nowhere/zebra.yaml").stderr


def test_a_label_of_an_unknown_learner_is_refused_at_its_line(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    labels = "fleet:\n  labels:\n    learner-0: {region: eu}\n    learner-9: {region: eu}\n"
    (tmp_path / "labels.yaml").write_text(PLAN.lstrip() + labels)
    line = PLAN.lstrip().count("\n") + 4
    said = call("plan", "labels.yaml").stderr
    assert f"labels.yaml:{line}:" in said
    assert "learner-9" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pln", "kill_half"), "Did you mean `chaoslab plan`?"),
        (("shwo",), "Did you mean `chaoslab show`?"),
        (("kill_half",), "`chaoslab run kill_half`"),
        (("mine.yaml", "--seed", "3"), "`chaoslab run mine.yaml`"),
        (("zebra",), "plan"),
        (("run",), "PLAN"),
        (("run", "kill_half", "--sed", "3"), "--seed"),
    ],
)
def test_an_unknown_command_is_told_what_was_meant(words: tuple[str, ...], says: str) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert says in done.stderr


def test_a_misspelt_bundled_plan_is_refused_with_the_nearest_name() -> None:
    done = call("plan", "kil_half")
    assert done.exit_code == 2
    assert "'kill_half'" in done.stderr


# ---------------------------------------------------------------- plan, schema, faults


@pytest.mark.parametrize(
    "name",
    ["donor_dies", "kill_half", "mtbf_soak", "region_outage", "rejoin_storm", "reset_storm",
     "scale_up", "slow_chip", "thermal_throttle"],
)  # fmt: skip
def test_a_bundled_plan_can_be_previewed_by_its_bare_name(name: str) -> None:
    done = call("plan", name, "--json")
    assert done.exit_code == 0, done.stderr
    preview = json.loads(done.stdout)
    assert preview["plan"] == name
    assert preview["injections"]


def test_a_preview_says_whom_it_hits_and_starts_nothing(fleets: FakeFleets, tmp_path: Path) -> None:
    done = call("plan", "one_dies.yaml")
    assert done.exit_code == 0
    assert "injection-0 (one-dies): process.kill" in done.stdout
    assert "at round 15, healed after 3s" in done.stdout
    assert "never run here" in done.stdout
    paced = call("plan", "one_dies.yaml", "--set", "training.step_time=50ms").stdout
    assert re.search(r"takes +about [0-9ms]+ by the plan; never run here", paced)
    assert re.search(r"takes +about [0-9ms]+ if a step takes [0-9]+ ms; never", done.stdout)
    assert not (tmp_path / "runs").exists()
    run_once("--quiet")
    assert "s the last time" in call("plan", "one_dies.yaml").stdout
    facts = tmp_path / "runs" / "latest" / "run.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "fleet": "another"}))
    assert "never run here" in call("plan", "one_dies.yaml").stdout


def test_a_preview_ends_with_the_command_that_runs_just_that(fleets: FakeFleets) -> None:
    asked = ("one_dies.yaml", "--set", "description=a b", "--seed", "5", "--fleet", "local")
    said = "one_dies.yaml --set 'description=a b' --seed 5 --fleet local"
    assert f"next: chaoslab run {said}   do it" in call("plan", *asked).stderr


def test_a_plan_that_the_fleet_cannot_carry_out_is_refused(fleets: FakeFleets) -> None:
    fleets.abilities = frozenset({Ability.PAUSE})
    done = call("plan", "one_dies.yaml")
    assert done.exit_code == 2
    assert "needs a fleet that can kill" in done.stderr
    assert "--fleet" in done.stderr


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("fleet", "hint"),
    [
        ("dokcer", "did you mean `docker`?"),
        ("slurm", "known: compose, docker, kubernetes, local"),
        ("tpu", "did you mean `tpu-vm`?"),
    ],
)
def test_an_unknown_fleet_is_refused_with_a_hint(
    fleets: FakeFleets, command: str, fleet: str, hint: str
) -> None:
    done = call(command, "one_dies.yaml", "--fleet", fleet)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"chaoslab: --fleet {fleet}: fleet.kind: ")
    assert hint in done.stderr


def test_both_schemas_are_json_schemas() -> None:
    for what in ("plan", "verdict"):
        assert "$schema" in json.loads(call("schema", what).stdout)


def test_a_fault_is_told_with_settings_in_the_units_of_a_plan() -> None:
    listed = json.loads(call("faults", "process.preempt", "--json").stdout)
    assert [one["fault"] for one in listed] == ["process.preempt"]
    assert {one["key"]: one["default"] for one in listed[0]["settings"]}["notice"] == "2s"
    page = call("faults", "process.preempt").stdout
    assert "notice: 2s" in page
    assert "what proves it" in page
    assert re.search(r"used in +.*preempt", page)


@pytest.mark.parametrize("command", ["faults", "checks", "plans"])
def test_a_catalogue_has_one_line_for_each_entry(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [one[command[:-1]] for one in json.loads(call(command, "--json").stdout)]
    page = call(command).stdout.splitlines()
    rows = [line.split()[0] for line in page if line.split() and line.split()[0] in names]
    assert rows == names
    assert len(page) <= len(names) + 6
    assert max(map(len, page)) <= 80


@pytest.mark.parametrize(
    ("command", "part", "found"),
    [
        ("faults", "oom", ["process.oom"]),
        ("faults", "process.p", ["process.pause", "process.preempt"]),
        ("checks", "join", ["join"]),
        ("checks", "LOSS", ["loss_parity"]),
        ("plans", "kill_", ["kill_all_but_one", "kill_half", "kill_one"]),
    ],
)
def test_a_part_of_a_name_finds_an_entry(command: str, part: str, found: list[str]) -> None:
    listed = json.loads(call(command, part, "--json").stdout)
    assert [one[command[:-1]] for one in listed] == found


def test_a_terminal_without_unicode_gets_the_page_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "…" in call("checks").stdout
    done = CliRunner(charset="ascii").invoke(main, ["checks"])
    assert (done.exit_code, done.stderr.count("\n")) == (0, 1), done.stderr
    assert "rejoin" in done.stdout
    assert "?" in done.stdout


def test_what_a_plan_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    steering = r'"\e[2J\e]0;mine\a all is well \u202e"'
    text = PLAN.replace("One learner dies and comes back.", steering)
    (tmp_path / "steers.yaml").write_text(text)
    done = call("plan", str(tmp_path / "steers.yaml"))
    assert done.exit_code == 0, done.stderr
    assert "\N{REPLACEMENT CHARACTER}[2J" in done.stdout
    assert "all is well" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\a", "\u202e"}


@pytest.mark.parametrize("command", ["faults", "checks", "plans"])
def test_an_unknown_entry_is_refused_with_what_there_is(command: str) -> None:
    done = call(command, "zebra")
    assert done.exit_code == 2
    assert "known:" in done.stderr or "did you mean" in done.stderr


@pytest.mark.parametrize(
    ("command", "name"), [("faults", "process.kill"), ("checks", "rejoin"), ("plans", "kill_half")]
)
def test_the_next_command_after_a_catalogue_is_carried_out(command: str, name: str) -> None:
    for words in ((command,), (command, name)):
        found = re.match("next: chaoslab (.*?)   ", call(*words).stderr)
        assert found
        again = found[1].replace("PLAN", "kill_half").split()
        assert main.get_command(click.Context(main), again[0])
        if again[0] != "judge":
            assert call(*again).exit_code == 0, again


def suggested(done: Result) -> list[str]:
    """The words that a shell makes of the command after `next:`."""
    found = re.search("^next: chaoslab (.*?)   ", done.stderr, re.MULTILINE)
    assert found, done.output
    return shlex.split(found[1])


def test_a_suggested_command_is_carried_out_in_a_folder_with_spaces(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    (tmp_path / "one_dies.yaml").rename(tmp_path / "it's one ü.yaml")
    out = ("--out", "its räns here")
    (tmp_path / out[1]).mkdir()
    assert suggested(call("list", *out)) == ["run", "kill_half"]
    words: tuple[tuple[str, ...], ...] = (
        ("run", "it's one ü.yaml", "--quiet"), ("show",), ("judge",), ("list",),
        ("compare", "latest", "latest"), ("replay", "latest", "--quiet"),
    )  # fmt: skip
    for asked in words:
        again = suggested(call(*asked, *out))
        assert call(*again).exit_code == 0, (asked, again)
    assert suggested(call("list", "--plan", "none", *out)) == ["list", *out]


def test_a_plan_in_the_place_of_a_command_is_shown_as_a_shell_takes_it(fleets: FakeFleets) -> None:
    assert "`chaoslab run 'a plan.yaml'`" in call("a plan.yaml").stderr


# ---------------------------------------------------------------- records


def test_runs_are_listed_the_newest_first(fleets: FakeFleets) -> None:
    assert "no runs" in call("list").stdout
    run_once("--quiet")
    listed = json.loads(call("list", "--json").stdout)
    assert [(one["plan"], one["verdict"]) for one in listed] == [("one_dies", "PASS")]
    assert "1 of 1" in call("list").stdout


def test_every_command_takes_the_short_id_of_the_list(fleets: FakeFleets) -> None:
    run_once("--quiet")
    (run,) = json.loads(call("list", "--json").stdout)
    short = run["short_id"]
    assert re.fullmatch("[0-9a-f]{6}", short)
    assert f" {short} " in call("list").stdout
    assert f"chaoslab show {short} " in call("list").stderr
    for name in (short, short[:4], f"one_dies/{short}"):
        for command in ("show", "judge", "heal", "halt"):
            assert call(command, name).exit_code == 0, (command, name)


def test_runs_are_listed_by_plan_verdict_and_number(fleets: FakeFleets) -> None:
    run_once("--quiet", "--no-control")
    run_once("--quiet", "--no-control", "--set", "name=another")
    for words, plans_found in (
        (("--plan", "one_dies", "--last", "7"), ["one_dies"]),
        (("--verdict", "pass"), ["another", "one_dies"]),
        (("--verdict", "fail"), []),
    ):
        listed = json.loads(call("list", "--json", *words).stdout)
        assert sorted(one["plan"] for one in listed) == plans_found, words
    assert len(json.loads(call("list", "--json", "--last", "1").stdout)) == 1
    assert "of the plans another, one_dies" in call("list", "--verdict", "running").stdout


def test_a_run_that_goes_on_is_listed_as_running(fleets: FakeFleets, tmp_path: Path) -> None:
    seen: list[str] = []
    fleets.crash = FleetError("the end")
    fleets.meanwhile = lambda: seen.append(call("list").stdout)
    run_once("--quiet", "--no-control")
    assert "running" in seen[0]
    for file in (tmp_path / "runs/latest").resolve().glob("verdict.json"):
        file.unlink()
    assert "running" not in call("list").stdout


@pytest.mark.parametrize("columns", ["40", "80", "160"])
def test_a_list_fits_the_terminal_and_cuts_no_plan_and_no_verdict(
    fleets: FakeFleets, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    name = "a_rather_long_name_of_a_plan"
    monkeypatch.setenv("COLUMNS", columns)
    run_once("--quiet", "--no-control", "--set", f"name={name}")
    listed = call("list").stdout
    assert max(map(len, listed.splitlines())) <= int(columns)
    assert "PASS" in listed
    assert name in listed if columns != "40" else name[:12] in listed


def test_a_record_is_shown_with_its_timeline(fleets: FakeFleets) -> None:
    run_once("--quiet")
    shown = call("show")
    assert shown.exit_code == 0
    assert shown.stdout.index("Did training continue?") < shown.stdout.index("Timeline")
    assert "contributes again" in shown.stdout
    found = json.loads(call("show", "one_dies", "--json").stdout)
    assert found["verdict"]["outcome"] == "PASS"


def test_a_record_without_a_verdict_is_shown_and_can_be_judged(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once("--quiet")
    verdict = tmp_path / "runs/latest/verdict.json"
    before = verdict.read_text()
    verdict.unlink()
    assert "not judged yet" in call("show").stdout
    judged = call("judge", "--json")
    assert judged.exit_code == 0
    assert judged.stdout == verdict.read_text() == before


def test_a_report_is_written_again_from_the_record_and_says_where(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once()
    page = tmp_path / "runs" / "latest" / "report.html"
    before = page.read_bytes()
    page.unlink()
    done = call("report")
    assert done.exit_code == 0, done.output
    assert (tmp_path / done.stdout.strip()).read_bytes() == before == page.read_bytes()
    said = json.loads(call("report", "one_dies", "--to", "page.html", "--json").stdout)
    assert said == {"report": "page.html", "bytes": len(before)}
    assert (tmp_path / "page.html").read_bytes() == before


def test_a_report_has_a_trace_only_when_asked(fleets: FakeFleets, tmp_path: Path) -> None:
    run_once()
    trace = tmp_path / "runs" / "latest" / "trace.pftrace"
    assert call("report").exit_code == 0
    assert not trace.exists()
    done = call("report", "--trace")
    assert done.exit_code == 0, done.output
    assert (tmp_path / done.stdout.splitlines()[-1]).read_bytes() == trace.read_bytes() != b""
    said = json.loads(call("report", "--trace", "--json").stdout)
    assert said["trace_bytes"] == trace.stat().st_size


def test_a_finished_run_is_sent_and_a_refusal_changes_no_exit_code(
    fleets: FakeFleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", "a token")
    with http_receiver() as receiver:
        assert run_once("--grafana", receiver.url, "--quiet").exit_code == 0
        assert len(receiver.bodies("/api/annotations")) == 2
        receiver.answer = 403
        asked = ("report", "--otlp", receiver.url, "--grafana", receiver.url)
        done = call(*asked)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("warning: ") == 2
    assert done.stdout.strip().endswith("report.html")


def test_every_file_of_a_record_is_uploaded_and_a_failure_changes_no_exit_code(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    done = run_once("--upload", f"file://{store}/gates", "--quiet")
    assert done.exit_code == 0, done.output
    here = (tmp_path / "runs" / "latest").resolve()
    there = store / "gates" / "one_dies" / here.name
    assert f"record: file://{there}" in done.stderr
    assert content(there) == content(here)
    assert [one.name for one in (store / "gates").iterdir()] == ["one_dies"], "no trial file"
    (there / "junit.xml").unlink()
    (there / "junit.xml").mkdir()
    again = call("report", "--upload", f"file://{store}/gates")
    assert again.exit_code == 0
    assert "warning: --upload: junit.xml was not copied" in again.stderr


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


def test_a_run_that_was_not_judged_has_a_report_without_a_verdict(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once()
    (tmp_path / "runs" / "latest" / "verdict.json").unlink()
    assert call("report").exit_code == 0
    text = (tmp_path / "runs" / "latest" / "report.html").read_text()
    assert "<title>not judged: one_dies</title>" in text


def test_an_old_run_is_judged_by_what_another_plan_expects(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once("--quiet")
    strict = PLAN.replace("within: 5s", "within: 100ms")
    (tmp_path / "strict.yaml").write_text(strict)
    record = tmp_path / "runs/latest"
    before = {path: path.read_bytes() for path in record.rglob("*") if path.is_file()}
    judged = call("judge", "latest", "--expect-from", "strict.yaml")
    assert judged.exit_code == 1
    assert "FAIL" in judged.stdout
    printed = call("judge", "latest", "--expect-from", "strict.yaml", "--json")
    assert json.loads(printed.stdout)["outcome"] == "FAIL"
    after = {path: path.read_bytes() for path in record.rglob("*") if path.is_file()}
    assert after == before
    assert [one["verdict"] for one in json.loads(call("list", "--json").stdout)] == ["PASS"]


def test_an_unknown_part_may_want_its_package(fleets: FakeFleets) -> None:
    for words, noun in (
        (("faults", "eyes.burst"), "fault `eyes.burst`"),
        (("plan", "kill_half", "--set", "fleet.kind=eyes_cores"), "fleet `eyes_cores`"),
        (("plan", "kill_half", "--set", "expect.0.check=qqq"), "check `qqq`"),
    ):
        done = call(*words)
        assert done.exit_code == 2
        assert f"unknown {noun}" in done.stderr
    assert "did you mean `process.kill`?" in call("faults", "proces.kill").stderr


def damage(journal: Path, line: str) -> None:
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines[:20], line.replace("\n", "") + "\n", *lines[21:]]))


@pytest.mark.parametrize("words", [("judge",), ("show",), ("judge", "--json"), ("show", "--json")])
@pytest.mark.parametrize(
    "line",
    ["garbage", '{"seq":20,"time_s":"late","source":"harness","kind":"run.settled","data":{}}'],
)
def test_a_damaged_journal_is_one_line_that_names_the_place(
    fleets: FakeFleets, tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    run_once("--quiet")
    damage(tmp_path / "runs/latest/journal.jsonl", line)
    done = call(*words)
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1
    assert "journal.jsonl:21 is no event" in done.stderr


def test_other_damage_to_a_record_is_one_line_too(fleets: FakeFleets, tmp_path: Path) -> None:
    run_once("--quiet")
    record = tmp_path / "runs/latest"
    for file, text, words in (
        ("verdict.json", "{", ("show",)),
        ("obligations.jsonl", "garbage\n", ("heal",)),
        ("journal.jsonl", None, ("judge",)),
        ("journal.jsonl", None, ("show",)),
    ):
        before = (record / file).read_text()
        (record / file).unlink() if text is None else (record / file).write_text(text)
        done = call(*words)
        (record / file).write_text(before)
        said = done.stdout + done.stderr  # heal says what it could not undo where it says the rest
        assert done.exit_code == 4, file
        assert [file in line for line in said.splitlines() if "next:" not in line] == [True], said
    assert call("judge").exit_code == 0


def test_a_torn_last_line_of_a_harness_that_died_is_judged_all_the_same(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once("--quiet")
    record = tmp_path / "runs/latest"
    facts = json.loads((record / "run.json").read_text())
    del facts["journal"]  # it is written last
    (record / "run.json").write_text(json.dumps(facts))
    *whole, _finished = (record / "journal.jsonl").read_text().splitlines(keepends=True)
    (record / "journal.jsonl").write_text("".join(whole) + '{"seq": 99')
    assert call("judge").exit_code == ExitCode.UNKNOWN
    assert "breaks off" in call("show").stdout


def test_an_interrupt_right_after_the_heal_leaves_the_return_unknown(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once("--quiet")
    journal = (tmp_path / "runs/latest/journal.jsonl").read_text().splitlines()
    hurt = next(json.loads(line) for line in journal if '"fault.injected"' in line)
    fleets.interrupted_at_s = hurt["time_s"] + 1.0
    done = run_once("--json")
    (back,) = json.loads(done.stdout)["learners_rejoined"].values()
    assert (done.exit_code, back["rejoined"], back["after_s"]) == (130, None, None)
    assert "0 of 1, 1 unknown" in call("list").stdout
    assert "had too little time" in call("show").stdout


def test_a_run_that_is_not_there_is_a_usage_error(fleets: FakeFleets) -> None:
    for words in (("show",), ("judge", "nothing"), ("heal", "nothing")):
        assert call(*words).exit_code == 2


def test_heal_leaves_a_run_that_goes_on_alone(fleets: FakeFleets) -> None:
    told: list[Result] = []
    fleets.crash = FleetError("the end")
    fleets.meanwhile = lambda: told.extend([call("heal"), call("heal", "--dry-run")])
    run_once("--quiet", "--no-control")
    for done in told:
        assert "still running, left alone" in done.stdout
        assert "NOT undone" not in done.stdout
        assert done.exit_code == 0


def test_a_dry_run_of_heal_says_what_is_owed_and_undoes_nothing(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    run_once("--quiet", "--no-control")
    assert "nothing to undo" in call("heal", "--dry-run").stdout
    owed = tmp_path / "runs/latest/evidence/owed"
    owed.write_text("")
    log = tmp_path / "runs/latest/obligations.jsonl"
    line = {"open": 99, "do": "remove_path", "path": str(owed.resolve())}
    log.write_text(log.read_text() + json.dumps(line) + "\n")
    before = log.read_text()
    assert "would undo remove_path" in call("heal", "--dry-run").stdout
    assert "would undo remove_path" not in call("heal", "--dry-run", "--json").stdout
    assert (log.read_text(), owed.exists()) == (before, True)
    (undos,) = json.loads(call("heal", "--dry-run", "--json").stdout).values()
    assert [(one["undo"], one["do"]) for one in undos] == [(99, "remove_path")]


def test_heal_has_nothing_to_do_after_a_run_that_healed_itself(
    fleets: FakeFleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where other tests leave no keys
    run_once("--quiet")
    assert "nothing was owed" in call("heal").stdout
    assert json.loads(call("heal", "--all", "--json").stdout) == {}


def test_the_doctor_says_what_this_machine_can_do(fleets: FakeFleets) -> None:
    found = json.loads(call("doctor", "--json").stdout)
    assert {"name", "state", "detail", "remedy"} <= set(found["abilities"][0])
    assert "python" in call("doctor").stdout
