"""Rules on a kernel that does no more than write down, and refusals where none can be had."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.base import require
from chaoslab.links.effects import Corrupt, Direction, Duplicate, Effect, Loss, Reorder
from chaoslab.links.netem import bands, netfilter
from chaoslab.links.netem.netfilter import Drop, Iptables, PacketCounts
from chaoslab.links.netem.packet_rules import KernelPackets
from chaoslab.links.proxied.embedded import EmbeddedLinks
from tests.fleet.local_stage import Remembered

PORT = 45_871


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_loss_of_which_a_part_was_written_goes_with_its_heal(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    written: list[str] = []

    class FailsOnce(Iptables):
        def add(self, drop: Drop) -> None:
            asked.append(drop.comment)
            written.append(drop.comment)
            if len(asked) == failing:
                raise FleetError("the lock is taken")

        def seen(self, comment: str) -> PacketCounts:
            return PacketCounts()

        def remove(self, comment: str) -> None:
            written[:] = [one for one in written if one != comment]

    monkeypatch.setattr(netfilter, "drops", FailsOnce)
    undo_log = Remembered()
    packets = KernelPackets(undo_log)
    with pytest.raises(FleetError, match="lock"):  # noqa: PT012 - one of the two
        packets.add("injection-0", PORT, Direction.BOTH, Loss(share=0.1))
        packets.add("injection-0", PORT, Direction.BOTH, Loss(share=0.2))
    packets.remove("injection-0", PORT)
    assert not written
    assert sorted(undo_log.closed) == list(range(len(undo_log.opened)))


class WrittenQueues:
    """What `tc` was asked for, on a kernel that does no more than write it down."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """But for questions."""
        self.there: dict[str, str] = {}
        """Filters by number and queues by band, as they are listed."""
        self.fails_in = 0
        """The call that fails, counted from now; 0: none."""
        self.is_done = False
        """Whether what fails was done, and only the answer was lost."""

    def run(self, *words: str) -> str:
        self.fails_in -= 1
        if self.fails_in != 0:
            return self._run(words)
        if self.is_done:
            self._run(words)
        raise FleetError("it was silent for 10 s")

    def _run(self, words: tuple[str, ...]) -> str:
        _, what, verb, *rest = words
        key = f"filter {rest[7]}" if what == "filter" else f"qdisc {rest[3:4]}"
        if verb == "show":
            queues = [line for at, line in self.there.items() if at.startswith("qdisc")]
            return self.there.get(key, "") if what == "filter" else "\n".join(queues)
        self.asked.append(" ".join(words))
        if verb == "del":
            del self.there[key]
        else:
            assert key not in self.there, "it is there"
            self.there[key] = f"qdisc netem {rest[5]} parent" if "netem" in rest else what
        return ""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> WrittenQueues:
    kernel = WrittenQueues()
    monkeypatch.setattr(bands, "run", kernel.run)
    return kernel


@pytest.fixture
def asked(kernel: WrittenQueues) -> list[str]:
    return kernel.asked


@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "answer lost"])
@pytest.mark.parametrize("verb", ["add", "remove"])
def test_queues_of_which_one_call_failed_go_with_the_heal(
    verb: str, is_done: bool, kernel: WrittenQueues
) -> None:
    effect = Duplicate(share=0.1)
    for call in range(1, 10):
        packets = KernelPackets(Remembered())
        packets.add("injection-1", PORT, Direction.UP, Corrupt(share=0.1))
        before = dict(kernel.there)
        if verb == "remove":
            packets.add("injection-0", PORT, Direction.BOTH, effect)
        kernel.fails_in, kernel.is_done = call, is_done
        with suppress(FleetError):
            if verb == "add":
                packets.add("injection-0", PORT, Direction.BOTH, effect)
            else:
                packets.remove("injection-0", PORT)
        kernel.fails_in = 0
        packets.remove("injection-0", PORT)
        assert kernel.there == before
        kernel.there.clear()


def test_packets_that_suffer_the_same_share_a_queue(asked: list[str]) -> None:
    packets = KernelPackets(Remembered())
    packets.add("injection-0", PORT, Direction.BOTH, Duplicate(share=0.1))
    packets.add("injection-0", PORT + 1, Direction.UP, Duplicate(share=0.1))
    packets.add("injection-1", PORT, Direction.UP, Corrupt(share=0.1))
    assert [one for one in asked if "netem" in one] == [
        "tc qdisc add dev lo parent 1:4 handle 40: netem duplicate 10%",
        "tc qdisc add dev lo parent 1:5 handle 50: netem corrupt 10%",
    ]
    filters = [one.split() for one in asked if "filter add" in one]
    assert [one[-1] for one in filters] == ["1:4", "1:4", "1:4", "1:5"]
    assert len({one[one.index("prio") + 1] for one in filters}) == 4


def test_a_shared_queue_goes_with_the_last_whose_packets_suffer(asked: list[str]) -> None:
    packets = KernelPackets(Remembered())
    for port in (PORT, PORT + 1):
        packets.add(f"injection-{port}", port, Direction.UP, Reorder(share=0.1, delay_s=0.01))
    packets.remove(f"injection-{PORT}", PORT)
    assert not [one for one in asked if "qdisc del" in one]
    packets.remove(f"injection-{PORT + 1}", PORT + 1)
    assert asked[-1] == "tc qdisc del dev lo parent 1:4"


def test_another_share_of_duplicates_never_stands_beside_the_old_one(asked: list[str]) -> None:
    packets = KernelPackets(Remembered())
    packets.add("injection-0", PORT, Direction.BOTH, Duplicate(share=0.1))
    asked.clear()
    packets.add("injection-0", PORT, Direction.BOTH, Duplicate(share=0.2))
    verbs = [" ".join(one.split()[1:3]) for one in asked]
    assert verbs == ["filter del", "filter del", "qdisc del", "qdisc add", *["filter add"] * 2]


def test_an_interface_has_room_for_so_many_effects(asked: list[str]) -> None:
    packets = KernelPackets(Remembered())
    for number in range(13):
        packets.add(f"injection-{number}", PORT, Direction.UP, Corrupt(share=0.01 * (number + 1)))
    with pytest.raises(FleetError, match="at most 13"):
        packets.add("injection-13", PORT, Direction.UP, Corrupt(share=0.5))


# ---------------------------------------------------------------- where it cannot be had


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user without any capability."""
    for module in (netfilter, bands):
        monkeypatch.setattr(module, "may_administer_network", lambda: False)
    bands.is_available.cache_clear()
    yield
    bands.is_available.cache_clear()


@pytest.fixture
def untried() -> Iterator[None]:
    """What is found here is not remembered."""
    for found in (netfilter._refusal, bands.is_available):
        found.cache_clear()
    yield
    for found in (netfilter._refusal, bands.is_available):
        found.cache_clear()


@pytest.mark.parametrize(
    "effect", [Loss(share=0.1), Duplicate(share=0.1), Reorder(share=0.1), Corrupt(share=0.1)]
)
@pytest.mark.usefixtures("nobody")
def test_without_the_right_to_do_it_a_plan_is_refused_before_anything_starts(
    effect: Effect, tmp_path: Path
) -> None:
    with pytest.raises(AbilityError, match="needs root"):
        require(EmbeddedLinks(tmp_path), Direction.BOTH, effect)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("nobody")
def test_without_the_right_nothing_is_dropped() -> None:
    with pytest.raises(AbilityError):
        netfilter.drops()


def test_without_a_tool_it_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netfilter, "may_administer_network", lambda: True)
    monkeypatch.setattr(netfilter, "which", lambda _: None)
    can, why = netfilter.is_available()
    assert not can
    assert "install iptables" in why


def test_a_tool_that_is_there_and_fails_is_quoted(
    monkeypatch: pytest.MonkeyPatch, untried: None
) -> None:
    def fail(*words: str, text: str = "") -> str:
        raise FleetError(f"{words[-1]}: the kernel has no such table")

    monkeypatch.setattr(netfilter, "may_administer_network", lambda: True)
    monkeypatch.setattr(netfilter, "which", lambda program: f"/usr/sbin/{program}")
    monkeypatch.setattr(netfilter, "why_no_namespace", lambda: "")
    monkeypatch.setattr(netfilter, "run", fail)
    can, why = netfilter.is_available()
    assert not can
    assert "the kernel has no such table" in why
    assert "install" not in why
