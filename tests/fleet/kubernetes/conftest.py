"""Fixtures of tests in a cluster."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster import Cluster


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator["Cluster"]:
    """The test cluster."""
    from tests.cluster import cluster  # noqa: PLC0415  # skips the module that asks for it

    with cluster(monkeypatch) as found:
        yield found
