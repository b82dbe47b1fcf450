"""Outbox and Inbox: order, replacement, bounds."""

import threading
from collections.abc import Iterator

import pytest

from chaoslab.diloco.wire.mailbox import Gate, Inbox, Outbox


def outbox(controls_max: int = 100) -> Outbox:
    return Outbox(controls_max=controls_max)


def pieces(*frames: bytes) -> Iterator[bytes]:
    return iter(frames)


def test_controls_go_even_between_the_pieces_of_a_payload() -> None:
    box = outbox()
    box.put_payload(lambda: pieces(b"p1", b"p2"), "p")
    frames = box.frames()
    assert next(frames) == b"p1"
    box.put(b"c")
    assert next(frames) == b"c"
    assert next(frames) == b"p2"


def test_a_newer_payload_takes_the_place_of_an_unsent_one() -> None:
    box = outbox()
    made = []
    for version in range(50):
        for fragment in range(3):

            def make(fragment: int = fragment, version: int = version) -> Iterator[bytes]:
                made.append((fragment, version))
                return pieces(b"%d@%d" % (fragment, version))

            box.put_payload(make, fragment)
    assert box.waiting == (0, 3)
    box_frames = box.frames()
    assert [next(box_frames) for _ in range(3)] == [b"0@49", b"1@49", b"2@49"]
    assert made == [(0, 49), (1, 49), (2, 49)], "what was replaced is never made"


def test_a_payload_on_its_way_is_finished_before_the_next_with_its_key() -> None:
    box = outbox()
    box.put_payload(lambda: pieces(b"old1", b"old2"), "p")
    frames = box.frames()
    assert next(frames) == b"old1"
    box.put_payload(lambda: pieces(b"new"), "p")
    assert [next(frames), next(frames)] == [b"old2", b"new"]


def test_others_pass_a_bulk_payload_whole_whenever_they_come() -> None:
    box = outbox()
    box.put_payload(lambda: pieces(b"b1", b"b2", b"b3"), "b", is_bulk=True)
    box.put_payload(lambda: pieces(b"p1", b"p2"), "p")
    frames = box.frames()
    assert [next(frames) for _ in range(3)] == [b"p1", b"p2", b"b1"]
    box.put_payload(lambda: pieces(b"q1", b"q2"), "q")
    assert next(frames) == b"q1"
    box.put(b"c")
    assert [next(frames) for _ in range(4)] == [b"c", b"q2", b"b2", b"b3"]


def test_a_control_with_a_key_replaces_an_unsent_one() -> None:
    box = outbox(controls_max=2)
    assert all(box.put(b"%d" % step, "progress") for step in range(100))
    assert box.waiting == (1, 0)
    assert next(box.frames()) == b"99"


def test_closing_says_the_last_word_and_drops_payloads() -> None:
    box = outbox()
    box.put(b"c")
    box.put_payload(lambda: pieces(b"p"), "p")
    box.close(b"final")
    box.put(b"late")
    box.put_payload(lambda: pieces(b"late"), "p")
    assert list(box.frames()) == [b"c", b"final"]


@pytest.mark.parametrize("is_bulk", [False, True])
def test_closing_breaks_off_the_payload_on_its_way(*, is_bulk: bool) -> None:
    box = outbox()
    box.put_payload(lambda: pieces(b"p1", b"p2", b"p3"), "p", is_bulk=is_bulk)
    frames = box.frames()
    assert next(frames) == b"p1"
    box.close(b"final")
    assert list(frames) == [b"final"]


def test_cutting_says_nothing_more_and_frees_who_waits() -> None:
    box = outbox()
    said: list[list[bytes]] = []
    waiter = threading.Thread(target=lambda: said.append(list(box.frames())))
    waiter.start()
    box.cut()
    waiter.join(60)
    assert said == [[]]


def inbox(items_max: int = 2, bytes_max: int = 100) -> Inbox[str]:
    return Inbox(items_max=items_max, bytes_max=bytes_max)


def put_in_background(box: Inbox[str], *items: tuple[str, int]) -> threading.Thread:
    gate = Gate(box)

    def put() -> None:
        for item, size in items:
            gate.put(item, size)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("size", "inside"), [(1, 2), (60, 1), (1000, 1)])
def test_a_session_waits_when_its_share_is_full(size: int, inside: int) -> None:
    box = inbox(items_max=2, bytes_max=100)
    thread = put_in_background(box, *[("x", size)] * 5)
    other = Gate(box)
    for taken in range(5 - inside):
        assert thread.is_alive(), f"{taken} were taken, so it still waits"
        assert box.get(timeout=60) == "x"
    thread.join(60)
    assert not thread.is_alive()
    other.put("another session never waits for this one", 10)


def test_the_last_words_of_a_session_are_let_in() -> None:
    box = inbox(items_max=1)
    gate = Gate(box)
    gate.put("first")
    gate.open()
    gate.put("second")
    gate.put("third")
    assert [box.get() for _ in range(3)] == ["first", "second", "third"]
