"""A log that is read again, where the stream broke off, loses and repeats nothing."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chaoslab.fleet.kubernetes.log_follower import LogPosition


def line(second: int, fraction: str, text: str, zone: str = "Z") -> bytes:
    return f"2026-11-27T10:00:{second:02d}{fraction}{zone} {text}".encode()


def test_a_line_is_new_once() -> None:
    position = LogPosition()
    first = line(1, ".000000001", "a")
    assert position.new(first) == b"a"
    position.reopen()
    assert position.new(first) is None
    assert position.new(line(1, ".000000002", "b")) == b"b"


def test_more_is_asked_for_from_the_second_of_the_last_line() -> None:
    position = LogPosition()
    assert position.since == ""
    position.new(line(7, ".123456789", "a", "+01:00"))
    assert position.since == "2026-11-27T10:00:07+01:00"


def test_a_later_time_in_another_zone_is_later() -> None:
    position = LogPosition()
    position.new(b"2026-11-27T10:00:00.9Z a")
    assert position.new(b"2026-11-27T11:00:00.95+01:00 b") == b"b"
    assert position.new(b"2026-11-27T11:00:00.8+01:00 c") is None


def test_a_line_without_a_time_is_the_rest_of_one_that_was_cut() -> None:
    assert LogPosition().new(b"tep, 5}") is None


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60).map(sorted),
    st.lists(st.integers(1, 20), max_size=12),
)
def test_whatever_the_breaks_each_line_comes_once_and_in_order(
    times: Sequence[int], reads: Sequence[int]
) -> None:
    """`times` in tenths of a second, several lines of one time among them."""
    log = [line(at // 10, f".{at % 10}", str(index)) for index, at in enumerate(times)]
    position, got = LogPosition(), list[bytes]()
    for length in (*reads, len(log)):
        position.reopen()
        since = position.since.encode()[:19]
        served = [one for one in log if one[:19] >= since]
        got += [text for one in served[:length] if (text := position.new(one)) is not None]
    assert got == [str(index).encode() for index in range(len(log))]
