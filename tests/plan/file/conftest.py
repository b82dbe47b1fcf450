"""What the tests of plan files share."""

from pathlib import Path

import pytest

from tests.plan.file.catalogue import Loader, loader


@pytest.fixture
def load(tmp_path: Path) -> Loader:
    """Loads a text as a plan, with the small catalogues of the tests."""
    return loader(tmp_path)
