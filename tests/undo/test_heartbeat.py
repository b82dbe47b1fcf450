"""A harness notes every second in which it stalled, and shows its janitor that it lives."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoslab.undo import heartbeat
from chaoslab.undo.heartbeat import UNDONE, Pulse


class Hands:
    """A clock that is moved by hand."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=hands.monotonic))
    return hands


@pytest.fixture
def pulse(hands: Hands, tmp_path: Path) -> Iterator[Pulse]:
    reader, writer = os.pipe()
    yield Pulse(pipe=writer, run_directory=tmp_path, _last_s=hands.now_s)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(("away_s", "noted_s"), [(0.9, None), (1.0, 1.0), (4.0, 4.0)])
def test_a_second_without_a_beat_is_a_silence(
    hands: Hands, pulse: Pulse, away_s: float, noted_s: float | None
) -> None:
    pulse.beat()
    hands.now_s += away_s
    silence = pulse.beat()
    assert (silence.for_s if silence else None) == noted_s
    assert pulse.beat() is None


def test_a_silence_tells_once_what_the_janitor_undid(
    hands: Hands, pulse: Pulse, tmp_path: Path
) -> None:
    (tmp_path / UNDONE).write_text(json.dumps({"did": ["learner-1 was resumed"]}) + "\n")
    for undone in (("learner-1 was resumed",), ()):
        hands.now_s += 6.0
        silence = pulse.beat()
        assert silence is not None
        assert silence.undone == undone
