"""The fault-free twin: what it is, when it can be used again, and when it is kept."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.checks.twin import why_not_whole
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, Kind
from chaoslab.fleet.docker.settings import Containers, Docker
from chaoslab.plan.model import (
    Baseline,
    FaultPlan,
    FaultSpec,
    Outage,
    Stop,
    Target,
    Training,
    Trigger,
)
from chaoslab.plan.model.training_parts import Algorithm
from chaoslab.prepare import named_files
from chaoslab.record.history import History
from chaoslab.record.journal import Journal
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run import twin
from chaoslab.run.interrupts import Interrupts
from chaoslab.run.run import Basis, Run
from tests.fake_faults import FakeKill
from tests.fake_nodes import Troubles
from tests.fakes import FakeFleet
from tests.virtual_clock import VirtualClock

PLAN = FaultPlan(
    name="fake",
    seed=3,
    twin=True,
    training=Training(stop=Stop(rounds=40)),
    baseline=Baseline(warmup=2, window=8),
    faults=(
        FaultSpec(
            id="half-dies",
            fault="process.kill",
            settings=FakeKill(),
            target=Target(share=0.5),
            at=Trigger(round=20),
            outage=Outage(seconds=5.0),
        ),
    ),
)


HALF_A_CORE = Docker(containers=Containers(cpus=0.5))


def ran(
    folder: Path,
    *,
    troubles: Troubles | None = None,
    script: Callable[[FakeFleet, Interrupts], None] | None = None,
    is_twin: bool = True,
) -> RunDirectory:
    """The twin/ of a run after its twin ran there."""
    clock = VirtualClock()
    fleet, interrupts = FakeFleet(clock, troubles), Interrupts()
    directory = RunDirectory.create(folder, PLAN.name, clock).make_twin()
    if script is not None:
        script(fleet, interrupts)
    with Journal(directory.path, clock) as journal:
        run = Run(
            twin.without_faults(PLAN, None),
            (),
            fleet=fleet,
            journal=journal,
            directory=directory,
            interrupts=interrupts,
        )
        basis = Basis(provenance=twin.provenance(PLAN), is_twin=is_twin)
        outcome = run.execute(basis).value
        directory.note(outcome=outcome, journal=journal.seal.to_json())
    return directory


@pytest.fixture
def run(tmp_path: Path) -> History:
    """The run that a twin is for."""
    return History.read(ran(tmp_path / "run", is_twin=False).path)


def empty(folder: Path) -> RunDirectory:
    return RunDirectory.create(folder, PLAN.name, VirtualClock()).make_twin()


# ---------------------------------------------------------------- whose twin it is


def key_of(plan: FaultPlan) -> str | None:
    return twin.key(plan, twin.provenance(plan))


@pytest.mark.parametrize(
    ("other", "is_another"),
    [
        (replace(PLAN, name="other", description="new", faults=(), settle_s=1.0), False),
        (replace(PLAN, seed=4), True),
        (replace(PLAN, training=replace(PLAN.training, learners=3)), True),
        (replace(PLAN, training=replace(PLAN.training, stop=Stop(rounds=41))), True),
        (replace(PLAN, training=replace(PLAN.training, model="micro")), True),
        (replace(PLAN, fleet=replace(PLAN.fleet, kind="docker", settings=HALF_A_CORE)), True),
    ],
    ids=["faults and checks", "seed", "learners", "stop", "model", "containers"],
)
def test_plans_that_train_otherwise_have_twins_of_their_own(
    other: FaultPlan, is_another: bool
) -> None:
    assert (key_of(other) != key_of(PLAN)) is is_another


def test_data_whose_content_changed_needs_a_new_twin_and_a_copy_of_it_none(tmp_path: Path) -> None:
    text = tmp_path / "books" / "one.txt"
    text.parent.mkdir()
    text.write_text("It was the best of times")

    def key(data: str) -> str | None:
        return key_of(replace(PLAN, training=replace(PLAN.training, data=data)))

    sources = [str(text), str(text.parent), str(tmp_path / "**" / "*.txt")]
    before = [key(source) for source in sources]
    assert before == [key(source) for source in sources]
    changed = text.stat().st_mtime_ns
    text.touch()
    assert before == [key(source) for source in sources]
    text.write_text("It was the best of timed")
    os.utime(text, ns=(changed, changed))
    after = [key(source) for source in sources]
    assert all(old != new for old, new in zip(before, after, strict=True))


def test_a_task_or_a_program_of_ones_own_has_a_twin_until_its_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "my_package_of_tasks"
    package.mkdir()
    for name in ("__init__", "task", "program"):
        (package / f"{name}.py").write_text("def make(): ...\n")
    task, program = f"{package.name}.task:make", {"learner": f"{package.name}.program"}
    plans = (
        replace(PLAN, training=replace(PLAN.training, task=task)),
        replace(PLAN, fleet=replace(PLAN.fleet, programs=program)),
    )
    before = [key_of(plan) for plan in plans]
    assert not {None, key_of(PLAN)} & set(before)
    (package / "helper.py").write_text("WIDTH = 3\n")
    after = [key_of(plan) for plan in plans]
    assert not {None, *before} & set(after)
    (package / "sizes.json").write_text("{}")
    assert not set(after) & {key_of(plan) for plan in plans}, "files that are no sources count, too"
    shutil.rmtree(package)
    assert [key_of(plan) for plan in plans] == [None, None]


@pytest.mark.parametrize(
    ("file", "is_loaded"),
    [("my_learner.py", True), ("my_model.py", True), ("my_layers/dense.py", True),
     ("my_config.json", True), ("my_other_learner.py", False)],
)  # fmt: skip
def test_what_a_program_imports_or_is_given_needs_a_new_twin_when_it_changes(
    file: str, *, is_loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_layers").mkdir()
    for name, text in {
        "my_learner.py": "def main():\n    import my_model\n",
        "my_model.py": "from my_layers.dense import Dense\nimport nowhere_to_be_found\n",
        "my_layers/__init__.py": "", "my_layers/dense.py": "from . import sizes\n",
        "my_config.json": "{}", "my_other_learner.py": "",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    program = {"learner": "my_learner --config=my_config.json"}
    plan = replace(PLAN, fleet=replace(PLAN.fleet, programs=program))
    before = key_of(plan)
    assert before == key_of(plan) is not None
    with (tmp_path / file).open("a") as changed:
        changed.write("\n")
    assert (key_of(plan) != before) is is_loaded


def test_packages_that_a_program_of_ones_own_can_import_need_a_new_twin_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "my_learner.py").touch()
    monkeypatch.syspath_prepend(str(packages))
    plan = replace(PLAN, fleet=replace(PLAN.fleet, programs={"learner": "my_learner"}))
    before = key_of(PLAN), key_of(plan)
    (packages / "torch-2.9.dist-info").mkdir()
    assert (key_of(PLAN) == before[0], key_of(plan) == before[1]) == (True, False)


def test_the_environment_of_a_system_of_others_needs_a_new_twin_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "environment", lambda system: tmp_path / system)
    theirs = replace(PLAN.training, system="torchft", algorithm=Algorithm.DILOCO)
    plan = replace(PLAN, training=theirs)
    before = key_of(plan)
    (tmp_path / "torchft/lib/python3.11/site-packages/torch-2.9.dist-info").mkdir(parents=True)
    assert key_of(plan) != before


def test_a_simulation_runs_no_program_of_the_plan(tmp_path: Path) -> None:
    plan = replace(PLAN, fleet=replace(PLAN.fleet, programs={"learner": "nowhere_to_be_found"}))
    assert key_of(plan) is None
    assert twin.key(plan, twin.provenance(plan, simulated_by="costs")) is not None


@pytest.mark.parametrize(("package", "is_another"), [("diloco", True), ("report", False)])
def test_only_code_that_trains_or_runs_needs_a_new_twin(
    package: str, *, is_another: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("diloco", "report"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text("")
    monkeypatch.setattr(twin, "_PACKAGE", tmp_path)
    before = _key_in_a_new_process(PLAN)
    (tmp_path / package / "module.py").write_text("WIDTH = 3\n")
    assert (_key_in_a_new_process(PLAN) != before) == is_another


def _key_in_a_new_process(plan: FaultPlan) -> str | None:
    """A process reads its own code once."""
    twin._own_code.cache_clear()
    try:
        return key_of(plan)
    finally:
        twin._own_code.cache_clear()


# ---------------------------------------------------------------- keeping


def keep(root: Path, made: RunDirectory) -> bool:
    return twin.keep("abc", root, made, History.read(made.path))


def test_a_whole_twin_is_kept_and_fetched_with_its_journal_and_facts(
    tmp_path: Path, run: History
) -> None:
    made = ran(tmp_path)
    assert keep(tmp_path, made)

    folder = empty(tmp_path)
    assert twin.fetch("abc", tmp_path, folder, run)
    assert folder.facts == made.facts
    assert History.read(folder.path).events == History.read(made.path).events
    kept = tmp_path / ".twins" / "abc"
    assert sorted(path.name for path in kept.iterdir()) == ["journal.jsonl", "run.json"]
    (folder.path.parent / "journal.jsonl").write_text("")
    history = History.read(folder.path.parent)
    assert history.twin is not None
    assert not why_not_whole(history.twin)
    assert keep(tmp_path, made)  # nothing changes
    assert [path.name for path in kept.parent.iterdir()] == ["abc"]


def test_nothing_is_fetched_when_nothing_was_kept(tmp_path: Path, run: History) -> None:
    folder = empty(tmp_path)
    assert not twin.fetch("abc", tmp_path, folder, run)
    assert not (folder.path / "journal.jsonl").exists()


def _edit(kept: Path) -> None:
    journal = kept / "journal.jsonl"
    written = journal.read_bytes()
    journal.write_bytes(written.replace(b'"committed_tokens":', b'"committed_tokens":9', 1))


def _cut(kept: Path) -> None:
    lines = (kept / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (kept / "journal.jsonl").write_bytes(b"".join(lines[:-1]))
    facts = json.loads((kept / "run.json").read_text())
    (kept / "run.json").write_text(json.dumps({**facts, "journal": None}))


@pytest.mark.parametrize("spoil", [_edit, _cut])
def test_a_kept_twin_that_was_spoilt_is_thrown_away(
    tmp_path: Path,
    run: History,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], None],
) -> None:
    keep(tmp_path, ran(tmp_path))
    spoil(tmp_path / ".twins" / "abc")
    folder = empty(tmp_path)
    assert not twin.fetch("abc", tmp_path, folder, run)
    assert str(tmp_path / ".twins" / "abc") in caplog.text
    assert not (folder.path / "journal.jsonl").exists()
    assert not (tmp_path / ".twins" / "abc").exists()
    keep(tmp_path, ran(tmp_path))
    assert twin.fetch("abc", tmp_path, folder, run)


def test_what_was_left_of_a_kept_twin_makes_room_for_a_new_one(
    tmp_path: Path, run: History
) -> None:
    keep(tmp_path, ran(tmp_path))
    (tmp_path / ".twins" / "abc" / "journal.jsonl").unlink()
    assert keep(tmp_path, ran(tmp_path))
    assert twin.fetch("abc", tmp_path, empty(tmp_path), run)


def test_a_spoilt_twin_may_be_thrown_away_by_two_runs_at_once(
    tmp_path: Path, run: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, ran(tmp_path))
    kept = tmp_path / ".twins" / "abc"
    _edit(kept)
    trouble = twin._trouble

    def other_run_is_first(its: History, twin: RunDirectory) -> str:
        shutil.rmtree(kept)
        return trouble(its, twin)

    monkeypatch.setattr(twin, "_trouble", other_run_is_first)
    assert not twin.fetch("abc", tmp_path, empty(tmp_path), run)


def test_a_kept_twin_of_another_run_or_a_shorter_one_is_thrown_away(
    tmp_path: Path, run: History, caplog: pytest.LogCaptureFixture
) -> None:
    keep(tmp_path, ran(tmp_path, is_twin=False))
    assert not twin.fetch("abc", tmp_path, empty(tmp_path), run)
    assert "the run itself" in caplog.text
    keep(tmp_path, ran(tmp_path))
    last = run.of(Kind.EVALUATION_MEASURED)[-1]
    further = {**last.data, "committed_tokens": last.payload.committed_tokens + 1}
    longer = History([replace(e, data=further) if e == last else e for e in run.events])
    assert not twin.fetch("abc", tmp_path, empty(tmp_path), longer)
    assert "committed tokens" in caplog.text


@pytest.mark.parametrize(("times", "is_taken"), [(1.0, True), (0.3, True), (0.2, False)])
def test_a_kept_twin_that_is_far_too_long_for_the_run_is_made_anew(
    tmp_path: Path, run: History, times: float, *, is_taken: bool
) -> None:
    def shorter(event: Event) -> Event:
        tokens = times * event.payload.committed_tokens
        return replace(event, data={**event.data, "committed_tokens": tokens})

    keep(tmp_path, ran(tmp_path))
    short = [shorter(e) if e.kind is Kind.EVALUATION_MEASURED else e for e in run.events]
    assert twin.fetch("abc", tmp_path, empty(tmp_path), History(short)) is is_taken
    assert twin.is_kept("abc", tmp_path) is is_taken


def test_a_place_where_nothing_can_be_kept_is_an_error(tmp_path: Path) -> None:
    made = ran(tmp_path)
    (tmp_path / ".twins").write_text("")
    with pytest.raises(FleetError, match="cannot be kept"):
        keep(tmp_path, made)


def _interrupted(fleet: FakeFleet, interrupts: Interrupts) -> None:
    def interrupt() -> None:
        interrupts.count += 1

    fleet.at(9.0, interrupt)


def _struck(fleet: FakeFleet, _: Interrupts) -> None:
    fleet.at(9.0, lambda: fleet.strike("learner-2"))


@pytest.mark.parametrize(
    ("troubles", "script"),
    [
        (Troubles(), _interrupted),
        (Troubles(), _struck),
        (Troubles(evaluator_exit=1), None),
        (Troubles(lingering=frozenset({"learner-0"})), None),
    ],
    ids=["interrupted", "lost a learner", "not evaluated", "learner had to be ended"],
)
def test_a_twin_that_is_not_whole_is_never_kept(
    tmp_path: Path,
    troubles: Troubles,
    script: Callable[[FakeFleet, Interrupts], None] | None,
) -> None:
    made = ran(tmp_path, troubles=troubles, script=script)
    assert not keep(tmp_path, made)
    assert not (tmp_path / ".twins").exists()
