"""Arrivals: what other threads leave for the one that polls a fleet, and verbs done side by side.

    threads ── hand_over(Arrival) ──► Arrivals ── taken ──► the fleet's thread: observe; poll raises
    together(nodes, verb) ──► a thread for each of them, until all are done

The threads carry bytes and decide nothing.
"""

import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation

_BATCH: Final = 2048
"""Most arrivals that are taken before `poll` may return."""
_AT_ONCE: Final = 16
_ASK_S: Final = 0.5
"""Interval in which a waiting thread checks whether it is still wanted."""
_Node = TypeVar("_Node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something that another thread leaves for the fleet's thread."""

    observe: Callable[[], Sequence[Observation]] = tuple
    """Called there; what it observed. FleetError: that cannot be known."""
    error: FleetError | None = None
    """Raised there by `poll`, unless the fleet is closing."""


Arrivals: TypeAlias = "queue.Queue[Arrival]"


def hand_over(arrivals: Arrivals, arrival: Arrival, is_wanted: Callable[[], bool]) -> None:
    """Leave it, on another thread: waits while the queue is full, as long as it is wanted."""
    while is_wanted():
        with suppress(queue.Full):
            arrivals.put(arrival, timeout=_ASK_S)
            return


def taken(arrivals: Arrivals, limit_s: float) -> Iterator[Arrival]:
    """Arrivals, after waiting `limit_s` at most for the first of them."""
    with suppress(queue.Empty):
        yield arrivals.get(timeout=limit_s) if limit_s else arrivals.get_nowait()
        for _ in range(_BATCH):
            yield arrivals.get_nowait()


def drained(chunks: "queue.SimpleQueue[bytes]") -> bytes:
    """All that another thread has left there; nothing waits."""
    found = []
    with suppress(queue.Empty):
        while True:
            found.append(chunks.get_nowait())
    return b"".join(found)


def observed(
    arrival: Arrival, troubles: list[FleetError], *, is_open: bool
) -> Sequence[Observation]:
    """Observations of an arrival; its error, or that of observing, joins what `poll` will raise."""
    if arrival.error is not None and is_open:
        troubles.append(arrival.error)
    try:
        return arrival.observe()
    except FleetError as error:
        troubles.append(error)
        return ()


def news(arrivals: Arrivals, troubles: list[FleetError], *, is_open: bool) -> list[Observation]:
    """Present arrivals, without waiting, as in `observed`."""
    there = taken(arrivals, 0.0)
    return [one for arrival in there for one in observed(arrival, troubles, is_open=is_open)]


def together(nodes: Iterable[_Node], verb: Callable[[_Node], object]) -> None:
    """Side by side, to arrive together; the first FleetError is raised when all are done."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = [pool.submit(verb, node) for node in nodes]
    for one in done:
        one.result()


def all_or_none(
    pause: Callable[[], None], resume: Callable[[str], None], names: Iterable[str]
) -> None:
    """Pause nodes; where one of them cannot be paused, let all of them go on."""
    try:
        pause()
    except FleetError as error:
        for name in names:
            try:
                resume(name)
            except FleetError as worse:
                error.add_note(f"and {name} cannot be resumed: {worse}")
        raise
