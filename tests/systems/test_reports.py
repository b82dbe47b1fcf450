"""What a learner reports, to a recorder that is started again in between."""

import json
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

import pytest

from chaoslab.systems.reports import Reports
from tests.contracts.fleet_kit import wait_until

LIMIT_S = 60.0


class Line:
    """The recorder's end of one connection."""

    def __init__(self, connection: socket.socket, lines: IO[bytes]) -> None:
        self._connection, self._lines = connection, lines

    def hear(self) -> Mapping[str, Any]:
        heard: Mapping[str, Any] = json.loads(self._lines.readline())
        return heard

    def say(self, **said: object) -> None:
        self._connection.sendall(json.dumps(said).encode() + b"\n")

    def end(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)


class Recorders:
    """Recorders at one address, one after the other: each takes one connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.address = "{}:{}".format(*listener.getsockname())

    @contextmanager
    def next(self) -> Iterator[Line]:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(LIMIT_S)
            with connection.makefile("rb") as lines:
                yield Line(connection, lines)


@pytest.fixture
def recorders() -> Iterator[Recorders]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        yield Recorders(listener)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def joined(recorders: Recorders, pool: ThreadPoolExecutor) -> Reports:
    """A member, whose recorder has ended since."""
    reports = Reports(recorders.address, "a token", 1)
    joining = pool.submit(reports.join, None)
    with recorders.next() as line:
        assert line.hear()["source"] == "initial"
        line.say(epoch=1, noted=0)
        assert joining.result(LIMIT_S) == 1
        line.end()
    return reports


def test_a_goodbye_is_said_to_the_next_recorder_until_one_has_heard_it(
    recorders: Recorders, pool: ThreadPoolExecutor
) -> None:
    reports = joined(recorders, pool)
    leaving = pool.submit(reports.leave, lambda _: None)
    for is_last in (False, True):
        with recorders.next() as line:
            assert line.hear()["source"] == "resumed"
            assert line.hear() == {"goodbye": True}
            if is_last:
                line.say(released=True)
                leaving.result(LIMIT_S)
            else:
                line.end()


def test_what_it_says_next_reaches_the_next_recorder_and_versions_until_they_are_noted(
    recorders: Recorders, pool: ThreadPoolExecutor
) -> None:
    reports = joined(recorders, pool)
    wait_until(lambda: not reports._connection)
    reports.adopt(3, "digest 3")
    with recorders.next() as line:
        assert [line.hear().get(key) for key in ("source", "holds")] == ["resumed", 3]
        reports.committed(4, "digest 4", ["learner-0"], {})
        reports.committed(5, "digest 5", ["learner-0"], {})
        assert [line.hear()["committed"] for _ in range(2)] == [4, 5]
        line.say(noted=4)
        line.end()
    wait_until(lambda: not reports._connection)
    leaving = pool.submit(reports.leave, lambda _: None)
    with recorders.next() as line:
        heard = [line.hear() for _ in range(3)]
        assert [next(iter(said)) for said in heard] == ["token", "committed", "goodbye"]
        assert heard[1]["committed"] == 5
        line.say(released=True)
        leaving.result(LIMIT_S)
