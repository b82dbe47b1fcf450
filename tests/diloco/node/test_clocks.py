"""The test hook on a node's clocks: what its code reads, what is said of it, and how it ends."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from chaoslab.core.events import Payload
from chaoslab.core.payloads import ClockRead
from chaoslab.diloco.node import clocks
from chaoslab.diloco.node.clocks import Clocks
from chaoslab.diloco.node.hooks import Hooks
from tests.diloco.known import NODE

WALL_S, MONOTONIC_S = 1_800_000_000.0, 50.0


class Hooked:
    """A node's hook on clocks that stay the same unless told, and what it said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        self.told: list[tuple[float, float]] = []
        monkeypatch.setattr(clocks, "_REAL_WALL_NS", lambda: self._ns(WALL_S))
        monkeypatch.setattr(clocks, "_REAL_MONOTONIC_NS", lambda: self._ns(MONOTONIC_S))
        self.clocks = Clocks(self._emit, NODE)

    def _ns(self, began_s: float) -> int:
        return round((began_s + self.passed_s) * 1e9)

    def _emit(self, said: Payload) -> None:
        assert isinstance(said, ClockRead)
        self.told.append((said.wall_s, said.monotonic_s))

    def reads(self) -> tuple[float, float]:
        """What code of the process reads: seconds of the wall clock and of the monotonic one."""
        assert (time.time(), time.monotonic()) == (time.time_ns() / 1e9, time.monotonic_ns() / 1e9)
        return time.time() - WALL_S, time.monotonic() - MONOTONIC_S


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooked]:
    """The process gets its own clocks back."""
    for name in ("time", "time_ns", "monotonic", "monotonic_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))
    yield (hooked := Hooked(monkeypatch))
    hooked.clocks.apply_hook({})


def test_nothing_is_replaced_before_it_is_asked(hooked: Hooked) -> None:
    real = SimpleNamespace(time=time.time, monotonic=time.monotonic)
    hooked.clocks.apply_hook({})
    assert (time.time, time.monotonic) == (real.time, real.monotonic)
    assert hooked.told == []


@pytest.mark.parametrize("step_s", [300.0, -300.0])
def test_a_step_moves_the_wall_clock_alone_and_ends(hooked: Hooked, step_s: float) -> None:
    hooked.clocks.apply_hook({"step_s": step_s})
    assert hooked.reads() == (step_s, 0.0)
    hooked.passed_s = 7.0
    assert hooked.reads() == (step_s + 7.0, 7.0)
    hooked.clocks.apply_hook({})
    assert hooked.reads() == (7.0, 7.0)
    wall_s = [wall_s - WALL_S for wall_s, _ in hooked.told]
    assert wall_s == [0.0, step_s, 7.0]


def test_a_drift_changes_both_rates_and_the_monotonic_clock_never_goes_back(
    hooked: Hooked,
) -> None:
    hooked.clocks.apply_hook({"rate": 1.5})
    hooked.passed_s = 10.0
    assert hooked.reads() == (15.0, 15.0)
    hooked.clocks.apply_hook({})
    assert hooked.reads() == (10.0, 15.0)
    hooked.passed_s = 12.0
    assert hooked.reads() == (12.0, 17.0)


def test_another_request_goes_on_from_what_is_shown(hooked: Hooked) -> None:
    hooked.clocks.apply_hook({"rate": 0.5})
    hooked.passed_s = 10.0
    hooked.clocks.apply_hook({"rate": 2.0})
    hooked.passed_s = 11.0
    assert hooked.reads() == (7.0, 7.0)


@pytest.mark.parametrize("facts", ['"step_s": "x"', '"rate": 0', '"rate": -1', '"rate": true'])
def test_what_is_no_clock_is_passed_over(
    hooked: Hooked, capsys: pytest.CaptureFixture[str], facts: str
) -> None:
    hooks = Hooks()
    hooks.on("clock", hooked.clocks.apply_hook)
    hooks.handle_line(f'{{"do": "clock", {facts}}}')
    assert "ignored" in capsys.readouterr().err
    assert hooked.told == []
