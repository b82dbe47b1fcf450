"""What a plan names outside itself is looked for before anything starts."""

import json
import os
import sys
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.diloco.model import data as text_of
from chaoslab.plan.file import load, missing
from chaoslab.plan.model import FaultPlan
from tests.plan.file.catalogue import HEAD, KINDS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


TASK = "raise SystemExit('imported')\ndef make(data): ..."


def looked_for(training: str, *overrides: str) -> FaultPlan:
    path = Path("trial.yaml")
    path.write_text(f"{HEAD}training: {{{training}}}\n", encoding="utf-8")
    plan, document = load(path, KINDS, overrides=overrides)
    document.refuse(missing(plan))
    return plan


def told(training: str, *overrides: str) -> str:
    with pytest.raises(PlanError) as refused:
        looked_for(training, *overrides)
    return str(refused.value)


@pytest.mark.parametrize("data", ["book.txt", "books", "books/**/*.txt", "*.txt", "stdlib"])
def test_text_is_found_as_a_file_a_folder_or_a_pattern(folder: Path, data: str) -> None:
    (folder / "books" / "old").mkdir(parents=True)
    (folder / "books" / "old" / "one.txt").write_text("It was the best of times. " * 40_000)
    (folder / "book.txt").write_text("It was the worst of times. " * 40_000)
    looked_for(f"data: '{data}'")
    if data not in ("*.txt", "stdlib"):
        looked_for(f"data: '{folder / data}'")


@pytest.mark.parametrize(
    "data",
    ["/nonexistent", "books", "*.text", "hidden", "empty.txt", "x" * 5000, '"a\\0b"', '"a\\0*"'],
    ids=lambda data: data[:20],
)
def test_text_that_is_nowhere_is_refused_at_its_place(folder: Path, data: str) -> None:
    (folder / "hidden").mkdir()
    (folder / "hidden" / ".one.txt").write_text("unseen")
    (folder / "empty.txt").touch()
    said = told(f"learners: 2, data: {json.dumps(data) if data[0] == '*' else data}")
    assert said.startswith("trial.yaml:3:31: training.data: ")


def test_a_secret_in_the_name_of_the_data_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS", "hunter2")
    assert "hunter2" not in told("data: '/nonexistent/${env:CORPUS}'")


def test_a_task_is_found_in_this_folder_and_on_the_path_and_never_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("mine", "elsewhere/theirs"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text(TASK)
        (folder / package / "task.py").write_text(TASK)
    (folder / "alone.py").write_text(TASK)
    (folder / "spread" / "deep").mkdir(parents=True)
    (folder / "spread" / "deep" / "task.py").write_text(TASK)
    monkeypatch.syspath_prepend(os.fspath(folder / "elsewhere"))
    for task in ("mine.task", "mine", "alone", "spread.deep.task", "theirs.task", "sys"):
        looked_for(f"task: '{task}:make', data: 's3://anything'")
    assert not {"mine", "alone", "spread", "theirs"} & set(sys.modules)


def test_a_program_that_is_nowhere_is_refused_at_its_place(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "learner.py").write_text(TASK)
    looked_for("", "fleet.programs.learner=mine.learner variant-b")
    assert "fleet.programs.syncer: " in told("", "fleet.programs.syncer=mine.syncer")


@pytest.mark.parametrize(
    "text",
    [
        "def make(data): ...",
        "class make: ...",
        "try:\n    from fast import build as make\nexcept ImportError:\n    make = None",
        "import functools, make",
        "from .shared import *",
        "def __getattr__(name): ...",
    ],
)
def test_whatever_binds_the_name_of_a_task_is_believed(folder: Path, text: str) -> None:
    (folder / "mine.py").write_text(text)
    looked_for("task: 'mine:make'")


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("foo.bar:baz", ""),
        ("mine.tsk:make", ""),
        ("mine.task.more:make", ""),
        *(("mine.task:make", text) for text in (
            "def mke(data): ...", "", "def other():\n    make = 1", "print(make)",
            "def make(data):\n    return (",
        )),
    ],
)  # fmt: skip
def test_a_task_that_is_nowhere_is_refused_at_its_place(folder: Path, task: str, text: str) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "task.py").write_text(text)
    assert told(f"task: '{task}'").startswith("trial.yaml:3:18: training.task: ")


@pytest.mark.parametrize("learners", [1, 3, 8])
@pytest.mark.parametrize("sequence", [64, 200])
@pytest.mark.parametrize("batch", [1, 33, 64])
def test_text_is_refused_exactly_where_a_learner_would_refuse_it(
    folder: Path, learners: int, sequence: int, batch: int
) -> None:
    shape = f"learners: {learners}, inner: {{sequence: {sequence}, batch: {batch}}}"
    needed = text_of._bytes_needed(sequence, batch, learners)
    (folder / "text").write_bytes(b"x" * needed)
    looked_for(f"{shape}, data: text")
    next(
        text_of.batches(
            text_of.open_text("text"),
            sequence=sequence, batch=batch, shard=(learners - 1, learners), seed=0, position=0,
        )
    )  # fmt: skip
    (folder / "text").write_bytes(b"x" * (needed - 1))
    assert "training.data: " in told(f"{shape}, data: text")
