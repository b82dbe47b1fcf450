"""Work off the main thread: its order, and where its results and errors arrive."""

import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.syncer.work import Work
from chaoslab.diloco.wire.mailbox import Gate, Inbox


def finish(work: Work, inbox: Inbox[str], found: list[int], count: int) -> None:
    """Handle results on this thread until there are so many."""
    while len(found) < count:
        with pytest.raises(queue.Empty):
            inbox.get(timeout=60)
        run_now(work.finish())


def new_inbox() -> Inbox[str]:
    return Inbox(items_max=10, bytes_max=10)


def collecting(found: list[int]) -> Callable[[int], Coroutine[Any, Any, None]]:
    async def then(result: int) -> None:
        found.append(result)

    return then


def test_results_come_to_the_thread_that_finishes_and_wake_its_inbox() -> None:
    inbox, where, found = new_inbox(), [], []
    work = Work(inbox.wake)

    async def then(result: int) -> None:
        where.append(threading.current_thread())
        found.append(result)

    work.at_once(lambda: 7, then)
    finish(work, inbox, found, 1)
    assert (found, where) == ([7], [threading.current_thread()])
    run_now(work.close())


def test_jobs_in_order_wait_for_each_other_and_not_for_those_at_once() -> None:
    inbox, found = new_inbox(), list[int]()
    work = Work(inbox.wake)
    go, done = threading.Event(), list[int]()

    async def first() -> int:
        assert go.wait(60)
        done.append(1)
        return 1

    async def second() -> int:
        done.append(2)
        return 2

    work.in_order(first, collecting(found))
    work.in_order(second, collecting(found))
    work.at_once(lambda: done.append(0) or 0, collecting(found))
    finish(work, inbox, found, 1)
    go.set()
    finish(work, inbox, found, 3)
    assert found == done == [0, 1, 2]
    run_now(work.close())


def test_what_a_job_raises_is_raised_where_it_is_finished() -> None:
    inbox = new_inbox()
    work = Work(inbox.wake)
    work.at_once(lambda: 1 // 0, collecting([]))
    with pytest.raises(queue.Empty):
        inbox.get(timeout=60)
    with pytest.raises(ZeroDivisionError):
        run_now(work.finish())
    run_now(work.close())


def test_closing_waits_for_jobs_and_tells_those_that_only_wait() -> None:
    work, found = Work(lambda: None), list[int]()
    work.in_order(lambda: work.pause(60), collecting(found))
    run_now(work.close())
    run_now(work.finish())
    assert found == [True]


def test_an_inbox_that_was_woken_gives_what_it_has_first() -> None:
    inbox = new_inbox()
    inbox.wake()
    Gate(inbox).put("an item")
    assert inbox.get(timeout=0) == "an item"
    inbox.wake()
    with pytest.raises(queue.Empty):
        inbox.get()
    with pytest.raises(queue.Empty):
        inbox.get(timeout=0)
