"""The command line, on a fake fleet and a virtual clock: what is printed, written and returned."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import MOVED, SUMMARIES, main
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.fleet.base import Ability
from chaoslab.prepare import plans
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RunDirectory, list_runs
from chaoslab.report.console import Plain
from chaoslab.run import experiment
from tests import stage
from tests.fakes import FakeFleet, Troubles
from tests.report.http_receiver import http_receiver
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


@pytest.fixture
def record(fleets: FakeFleets, tmp_path: Path) -> Path:
    """The directory of a run that passed."""
    assert run_once("--quiet").exit_code == 0
    return (tmp_path / "runs/latest").resolve()


# ---------------------------------------------------------------- the frame


def test_help_needs_click_alone_and_no_command_what_only_the_run_under_test_needs() -> None:
    script = f"""
import sys
from chaoslab.cli.main import main
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code
heavy = {{"jax", "grpc", "docker", "rich", "pydantic", "ruamel", "numpy", "optax", "psutil"}}
print("heavy:", sorted(heavy & set(sys.modules)))
for name in {list(SUMMARIES)!r}:
    main.get_command(None, name)
    print(name, sorted({{"jax", "grpc", "optax", "docker"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    _, _, told = done.stdout.partition("heavy: ")
    assert told.splitlines() == ["[]", *(f"{name} []" for name in SUMMARIES)]


def all_commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for name in SUMMARIES:
        yield (name,)
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Group):
            yield from ((name, one) for one in command.list_commands(click.Context(command)))


@pytest.mark.parametrize("words", list(all_commands()), ids=" ".join)
def test_every_command_has_help_in_80_columns(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(main, (*words, "--help"), terminal_width=80)
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) <= 80


@pytest.mark.parametrize("name", MOVED)
def test_a_command_of_before_is_refused_with_the_one_that_does_it_now(name: str) -> None:
    done = call(name, "latest", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    now = re.search("It is now: chaoslab (.*)", done.stderr)
    assert now
    words = [word.strip(",") for word in now[1].split() if word.islower()]
    assert call(*words[: 1 if words[0] in ("list", "show", "run") else 2], "--help").exit_code == 0


# ---------------------------------------------------------------- run


def test_a_run_shows_its_progress_its_verdict_and_its_record(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    done = run_once()
    assert done.exit_code == 0, done.output
    assert "PASS" in done.stdout
    assert "exited: SIGKILL" in done.stderr
    assert "exited: SIGKILL" not in done.stdout
    record = (tmp_path / "runs/latest").resolve()
    assert f"next: chaoslab show {record.name[-6:]} " in done.stderr
    assert str((record / "report.html").relative_to(tmp_path)) in done.stdout
    names = {path.name for path in record.iterdir()}
    assert names >= {"verdict.json", "junit.xml", "report.md", "report.html", JOURNAL, "run.json"}
    assert run_once("--quiet").stderr.count("\n") == 1


def test_json_is_all_of_stdout_and_equals_the_file(fleets: FakeFleets, tmp_path: Path) -> None:
    done = run_once("--json")
    assert done.stdout == (tmp_path / "runs/latest/verdict.json").read_text()
    assert json.loads(done.stdout)["training_continued"] is True
    assert "next:" not in done.stderr


def test_an_interrupt_writes_the_record_and_leaves_with_130(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    fleets.interrupted_at_s = 9.0
    done = run_once("--json")
    verdict = json.loads(done.stdout)
    assert (done.exit_code, verdict["outcome"], verdict["exit_code"]) == (130, "UNKNOWN", 130)
    assert (tmp_path / "runs/latest/junit.xml").is_file()


def test_a_run_that_cannot_start_is_broken_and_its_record_is_judged(fleets: FakeFleets) -> None:
    fleets.troubles = Troubles(crash_at_start=frozenset({"learner-1"}))
    done = run_once("--json")
    assert done.exit_code == json.loads(done.stdout)["exit_code"] == 4
    assert "learner-1" in done.stderr
    assert "Traceback" not in done.stderr


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
    done = run_once()
    assert (done.exit_code, "Traceback" in done.stderr) == (4, False)
    (other,) = others
    (own,) = (run for run in list_runs(tmp_path / "runs") if run != other)
    assert (tmp_path / "runs" / "latest").resolve() == other.path
    assert other.facts == {"verdict": "PASS"}
    assert {path.name for path in other.path.iterdir() if path.is_file()} == {JOURNAL, "run.json"}
    if isinstance(crash, FleetError):
        assert own.facts["verdict"] == "UNKNOWN"
    else:
        assert "ZeroDivisionError: a bug" in (own.path / "crash.txt").read_text()


def test_a_crash_without_a_record_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Command, "invoke", lambda *_: 1 / 0)
    done = call("list")
    assert done.exit_code == 4
    assert "Traceback" in done.stderr


def test_options_of_a_run_reach_its_record(fleets: FakeFleets, tmp_path: Path) -> None:
    settings = ("training.learners=4", "twin=true", "fleet.containers.memory=2GB")
    words = (word for setting in settings for word in ("--set", setting))
    done = run_once("--seed", "11", "--no-twin", *words)
    assert done.exit_code == 0
    resolved = (tmp_path / "runs/latest/plan.resolved.yaml").read_text()
    assert "seed: 11" in resolved
    assert "learners: 4" in resolved
    assert not (tmp_path / "runs/latest/twin").exists()
    assert "fleet.containers: " in done.stderr, "a warning: they are settings of another fleet"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.model=nanoo", "`nano`"),
        ("training.data=/nonexistent", "'/nonexistent'"),
        ("training.task=foo.bar:baz", "'foo'"),
        ("faults.one-dies.for=20m", "`limits.timeout`"),
        ("faults.one-dies.fault=control.scale_up", "one_dies.yaml:9:5: "),
        ("fleet.kind=dokcer", "`docker`"),
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
def test_a_task_that_cannot_be_trained_is_refused_in_one_line(
    fleets: FakeFleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Path(__file__).parent.parent.parent / "docs/examples/next_byte.py"
    source = example.read_text().replace("return float(self", "return str(self")
    (tmp_path / "own_model.py").write_text(source)
    (tmp_path / "book.txt").write_text("It was the best of times. " * 4000)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = ("--set", "training.task=own_model:make", "--set", "training.data=book.txt")
    for command in ("plan", "run"):
        done = call(command, "one_dies.yaml", *own, "--set", "training.fragments=2")
        assert (done.exit_code, done.stderr.count("chaoslab:")) == (2, 1), done.stderr
        assert "evaluate returns str" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_preview_shows_no_secret(
    fleets: FakeFleets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSH", "s3cret-9f3k-7d")
    text = PLAN.replace("One learner dies", "With ${env:HUSH}, one dies")
    (tmp_path / "hush.yaml").write_text(text)
    for more in ((), ("--json",)):
        shown = call("plan", "hush.yaml", *more)
        assert shown.exit_code == 0
        assert "With ${env:HUSH}, one dies" in shown.output
        assert "s3cret" not in shown.output


def test_a_record_is_judged_by_the_plan_that_was_carried_out(record: Path) -> None:
    plan = record / "plan.resolved.yaml"
    plan.write_text(plan.read_text().partition("expect:")[0] + "expect:\n- check: cleanup\n")
    done = call("show", "--judge")
    assert done.exit_code == 4
    assert "plan.resolved.yaml" in done.stderr


def test_a_record_is_judged_when_its_data_is_long_gone(fleets: FakeFleets, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("It was the best of times. " * 40_000)
    assert run_once("--quiet", "--set", "training.data=book.txt").exit_code == 0
    (tmp_path / "book.txt").unlink()
    assert call("show", "--judge").exit_code == 0


def test_a_plan_that_is_no_regular_file_is_refused_and_hides_no_bundled_plan(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "link.yaml").symlink_to("nothing")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "kill_one").mkdir()
    for what in ("pipe", "link", "folder"):
        done = call("plan", f"{what}.yaml")
        assert done.exit_code == 2
        assert what in done.stderr.replace(f"{what}.yaml", "")
    assert call("plan", "kill_one").exit_code == 0


def test_a_label_of_an_unknown_learner_is_refused_at_its_line(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    labels = "fleet:\n  labels:\n    learner-0: {region: eu}\n    learner-9: {region: eu}\n"
    (tmp_path / "labels.yaml").write_text(PLAN.lstrip() + labels)
    line = PLAN.lstrip().count("\n") + 4
    assert f"labels.yaml:{line}:" in call("plan", "labels.yaml").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pln", "kill_half"), "`chaoslab plan`"),
        (("kill_half",), "`chaoslab run kill_half`"),
        (("mine.yaml", "--seed", "3"), "`chaoslab run mine.yaml`"),
        (("a plan.yaml",), "`chaoslab run 'a plan.yaml'`"),
        (("zebra",), "plan"),
        (("run",), "PLAN"),
        (("run", "kill_half", "--sed", "3"), "--seed"),
        (("run", "kill_half", "--out", "/proc/nowhere"), "--out"),
        (("plan", "kil_half"), "'kill_half'"),
        (("plan", "one_dies.yml"), "'one_dies.yaml'"),
        (("run", "sub/two_dy.yaml"), "'sub/two_die.yaml'"),
        (("run", "nowhere/zebra.yaml"), "`chaoslab catalog plans`"),
        (("run", "one_dies.yaml", "--fleet", "tpu"), "--fleet tpu: fleet.kind: "),
        (("plan", "one_dies.yaml", "--fleet", "eyes_cores"), "fleet `eyes_cores`"),
        (("plan", "kill_half", "--set", "expect.0.check=qqq"), "check `qqq`"),
        (("catalog", "faults", "eyes.burst"), "fault `eyes.burst`"),
        (("catalog", "faults", "proces.kill"), "`process.kill`"),
        (("catalog", "checks", "zebra"), "zebra"),
        (("catalog", "plans", "zebra"), "zebra"),
        (("doctor", "--json", "gc"), "after `gc`"),
        (("doctor", "gcc"), "`chaoslab doctor gc`"),
        (("show",), "no run"),
        (("show", "--fail-on", "low-margin"), "--judge"),
        (("list", "--max-age", "7d"), "--status"),
        (("list", "--status", "--last", "3"), "--last"),
        (("run", "one_dies.yaml", "--bisect", "v1", "v2", "--fail-on", "low-margin"), "--bisect"),
        (("heal", "nothing"), "no run"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_is_not_known_is_refused_with_what_may_be_meant(
    fleets: FakeFleets, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/two_die.yaml").write_text(PLAN)
    done = call(*words)
    assert done.exit_code == 2
    assert says in done.stderr


# ---------------------------------------------------------------- plan, schema, faults


def test_a_preview_says_whom_it_hits_and_how_long_it_takes_and_starts_nothing(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    done = call("plan", "one_dies.yaml")
    assert done.exit_code == 0
    assert "injection-0 (one-dies)  process.kill" in done.stdout
    assert "the last time" not in done.stdout
    paced = call("plan", "one_dies.yaml", "--set", "training.step_time=50ms").stdout
    assert re.search(r"takes +about [0-9ms]+ \(estimate: from the plan", paced)
    assert re.search(r"takes +about [0-9ms]+ \(estimate: [0-9]+ ms per step", done.stdout)
    assert not (tmp_path / "runs").exists()
    run_once("--quiet")
    assert "s the last time" in call("plan", "one_dies.yaml").stdout
    facts = tmp_path / "runs" / "latest" / "run.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "fleet": "another"}))
    assert "the last time" not in call("plan", "one_dies.yaml").stdout


def test_a_preview_ends_with_the_command_that_runs_just_that(fleets: FakeFleets) -> None:
    asked = ["one_dies.yaml", "--set", "description=a b", "--seed", "5", "--fleet", "local"]
    assert suggested(call("plan", *asked)) == ["run", *asked]


def test_a_plan_that_the_fleet_cannot_carry_out_is_refused(fleets: FakeFleets) -> None:
    fleets.abilities = frozenset({Ability.PAUSE})
    done = call("plan", "one_dies.yaml")
    assert done.exit_code == 2
    assert "--fleet" in done.stderr


PLANS = ("catalog", "plans")


def test_both_schemas_are_json_schemas() -> None:
    for what in ("plan", "verdict"):
        assert "$schema" in json.loads(call("catalog", "schema", what).stdout)


def test_a_fault_is_told_with_settings_in_the_units_of_a_plan() -> None:
    listed = json.loads(call("catalog", "faults", "process.preempt", "--json").stdout)
    assert [one["fault"] for one in listed] == ["process.preempt"]
    assert {one["key"]: one["default"] for one in listed[0]["settings"]}["notice"] == "2s"
    assert "notice: 2s" in call("catalog", "faults", "process.preempt").stdout


def test_each_plan_says_how_long_it_took_and_one_that_was_not_measured_says_nothing() -> None:
    took = {one["plan"]: one["measured_s"] for one in json.loads(call(*PLANS, "--json").stdout)}
    assert [name for name, took_s in took.items() if took_s is None] == ["spot_half"]
    page = " ".join(call(*PLANS).stdout.split())
    assert page.count(f"later. ({took['kill_half']} s)") == 1
    assert page.count(" s)") == len(took) - 1
    assert f"takes     {took['kill_half']} s " in call(*PLANS, "kill_half").stdout


@pytest.mark.parametrize(
    ("command", "part", "found"),
    [
        ("faults", "process.p", ["process.pause", "process.preempt"]),
        ("checks", "LOSS", ["loss_parity"]),
        ("plans", "kill_", ["kill_all_but_one", "kill_half", "kill_one"]),
        ("systems", "torchf", ["torchft"]),
    ],
)
def test_a_catalogue_has_every_entry_whole_and_finds_them_by_a_part_of_the_name(
    monkeypatch: pytest.MonkeyPatch, command: str, part: str, found: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    what = ("catalog", command)
    entries = json.loads(call(*what, "--json").stdout)
    names = [one[command[:-1]] for one in entries]
    page = call(*what).stdout
    assert sorted(re.findall(r"^  ([\w.]+)  ", page, re.MULTILINE)) == names
    assert "…" not in page
    words = {word for one in entries for key in ("summary", "description", "about")
             for word in one.get(key, "").split()}  # fmt: skip
    assert words <= {*page.split()}
    assert max(map(len, page.splitlines())) <= 80
    listed = json.loads(call(*what, part, "--json").stdout)
    assert [one[command[:-1]] for one in listed] == found
    for words in (what, (*what, found[0])):
        again = [word.replace("PLAN", "kill_half") for word in suggested(call(*words))]
        if again[:3] == ["doctor", "systems", "install"]:  # of gigabytes
            again.append("--help")
        assert again[0] == "show" or call(*again).exit_code == 0, again


def test_a_terminal_without_unicode_gets_the_page_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "one_dies.yaml").write_text(PLAN.replace("One learner", "Überall eine"))
    words = ("plan", str(tmp_path / "one_dies.yaml"), "--fleet", "sim")
    assert "Überall" in call(*words).stdout
    done = CliRunner(charset="ascii").invoke(main, words)
    assert (done.exit_code, done.stderr.count("\n")) == (0, 1), done.stderr
    assert "?berall" in done.stdout


def test_what_a_preview_says_goes_on_below_its_own_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("plan", "kill_half", "--fleet", "sim").stdout.rstrip().splitlines()
    (expects,) = (at for at, line in enumerate(lines) if line.startswith("expects "))
    assert lines[expects + 1].startswith(" " * len("expects   "))
    assert lines[-1].startswith(" " * len("injection-0 (half-dies)  "))
    assert max(map(len, lines)) <= 80


def test_what_a_plan_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    steering = r'"\e[2J\e]0;mine\a all is well \u202e"'
    text = PLAN.replace("One learner dies and comes back.", steering)
    (tmp_path / "steers.yaml").write_text(text)
    done = call("plan", str(tmp_path / "steers.yaml"))
    assert done.exit_code == 0, done.stderr
    assert "\N{REPLACEMENT CHARACTER}[2J" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\a", "\u202e"}


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
        ("run", "it's one ü.yaml", "--quiet"), ("show",), ("show", "--judge"), ("list",),
        ("compare", "latest", "latest"), ("replay", "latest", "--quiet"),
    )  # fmt: skip
    for asked in words:
        again = suggested(call(*asked, *out))
        assert call(*again).exit_code == 0, (asked, again)
    assert suggested(call("list", "--plan", "none", *out)) == ["list", *out]


def test_before_the_twin_is_run_it_is_said_what_failed_so_far(
    fleets: FakeFleets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[Sequence[str]] = []
    monkeypatch.setattr(Plain, "await_twin", lambda _, failed: told.append(failed))
    plan = PLAN.replace("within: 5s", "within: 100ms") + "twin: true\n"
    (tmp_path / "one_dies.yaml").write_text(plan)
    assert [run_once().exit_code, run_once().exit_code] == [1, 1]
    assert told == [["rejoin"]], "not again: the second run finds the twin of the first"


# ---------------------------------------------------------------- records


def test_every_command_takes_the_short_id_of_the_list(record: Path) -> None:
    short = record.name[-6:]
    assert f" {short} " in call("list").stdout
    assert suggested(call("list")) == ["show", short]
    for name in (short, short[:4], f"one_dies/{short}"):
        for command in ("show", "heal", "halt"):
            assert call(command, name).exit_code == 0, (command, name)


def test_runs_are_listed_by_plan_verdict_and_number(fleets: FakeFleets) -> None:
    assert json.loads(call("list", "--json").stdout) == []
    run_once("--quiet", "--no-twin")
    run_once("--quiet", "--no-twin", "--set", "name=another")
    for words, plans_found in (
        (("--plan", "one_dies", "--last", "7"), ["one_dies"]),
        (("--verdict", "pass"), ["another", "one_dies"]),
        (("--verdict", "fail"), []),
    ):
        listed = json.loads(call("list", "--json", *words).stdout)
        assert sorted(one["plan"] for one in listed) == plans_found, words
        assert all(one["verdict"] == "PASS" for one in listed)
    assert len(json.loads(call("list", "--json", "--last", "1").stdout)) == 1
    assert "another, one_dies" in call("list", "--verdict", "running").stdout


def test_a_run_that_goes_on_is_listed_as_running_and_left_alone_by_heal(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    seen: list[Result] = []
    fleets.crash = FleetError("the end")
    words = (("list",), ("heal",), ("heal", "--dry-run"))
    fleets.meanwhile = lambda: seen.extend(call(*one) for one in words)
    run_once("--quiet", "--no-twin")
    assert ["running" in one.stdout for one in seen] == [True] * 3
    assert ["NOT undone" in one.stdout for one in seen] == [False] * 3
    assert [one.exit_code for one in seen] == [0] * 3
    (tmp_path / "runs/latest/verdict.json").unlink()
    assert "running" not in call("list").stdout


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_a_list_fits_the_terminal_and_cuts_no_plan_and_no_verdict(
    fleets: FakeFleets, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    name = "a_rather_long_name_of_a_plan"
    monkeypatch.setenv("COLUMNS", str(columns))
    run_once("--quiet", "--no-twin", "--set", f"name={name}")
    listed = call("list").stdout
    assert max(map(len, listed.splitlines())) <= columns
    assert "PASS" in listed
    assert name[: 12 if columns == 40 else None] in listed


def test_a_record_is_shown_and_judged_again_as_it_was(record: Path) -> None:
    shown, whole = call("show"), call("show", "--all")
    assert suggested(shown)[2:] == ["--all"], "not judged again after a PASS"
    excerpt, timeline = (one.stdout.partition("Timeline")[2] for one in (shown, whole))
    assert "process.kill on learner-" in excerpt
    assert "phase baseline" in timeline.replace(excerpt, "")
    assert "phase baseline" not in excerpt
    assert json.loads(call("show", "one_dies", "--json").stdout)["verdict"]["outcome"] == "PASS"
    before = (record / "verdict.json").read_text()
    (record / "verdict.json").unlink()
    assert suggested(call("show"))[2:] == ["--judge"]
    judged = call("show", "--judge", "--json")
    assert judged.exit_code == 0
    assert judged.stdout == (record / "verdict.json").read_text() == before


def test_a_run_is_exported_as_a_page_with_a_trace_if_asked(record: Path, tmp_path: Path) -> None:
    before = (record / "report.html").read_bytes()
    done = call("show", "--html", "page.html")
    assert (done.exit_code, done.stdout.strip()) == (0, "page.html")
    assert (tmp_path / "page.html").read_bytes() == before
    assert not (record / "trace.pftrace").exists()
    said = json.loads(call("show", "one_dies", "--html", "again.html", "--trace", "--json").stdout)
    assert said["html"] == "again.html"
    assert Path(said["trace"]) == record / "trace.pftrace"
    (record / "verdict.json").unlink()
    assert call("show", "--html", "page.html").exit_code == 0
    assert "<title>not judged: one_dies</title>" in (tmp_path / "page.html").read_text()


def test_a_finished_run_is_sent_and_a_refusal_changes_no_exit_code(fleets: FakeFleets) -> None:
    with http_receiver() as receiver:
        assert run_once("--otlp", receiver.url, "--quiet").exit_code == 0
        assert receiver.bodies("/v1/traces")
        receiver.answer = 403
        done = call("show", "--otlp", receiver.url)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("warning: ") == 1


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


def test_an_old_run_is_judged_by_what_another_plan_expects(record: Path, tmp_path: Path) -> None:
    (tmp_path / "strict.yaml").write_text(PLAN.replace("within: 5s", "within: 100ms"))
    before = content(record)
    judged = call("show", "latest", "--expect-from", "strict.yaml")
    assert judged.exit_code == 1
    assert "FAIL" in judged.stdout
    printed = call("show", "latest", "--expect-from", "strict.yaml", "--json")
    assert json.loads(printed.stdout)["outcome"] == "FAIL"
    assert content(record) == before


GARBAGE = "garbage\n"
LATE = '{"seq":20,"time_s":"late","source":"harness","kind":"run.settled","data":{}}\n'


@pytest.mark.parametrize(
    ("file", "text", "commands"),
    [
        ("verdict.json", "{", ["show"]),
        ("undo_log.jsonl", GARBAGE, ["heal"]),
        (JOURNAL, None, ["show --judge", "show"]),
        (JOURNAL, GARBAGE, ["show --judge", "show", "show --judge --json", "show --json"]),
        (JOURNAL, LATE, ["show --judge", "show", "show --judge --json", "show --json"]),
    ],
)
def test_damage_to_a_record_is_one_line_that_names_the_place(
    record: Path, file: str, text: str | None, commands: list[str]
) -> None:
    lines = (record / file).read_text().splitlines(keepends=True)
    (record / file).unlink()
    place = f"{file}:21 " if file == JOURNAL and text else file
    if text:
        (record / file).write_text("".join([*lines[:20], text, *lines[21:]]))
    for command in commands:
        done = call(*command.split())
        said = done.stdout + done.stderr  # heal says what it could not undo where it says the rest
        assert done.exit_code == 4, command
        assert [place in line for line in said.splitlines() if "next:" not in line] == [True], said


def test_a_torn_last_line_of_a_harness_that_died_is_judged_all_the_same(record: Path) -> None:
    facts = dict(RunDirectory(path=record).facts)
    del facts["journal"], facts["outcome"]  # they are written last
    (record / "run.json").write_text(json.dumps(facts))
    *whole, _finished = (record / JOURNAL).read_text().splitlines(keepends=True)
    (record / JOURNAL).write_text("".join(whole) + '{"seq": 99')
    assert call("show", "--judge").exit_code == ExitCode.UNKNOWN
    assert "breaks off" in call("show").stdout


def test_an_interrupt_right_after_the_heal_leaves_the_return_unknown(
    fleets: FakeFleets, record: Path
) -> None:
    journal = (record / JOURNAL).read_text().splitlines()
    hurt = next(json.loads(line) for line in journal if '"fault.injected"' in line)
    fleets.interrupted_at_s = hurt["time_s"] + 1.0
    done = run_once("--json")
    (back,) = json.loads(done.stdout)["learners_rejoined"].values()
    assert (done.exit_code, back["rejoined"], back["after_s"]) == (130, None, None)
    assert "0 of 1, 1 unknown" in call("list").stdout


def test_a_dry_run_of_heal_names_open_entries_and_undoes_nothing(record: Path) -> None:
    assert json.loads(call("heal", "--dry-run", "--json").stdout) == {}
    left, log = record / "evidence/left", record / "undo_log.jsonl"
    left.write_text("")
    line = {"open": 99, "do": "remove_path", "path": str(left)}
    log.write_text(log.read_text() + json.dumps(line) + "\n")
    before = log.read_text()
    assert "would undo remove_path" in call("heal", "--dry-run").stdout
    (undos,) = json.loads(call("heal", "--dry-run", "--json").stdout).values()
    assert [(one["undo"], one["do"]) for one in undos] == [(99, "remove_path")]
    assert (log.read_text(), left.exists()) == (before, True)


def test_heal_has_nothing_to_do_after_a_run_that_healed_itself(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where other tests leave no keys
    assert "nothing to undo" in call("heal").stdout
    assert json.loads(call("heal", "--all", "--json").stdout) == {}


def test_the_doctor_says_what_this_machine_can_do(fleets: FakeFleets) -> None:
    found = json.loads(call("doctor", "--json").stdout)
    assert {"name", "state", "detail", "remedy"} <= set(found["abilities"][0])
    assert "python" in call("doctor").stdout
