"""A folder to work in, and the record of a whole game-day with sealed faults."""

from pathlib import Path

import pytest

from tests.sealed_day import DAY, PLAN, call, within


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty one, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plan and the record; nobody changes it."""
    folder = tmp_path_factory.mktemp("day")
    with within(folder):
        Path("one_dies.yaml").write_text(PLAN)
        Path("day.txt").write_text(DAY)
        done = call("one_dies.yaml", "--script", "day.txt", "--by", "Ann")
        assert Path("runs", "latest").exists(), done.output
        assert "not carried out" not in done.stderr, done.output
    return folder
