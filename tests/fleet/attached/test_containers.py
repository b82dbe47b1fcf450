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
from chaoslab.fleet.attached.node import AttachedPlace
from chaoslab.fleet.attached.restoring import ContainerRecipe
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.private_folder import PrivateFolder
from chaoslab.undo.base import NoUndoLog
from tests.virtual_clock import VirtualClock

FOREVER = 1e6


class Ending:
    """An engine that ends the log of a container, which lives `until_s`. From `holds_s` on it does
    not answer to the thread of the log, until it `answers`.
    """

    url = "unix:///x"

    def __init__(self, *, until_s: float, clock: VirtualClock) -> None:
        self._until_s, self._clock, self.holds_s, self.asked = until_s, clock, FOREVER, 0
        self.is_held, self.answers = threading.Event(), threading.Event()

    def inspect(self, _: str) -> SimpleNamespace:
        self.asked += 1
        if self.asked > 1 and self._clock.now_s() >= self.holds_s:
            self.is_held.set()
            self.answers.wait(20)
            self.holds_s = FOREVER
        is_alive = self._clock.now_s() < self._until_s
        return SimpleNamespace(
            pid=5, image="i", started_s=1.0, started_at="a", is_alive=is_alive, exit_code=0,
            was_out_of_memory=False, status="running" if is_alive else "exited",
        )  # fmt: skip

    def printed(self, *_: object, **__: object) -> Iterator[bytes]:
        yield b"hello\n"

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The time of the thread that looks at the container: as long as it sleeps."""
    clock = VirtualClock()
    sleep = SimpleNamespace(
        monotonic=clock.now_s, sleep=lambda for_s: clock.sleep_until(clock.now_s() + for_s)
    )
    monkeypatch.setattr(containers, "time", sleep)
    return clock


def silent(engine: Any, clock: VirtualClock, folder: Path, monkeypatch: Any) -> AttachedContainer:
    """A learner whose log ends at once."""
    monkeypatch.setattr(containers.Engine, "connect", lambda _: engine)
    return AttachedContainer(
        NodeSpec(name="learner-0", role=Role.LEARNER, command=()), 1,
        AttachedPlace(
            run_directory=folder, clock=clock, undo_log=NoUndoLog(),
            recipes=PrivateFolder(folder, NoUndoLog()),
        ),
        engine=engine, since_s=0.0,
        recipe=ContainerRecipe(node="learner-0", engine="", container="day-1", networks={}),
    )  # fmt: skip


def await_thread() -> None:
    for thread in threading.enumerate():
        if thread.name == "log of day-1":
            thread.join(20)


def test_a_log_that_ends_although_its_container_runs_is_an_error(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Ending(until_s=11.0, clock=clock)
    engine.holds_s = 10.5
    life = silent(engine, clock, tmp_path, monkeypatch)
    engine.is_held.wait(20)
    assert 10.5 <= clock.now_s() < 11.1
    assert engine.asked < 40, "ever less often"
    assert not life.has_exited
    with pytest.raises(FleetError, match="learner-0"):
        life.read()
    engine.answers.set()
    await_thread()
    assert life.has_exited
    assert [seen.data["exit_code"] for seen in life.finish()] == [0]


def test_a_container_that_ends_soon_after_its_log_is_noticed_soon(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = silent(Ending(until_s=0.1, clock=clock), clock, tmp_path, monkeypatch)
    await_thread()
    assert clock.now_s() < 0.25
    assert life.has_exited
    life.finish()


def test_an_engine_that_does_not_answer_keeps_nobody_waiting(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Ending(until_s=0.0, clock=clock)
    engine.holds_s = 0.0
    life = silent(engine, clock, tmp_path, monkeypatch)
    engine.is_held.wait(20)
    clock.sleep_until(20.0)
    assert not life.has_exited
    assert life.read() == []
    engine.answers.set()
    await_thread()
    assert life.has_exited
    asked = engine.asked
    assert [seen.data["exit_code"] for seen in life.finish()] == [0]
    assert engine.asked == asked
