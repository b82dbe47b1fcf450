"""The run directory: made, linked, found again, and filled."""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.plan.model import Injection, Pick, Trigger
from chaoslab.record.run_directory import RunDirectory, fingerprint, list_runs, plain
from tests.virtual_clock import VirtualClock


def made(root: Path, plan: str = "kill_half", *, minute: int = 0) -> RunDirectory:
    """A run of a plan at 12:<minute> of one day, as far along as its first fact."""
    clock = VirtualClock(datetime(2026, 11, 20, 12, minute, tzinfo=UTC))
    run = RunDirectory.create(root, plan, clock)
    run.note(plan=plan)
    return run


# ---------------------------------------------------------------- making


def test_a_run_lies_under_its_plan_with_the_time_and_a_short_id(tmp_path: Path) -> None:
    run = made(tmp_path / "runs")
    assert run.path.parent == tmp_path / "runs" / "kill_half"
    assert re.fullmatch(r"20261120T120000Z-[0-9a-f]{6}", run.id)
    assert (run.plan_name, run.nodes.is_dir()) == ("kill_half", True)


def test_links_to_the_newest_run_of_a_plan_and_of_all_can_be_moved(tmp_path: Path) -> None:
    made(tmp_path / "runs")
    first, other = made(tmp_path / "runs", minute=5), made(tmp_path / "runs", "kill_one", minute=9)
    folder = (tmp_path / "runs").rename(tmp_path / "archive")
    assert (folder / "latest").resolve() == folder / "kill_one" / other.id
    assert (folder / "kill_half" / "latest").resolve() == folder / "kill_half" / first.id


def test_git_ignores_a_folder_of_records_that_did_not_exist_before(tmp_path: Path) -> None:
    made(tmp_path / "new" / "runs")
    made(tmp_path)
    assert (tmp_path / "new/runs/.gitignore").read_text() == "*\n"
    assert not (tmp_path / ".gitignore").exists(), "what else lies there is not ours"


def test_runs_of_the_same_second_do_not_collide(tmp_path: Path) -> None:
    assert len({made(tmp_path).path for _ in range(5)}) == 5


@pytest.mark.parametrize("name", ["a/b", "../up", ".hidden", "latest", ""])
def test_a_plan_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlanError):
        made(tmp_path, name)


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(PlanError, match="runs"):
        made(tmp_path / "runs")


# ---------------------------------------------------------------- finding


def test_a_run_is_found_by_path_latest_plan_id_and_short_id(tmp_path: Path) -> None:
    older, newer = made(tmp_path), made(tmp_path, minute=5)
    other = made(tmp_path, "pause_one", minute=9)
    assert RunDirectory.open(tmp_path / "kill_half" / "latest", root=tmp_path) == newer
    for without in ((), tuple(tmp_path.rglob("latest"))):  # as in a copy that has no links
        for link in without:
            link.unlink()
        for run, given in (
            (older, older.path), (older, older.id), (older, older.id[:-2]),
            (older, f"kill_half/{older.id}"), (older, older.id.split("-")[1]),
            (newer, "kill_half"), (other, "latest"),
        ):  # fmt: skip
            assert RunDirectory.open(given, root=tmp_path) == run, given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("20261120T12", r"120500Z-.*120000Z-"),
        ("kil_half", "'kill_half'"),
        ("", "run"),
        (Path("notes"), "'notes'"),
    ],
)
def test_what_names_no_run_or_several_is_refused_with_what_is_near(
    tmp_path: Path, given: str | Path, said: str
) -> None:
    made(tmp_path)
    made(tmp_path, minute=5)
    (tmp_path / "notes").mkdir()
    for wanted, told in ((given, said), (tmp_path / "notes", "run.json")):
        with pytest.raises(PlanError, match=told):
            RunDirectory.open(wanted, root=tmp_path)
    with pytest.raises(PlanError):
        RunDirectory.open("latest", root=tmp_path / "runs")


def test_a_deleted_latest_run_is_not_found(tmp_path: Path) -> None:
    older = made(tmp_path)
    shutil.rmtree(made(tmp_path, minute=5).path)
    with pytest.raises(PlanError, match="'latest'"):
        RunDirectory.open("latest", root=tmp_path)
    assert RunDirectory.open(older.id, root=tmp_path) == older


def test_runs_are_listed_newest_first_without_links_twins_and_strangers(tmp_path: Path) -> None:
    older = made(tmp_path)
    newer = made(tmp_path, "pause_one", minute=5)
    newer.make_twin().note(plan="pause_one")
    (tmp_path / ".twins" / "abc").mkdir(parents=True)
    (tmp_path / ".twins" / "abc" / "run.json").write_text("{}")
    (tmp_path / "notes" / "mine").mkdir(parents=True)
    assert list_runs(tmp_path) == (newer, older)


def test_a_copy_that_made_folders_of_links_has_no_run_twice(tmp_path: Path) -> None:
    run = made(tmp_path / "runs")
    shutil.copytree(tmp_path / "runs", tmp_path / "copy", symlinks=False)
    assert (tmp_path / "copy" / "latest").is_dir()
    assert [one.id for one in list_runs(tmp_path / "copy")] == [run.id]


# ---------------------------------------------------------------- writing


def test_facts_are_added_and_replaced_key_by_key(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.note(seed=7, exit_code=None)
    run.note(exit_code=0)
    assert run.facts == {"plan": "kill_half", "seed": 7, "exit_code": 0}
    assert not list(run.path.glob(".*"))


@pytest.mark.parametrize("text", [b'{"plan": ', b"\xff", b"[]"])
def test_facts_that_cannot_be_read_are_an_error_and_not_empty(tmp_path: Path, text: bytes) -> None:
    run = made(tmp_path)
    (run.path / "run.json").write_bytes(text)
    with pytest.raises(FleetError, match=r"run\.json"):
        run.note(seed=7)


def test_how_long_a_run_took_is_known_at_its_end_if_its_times_are_sound(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.note(started="2026-11-20T12:00:00.000Z")
    assert run.lasted_s is None
    run.note(ended="2026-11-20T12:00:41.500Z")
    assert run.lasted_s == 41.5
    for ended in ("at noon", "2026-11-20T12:00:41", "2026-11-20T11:59:59.000Z", 7, None):
        run.note(ended=ended)
        assert run.lasted_s is None


def test_plan_schedule_and_evidence_are_kept_with_the_run(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.write_plan(source="name: a\n", resolved="name: a\nseed: 0\n")
    run.write_schedule(['{"seed":0}', '{"injection":0}'])
    run.write_evidence("injection-0", {"measured": {"exits": 1}})
    assert [(run.path / f"plan.{one}.yaml").read_text() for one in ("source", "resolved")] == [
        "name: a\n", "name: a\nseed: 0\n",
    ]  # fmt: skip
    assert (run.path / "schedule.jsonl").read_text() == '{"seed":0}\n{"injection":0}\n'
    filed = json.loads((run.evidence / "injection-0.json").read_text())
    assert filed == {"measured": {"exits": 1}}
    (run.evidence / "injection-1.json").mkdir()
    with pytest.raises(FleetError, match="injection-1"):
        run.write_evidence("injection-1", {})


def test_last_words_are_those_of_the_latest_incarnation(tmp_path: Path) -> None:
    run = made(tmp_path)
    for incarnation in (1, 9, 10):
        log = run.nodes / "learner-0" / str(incarnation) / "stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"life {incarnation} line {n}\n" for n in range(20)))
    assert run.stderr_tail("learner-0", lines=2) == "life 10 line 18\nlife 10 line 19"
    assert run.stderr_tail("learner-7") == ""


# ---------------------------------------------------------------- values


def test_values_become_plain_json_or_are_refused() -> None:
    injection = Injection(
        number=3, spec="a", fault="process.kill", settings=Pick.RANDOM, targets=("learner-0",),
        trigger=Trigger(round=4), for_s=None,
    )  # fmt: skip
    found = plain(injection)
    assert json.loads(json.dumps(found)) == found
    with pytest.raises(TypeError):
        plain(object())


def test_equal_values_have_equal_fingerprints_and_others_do_not() -> None:
    first = fingerprint({"a": Trigger(round=4), "b": 1})
    assert first == fingerprint({"b": 1, "a": Trigger(round=4)})
    assert first != fingerprint({"a": Trigger(round=5), "b": 1})
    assert re.fullmatch(r"[0-9a-f]{64}", first)


def test_a_link_that_lies_in_the_way_of_run_json_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.new").symlink_to(tmp_path / "precious")
    RunDirectory(path=tmp_path / "run").note(outcome="completed")
    assert (tmp_path / "precious").read_text() == "mine"
    assert RunDirectory(path=tmp_path / "run").facts == {"outcome": "completed"}
