"""Work off the main thread: its order, and where its results and errors arrive."""

import queue
import threading

import pytest

from chaoslab.diloco.syncer.work import Work
from chaoslab.diloco.wire.mailbox import Gate, Inbox


def finish(work: Work, inbox: Inbox[str], found: list[int], count: int) -> None:
    """Handle results on this thread until there are so many."""
    while len(found) < count:
        with pytest.raises(queue.Empty):
            inbox.get(timeout=60)
        work.finish()


def new_inbox() -> Inbox[str]:
    return Inbox(items_max=10, bytes_max=10)


def test_results_come_to_the_thread_that_finishes_and_wake_its_inbox() -> None:
    inbox, where, found = new_inbox(), [], []
    work = Work(inbox.wake)

    def then(result: int) -> None:
        where.append(threading.current_thread())
        found.append(result)

    work.at_once(lambda: 7, then)
    finish(work, inbox, found, 1)
    assert (found, where) == ([7], [threading.current_thread()])
    work.close()


def test_jobs_in_order_wait_for_each_other_and_not_for_those_at_once() -> None:
    inbox, found = new_inbox(), []
    work = Work(inbox.wake)
    go, done = threading.Event(), []
    work.in_order(lambda: go.wait(60) and done.append(1), lambda _: found.append(1))
    work.in_order(lambda: done.append(2), lambda _: found.append(2))
    work.at_once(lambda: done.append(0), lambda _: found.append(0))
    finish(work, inbox, found, 1)
    go.set()
    finish(work, inbox, found, 3)
    assert found == done == [0, 1, 2]
    work.close()


def test_what_a_job_raises_is_raised_where_it_is_finished() -> None:
    inbox = new_inbox()
    work = Work(inbox.wake)
    work.at_once(lambda: 1 // 0, lambda _: None)
    with pytest.raises(queue.Empty):
        inbox.get(timeout=60)
    with pytest.raises(ZeroDivisionError):
        work.finish()
    work.close()


def test_closing_waits_for_jobs_and_tells_those_that_only_wait() -> None:
    work, found = Work(lambda: None), []
    work.in_order(lambda: work.closing.wait(60), found.append)
    work.close()
    work.finish()
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
