"""How the processes of a learner meet: who may take part, who is waited for, and for how long."""

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection

import pytest

from chaoslab.diloco.learner.hosts import meeting as module
from chaoslab.diloco.learner.hosts.channel import Order, receive, send
from chaoslab.diloco.learner.hosts.meeting import Heartbeats, Meeting, MeetingFailed
from chaoslab.diloco.learner.hosts.membership import SECRET, SUPERVISOR, Membership, membership

PATIENCE_S = 60.0


def free_port(family: socket.AddressFamily, address: str) -> int:
    with socket.socket(family) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


@pytest.fixture(params=["kernel", "IPv4", "IPv6"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the hosts meet."""
    if request.param == "kernel":
        return f"@chaoslab-test-{secrets.token_hex(8)}"
    if request.param == "IPv4":
        return f"127.0.0.1:{free_port(socket.AF_INET, '127.0.0.1')}"
    try:
        return f"[::1]:{free_port(socket.AF_INET6, '::1')}"
    except OSError:
        pytest.skip("no IPv6 on this machine")


def member(
    place: str, index: int, *, hosts: int = 3, secret: str = "s", timeout_s: float = PATIENCE_S
) -> Membership:
    return membership(
        hosts=hosts, index=index, meeting=place, timeout_s=timeout_s, environment={SECRET: secret}
    )


class Process:
    """A process of a learner, on a thread."""

    def __init__(self, own: Membership, within_s: float = PATIENCE_S) -> None:
        self.met: Meeting | None = None
        self.failed = ""
        self.lost: list[int] = []
        self._own, self._within_s = own, within_s
        self._thread = threading.Thread(target=self._meet, daemon=True)
        self._thread.start()

    def _meet(self) -> None:
        try:
            self.met = Meeting(self._own, self._lose, within_s=self._within_s)
        except MeetingFailed as error:
            self.failed = str(error)

    def _lose(self, host: int, _reason: str) -> None:
        self.lost.append(host)

    def end(self) -> "Process":
        """Wait until it has met the others, or not."""
        self._thread.join(PATIENCE_S)
        assert self.met is not None or self.failed
        return self


def orders_arrive(processes: list[Process]) -> bool:
    """Whether what host 0 orders reaches all of the others."""
    first, *others = (process.end().met for process in processes)
    assert first is not None
    send(Order(do="initialize", facts={"at": "there"}), first.orders)
    said = [receive(other.orders[0]).facts["at"] for other in others if other is not None]
    return said == ["there"] * (len(processes) - 1)


def test_all_hosts_meet_in_whatever_order_they_come(place: str) -> None:
    started = {index: Process(member(place, index)) for index in (2, 0, 1)}
    assert orders_arrive([started[index] for index in range(3)])
    assert not any(process.failed for process in started.values())


def until_it_listens(dial: Callable[[], Connection]) -> Connection:
    while True:
        try:
            return dial()
        except (ConnectionRefusedError, FileNotFoundError):
            continue


def test_who_does_not_know_the_secret_is_turned_away() -> None:
    place = f"@chaoslab-test-{secrets.token_hex(8)}"
    first = Process(member(place, 0))
    address = member(place, 1).address
    with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
        until_it_listens(lambda: Client(address, authkey=b"another")).close()
    assert orders_arrive([first, Process(member(place, 1)), Process(member(place, 2))])


def test_who_says_nothing_is_turned_away() -> None:
    place = f"@chaoslab-test-{secrets.token_hex(8)}"
    first = Process(member(place, 0, timeout_s=0.1))
    with until_it_listens(lambda: Client(member(place, 1).address)):
        assert orders_arrive([first, Process(member(place, 1)), Process(member(place, 2))])


@pytest.fixture
def came(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Counts the connections of hosts that host 0 has let in."""
    counted, greeting = threading.Semaphore(0), module._greeting

    def noted(own: Membership, process: str, purpose: str) -> Connection:
        connection = greeting(own, process, purpose)
        counted.release()
        return connection

    monkeypatch.setattr(module, "_greeting", noted)
    return counted


def test_no_heartbeat_is_expected_before_all_are_there(
    came: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, beating = f"@chaoslab-test-{secrets.token_hex(8)}", threading.Semaphore(0)

    class Noted(Heartbeats):
        def start(self) -> None:
            beating.release()
            super().start()

    monkeypatch.setattr(module, "Heartbeats", Noted)
    early = [Process(member(place, index)) for index in (0, 1)]
    for _ in range(2):
        assert came.acquire(timeout=PATIENCE_S)
    assert not beating.acquire(blocking=False)
    assert orders_arrive([*early, Process(member(place, 2))])
    for _ in range(4):
        assert beating.acquire(timeout=PATIENCE_S)


class Clock:
    """One that is moved by the test."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    sleep = staticmethod(time.sleep)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which processes wait for each other."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_process_left_over_from_before_gives_way_to_the_one_that_comes_later(
    came: threading.Semaphore, clock: Clock
) -> None:
    place = f"@chaoslab-test-{secrets.token_hex(8)}"
    first, old = Process(member(place, 0)), Process(member(place, 1))
    for _ in range(2):
        assert came.acquire(timeout=PATIENCE_S)
    new = Process(member(place, 1))
    for _ in range(2):
        assert came.acquire(timeout=PATIENCE_S)
    assert orders_arrive([first, new, Process(member(place, 2))])
    clock.now_s += PATIENCE_S
    assert place in old.end().failed


# ---------------------------------------------------------------- meetings that fail


def test_host_0_says_who_did_not_come(came: threading.Semaphore, clock: Clock) -> None:
    place = f"@chaoslab-test-{secrets.token_hex(8)}"
    first, early = Process(member(place, 0)), Process(member(place, 1))
    for _ in range(2):
        assert came.acquire(timeout=PATIENCE_S)
    clock.now_s += PATIENCE_S
    until_it_listens(lambda: Client(member(place, 1).address)).close()  # it looks at the clock
    assert first.end().failed.endswith(": host 2")
    assert place in early.end().failed


def test_a_place_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        assert Process(member(place, 0)).end().failed.count(place)


@pytest.fixture
def silent() -> Iterator[str]:
    """A place where somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


def test_whoever_else_listens_there_is_not_taken_for_host_0(silent: str) -> None:
    assert silent in Process(member(silent, 1, timeout_s=0.05), within_s=0.1).end().failed


# ---------------------------------------------------------------- memberships


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"index": 2}, "--host-index: .*0.*1.*2"),
        ({"meeting": "here"}, "--meeting"),
        ({"environment": {}}, SECRET),
        ({"timeout_s": 0.0}, "--host-timeout"),
    ],
)
def test_a_membership_that_cannot_be_says_why(wrong: dict[str, object], says: str) -> None:
    right: dict[str, object] = {
        "hosts": 2, "index": 1, "meeting": "10.0.0.3:4700", "timeout_s": 5.0,
        "environment": {SECRET: "s"},
    }  # fmt: skip
    with pytest.raises(ValueError, match=says):
        membership(**{**right, **wrong})  # type: ignore[arg-type]


def test_a_membership_knows_its_address_and_its_supervisor() -> None:
    found = membership(
        hosts=2,
        index=0,
        meeting="[fd00::3]:4700",
        timeout_s=5.0,
        environment={SECRET: "s", SUPERVISOR: "12"},
    )
    assert (found.address, found.interface) == (("fd00::3", 4700), "fd00::3")
    assert (found.is_first, found.supervisor) == (True, 12)
