"""Links through the real Toxiproxy server keep the contract; so does its client with our proxy."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Links
from chaoslab.links.effects import (
    Bandwidth,
    Direction,
    Freeze,
    JitterShape,
    Latency,
    Per,
    Reset,
)
from chaoslab.links.proxied.http_api import Endpoint, an_object, call
from chaoslab.links.toxiproxy.client import ToxiproxyClient
from chaoslab.links.toxiproxy.links import ToxiproxyLinks
from chaoslab.links.toxiproxy.undo_verbs import DELETE_PROXY, delete
from tests.contracts.link_kit import MEASURES, LinkKit
from tests.contracts.link_measures import Measure, Stage
from tests.contracts.link_stage import Upstream
from tests.fleet.local_stage import Remembered
from tests.links.public_proxy import public_proxy

pytestmark = [pytest.mark.deep, pytest.mark.alone]


@pytest.fixture
def own(tmp_path: Path) -> ToxiproxyLinks:
    """With a server of their own. CHAOSLAB_REQUIRE=toxiproxy makes its absence a failure."""
    try:
        return ToxiproxyLinks(tmp_path)
    except AbilityError as error:
        if "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise
        pytest.skip(str(error))


@pytest.mark.gate
@pytest.mark.toxiproxy
class TestToxiproxyLinks(LinkKit):
    @pytest.fixture
    def links(self, own: ToxiproxyLinks) -> Iterator[ToxiproxyLinks]:
        with own as links:
            yield links

    @pytest.mark.deep
    @pytest.mark.parametrize("measure", MEASURES, ids=lambda one: f"{one.name}-{one.direction}")
    def test_what_arrives_is_what_was_asked(self, stage: Stage, measure: Measure) -> None:
        super().test_what_arrives_is_what_was_asked(stage, measure)

    def end_the_proxy(self, links: Links) -> None:
        assert isinstance(links, ToxiproxyLinks)
        assert links.host.pid is not None
        os.kill(links.host.pid, signal.SIGKILL)


# ---------------------------------------------------------------- somebody else's server


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Endpoint]:
    """The API of a server that serves somebody else, too."""
    with public_proxy(tmp_path / "theirs") as theirs:
        call(theirs.api, "POST", "/proxies", {"name": "theirs", "upstream": "127.0.0.1:9"})
        call(theirs.api, "POST", "/proxies/theirs/toxics", {"type": "latency"})
        yield theirs.api


def test_other_peoples_proxies_are_left_as_they_are(
    shared: Endpoint, tmp_path: Path, upstream: Upstream
) -> None:
    before = call(shared, "GET", "/proxies")
    undo_log = Remembered()
    with ToxiproxyLinks(tmp_path, address=shared.address, undo_log=undo_log) as links:
        link = links.create("learner-0", upstream.address)
        link.shape("injection-0", Direction.BOTH, Latency(mean_s=0.01))
        assert [entry["do"] for entry in undo_log.opened].count(DELETE_PROXY) == 1
        assert not links.troubles()
    assert call(shared, "GET", "/proxies") == before
    assert sorted(undo_log.closed) == list(range(len(undo_log.opened)))


def test_what_a_dead_harness_left_there_is_undone_from_its_obligation(shared: Endpoint) -> None:
    call(shared, "POST", "/proxies", {"name": "chaoslab-x", "upstream": "127.0.0.1:9"})
    for _ in range(2):
        delete(shared, "chaoslab-x")
    found = call(shared, "GET", "/proxies")
    assert isinstance(found, dict)
    assert list(found) == ["theirs"]


def test_one_process_can_use_two_servers(tmp_path: Path, upstream: Upstream) -> None:
    with (
        public_proxy(tmp_path / "a") as first,
        public_proxy(tmp_path / "b") as second,
        ToxiproxyLinks(tmp_path, address=first.api.address) as one,
        ToxiproxyLinks(tmp_path, address=second.api.address) as other,
    ):
        made = {links: links.create("learner-0", upstream.address) for links in (one, other)}
        for links, server in ((one, first), (other, second)):
            assert call(server.api, "GET", "/proxies").keys() == {made[links].proxy}


def test_a_server_that_is_gone_when_it_is_needed_is_an_error(tmp_path: Path) -> None:
    with public_proxy(tmp_path) as theirs:
        links = ToxiproxyLinks(tmp_path, address=theirs.api.address)
    with pytest.raises(FleetError, match="any more"):
        links.__enter__()


# ---------------------------------------------------------------- what it did not do


@pytest.mark.toxiproxy
def test_a_freeze_whose_removal_failed_is_still_ours(
    own: ToxiproxyLinks, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise FleetError("not now")

    with own as links:
        link = links.create("learner-0", upstream.address)
        link.shape("injection-0", Direction.BOTH, Freeze())
        link.shape("injection-1", Direction.UP, Latency(mean_s=0.1))
        with monkeypatch.context() as for_once:
            for_once.setattr(ToxiproxyClient, "remove", refuse)
            with pytest.raises(FleetError, match="not now"):
                link.clear("injection-0")
        toxics = f"/proxies/{link.proxy}/toxics"
        found = call(links.api, "GET", f"{toxics}/injection-0.freeze.both.up")
        assert isinstance(found, dict)
        assert found["attributes"] == {"latency": 0, "jitter": 0}
        assert not links.troubles()
        call(links.api, "POST", f"{toxics}/injection-1.latency.up", {"toxicity": 0.5})
        assert "injection-1.latency.up" in links.troubles()[0]
        call(links.api, "POST", f"{toxics}/injection-1.latency.up", {"toxicity": 1})
        link.clear("injection-0")
        assert not links.troubles()


def test_a_heal_that_failed_once_leaves_the_effects_of_others(
    shared: Endpoint, tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for failing, is_done in product(range(1, 10), (False, True)):
        with ToxiproxyLinks(tmp_path, address=shared.address) as links:
            link = links.create("learner-0", upstream.address)
            link.shape("injection-0", Direction.UP, Latency(mean_s=0.01))
            for number in (1, 2):
                rate = Bandwidth(rate_bytes_per_s=1e6 * number)
                link.shape(f"injection-{number}", Direction.UP, rate)
            with monkeypatch.context() as for_once:
                for_once.setattr(ToxiproxyClient, "ask", failing_once(failing, is_done=is_done))
                with suppress(FleetError):
                    link.clear("injection-0")
            link.clear("injection-0")
            assert not links.troubles()
            toxics = an_object(call(shared, "GET", f"/proxies/{link.proxy}"))["toxics"]
            assert isinstance(toxics, list)
            names = {an_object(toxic)["name"] for toxic in toxics}
            assert names == {"injection-1.bandwidth.up", "injection-2.bandwidth.up"}


def failing_once(failing: int, *, is_done: bool) -> Callable[..., Json]:
    """`ask`, whose call of this number fails, done or not."""
    ask, asked = ToxiproxyClient.ask, count(1)

    def fails_once(self: ToxiproxyClient, *words: Any, **more: Any) -> Json:
        is_failing = next(asked) == failing
        answer = ask(self, *words, **more) if is_done or not is_failing else None
        if is_failing:
            raise FleetError("the answer was lost")
        return answer

    return fails_once


def test_a_preview_says_where_toxiproxy_differs(shared: Endpoint, tmp_path: Path) -> None:
    links = ToxiproxyLinks(tmp_path, address=shared.address)
    rate, shape = 1e6, JitterShape.PARETO
    jitter = Latency(mean_s=0.01, jitter_s=0.01)
    for effect in (Reset(), Bandwidth(rate_bytes_per_s=rate), jitter, Freeze()):
        assert links.caveats(effect), effect
    assert not links.caveats(Bandwidth(rate_bytes_per_s=rate, per=Per.CONNECTION))
    assert not Latency(mean_s=0.01, jitter_s=0.01, shape=shape).needs <= links.abilities
    with pytest.raises(AbilityError, match="whole number"):
        links.caveats(Latency(mean_s=0.0001))
