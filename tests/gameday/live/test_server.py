"""The server's thread dies and comes back; the run, the cookies and the port stay."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import OperatorActed, OperatorPredicted
from chaoslab.gameday.live import server
from chaoslab.run.operators import Ask
from tests.contracts.fleet_kit import wait_until
from tests.gameday.live.visitors import HELD, WITHIN_S, Stand, opened
from tests.gameday_room import SECOND, plan_of
from tests.stage import HALF, Stage, ending


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("live-")}


def crash(stand: Stand) -> None:
    """Take the event loop away from under the server."""
    loop = stand.page.stream._loop
    loop.call_soon_threadsafe(loop.stop)


def test_a_server_that_dies_comes_back_with_its_cookies_each_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_AGAIN_S", (0.0,))
    with opened() as stand:
        ann = stand.operator()
        address = stand.page.address
        with ann.stream() as before:
            before.until("picture")
            crash(stand)
            with pytest.raises((AssertionError, OSError)):
                before.until("never")
        stand.tell(Kind.FAULT_HELD, **HELD)  # the run goes on meanwhile
        with ann.stream() as after:
            while after.until("picture")["faults"][0]["stage"] != "waits":
                pass
            stand.tell(Kind.OPERATOR_NOTED, by="Bo", text="back")
            assert after.until("sentence", n=2)["text"] == "Bo notes: back"
        assert ann.post("/act", {"action": "abort"}).status == 202
        assert isinstance(stand.taken()[0], Ask)
        assert stand.page.address == address
        crash(stand)
        wait_until(lambda: stand.page.stream.restarts == 2)
        assert ann.get("/").status == 200
    assert sum(one.levelno >= logging.ERROR for one in caplog.records) == 2
    wait_until(lambda: not threads())


def test_seeing_an_event_neither_waits_nor_raises_while_the_server_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_AGAIN_S", (3600.0,))
    with opened() as stand:
        crash(stand)
        wait_until(lambda: not stand.page.stream._loop.is_running())
        for _ in range(10_000):
            stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="x")
        assert stand.page.stream.restarts == 0
    stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="after the end")


def test_what_is_asked_on_the_page_is_done_and_stands_in_the_record(tmp_path: Path) -> None:
    with opened() as stand:
        ann, cy = stand.operator(), stand.viewer("Cy")

        class Hand:
            """Asks by the page as soon as the run has come so far."""

            statuses: ClassVar[list[int]] = []

            def see(self, event: Event) -> None:
                if event.kind is Kind.FAULT_HELD and event.data["spec"] == "half-dies":
                    self.statuses += [
                        cy.post("/predict", {"fault": "half-dies", "gap_s": 2.0}).status,
                        cy.post("/act", {"action": "go"}).status,
                        ann.post("/act", {"action": "go", "fault": "half-dies"}).status,
                    ]
                if event.kind is Kind.FAULT_INJECTED:
                    self.statuses.append(ann.post("/act", {"action": "abort"}).status)

        hand = Hand()
        stage = Stage(
            tmp_path,
            (HALF, SECOND),
            plan=plan_of(),
            inbox=stand.inbox,
            observers=[stand.page, hand],
        )
        history = stage.execute()
        with cy.stream() as stream:
            (shown,) = (one for one in stream.until_over()["faults"] if one["spec"] == "half-dies")
    assert hand.statuses == [202, 403, 202, 202]
    acted = [(one.payload.by, one.payload.action) for one in history.of(OperatorActed)]
    assert acted == [("Ann", "go"), ("Ann", "abort")]
    assert [one.payload.by for one in history.of(OperatorPredicted)] == ["Cy"]
    assert ending(history) == ("aborted", "an operator: Ann aborted it")
    assert (shown["stage"], shown["predicted"]) == ("over", [{"by": "Cy", "gap_s": 2.0}])


@pytest.mark.deep
def test_browsers_see_the_end_before_the_page_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LAST_PICTURE_S", 3.0)  # for a machine with other work
    with opened() as stand:
        stream = stand.viewer().stream()
        stream.until("picture")
        stand.tell(Kind.RUN_FINISHED, outcome="completed", reason="")
    with stream:
        stream.until_over()
        with pytest.raises(AssertionError, match="ended"):
            stream.until("never")
    wait_until(lambda: not threads())


def test_it_ends_while_browsers_are_connected() -> None:
    with opened() as stand:
        streams = [stand.viewer().stream() for _ in range(5)]
    for stream in streams:
        stream.__exit__()
    wait_until(lambda: not threads())


# ---------------------------------------------------------------- who connects and asks nothing


@contextmanager
def idle(stand: Stand, number: int) -> Iterator[list[socket.socket]]:
    """Connections that nothing is sent on."""
    address = stand.page.address
    with ExitStack() as stack:
        where = (address.host, address.port)
        yield [
            stack.enter_context(socket.create_connection(where, timeout=WITHIN_S))
            for _ in range(number)
        ]


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes it before long, without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_what_comes_while_all_places_are_taken_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CONNECTIONS_MOST", 5)
    with opened() as stand, idle(stand, 5), idle(stand, 1) as (one_more,):
        assert is_closed(one_more)
