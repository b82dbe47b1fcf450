"""Links that a gateway forwards, without a gateway: what is written, and what the book keeps."""

from collections.abc import Sequence

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Duplicate,
    Freeze,
    Latency,
    LinkAbility,
    Refuse,
    Slice,
)
from chaoslab.links.netem.gateway import Ends
from chaoslab.links.netem.links import NetemLinks
from chaoslab.links.netem.queues import Queues

UP, DOWN, BOTH = Direction.UP, Direction.DOWN, Direction.BOTH
FLOW = (
    "tcp 6 431999 ESTABLISHED src=10.0.0.5 dst=10.0.0.2 sport=40000 dport=4701 "
    "src=10.0.0.3 dst=10.0.0.2 sport=4600 dport=40000 [ASSURED] mark=0 use=1\n"
)


class Written:
    """A gateway on which nothing happens but what is written down."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.knocked: list[Ends] = []
        self.address: str | None = "10.0.0.3"
        self.missing: dict[LinkAbility, str] = {}
        self.end = ""

    def open(self) -> str:
        return "10.0.0.2"

    def run(self, tool: str, *words: str, text: str = "") -> str:
        if tool != "iptables-save" and words[:2] != ("class", "show"):
            self.lines += [" ".join((tool, *words)), *text.splitlines()]
        return ""

    def ask(self, command: Sequence[str], text: str = "") -> tuple[int, str]:
        self.lines.append(" ".join(command))
        return 0, FLOW

    def knock(self, ends: Sequence[Ends]) -> None:
        self.knocked += ends

    def locate(self, host: str) -> str | None:
        assert host == "syncer"
        return self.address

    def ended(self) -> str:
        return self.end

    def close(self) -> None:
        self.end = "it was closed"

    def lacks(self) -> dict[LinkAbility, str]:
        return self.missing

    def said(self, part: str) -> list[str]:
        """The lines with this in them, once."""
        found = [line for line in self.lines if part in line]
        self.lines = [line for line in self.lines if part not in line]
        return found


@pytest.fixture
def gateway() -> Written:
    return Written()


def test_a_port_leads_to_the_syncer_and_to_its_next_address(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        assert link.address == "10.0.0.2:4701"
        assert gateway.said("--to-destination") == [
            "-A PREROUTING -p tcp --dport 4701 -j DNAT --to-destination 10.0.0.3:4600"
        ]
        gateway.address = None
        assert not links.troubles()
        assert not gateway.said("--to-destination")
        gateway.address = "10.0.0.9"
        assert not links.troubles()
        assert gateway.said("--to-destination") == [
            "-D PREROUTING -p tcp --dport 4701 -j DNAT --to-destination 10.0.0.3:4600",
            "-A PREROUTING -p tcp --dport 4701 -j DNAT --to-destination 10.0.0.9:4600",
        ]
        assert links.create("learner-1", "syncer:4600").address == "10.0.0.2:4702"


def test_both_ends_hear_of_the_end_of_a_connection(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        gateway.knocked.clear()
        link.shape("injection-0", BOTH, Refuse())
    assert gateway.knocked == [
        ("10.0.0.2", 4701, "10.0.0.5", 40000),
        ("10.0.0.2", 40000, "10.0.0.3", 4600),
    ]


def test_what_an_injection_put_on_a_link_is_what_its_heal_takes_away(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        link.shape("injection-0", UP, Freeze())
        link.shape("injection-1", BOTH, Blackhole())
        gateway.lines.clear()
        link.clear("injection-0")
        assert gateway.said("-j hold") == [
            "iptables -w 5 -D up-4701 -m comment --comment injection-0/freeze/up -j hold"
        ]
        assert not gateway.said("conntrack -D")
        link.clear("injection-1")
        assert len(gateway.said("-j hold")) == 2
        assert gateway.said("conntrack -D")
        link.clear("injection-1")
        assert not gateway.lines


def test_the_same_again_is_no_second_rule(gateway: Written) -> None:
    with NetemLinks(gateway) as links:
        link = links.create("learner-0", "syncer:4600")
        for _ in range(2):
            link.shape("injection-0", UP, Freeze())
        assert len(gateway.said("-j hold -m") + gateway.said("up -j hold")) == 1


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


# ---------------------------------------------------------------- queues


def queue_of(*effects: Bandwidth | Latency | Duplicate) -> str:
    gateway = Written()
    Queues(gateway.run, "eth0").put(4701, UP, effects)
    (leaf,) = gateway.said("qdisc replace")
    return leaf.partition("24ba: ")[2]


def test_latencies_add_up_and_share_a_queue_with_what_shakes_packets() -> None:
    late, later = Latency(mean_s=0.03, jitter_s=0.003), Latency(mean_s=0.05, jitter_s=0.004)
    assert queue_of(late, later) == "netem limit 100000 delay 80000us 5000us"
    assert queue_of(late, Duplicate(share=0.02)).endswith("delay 30000us 3000us duplicate 2%")


def test_a_rate_alone_needs_no_netem() -> None:
    assert queue_of(Bandwidth(rate_bytes_per_s=8e6)).startswith("bfifo limit 2")


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
    assert not gateway.said("qdisc del")
    queues.put(4701, DOWN, [])
    assert [line.split()[-1] for line in gateway.said("qdisc del")] == ["1:2"]
    assert [line.split()[-1] for line in gateway.said("class del")] == ["1:2"]
