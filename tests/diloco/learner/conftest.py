"""What the tests of the learner share: the other end of its link."""

from collections.abc import Iterator

import pytest

from tests.diloco.hand_syncer import HandSyncer


@pytest.fixture
def syncer() -> Iterator[HandSyncer]:
    """A syncer that the test plays by hand."""
    with HandSyncer() as syncer:
        yield syncer
