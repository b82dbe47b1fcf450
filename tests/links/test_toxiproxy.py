"""Links through the real Toxiproxy server keep the contract; so does its client with our proxy."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.errors import AbilityError
from chaoslab.links.base import Links
from chaoslab.links.embedded import EmbeddedLinks
from chaoslab.links.toxiproxy import ToxiproxyLinks
from tests.contracts.link_kit import LinkKit

pytestmark = pytest.mark.slow


def server_or_skip(directory: Path, **more: object) -> ToxiproxyLinks:
    """Links with a server of their own. CHAOSLAB_REQUIRE=toxiproxy makes its absence a failure."""
    try:
        return ToxiproxyLinks(directory, **more)
    except AbilityError as error:
        if "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise
        pytest.skip(str(error))


@pytest.mark.toxiproxy
class TestToxiproxyLinks(LinkKit):
    @pytest.fixture
    def links(self, tmp_path: Path) -> Iterator[ToxiproxyLinks]:
        with server_or_skip(tmp_path) as links:
            yield links

    def end_the_proxy(self, links: Links) -> None:
        assert isinstance(links, ToxiproxyLinks)
        assert links.pid is not None
        os.kill(links.pid, signal.SIGKILL)


class TestToxiproxysClientWithTheEmbeddedProxy(LinkKit):
    """The embedded proxy speaks Toxiproxy's API: the same client drives both."""

    @pytest.fixture
    def links(self, tmp_path: Path) -> Iterator[ToxiproxyLinks]:
        with (
            EmbeddedLinks(tmp_path) as self.embedded,
            ToxiproxyLinks(tmp_path, address=self.embedded.api) as links,
        ):
            yield links

    def end_the_proxy(self, links: Links) -> None:
        assert self.embedded.pid is not None
        os.kill(self.embedded.pid, signal.SIGKILL)
