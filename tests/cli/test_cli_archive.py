"""`chaoslab compare`, `list --status` and `doctor gc`: what is printed and returned."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.checks.base import Outcome
from chaoslab.cli.main import main
from chaoslab.core.events import Json
from chaoslab.record.run_directory import RESOLVED_PLAN
from tests.archive.records import PLAN, record

SLIPPING = (0.8, 0.72, 0.65, 0.6, 0.51, 0.44, 0.38)


def call(*words: str, columns: int = 80) -> Result:
    return CliRunner().invoke(main, words, env={"COLUMNS": str(columns)})


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def test_compare_shows_both_sides_and_ends_with_1_only_when_asked(runs: Path) -> None:
    changed: Mapping[str, Json] = {"commit": "b" * 40, "has_changes": True}
    more: Mapping[str, Json] = {"git": changed, "versions": {"jax": "0.7" * 30}}
    record(runs, {"rejoin": 0.5})
    record(runs, {"rejoin": 0.3, "unasked": -1.0}, day=1, seed=2, **more)
    done = call("compare", "000000", "000001")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for said in ("rejoin", "-20%", "A  PASS  kill_half/000000\n", "seed", "b" * 12 + "+"):
        assert said in done.stdout
    assert "b" * 13 not in done.stdout
    found = json.loads(call("compare", "000000", "000001", "--json").stdout)
    assert found["findings"][0]["margin_change"] == pytest.approx(-0.2)
    assert {"area": "seed", "what": "seed", "before": "1", "after": "2"} in found["changes"]
    assert call("compare", "000000", "000001", "--max-drop", "10%").exit_code == 1
    assert call("compare", "000001", "000000", "--max-drop", "10%").exit_code == 0
    assert call("compare", "000000", "000001", "--max-drop", "10").exit_code == 2


def test_a_margin_is_the_same_number_wherever_it_stands(runs: Path) -> None:
    for day in range(2):
        record(runs, {"ledger": None, "survivors": 0.9, "rejoin": 0.65}, day=day)
    for words, times in (
        ("show 000001", 1), ("list --status --any-code", 1), ("compare kill_half", 2),
        ("compare 000000 000001", 2),
    ):  # fmt: skip
        said = call(*words.split(), columns=120).stdout
        (line,) = (line for line in said.splitlines() if "rejoin " in line)
        assert line.count("+65%") == times, words
    status, trend, compare = (
        json.loads(call(*words.split(), "--json").stdout)
        for words in ("list --status --any-code", "compare kill_half", "compare 000000 000001")
    )
    assert status["plans"][0]["tightest"] == {"check": "rejoin", "margin": 0.65}
    (series,) = (one["margins"] for one in trend["margins"] if one["check"] == "rejoin")
    assert series == [0.65, 0.65]
    (pair,) = (one for one in compare["findings"] if one["check"] == "rejoin")
    assert (pair["before"]["margin"], pair["after"]["margin"]) == (0.65, 0.65)


def test_compare_says_why_a_check_that_passed_does_not_any_more(runs: Path) -> None:
    record(runs, {"rejoin": 0.5, "ledger": None, "late": -1.0})
    record(runs, {"rejoin": -0.3, "ledger": Outcome.UNKNOWN, "late": -2.0}, day=1)
    said = call("compare", "000000", "000001").stdout
    assert re.findall("^ *(.*) in B: ", said, re.MULTILINE) == ["rejoin", "ledger"]


def test_compare_leads_to_a_run_that_lies_elsewhere_by_its_path(runs: Path) -> None:
    record(runs, {"rejoin": 0.5})
    record(runs.parent / "others", {"rejoin": 0.5}, day=1)
    elsewhere = next(runs.parent.glob("others/kill_half/*"))
    there = str(elsewhere)
    assert "show 000000 " in call("compare", there, "000000").stderr
    assert f"show others/kill_half/{elsewhere.name} " in call("compare", "000000", there).stderr


def test_trend_shows_an_eroding_margin_and_the_gate_fails(runs: Path) -> None:
    for day, margin in enumerate(SLIPPING):
        record(runs, {"rejoin": margin, "loss_parity": 2 - margin, "ledger": None}, day=day)
    done = call("compare", "kill_half")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "rejoin is eroding: -42% in 7 runs" in done.stdout
    assert "loss_parity is eroding" not in done.stdout
    assert "…" not in done.stdout
    assert call("compare", "kill_half", "--max-drop", "10%").exit_code == 1
    assert call("compare", "kill_half", "--max-drop", "50%").exit_code == 0


def test_trend_has_the_effective_training_time_of_every_run(runs: Path) -> None:
    for day, share in enumerate((0.9, None, 0.8)):
        record(runs, {"ledger": None}, day=day, effective_share=share)
    assert (
        "effective training time 80.0%, median 85.0% of 2 runs"
        in call("compare", "kill_half").stdout
    )
    found = json.loads(call("compare", "kill_half", "--json").stdout)
    assert [run["effective_share"] for run in found["runs"]] == [0.9, None, 0.8]


def test_runs_in_a_folder_with_spaces_are_suggested_as_a_shell_takes_them(runs: Path) -> None:
    spaced = runs.with_name("all runs")
    for day, margin in enumerate(SLIPPING):
        record(spaced, {"rejoin": margin}, day=day)
    first, *_, last = sorted((spaced / "kill_half").iterdir())
    paths = " ".join(f"'{one.relative_to(runs.parent)}'" for one in (first, last))
    done = call("compare", "kill_half", "--out", "all runs")
    assert f"next: chaoslab compare {paths}   " in done.stderr
    record(spaced, {"rejoin": -1.0}, day=9)
    newest = max((spaced / "kill_half").iterdir()).relative_to(runs.parent)
    done = call("list", "--status", "--out", "all runs")
    assert f"next: chaoslab show '{newest}'   " in done.stderr


def test_more_runs_are_made_of_the_plan_as_it_was_carried_out(runs: Path) -> None:
    newest = record(runs, {"rejoin": 0.5}).directory.path / RESOLVED_PLAN
    for words in (("list", "--status", "--max-age", "1m"), ("compare", "kill_half")):
        assert f"chaoslab run {newest.relative_to(Path.cwd())}" in call(*words).stderr


def test_trend_takes_the_file_of_a_plan_and_names_the_nearest_of_an_unknown_one(runs: Path) -> None:
    record(runs, {"rejoin": 0.5})
    Path("mine.yaml").write_text("version: 1\nname: kill_half\n")
    found = json.loads(call("compare", "mine.yaml", "--json").stdout)
    assert (found["plan"], len(found["runs"])) == ("kill_half", 1)
    done = call("compare", "kil_half")
    assert (done.exit_code, "kill_half" in done.stderr) == (2, True)


def test_status_shows_each_plan_and_the_worst_is_its_exit_code(runs: Path) -> None:
    assert call("list", "--status").exit_code == 3, "no run is no pass"
    record(runs, {"rejoin": 0.5}, plan="good")
    for words, code in (((), 3), (("--any-code",), 0), (("--any-code", "--max-age", "1h"), 3)):
        assert call("list", "--status", *words).exit_code == code
    record(runs, {"rejoin": -0.5}, plan="bad")
    done = call("list", "--status", "--any-code")
    assert done.exit_code == 1
    assert "\n1 of 2 plans passes\n" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_a_damaged_record_hides_no_other(runs: Path) -> None:
    for day in range(3):
        record(runs, {"rejoin": 0.5}, day=day)
    damaged = next(runs.glob("kill_half/*-000002"))
    (damaged / "run.json").write_text("")
    states = [(one["state"], one["damage"]) for one in json.loads(call("list", "--json").stdout)]
    assert states[1:] == [("PASS", None)] * 2
    assert "run.json" in states[0][1]
    assert call("list", "--verdict", "damaged").stdout.count("kill_half") == 1
    for words, code in (("list", 0), ("list --status --any-code", 3), ("compare kill_half", 0)):
        done = call(*words.split())
        assert (done.exit_code, "damaged" in done.stdout) == (code, True), words
    shown = call("show", "000002")
    assert (shown.exit_code, "run.json" in shown.stderr) == (4, True)
    assert call("plan", "kill_half").exit_code == 0


NEEDED = {
    "show": {"journal.jsonl", "verdict.json", "run.json"},
    "show --judge": {"journal.jsonl", "run.json"},
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    ["journal.jsonl", "verdict.json", "run.json", "plan.resolved.yaml", "plan.source.yaml",
     "schedule.jsonl"],
)  # fmt: skip
def test_no_command_waits_for_a_pipe_in_a_record(runs: Path, name: str) -> None:
    text = "version: 1\nname: kill_half\nseed: 1\n"
    path = record(runs, {"rejoin": -0.5}, text=text).directory.path
    for file in (name, "nodes/learner-1/1/stderr.log"):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).unlink(missing_ok=True)
        os.mkfifo(path / file)
    asked = [
        ["list"], ["list", "--status"], ["doctor", "gc"], ["compare", "kill_half"],
        ["compare", str(path), "latest"], ["replay", str(path)],
        ["show", str(path), "--html", "page.html"], ["show", str(path)],
        ["show", str(path), "--judge"],
    ]  # fmt: skip
    for words in asked:
        done = call(*words)
        assert done.exit_code in range(5), (words, done.output)
        assert "Traceback" not in done.output
        if name in NEEDED.get(" ".join(word for word in words if word != str(path)), ()):
            assert (done.exit_code, "not a regular file" in done.stderr) == (4, True)


def test_gc_keeps_a_damaged_record_unless_asked(runs: Path) -> None:
    for day in range(3):
        record(runs, {"rejoin": 0.5}, day=day)
    damaged = next(runs.glob("kill_half/*-000000"))
    (damaged / "run.json").write_text("")
    os.utime(damaged, (0, 0))
    assert call("doctor", "gc", "--older-than", "1h", "--yes").exit_code == 0
    assert damaged.is_dir()
    assert not list(runs.glob("kill_half/*-000001"))
    assert call("doctor", "gc", "--older-than", "1h", "--failing", "--yes").exit_code == 0
    assert not damaged.exists()


@pytest.mark.parametrize("started", ["at noon", "2999-01-01T00:00:00+00:00", 7, "0001-01-01", None])
def test_a_record_without_a_sound_beginning_hides_no_other(runs: Path, started: Json) -> None:
    record(runs, {"rejoin": 0.5}, ended="2026-11-01T00:00:41+00:00")
    record(runs, {"rejoin": 0.5}, day=1, started=started, ended="2026-11-02T00:00:41+00:00")
    for words in ("list", "list --status", "doctor gc"):
        done = call(*words.split())
        assert done.exit_code in {0, 3}, done.output
    assert re.search(r" 41 s\b", call("list").stdout)
    found = json.loads(call("list", "--json").stdout)
    assert [one["lasted_s"] for one in found] == [None, 41.0]


def test_a_pass_on_an_attached_training_that_holds_no_more_is_not_to_be_run(runs: Path) -> None:
    text = f"{PLAN}fleet: {{kind: compose}}\n"
    record(runs, {"rejoin": 0.5}, text=text, code={"code": "other"})
    assert "next: chaoslab show 000000 " in call("list", "--status").stderr
    assert "next: chaoslab show 000000 " in call("compare", "kill_half").stderr


def test_a_list_says_the_seed_and_how_long_was_simulated(runs: Path) -> None:
    ended = "2026-11-01T00:00:41+00:00"
    record(runs, {"rejoin": 0.5}, seed=4711, ended=ended, simulated_s=26.5)
    shown = call("list").stdout
    assert re.search(r" 26 s sim +4711", shown)
    assert " 41 s" not in shown


def test_gc_lists_and_removes_only_by_rules_and_with_yes(runs: Path) -> None:
    for day in range(3):
        record(runs, {"rejoin": 0.5}, day=day)
    assert re.search(r"kill_half +3 +3 +- +- ", call("doctor", "gc", "--yes").stdout)
    listed = call("doctor", "gc", "--older-than", "1h")
    assert "would remove 2 of 3 records" in listed.stdout
    assert re.search(r"kill_half/000000 +PASS .* too old", listed.stdout)
    assert len(list(runs.glob("kill_half/*"))) == 3
    done = call("doctor", "gc", "--older-than", "1h", "--yes", "--json")
    assert done.exit_code == 0
    assert [one["why"] for one in json.loads(done.stdout)["removed"]] == ["too old"] * 2
    assert len(list(runs.glob("kill_half/*"))) == 1


def test_gc_sums_many_records_by_plan(runs: Path) -> None:
    for day in range(15):
        record(runs, {"rejoin": 0.5}, day=day)
        record(runs, {"rejoin": 0.5 - day % 2}, day=day, plan="corrupt_checkpoint")
    lines = call("doctor", "gc", "--older-than", "1h").stdout.splitlines()
    assert len(lines) < 10
    assert max(map(len, lines)) <= 80
    assert any(re.search(r"kill_half +15 +15 .* 14 ", line) for line in lines)
    assert any(re.search(r"corrupt_checkpoint +15 +8 +7 .* 7 ", line) for line in lines)
    found = json.loads(call("doctor", "gc", "--older-than", "1h", "--json").stdout)
    kept = [one["keep"] for one in found["kept"]]
    counts = (
        len(found["removed"]),
        kept.count("not PASS"),
        kept.count("among the newest of its plan"),
    )
    assert counts == (21, 7, 2)


def test_two_ids_with_the_same_end_are_shown_whole(runs: Path) -> None:
    first = record(runs, {"rejoin": 0.5}).directory.path
    second = first.with_name("20261103T000000Z-000000")
    shutil.copytree(first, second)
    said = call("compare", first.name, second.name).stdout
    assert all(f"kill_half/{one.name}" in said for one in (first, second))
