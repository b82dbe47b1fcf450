"""Attached containers whose log has ended, on an engine that plays them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("docker.errors", reason="the Docker SDK is missing", exc_type=ImportError)

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached import containers
from chaoslab.fleet.attached.containers import AttachedContainer
from chaoslab.fleet.attached.restoring import ContainerRecipe
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place
from chaoslab.undo.base import NoUndoLog
from tests.virtual_clock import VirtualClock

TURN_S = 0.02


class Ending:
    """An engine that ends the log of a container, which lives as long as `is_alive`."""

    url = "unix:///x"

    def __init__(self) -> None:
        self.is_alive, self.asked = True, 0

    def inspect(self, _: str) -> SimpleNamespace:
        self.asked += 1
        return SimpleNamespace(
            pid=5, image="i", started_s=1.0, started_at="a", is_alive=self.is_alive, exit_code=0,
            was_out_of_memory=False, status="running" if self.is_alive else "exited",
        )  # fmt: skip

    def printed(self, *_: object, **__: object) -> Iterator[bytes]:
        yield b"hello\n"

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The time by which the container is looked at."""
    clock = VirtualClock()
    monkeypatch.setattr(containers, "time", SimpleNamespace(monotonic=clock.now_s))
    return clock


def silent(engine: Any, clock: VirtualClock, folder: Path, monkeypatch: Any) -> AttachedContainer:
    """A learner whose log has ended, and was read."""
    monkeypatch.setattr(containers.Engine, "connect", lambda _: engine)
    life = AttachedContainer(
        NodeSpec(name="learner-0", role=Role.LEARNER, command=()), 1,
        Place(run_directory=folder, clock=clock, undo_log=NoUndoLog()), lambda _: "",
        engine=engine, since_s=0.0,
        recipe=ContainerRecipe(node="learner-0", engine="", container="day-1", networks={}),
    )  # fmt: skip
    for thread in threading.enumerate():
        if thread.name == "log of day-1":
            thread.join(20)
    life.read()
    return life


def test_a_log_that_ends_although_its_container_runs_is_an_error(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Ending()
    life = silent(engine, clock, tmp_path, monkeypatch)
    while clock.now_s() < 9.9:
        clock.sleep_until(clock.now_s() + TURN_S)
        assert not life.has_exited
        assert life.read() == []
    assert engine.asked < 40, "not on every turn"
    clock.sleep_until(10.1)
    with pytest.raises(FleetError, match="learner-0"):
        life.read()
    engine.is_alive = False
    clock.sleep_until(11)
    assert life.has_exited
    assert [seen.data["exit_code"] for seen in life.finish()] == [0]


def test_a_container_that_ends_soon_after_its_log_is_noticed_soon(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Ending()
    life = silent(engine, clock, tmp_path, monkeypatch)
    while not life.has_exited:
        clock.sleep_until(clock.now_s() + TURN_S)
        engine.is_alive = clock.now_s() < 0.1
    assert clock.now_s() < 0.25
    life.finish()
