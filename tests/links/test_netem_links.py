"""Links that a gateway forwards, without a gateway: what is written, and what the book keeps."""

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    HalfOpen,
    Latency,
    LinkAbility,
    Loss,
    Refuse,
    Reset,
    Slice,
)
from chaoslab.links.netem.links import ForwardedLink, NetemLinks
from chaoslab.links.netem.queues import Queues
from tests.links.written_gateway import Written

UP, DOWN, BOTH = Direction.UP, Direction.DOWN, Direction.BOTH
FLOW = (
    "tcp 6 431999 ESTABLISHED src=10.0.0.5 dst=10.0.0.2 sport=40000 dport=4701 "
    "src=10.0.0.3 dst=10.0.0.2 sport=4600 dport=40000 [ASSURED] mark=0 use=1\n"
)
LEAD = "PREROUTING -p tcp --dport 4701 -m comment --comment lead-4701 -j DNAT --to-destination"
ENDS = [("10.0.0.2", 4701, "10.0.0.5", 40000), ("10.0.0.2", 40000, "10.0.0.3", 4600)]


@pytest.fixture
def gateway() -> Written:
    return Written()


def test_a_port_leads_to_the_syncer_and_to_its_next_address(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        assert link.address == "10.0.0.2:4701"
        assert gateway.said("--to-destination") == [f"-A {LEAD} 10.0.0.3:4600"]
        gateway.address = None
        assert not links.troubles()
        assert not gateway.said("--to-destination")
        gateway.address = "10.0.0.9"
        assert not links.troubles()
        assert gateway.said("--to-destination") == [
            f"-D {LEAD} 10.0.0.3:4600",
            f"-A {LEAD} 10.0.0.9:4600",
        ]
        assert links.create("learner-1", "syncer:4600").address == "10.0.0.2:4702"


def test_what_an_injection_put_on_a_link_is_what_its_heal_takes_away(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        link.shape("injection-0", UP, Freeze())
        link.shape("injection-1", BOTH, Blackhole())
        gateway.lines.clear()
        link.clear("injection-0")
        removed = "-D up-4701 -m comment --comment injection-0/freeze/up -j freeze"
        assert gateway.said("-j freeze") == [f"iptables -w 5 -t filter {removed}"]
        assert not gateway.said("conntrack -D")
        link.clear("injection-1")
        assert len(gateway.said("-j freeze")) == 2
        assert gateway.said("conntrack -D")
        link.clear("injection-1")
        assert not gateway.lines


def test_what_the_kernel_lacks_is_refused_in_its_words(gateway: Written) -> None:
    gateway.missing = {LinkAbility.LATENCY: "the kernel under the engine has no tc netem"}
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        with pytest.raises(AbilityError, match=r"netem .*latency"):
            link.shape("injection-0", UP, Latency(mean_s=0.1))
        with pytest.raises(AbilityError, match="links: embedded"):
            link.shape("injection-0", UP, Slice(size_bytes=100))


def test_a_gateway_that_ended_is_trouble(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        links.create("learner-0", "syncer:4600")
        with pytest.raises(FleetError, match="learner-0"):
            links.create("learner-0", "syncer:4600")
        gateway.end = "container x is gone"
        assert any(gateway.end in trouble for trouble in links.troubles())


# ---------------------------------------------------------------- a call that fails once

EFFECTS = [
    Latency(mean_s=0.1),
    Bandwidth(rate_bytes_per_s=1e6),
    Duplicate(share=0.01),
    Loss(share=0.1),
    Freeze(),
    Blackhole(),
    Refuse(),
    Reset(),
    HalfOpen(),
]
an_effect = pytest.mark.parametrize("effect", EFFECTS, ids=lambda one: one.kind)
done_or_not = pytest.mark.parametrize("is_done", [False, True], ids=["not done", "answer lost"])


def shaped(gateway: Written, links: NetemLinks) -> ForwardedLink:
    """A link with a connection and the effects of another injection."""
    link = links.create("learner-0", "syncer:4600")
    link.shape("injection-1", BOTH, Latency(mean_s=0.2))
    link.shape("injection-1", UP, Freeze())
    gateway.flows = FLOW
    return link


def failing(gateway: Written, call: int, verb: Callable[[], None], *, is_done: bool) -> bool:
    """Whether the verb made so many calls, of which that one failed."""
    gateway.fails_in, gateway.is_done = call, is_done
    try:
        verb()
    except FleetError:
        return True
    finally:
        has_failed = call > 0 and gateway.fails_in <= 0
        gateway.fails_in = None
    assert not has_failed, "it failed, and nobody was told"
    return False


def require_healed(gateway: Written, links: NetemLinks, before: object) -> None:
    assert gateway.in_force == before
    assert not gateway.forgotten or set(gateway.knocked) == set(ENDS)
    assert not links.troubles()


@done_or_not
@an_effect
def test_what_a_heal_that_failed_left_is_taken_away_by_the_next(
    effect: Effect, is_done: bool
) -> None:
    for call in count(1):
        gateway = Written()
        with NetemLinks(gateway) as links:
            link = shaped(gateway, links)
            before = gateway.in_force
            link.shape("injection-0", BOTH, effect)
            if not isinstance(effect, Refuse | Reset | HalfOpen):
                assert gateway.in_force != before
            has_failed = failing(gateway, call, partial(link.clear, "injection-0"), is_done=is_done)
            for _ in range(2):
                link.clear("injection-0")
            require_healed(gateway, links, before)
        if not has_failed:
            break
    assert call > 2 or isinstance(effect, Reset), "a heal has calls that can fail"


@done_or_not
@an_effect
@pytest.mark.parametrize("way", list(Direction))
def test_what_an_injection_that_failed_left_is_taken_away_by_its_heal(
    way: Direction, effect: Effect, is_done: bool
) -> None:
    if way not in effect.directions:
        return
    for call in count(1):
        gateway = Written()
        with NetemLinks(gateway) as links:
            link = shaped(gateway, links)
            before = gateway.in_force
            has_failed = failing(
                gateway, call, partial(link.shape, "injection-0", way, effect), is_done=is_done
            )
            for _ in range(2):
                link.clear("injection-0")
            require_healed(gateway, links, before)
        if not has_failed:
            break
    assert call > 3


@done_or_not
@pytest.mark.parametrize("effect", EFFECTS[:-1], ids=lambda one: one.kind)
def test_an_injection_that_failed_can_be_repeated(effect: Effect, is_done: bool) -> None:
    in_force: list[object] = []
    for call in count(0):  # the first time none fails
        gateway = Written()
        with NetemLinks(gateway) as links:
            link = shaped(gateway, links)
            shape = partial(link.shape, "injection-0", BOTH, effect)
            has_failed = failing(gateway, call, shape, is_done=is_done)
            if has_failed:
                shape()
        in_force.append(gateway.in_force)
        if call and not has_failed:
            break
    assert all(one == in_force[0] for one in in_force)


@done_or_not
def test_a_heal_of_loss_that_failed_once_loses_no_count(is_done: bool) -> None:
    for call in range(1, 20):
        gateway = Written()
        with NetemLinks(gateway) as links:
            link = links.create("learner-0", "syncer:4600")
            link.shape("injection-0", BOTH, Loss(share=0.1))
            assert links.packets.count(4701) == (14, 14)
            failing(gateway, call, partial(link.clear, "injection-0"), is_done=is_done)
            link.clear("injection-0")
            assert links.packets.count(4701) == (14, 14)


@done_or_not
def test_a_syncer_that_moved_is_followed_whichever_call_failed_once(is_done: bool) -> None:
    for call in range(1, 12):
        gateway = Written()
        with NetemLinks(gateway) as links:
            links.create("learner-0", "syncer:4600")
            gateway.flows, gateway.address = FLOW, "10.0.0.9"
            gateway.fails_in, gateway.is_done = call, is_done
            has_failed = bool(links.troubles())
            gateway.fails_in = None
            for _ in range(2):
                assert not links.troubles()
        (lead,) = gateway.rules["nat", "PREROUTING"]
        assert lead.endswith(":4600")
        assert "10.0.0.9" in lead
        assert gateway.forgotten == FLOW
        assert set(gateway.knocked) == set(ENDS)
    assert not has_failed, "there are more calls"


# ---------------------------------------------------------------- queues


LATE, LATER = Latency(mean_s=0.03, jitter_s=0.003), Latency(mean_s=0.05, jitter_s=0.004)


@pytest.mark.parametrize(
    ("effects", "queue"),
    [
        ([LATE, LATER], "netem limit 100000 delay 80000us 5000us"),
        ([LATE, Duplicate(share=0.02)], "netem limit 100000 delay 30000us 3000us duplicate 2%"),
        ([Bandwidth(rate_bytes_per_s=8e6)], "bfifo limit 2"),
    ],
)
def test_effects_share_a_queue_and_a_rate_alone_needs_no_netem(
    effects: list[Bandwidth | Latency | Duplicate], queue: str
) -> None:
    gateway = Written()
    Queues(gateway.run, "eth0").put(4701, UP, effects)
    (leaf,) = gateway.said("qdisc replace")
    assert leaf.partition("24ba: ")[2].startswith(queue)


def test_a_queue_without_effects_is_taken_away() -> None:
    gateway = Written()
    queues = Queues(gateway.run, "eth0")
    queues.put(4701, DOWN, [Bandwidth(rate_bytes_per_s=1e6)])
    queues.put(4701, DOWN, [Bandwidth(rate_bytes_per_s=2e6)])
    assert len(gateway.said("CLASSIFY")) == 1
    assert len(gateway.said("tc class replace")) == 2
    queues.put(4701, DOWN, [])
    queues.put(4701, DOWN, [])
    assert [line.split()[:7] for line in gateway.said("CLASSIFY")] == [
        ["iptables", "-w", "5", "-t", "mangle", "-D", "FORWARD"]
    ]
    assert len(gateway.said("tc class del")) == 1


def test_links_whose_packets_are_only_duplicated_share_a_queue() -> None:
    gateway = Written()
    queues = Queues(gateway.run, "eth0")
    for port, way in ((4701, UP), (4701, DOWN), (4702, UP)):
        queues.put(port, way, [Duplicate(share=0.01)])
    assert [line.partition("parent ")[2] for line in gateway.said("qdisc replace")] == [
        "1:2 handle 2: netem limit 100000 duplicate 1%"
    ]
    assert [line.split()[-1] for line in gateway.said("CLASSIFY")] == ["1:2"] * 3
    queues.put(4701, UP, [])
    queues.put(4702, UP, [Duplicate(share=0.01), Latency(mean_s=0.1)])
    assert not gateway.said("class del")
    queues.put(4701, DOWN, [])
    assert [line.split()[-1] for line in gateway.said("class del")] == ["1:2"]
