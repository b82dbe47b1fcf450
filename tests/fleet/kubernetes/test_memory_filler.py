"""The program that fills a container's memory: what it takes for a limit."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoslab.fleet.kubernetes import memory_filler


@pytest.mark.parametrize(("said", "limit"), [
    ("max\n", None), ("9223372036854771712\n", None), ("67108864\n", 67108864),
])  # fmt: skip
def test_a_limit_is_the_kernels_word(
    said: str, limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memory.limit_in_bytes"
    file.write_text(said)
    monkeypatch.setattr(memory_filler, "LIMITS", (tmp_path / "memory.max", file))
    assert memory_filler.limit_bytes() == limit


def test_without_memory_cgroups_there_is_no_limit_and_nothing_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory_filler, "LIMITS", (tmp_path / "none",))
    assert memory_filler.main(1.0) == 1
    assert "fleet.memory" in capfd.readouterr().err


def test_pages_are_held_up_to_the_limit_and_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, held = [0.0], []

    def write(_: int, piece: bytes) -> int:
        held.append(len(piece))
        now[0] += 1.0
        return len(piece)

    system = SimpleNamespace(memfd_create=lambda _: 0, write=write)
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, 100.0))
    monkeypatch.setattr(memory_filler, "os", system)
    monkeypatch.setattr(memory_filler, "time", clock)
    memory_filler.fill(3 << 20, 50.0)
    assert sum(held) == 3 << 20
