"""Rules of the kernel: exactly ours, by comment, gone when they should be; refused where not."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.links.effects import (
    Corrupt,
    Direction,
    Duplicate,
    Loss,
    PacketEffect,
    Reorder,
)
from chaoslab.links.netem import bands, netfilter
from chaoslab.links.netem.kernel import ask, which
from chaoslab.links.netem.netfilter import Drop, Iptables
from chaoslab.links.netem.packet_rules import UNDO_BANDS, UNDO_DROPS, KernelPackets, run_of
from chaoslab.undo.actions import leftovers, undo
from chaoslab.undo.verbs import UndoEntry
from tests.contracts.link_stage import Upstream, is_open, read_exactly
from tests.fleet.local_stage import Remembered

PORT = 45_871
LABEL = "chaoslab:test:injection-0:1:up:0"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.alone,
]  # the rules are this machine's own, so one after another


def needs_loss() -> None:
    can, why = netfilter.is_available()
    if not can:
        pytest.skip(why)


@pytest.fixture
def netem() -> None:
    can, why = bands.is_available()
    if not can:
        pytest.skip(why)


@pytest.fixture
def tool() -> Iterator[Iptables]:
    needs_loss()
    tool = Iptables()
    yield tool
    for label in (LABEL, f"{LABEL}2"):
        tool.remove(label)


def drop(comment: str = LABEL, way: Direction = Direction.UP) -> Drop:
    return Drop(comment=comment, port=PORT, way=way, share=0.25)


def rules() -> str:
    """All that the kernel has, whoever wrote it but an engine, which does for every network."""
    lines = ask(("iptables", "-S"))[1].splitlines()
    return "\n".join(line for line in lines if "DOCKER" not in line and " br-" not in line)


@pytest.mark.gate
def test_a_rule_is_removed_exactly(tool: Iptables) -> None:
    before = rules()
    tool.add(drop())
    tool.add(drop(f"{LABEL}2", Direction.DOWN))
    assert rules() != before
    for _ in range(2):  # the second time there is nothing
        tool.remove(LABEL)
        tool.remove(f"{LABEL}2")
    assert rules() == before


def test_rules_have_entries_before_they_are_made_and_closed_when_they_are_gone() -> None:
    needs_loss()
    undo_log = Remembered()
    packets = KernelPackets(undo_log)
    packets.add("injection-0", PORT, Direction.BOTH, Loss(share=0.1))
    assert [one["do"] for one in undo_log.opened] == [UNDO_DROPS, UNDO_DROPS]
    assert packets.count(PORT) == (0, 0)
    assert packets.count(PORT + 1) is None
    packets.add("injection-0", PORT, Direction.BOTH, Loss(share=0.2))
    assert sorted(undo_log.closed) == [0, 1]
    packets.remove("injection-1", PORT)
    packets.remove("injection-0", PORT)
    assert sorted(undo_log.closed) == [0, 1, 2, 3]
    assert packets.count(PORT) == (0, 0)
    assert "chaoslab" not in rules()


@pytest.mark.gate
@pytest.mark.parametrize(
    ("effect", "verb"),
    [(Loss(share=0.1), UNDO_DROPS), (Duplicate(share=0.1), UNDO_BANDS)],
    ids=["loss", "duplicate"],
)
def test_what_a_dead_harness_left_is_undone_from_its_obligation(
    tmp_path: Path, effect: PacketEffect, verb: str
) -> None:
    can, why = (netfilter if verb == UNDO_DROPS else bands).is_available()
    if not can:
        pytest.skip(why)
    undo_log = Remembered()
    packets = KernelPackets(undo_log, run=run_of(tmp_path))
    packets.add("injection-0", PORT, Direction.UP, effect)
    (facts,) = undo_log.opened
    entry = UndoEntry(number=0, do=verb, facts=facts, directory=tmp_path)  # type: ignore[arg-type]
    assert leftovers(entry), "a heal that leaves it is no heal"
    for _ in range(2):
        assert not undo(entry).remaining
        assert not leftovers(entry)
    assert "chaoslab" not in rules()
    assert "prio" not in ask(("tc", "qdisc", "show", "dev", "lo"))[1]
    packets.close()


def test_a_second_loss_on_a_link_waits_for_the_end_of_the_first() -> None:
    needs_loss()
    packets = KernelPackets(Remembered())
    packets.add("injection-0", PORT, Direction.UP, Loss(share=0.1))
    before = rules()
    with pytest.raises(FleetError, match="injection-0"):
        packets.add("injection-1", PORT, Direction.DOWN, Loss(share=0.2))
    packets.remove("injection-1", PORT)
    assert rules() == before
    packets.remove("injection-0", PORT)
    packets.add("injection-1", PORT, Direction.DOWN, Loss(share=0.2))
    packets.close()
    assert "chaoslab" not in rules()


def tcp_counter(name: str) -> int:
    """One of the kernel's own, of all connections of this machine."""
    lines = [
        line.split()
        for place in ("snmp", "netstat")
        for line in Path("/proc/net", place).read_text().splitlines()
        if line.startswith(("Tcp:", "TcpExt:"))
    ]
    names, values = next(two for two in zip(lines[::2], lines[1::2], strict=True) if name in two[0])
    return int(values[names.index(name)])


@pytest.mark.usefixtures("netem")
@pytest.mark.parametrize(
    ("effect", "counter"),
    [
        (Duplicate(share=0.3), "TCPDSACKOldSent"),
        (Reorder(share=0.3, delay_s=0.01), "TCPOFOQueue"),
        (Corrupt(share=0.2), "InCsumErrors"),
    ],
    ids=lambda one: getattr(one, "kind", one),
)
@pytest.mark.parametrize("way", list(Direction))
def test_the_kernel_counts_packets_that_suffer_and_tcp_repairs_them(
    effect: PacketEffect, counter: str, way: Direction
) -> None:
    packets = KernelPackets(Remembered())
    with closing(Upstream()) as upstream, closing(upstream.connect(upstream)) as pair:
        port = int(upstream.address.rpartition(":")[2])
        try:
            packets.add("injection-0", port, way, effect)
            before = tcp_counter(counter)
            for direction in way.ways:
                sender, receiver = pair.ends(direction)
                for number in range(60):
                    sender.sendall(number.to_bytes(4))
                    if number % 3 == 2:  # a few at a time, or there is nothing to overtake
                        assert len(read_exactly(receiver, 12)) == 12
            assert tcp_counter(counter) - before >= 3
            packets.remove("injection-0", port)
            assert "netem" not in ask(("tc", "qdisc", "show", "dev", "lo"))[1]
            before = tcp_counter(counter)
            assert is_open(pair)
            assert tcp_counter(counter) == before
        finally:
            packets.close()
    assert "prio" not in ask(("tc", "qdisc", "show", "dev", "lo"))[1]


# ---------------------------------------------------------------- where it cannot be had


def test_the_right_to_administer_the_network_is_enough() -> None:
    needs_loss()
    setpriv = which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not on PATH")
    before = rules()
    asks = "from chaoslab.links.netem import netfilter; print(*netfilter.is_available())"
    command = (setpriv, "--bounding-set=-sys_admin", sys.executable, "-c", asks)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"True {netfilter.is_available()[1]}\n"
    assert rules() == before


def test_a_rule_that_the_kernel_refuses_changes_nothing(tool: Iptables) -> None:
    before = rules()
    with pytest.raises(FleetError, match=tool.tool):
        tool.add(Drop(comment=LABEL, port=99_999, way=Direction.UP, share=0.5))
    assert rules() == before
