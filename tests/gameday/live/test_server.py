"""The server's thread dies and comes back; the run, the cookies and the port stay."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import OperatorActed, OperatorPredicted
from chaoslab.gameday.live import picture
from chaoslab.run.operators import Ask
from tests.gameday.live.visitors import HELD, Stand, opened
from tests.gameday_room import SECOND, plan_of
from tests.stage import HALF, Stage, ending

SOON_S = 15.0


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("live-")}


def crash(stand: Stand) -> None:
    """Take the event loop away from under the server."""
    loop = stand.page.stream._loop
    assert loop is not None
    loop.call_soon_threadsafe(loop.stop)


def until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + SOON_S
    while not is_so():
        assert time.monotonic() < end_s, "it never came"
        threading.Event().wait(0.01)


def test_a_server_that_dies_comes_back_with_its_cookies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with opened() as stand:
        ann = stand.operator()
        address = stand.page.address
        with ann.stream() as before:
            before.until("snapshot")
            crash(stand)
            with pytest.raises((AssertionError, OSError)):
                before.until("never")
        stand.tell(Kind.FAULT_HELD, **HELD)  # the run goes on meanwhile
        with ann.stream() as after:
            snapshot = after.until("snapshot")
            while snapshot["faults"][0]["stage"] != "waits":
                snapshot = after.next()
            stand.tell(Kind.OPERATOR_NOTED, by="Bo", text="back")
            assert after.until("sentence", n=2)["text"] == "Bo notes: back"
        assert ann.post("/act", {"action": "abort"}).status == 202
        assert isinstance(stand.taken()[0], Ask)
        assert stand.page.address == address
        assert stand.page.stream.restarts == 1
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == [
        "the live page's server died"
    ]
    assert threads() == set()


def test_it_comes_back_as_often_as_it_dies() -> None:
    with opened() as stand:
        ann = stand.operator()
        for number in range(1, 4):
            crash(stand)
            until(lambda number=number: stand.page.stream.restarts == number)  # type: ignore[misc]
            assert ann.get("/").status == 200


def test_an_event_that_breaks_the_fold_costs_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: picture.Picture, event: Event) -> None:
        raise RuntimeError("a mistake of ours")

    folds = {**picture.Picture._FOLDS, Kind.OPERATOR_REFUSED: broken}
    monkeypatch.setattr(picture.Picture, "_FOLDS", folds)
    with opened() as stand:
        ann = stand.operator()
        stand.tell(Kind.OPERATOR_REFUSED, by="Ann", spec="", asked="end", reason="no")
        until(lambda: stand.page.stream.restarts == 1)
        stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="on")
        with ann.stream() as stream:
            stream.until_said("Ann notes: on")


def test_seeing_an_event_neither_waits_nor_raises_while_the_server_is_down() -> None:
    with opened() as stand:
        crash(stand)
        began_s = time.monotonic()
        for _ in range(10_000):
            stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="x")
        assert time.monotonic() - began_s < 5.0
        until(lambda: stand.page.stream.restarts == 1)
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


def test_browsers_see_the_end_before_the_page_is_closed() -> None:
    with opened() as stand:
        stream = stand.viewer().stream()
        stream.until("snapshot")
        stand.tell(Kind.RUN_FINISHED, outcome="completed", reason="")
    with stream:
        stream.until_over()
        with pytest.raises(AssertionError, match="ended"):
            stream.next()
    assert threads() == set()


def test_it_ends_while_browsers_are_connected() -> None:
    with opened() as stand:
        streams = [stand.viewer().stream() for _ in range(5)]
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 4.0
    for stream in streams:
        stream.__exit__()
    assert threads() == set()
