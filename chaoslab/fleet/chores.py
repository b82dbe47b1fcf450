"""Verbs and `poll` of one fleet at once: what each of them must leave to the other.

    worker thread ── with acting(): verb ──┐
    poll ── with idle() as is_idle: look at links, steer stress, take up what others restarted …
         ◄── taken_out ── observations of both

`poll` reads while verbs are carried out. What it does beside that are chores: they act on what
verbs act on, and neither was written to be interrupted by the other. A verb waits for the chore
that is being done; a chore is left to a later call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

T = TypeVar("T")


class Chores:
    """Those of one fleet, which is a `protocols.HasChores` by it."""

    def __init__(self) -> None:
        self._lock, self._verbs = Lock(), 0

    @contextmanager
    def acting(self) -> Iterator[None]:
        """While a verb is carried out."""
        with self._lock:
            self._verbs += 1
        try:
            yield
        finally:
            with self._lock:
                self._verbs -= 1

    @contextmanager
    def idle(self) -> Iterator[bool]:
        """Whether no verb is carried out; then none begins in the block."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            yield not self._verbs
        finally:
            self._lock.release()


def taken_out(found: list[T]) -> list[T]:
    """What is in a list to which other threads append; it is not in it any more."""
    taken = found[:]
    del found[: len(taken)]
    return taken
