"""Who works touches a file; who only lives does not."""

from pathlib import Path

import pytest

from chaoslab.core.events import Payload
from chaoslab.core.payloads import CheckpointSaved, LearnerStep
from chaoslab.diloco.node import health
from chaoslab.diloco.node.health import HealthFile
from tests.diloco.known import WHOSE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "health"


def test_a_touch_makes_the_file_and_later_ones_make_it_young(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_EVERY_S", 0.0)
    mine = HealthFile(file)
    mine.touch()
    before = file.stat().st_mtime_ns
    while file.stat().st_mtime_ns == before:  # a touch is all that can change it
        mine.touch()


def test_it_is_touched_seldom(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_EVERY_S", 3600.0)
    mine = HealthFile(file)
    mine.touch()
    file.unlink()
    mine.touch()
    assert not file.exists()


def test_a_file_that_cannot_be_touched_stops_nobody(tmp_path: Path) -> None:
    HealthFile(tmp_path / "no" / "such" / "folder").touch()


STEPPED = LearnerStep(**WHOSE, epoch=1, step=1, step_s=0.1, loss=None, tokens=9, data_position=1)
SAVED = CheckpointSaved(**WHOSE, file="1", step=0, bytes=9, took_s=0.1)


@pytest.mark.parametrize(("said", "touches"), [(STEPPED, True), (SAVED, False)])
def test_a_learner_is_healthy_when_it_steps_and_not_because_it_speaks(
    file: Path, said: Payload, touches: bool
) -> None:
    emitted = list[Payload]()
    HealthFile(file).touched_by(emitted.append)(said)
    assert emitted == [said]
    assert file.exists() is touches
