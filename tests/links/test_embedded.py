"""The embedded links keep the contract."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.links.base import Links
from chaoslab.links.embedded import EmbeddedLinks
from tests.contracts.link_kit import LinkKit

pytestmark = pytest.mark.slow


class TestEmbeddedLinks(LinkKit):
    @pytest.fixture
    def links(self, tmp_path: Path) -> Iterator[EmbeddedLinks]:
        with EmbeddedLinks(tmp_path, seed=7) as links:
            yield links

    def end_the_proxy(self, links: Links) -> None:
        assert isinstance(links, EmbeddedLinks)
        assert links.pid is not None
        os.kill(links.pid, signal.SIGKILL)
