"""Fixtures of tests of links."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.contracts.link_stage import Upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """What learners connect to."""
    with closing(Upstream()) as upstream:
        yield upstream
