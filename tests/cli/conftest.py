"""Pages of the command line are as wide here as in a log, whatever terminal the tests run in."""

import pytest


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
