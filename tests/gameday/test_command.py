"""`chaoslab gameday`: charter, refusals, and whole game-days on a simulated fleet."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.commands import gameday
from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.core.payloads import Action, FaultSkipped, OperatorActed
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory

PLAN = """
version: 1
name: one_dies
description: One learner dies and comes back.
seed: 3
training: {learners: 3, stop: {rounds: 120}}
fleet: {kind: sim}
twin: true
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 50%}
faults:
  - {id: one-dies, fault: process.kill, target: {learners: 1}, at: {round: 30}, for: 3s}
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin, within: 20s}
"""
DAY = """
wait one-dies held
Bo> predict one-dies continues=yes gap=2s
go one-dies
wait one-dies healed
note one-dies: it is back
"""


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one_dies.yaml").write_text(PLAN)
    Path("day.txt").write_text(DAY)


def call(*words: str, keys: str = "") -> Result:
    return CliRunner().invoke(main, ("gameday", "one_dies.yaml", *words), input=keys)


def record() -> RunDirectory:
    return RunDirectory.open("latest", root=Path("runs"))


def test_a_scripted_game_day_is_carried_out_judged_and_debriefed() -> None:
    done = call("--script", "day.txt", "--by", "Ann", "--json")
    assert done.exit_code == ExitCode.PASS, done.output
    assert json.loads(done.stdout)["outcome"] == "PASS"
    history = History.read(record().path)
    acted = [(event.payload.by, event.payload.action) for event in history.of(OperatorActed)]
    assert acted == [("Ann", Action.GO)]
    for name in ("charter.md", "debrief.md", "debrief.html", "actions.md"):
        assert (record().path / name).read_text().strip()
        assert str(Path("runs", "one_dies", record().path.name, name)) in done.stderr
    assert "not carried out" not in done.stderr
    assert not (record().path / "twin").exists()  # a twin would take as long again


def test_with_a_speed_a_simulation_is_served_and_waits_for_the_end() -> None:
    Path("day.txt").write_text(f"{DAY}end\n")
    done = call("--script", "day.txt", "--set", "fleet.speed=500x", "--serve", "--operator", "Ann")
    assert done.exit_code == ExitCode.PASS, done.output
    assert "operator Ann, once: http://127.0.0.1:" in done.stderr
    acted = [event.payload.action for event in History.read(record().path).of(OperatorActed)]
    assert acted == [Action.GO, Action.END]


def test_what_was_done_becomes_a_plan_that_runs_as_a_gate_and_is_not_replayed() -> None:
    call("--script", "day.txt")
    runner = CliRunner()
    words = ["gameday", "latest", "--as-plan", "gate.yaml"]
    done = runner.invoke(main, words)
    assert done.exit_code == ExitCode.PASS, done.output
    for refused in (words, ["gameday", "nowhere", "--as-plan", "o.yaml"], ["replay", "latest"]):
        assert runner.invoke(main, refused).exit_code == ExitCode.REFUSED
    gate = runner.invoke(main, ["run", "gate.yaml", "--no-twin", "--quiet"])
    assert gate.exit_code == ExitCode.PASS, gate.output


def test_secrets_in_a_charter_are_shown_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "p*ss|w0rd[x]9&Z"
    monkeypatch.setenv("SECRET", secret)
    Path("day.txt").write_text("wait one-dies held\ngo one-dies\n")
    hypotheses = "gameday.hypotheses={one-dies: 'token ${env:SECRET} works'}"
    done = call("--script", "day.txt", "--set", hypotheses, "--set", "gameday.owner=${env:SECRET}")
    texts = [done.output, *(path.read_text() for path in record().path.glob("*.md"))]
    assert all("w0rd" not in text for text in texts)
    assert "works" in texts[0]


def test_a_script_comes_from_a_pipe_as_well() -> None:
    done = call("--script", "-", keys="wait inject\nskip one-dies\nwait one-dies held\nwait 1h\n")
    assert "not carried out: stdin:4: wait 1h" in done.stderr
    assert len(History.read(record().path).of(FaultSkipped)) == 1


def test_the_charter_is_printed_and_nothing_is_started() -> None:
    done = call("--charter", "--set", "gameday.owner=Ann")
    assert done.exit_code == ExitCode.PASS
    assert json.loads(call("--charter", "--json").stdout)["charter"].startswith("# Charter")
    assert all(part in done.stdout for part in ("one_dies", "Ann", "2h30m"))
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "script", "said"),
    [
        ((), None, "--script"),
        (("--serve", "0", "--script", "day.txt"), None, "fleet.speed=1x"),
        (("--script", "day.txt", "--set", "fleet.speed=0.5x"), None, "at least 1x"),
        (("--script", "none.txt"), None, "none.txt"),
        (("--script", "day.txt"), "\ngoo one-dies", "day.txt:2: "),
        (("--script", "day.txt"), "go one-die", "`one-dies`"),
        (("--script", "day.txt"), "wait 5", "day.txt:1: "),
        (("--script", "day.txt", "--by", " "), None, "--by"),
        (("--charter", "--set", "gameday.holds=[x]"), None, "gameday.holds"),
        (("--charter", "--set", "gameday.length=0s"), None, "gameday.length"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_started(
    words: tuple[str, ...], script: str | None, said: str
) -> None:
    if script is not None:
        Path("day.txt").write_text(script)
    done = call(*words)
    assert done.exit_code == ExitCode.REFUSED, done.output
    assert said in done.stderr
    assert not Path("runs").exists()


# ---------------------------------------------------------------- with people


@pytest.fixture
def _people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gameday, "_has_people", lambda: True)


@pytest.mark.usefixtures("_people")
def test_people_are_asked_for_what_the_charter_lacks() -> None:
    done = call("--script", "day.txt", keys='An: "x" ☃\ntraining goes on\ny\n')
    assert done.exit_code == ExitCode.PASS, done.output
    for name in ("plan.resolved.yaml", "charter.md"):
        text = (record().path / name).read_text()
        assert all(part in text for part in ("training goes on", "☃"))


@pytest.mark.usefixtures("_people")
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("--set", "gameday.owner=A", "--set", "gameday.hypotheses={one-dies: goes on}"), "y\n"),
        (("--yes",), ""),
    ],
)
def test_what_is_known_is_not_asked_for(words: tuple[str, ...], keys: str) -> None:
    done = call("--script", "day.txt", *words, keys=keys)
    assert done.exit_code == ExitCode.PASS, done.output


@pytest.mark.usefixtures("_people")
@pytest.mark.parametrize(
    ("keys", "code"), [("\n\nn\n", ExitCode.REFUSED), ("\n", ExitCode.INTERRUPTED)]
)
def test_nothing_is_started_without_a_yes(keys: str, code: ExitCode) -> None:
    assert call("--script", "day.txt", keys=keys).exit_code == code
    assert not Path("runs").exists()
