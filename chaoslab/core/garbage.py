"""Garbage collection, seldom, and put off while many objects are made that all stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MADE_MOST = 200_000
"""Objects made, less freed, after which garbage is collected: some 50 MB."""


def collect_seldom() -> None:
    """Look for garbage no more often than a record of many events, which all stay, needs it."""
    gc.set_threshold(_MADE_MOST, *gc.get_threshold()[1:])


@contextmanager
def without_collection(*, freeze: bool = False) -> Iterator[None]:
    """Look for no garbage: among objects that all stay, as of a record, that takes a third more.

    `freeze`: nor is any looked for among all that is there afterwards. Code that does that again
    and again never frees what is unreachable by then, for instance the fleet of a simulation.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        if was_on:
            gc.enable()
