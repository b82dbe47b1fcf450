"""Events in the order of the record, found by their times.

order of the record   3.0   5.1   4.9   7.2        times need not rise: nodes have clocks
latest up to here     3.0   5.1   5.1   7.2   ─┐
earliest from here    3.0   4.9   4.9   7.2   ─┴─► between(4, 6): only what lies in reach
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

_SEQ = attrgetter("seq")


class Timed(Protocol):
    """An event, or a part of one."""

    @property
    def seq(self) -> int:
        """Place in the record; several parts of an event have the same."""
        ...

    @property
    def time_s(self) -> float:
        """Time of the event."""
        ...


_T = TypeVar("_T", bound=Timed)


class TimeIndex(Generic[_T]):
    """Events that are known by then, with an index of their times."""

    def __init__(self, events: Sequence[_T]) -> None:
        self.events = tuple(events)
        times_s = [event.time_s for event in self.events]
        self._latest_s = list(accumulate(times_s, max))
        self._earliest_s = list(accumulate(reversed(times_s), min))[::-1]

    def between(self, start_s: float, end_s: float) -> Sequence[_T]:
        """Events with start_s <= time_s <= end_s, in order."""
        first = bisect_left(self._latest_s, start_s)
        last = bisect_right(self._earliest_s, end_s)
        return [one for one in self.events[first:last] if start_s <= one.time_s <= end_s]

    def after(self, since: Timed, until_s: float) -> Iterator[_T]:
        """Later events in the record than another event, with time_s <= until_s."""
        first = bisect_right(self.events, since.seq, key=_SEQ)
        last = bisect_right(self._earliest_s, until_s)
        later = map(self.events.__getitem__, range(first, last))
        return (one for one in later if one.time_s <= until_s)
