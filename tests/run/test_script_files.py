"""Progress that is read in files: whose word it is, and what a plan says of the place."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import LearnerStep, LineKind, TrainerSaid
from chaoslab.plan.model import Script
from chaoslab.run.script_files import ScriptFiles
from tests.trainers.script_story import ScriptStory

PROGRESS = r"step (?P<step>\d+) loss (?P<loss>\S+)"


def script(place: str, **settings: object) -> Script:
    known = {"command": "train --rank {rank}", "workers": 2, "progress": PROGRESS}
    return Script(**{**known, "from_": {"file": place}, **settings})  # type: ignore[arg-type]


@contextmanager
def reading(story: ScriptStory, folder: Path, of: Script) -> Iterator[ScriptFiles]:
    with closing(ScriptFiles(of, folder, story.progress, WallClock())) as files:
        yield files


def said(found: list[Observation]) -> list[tuple[str, int, int | None]]:
    payloads = [one.payload for one in found]
    return [(p.node, p.incarnation, p.step) for p in payloads if isinstance(p, TrainerSaid)]


def test_a_file_of_each_worker_is_its_own_word(tmp_path: Path) -> None:
    with reading(ScriptStory(), tmp_path, script("{folder}/{rank}.log")) as files:
        (tmp_path / "1.log").write_text("step 7 loss 2.5\nstep 8 loss 2.4\nste")
        assert said(files.read()) == [("worker-1", 1, 7), ("worker-1", 1, 8)]
        assert files.read() == []


def test_one_file_of_all_is_the_word_of_the_first_that_runs(tmp_path: Path) -> None:
    story, log = ScriptStory(is_one_for_all=True), tmp_path / "all.log"
    with reading(story, tmp_path, script("{folder}/all.log", reports="one")) as files:
        log.write_text("step 7 loss 2.5\n")
        assert said(files.read()) == [("worker-0", 1, 7)]
        story.exit("worker-0", signal="SIGKILL")
        with log.open("a") as more:
            more.write("step 8 loss 2.5\n")
        assert said(files.read()) == [("worker-1", 1, 8)]


def test_what_a_file_holds_of_a_worker_that_does_not_run_is_nobodys_word(tmp_path: Path) -> None:
    story = ScriptStory()
    with reading(story, tmp_path, script("{folder}/{rank}.log")) as files:
        story.exit("worker-1", signal="SIGKILL")
        (tmp_path / "1.log").write_text("step 7 loss 2.5\n")
        assert files.read() == []


def test_a_name_that_no_row_had_is_said_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = {"json_lines": "{folder}/m.jsonl", "loss": "los"}
    with reading(ScriptStory(), tmp_path, script("", from_=place, reports="one")) as files:
        (tmp_path / "m.jsonl").write_text('{"step": 7, "loss": 2.5}\n')
        assert said(files.read()) == [("worker-0", 1, 7)]
        assert not caplog.records
    assert [record.args for record in caplog.records if "los: " in str(record.args)]


@pytest.mark.parametrize(
    ("place", "key"),
    [("stdin", "from"), ({"fiel": "a"}, "from.fiel"), ({"file": "a.log"}, "from")],
)
def test_a_place_that_cannot_be_is_an_error_with_its_key(
    place: str | dict[str, str], key: str
) -> None:
    with pytest.raises(PlanError) as refused:
        Script(command="train {rank}", workers=2, progress=PROGRESS, from_=place)
    assert refused.value.key == key


def test_a_loss_without_a_step_is_that_of_the_next_step() -> None:
    """As of a trainer that draws its steps in a bar and prints its losses in other lines."""
    story = ScriptStory(workers=1)
    for step, loss in ((1, None), (None, 3.5), (2, None), (3, None)):
        story.tell("worker-0", LineKind.PROGRESS, step, loss)
    steps = [event.payload for event in story.history().of(LearnerStep)]
    assert [(one.step, one.loss) for one in steps] == [(1, None), (2, 3.5), (3, None)]
