"""What every kind of links promises. A kind's tests subclass the kit and say how to make it.

Everything that has a strength is measured where it arrives, against what was asked, within bounds
that a busy machine does not cross; everything else is yes or no. What a kind cannot do it must say
(`abilities`), and refuse.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import pytest

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.links.base import Links
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    HalfOpen,
    Latency,
    LimitData,
    LinkAbility,
    Loss,
    Per,
    Refuse,
    Reset,
    Slice,
)
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.http_api import Way, call, over_tcp
from chaoslab.links.proxied.links import ProxiedLink, ProxiedLinks
from tests.contracts.link_measures import (
    BOTH,
    DOWN,
    UP,
    Measure,
    Stage,
    dropped_share,
    measures,
    shared_rate_mb_per_s,
    stage_of,
    take,
)
from tests.contracts.link_stage import (
    Upstream,
    dial,
    digest_of,
    fastest_delay_s,
    how_it_ends,
    is_open,
    is_silent,
    read_exactly,
    receive,
    receiving,
    sending,
    transfer,
)
from tests.waiting import wait_until as assert_soon

MEASURES = tuple(measures())
EVERY: tuple[Effect, ...] = (
    Latency(mean_s=0.1, jitter_s=0.007),
    Bandwidth(rate_bytes_per_s=1.5e6),
    Slice(size_bytes=1000, delay_s=0.001),
    LimitData(size_bytes=10_000),
    Blackhole(),
    HalfOpen(),
    Freeze(),
    Refuse(),
)
QUICK_S = 0.008
"""A delay that nothing asked for stays below this, on a busy machine, too."""


class LinkKit:
    """Subclasses provide the fixture `links`, entered, and `end_the_proxy(links)`."""

    def end_the_proxy(self, links: Links) -> None:
        """As somebody else would: without asking."""
        raise NotImplementedError

    @pytest.fixture
    def host(self) -> str:
        """Where these links reach this machine."""
        return "127.0.0.1"

    @pytest.fixture
    def upstream(self, host: str) -> Iterator[Upstream]:
        with closing(Upstream(host)) as upstream:
            yield upstream

    @pytest.fixture
    def stage(self, links: Links, upstream: Upstream) -> Stage:
        return stage_of(links, upstream)

    # ------------------------------------------------------------ carrying

    def test_the_end_of_one_direction_is_told_and_the_other_goes_on(self, stage: Stage) -> None:
        pair = stage.connect()
        pair.learner.sendall(b"last words")
        pair.learner.shutdown(socket.SHUT_WR)
        assert read_exactly(pair.syncer, 10) == b"last words"
        assert pair.syncer.recv(1) == b""

    def test_an_upstream_that_does_not_listen_ends_the_connection(
        self, links: Links, host: str
    ) -> None:
        with closing(ReservedPort(host)) as port:
            link = links.create("learner-1", port.address)
            try:
                learner = dial(link.address)
            except (ConnectionResetError, ConnectionRefusedError):
                return  # it ended before `dial` returned
            with closing(learner):
                assert how_it_ends(learner) in ("reset", "closed")

    def test_links_are_told_apart(self, stage: Stage, upstream: Upstream) -> None:
        skip_without(stage, LinkAbility.LATENCY)
        other = stage.links.create("learner-1", upstream.address)
        assert set(stage.links.links) == {"learner-0", "learner-1"}
        stage.link.shape("injection-0", BOTH, Latency(mean_s=0.05))
        assert fastest_delay_s(upstream.connect(other), UP) < 0.05
        with pytest.raises(FleetError, match="learner-0"):
            stage.links.create("learner-0", upstream.address)

    # ------------------------------------------------------------ strengths

    @pytest.mark.parametrize("measure", MEASURES, ids=lambda one: f"{one.name}-{one.direction}")
    def test_what_arrives_is_what_was_asked(self, stage: Stage, measure: Measure) -> None:
        if missing := measure.missing(stage.links):
            assert_refused(stage, measure.effect)
            pytest.skip(f"links: {stage.links.kind} has no {', '.join(sorted(missing))}")
        measured = take(measure, stage)
        assert measure.holds(measured[-1]), (measured, measure.at_least, measure.at_most)

    @pytest.mark.parametrize("per", list(Per))
    def test_a_rate_is_shared_by_connections_or_holds_for_each_of_them(
        self, stage: Stage, per: Per
    ) -> None:
        """Links that cannot, say so and do the other."""
        is_other = stage.links.caveats(Bandwidth(rate_bytes_per_s=4e6, per=per))
        above, below = (2, 4.6) if (per is Per.LINK) != bool(is_other) else (6, 19)
        assert_soon(lambda: above < shared_rate_mb_per_s(stage, per) < below)

    def test_lost_packets_are_sent_again_and_nothing_is_missing(self, stage: Stage) -> None:
        if LinkAbility.LOSS not in stage.links.abilities:
            assert_refused(stage, Loss(share=0.05))
            pytest.skip(f"no packet loss here: {stage.links.why_not(LinkAbility.LOSS)}")
        for way in (UP, DOWN):
            share, is_whole = dropped_share(stage, way, 0.1)
            assert is_whole
            assert 0.04 < share < 0.2

    # ------------------------------------------------------------ stopping and going on

    @pytest.mark.parametrize("way", [UP, DOWN, BOTH])
    def test_a_frozen_link_goes_on_where_it_stood(self, stage: Stage, way: Direction) -> None:
        pair, size = stage.connect(), 3_000_000
        one = way.ways[0]
        sender, receiver = pair.ends(one)
        assert is_open(pair)
        stage.link.shape("injection-0", way, Freeze())
        with sending(sender, size):
            assert is_silent(receiver, 0.5)
            if way is not BOTH:
                assert transfer(pair, DOWN if way is UP else UP, 100_000).size == 100_000
            stage.link.clear("injection-0")
            arrived = receive(receiver, size)
        assert (arrived.size, arrived.digest) == (size, digest_of(size))
        assert is_open(pair)

    @pytest.mark.parametrize("way", [UP, DOWN, BOTH])
    def test_what_fell_into_a_black_hole_never_arrives(self, stage: Stage, way: Direction) -> None:
        pair = stage.connect()
        sender, receiver = pair.ends(way.ways[0])
        stage.link.shape("injection-0", way, Blackhole())
        later = stage.connect()
        sender.sendall(b"lost")
        assert is_silent(receiver)
        stage.link.clear("injection-0")
        for end in (pair.learner, pair.syncer, later.learner, later.syncer):
            assert how_it_ends(end) in ("reset", "closed")
        assert is_open(stage.connect())

    def test_a_refusing_link_is_as_if_nobody_listened(self, stage: Stage) -> None:
        pair = stage.connect()
        stage.link.shape("injection-0", BOTH, Refuse())
        for end in (pair.learner, pair.syncer):
            assert how_it_ends(end) in ("reset", "closed")
        with pytest.raises(ConnectionRefusedError):
            dial(stage.link.address)
        stage.link.clear("injection-0")
        assert is_open(stage.connect())

    def test_a_reset_ends_what_is_open_and_lets_in_what_is_new(self, stage: Stage) -> None:
        pairs = [stage.connect() for _ in range(3)]
        assert all(is_open(pair) for pair in pairs)
        stage.link.shape("injection-0", BOTH, Reset())
        endings = {how_it_ends(end) for pair in pairs for end in (pair.learner, pair.syncer)}
        if LinkAbility.RESET_OPEN in stage.links.abilities:
            assert endings == {"reset"}
        else:
            assert any("FIN" in caveat for caveat in stage.links.caveats(Reset()))
        assert is_open(stage.connect())

    @pytest.mark.parametrize("way", [UP, DOWN, BOTH])
    def test_a_half_open_connection_is_silent_until_the_heal(
        self, stage: Stage, way: Direction
    ) -> None:
        if LinkAbility.HALF_OPEN not in stage.links.abilities:
            assert_refused(stage, HalfOpen())
            pytest.skip(f"links: {stage.links.kind} cannot")
        pair = stage.connect()
        assert is_open(pair)
        stage.link.shape("injection-0", way, HalfOpen())
        broken = {UP: [pair.learner], DOWN: [pair.syncer], BOTH: []}[way]
        for end in broken:
            assert how_it_ends(end) == "reset"
        untold = [end for end in (pair.learner, pair.syncer) if end not in broken]
        assert all(is_silent(end) for end in untold)
        assert is_open(stage.connect())
        stage.link.clear("injection-0")
        assert [how_it_ends(end) for end in untold] == ["reset"] * len(untold)

    # ------------------------------------------------------------ healing

    def test_two_effects_on_one_link_heal_independently(self, stage: Stage) -> None:
        skip_without(stage, LinkAbility.LATENCY)
        pair = stage.connect()
        stage.link.shape("injection-0", UP, Latency(mean_s=0.03))
        stage.link.shape("injection-1", UP, Latency(mean_s=0.06))
        assert_soon(lambda: 0.088 < fastest_delay_s(pair, UP) < 0.11)
        stage.link.clear("injection-0")
        assert_soon(lambda: 0.058 < fastest_delay_s(pair, UP) < 0.08)
        stage.link.clear("injection-1")
        assert_soon(lambda: fastest_delay_s(pair, UP) < QUICK_S)

    @pytest.mark.parametrize("first", ["injection-0", "injection-1"])
    def test_a_freeze_and_a_latency_heal_in_either_order(self, stage: Stage, first: str) -> None:
        skip_without(stage, LinkAbility.LATENCY)
        pair, size = stage.connect(), 2_000_000
        stage.link.shape("injection-0", UP, Latency(mean_s=0.03))
        stage.link.shape("injection-1", UP, Freeze())
        with sending(pair.learner, size):
            time.sleep(0.2)
            second = "injection-1" if first == "injection-0" else "injection-0"
            stage.link.clear(first)
            stage.link.clear(second)
            arrived = receive(pair.syncer, size)
        assert (arrived.size, arrived.digest) == (size, digest_of(size))

    def test_a_freeze_over_which_connections_broke_heals(self, stage: Stage) -> None:
        pairs = [stage.connect() for _ in range(3)]
        stage.link.shape("injection-0", BOTH, Freeze())
        with ExitStack() as senders:
            for pair in pairs:
                senders.enter_context(sending(pair.syncer, 1_000_000))
                senders.enter_context(sending(pair.learner, 1_000_000))
            time.sleep(0.3)
            for pair in pairs:
                pair.learner.close()
            time.sleep(0.2)
            stage.link.clear("injection-0")
            assert is_open(stage.connect())
            for pair in pairs:
                pair.close()

    @pytest.mark.parametrize("effect", [Refuse(), Blackhole()], ids=lambda effect: effect.kind)
    def test_the_same_effect_of_two_injections_ends_with_the_second(
        self, stage: Stage, effect: Effect
    ) -> None:
        for injection in ("injection-0", "injection-1"):
            stage.link.shape(injection, BOTH, effect)
        stage.link.clear("injection-0")
        if isinstance(effect, Refuse):
            with pytest.raises(ConnectionRefusedError):
                dial(stage.link.address)
        else:
            pair = stage.connect()
            pair.learner.sendall(b"lost")
            assert is_silent(pair.syncer)
        stage.link.clear("injection-1")
        assert is_open(stage.connect())

    def test_the_same_again_changes_the_strength_and_breaks_nothing(self, stage: Stage) -> None:
        skip_without(stage, LinkAbility.LATENCY)
        pair = stage.connect()
        for mean_s in (0.05, 0.02, 0.0):
            stage.link.shape("injection-0", BOTH, Latency(mean_s=mean_s))
            assert_soon(lambda wanted=mean_s: abs(fastest_delay_s(pair, DOWN) - wanted) < QUICK_S)

    def test_removal_under_load_loses_nothing(self, stage: Stage) -> None:
        pair, size = stage.connect(), 40_000_000
        every: list[Effect] = [
            Latency(mean_s=0.02, jitter_s=0.01),
            Bandwidth(rate_bytes_per_s=20e6, per=Per.CONNECTION),
            Freeze(),
        ]
        effects = [effect for effect in every if effect.needs <= stage.links.abilities]
        with (
            receiving(pair.syncer, size) as at_syncer,
            receiving(pair.learner, size) as at_learner,
            sending(pair.learner, size),
            sending(pair.syncer, size),
        ):
            for turn in range(6):
                stage.link.shape(f"injection-{turn}", BOTH, effects[turn % len(effects)])
                time.sleep(0.05)
                stage.link.clear(f"injection-{turn}")
        for arrived in (*at_syncer, *at_learner):
            assert (arrived.size, arrived.digest) == (size, digest_of(size))
        assert len(at_syncer) == len(at_learner) == 1

    def test_healing_twice_or_what_never_was_does_nothing(self, stage: Stage) -> None:
        pair = stage.connect()
        stage.link.shape("injection-0", BOTH, Bandwidth(rate_bytes_per_s=1e6))
        for injection in ("injection-0", "injection-0", "injection-7"):
            stage.link.clear(injection)
        assert is_open(pair)
        assert not stage.links.troubles()

    # ------------------------------------------------------------ honesty

    def test_what_cannot_be_done_is_refused_with_a_reason(self, stage: Stage) -> None:
        for ability in LinkAbility:
            if ability not in stage.links.abilities:
                assert stage.links.why_not(ability)
        with pytest.raises(PlanError, match="both"):
            stage.link.shape("injection-0", UP, Refuse())
        if LinkAbility.DUPLICATE not in stage.links.abilities:
            assert_refused(stage, Duplicate(share=0.1))

    def test_connections_and_bytes_are_counted_while_they_are_open(self, stage: Stage) -> None:
        pair = stage.connect()
        transfer(pair, UP, 123_456)
        transfer(pair, DOWN, 654_321)
        counters = stage.link.counters()
        assert counters.connections == 1
        if stage.links.kind == "embedded":
            assert counters.opened == 1
            assert_soon(lambda: stage.link.counters().up_bytes == 123_456)
            assert_soon(lambda: stage.link.counters().down_bytes == 654_321)
        else:
            assert counters.up_bytes is None
        pair.close()
        assert_soon(lambda: stage.link.counters().connections == 0)

    def way_to_the_proxy(self, links: Links) -> Way:
        """By which anybody asks it."""
        return over_tcp

    def test_what_somebody_else_does_to_a_toxic_is_noticed(self, stage: Stage) -> None:
        if not isinstance(stage.links, ProxiedLinks):
            pytest.skip(f"links: {stage.links.kind} have no toxics")
        stage.link.shape("injection-0", UP, Latency(mean_s=0.1))
        stage.link.shape("injection-1", UP, Bandwidth(rate_bytes_per_s=5e6, per=Per.CONNECTION))
        assert not stage.links.troubles()
        path, name = toxics_of(stage), "injection-0.latency.up"
        ask = partial(call, api_of(stage), way=self.way_to_the_proxy(stage.links))
        ask("POST", f"{path}/{name}", {"attributes": {"latency": 1}})
        assert_soon(lambda: [name in one for one in stage.links.troubles()] == [True])
        ask("POST", f"{path}/{name}", {"attributes": {"latency": 100}})
        assert_soon(lambda: not stage.links.troubles())
        ask("DELETE", f"{path}/{name}")
        ask("POST", path, {"name": "theirs", "type": "latency"})
        assert_soon(
            lambda: [name in one and "theirs" in one for one in stage.links.troubles()] == [True]
        )

    def test_every_effect_stands_as_it_was_asked_for(self, stage: Stage) -> None:
        asked = [effect for effect in EVERY if effect.needs <= stage.links.abilities]
        for number, effect in enumerate(asked):
            stage.link.shape(f"injection-{number}", BOTH, effect)
            assert not stage.links.troubles(), effect
        if isinstance(asked[0], Latency):
            stage.link.shape("injection-0", BOTH, Latency(mean_s=0.02))
        assert not stage.links.troubles()
        for number, effect in enumerate(asked):
            stage.link.clear(f"injection-{number}")
            assert not stage.links.troubles(), effect

    def test_a_dead_proxy_is_noticed(self, stage: Stage) -> None:
        assert not stage.links.troubles()
        self.end_the_proxy(stage.links)
        assert_soon(lambda: bool(stage.links.troubles()))
        with pytest.raises(FleetError):
            stage.link.shape("injection-0", UP, Bandwidth(rate_bytes_per_s=1e6))


def api_of(stage: Stage) -> str:
    """Where the proxy of these links is asked, by anybody."""
    assert isinstance(stage.links, ProxiedLinks)
    return stage.links.api


def toxics_of(stage: Stage) -> str:
    """The path of the link's toxics there."""
    assert isinstance(stage.link, ProxiedLink)
    return f"/proxies/{stage.link.proxy}/toxics"


def skip_without(stage: Stage, ability: LinkAbility) -> None:
    """What is measured by an effect that these links lack is theirs to show otherwise."""
    if ability not in stage.links.abilities:
        pytest.skip(f"links: {stage.links.kind} has no {ability} here")


def assert_refused(stage: Stage, effect: Effect) -> None:
    """It is refused, with a reason, and nothing stands."""
    with pytest.raises(AbilityError) as refused:
        stage.link.shape("injection-9", BOTH, effect)
    assert stage.links.kind in str(refused.value)
