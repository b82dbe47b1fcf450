"""A harness that stalls leaves no fault active longer than it was asked to hold."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json, Kind
from chaoslab.links.proxied.http_api import Endpoint, an_object, call
from chaoslab.record.history import History
from chaoslab.undo.heartbeat import read_undone
from chaoslab.undo.log import open_undos
from tests.contracts.fleet_kit import wait_until
from tests.harness.machine import look
from tests.harness.running import Harness, begun, little, nothing_is_left, start_run

pytestmark = [pytest.mark.deep]


def toxics(harness: Harness) -> Sequence[Json]:
    """What the proxy of the run says is on the link of learner-2, asked from outside."""
    assert harness.record is not None
    entries = [one for one in open_undos(harness.record) if one.do == "clear_effects"]
    (link,) = (one for one in entries if one.facts["proxy"] == "learner-2")
    api = Endpoint(address=str(link.facts["api"]), token=str(link.facts["token"]))
    found = an_object(call(api, "GET", "/proxies/learner-2"))["toxics"]
    assert isinstance(found, list)
    return found


def noted(harness: Harness) -> Sequence[str]:
    """What the janitor has written that it undid; it undoes first, and then writes."""
    assert harness.record is not None
    return tuple(read_undone(harness.record))


def node(history: History, name: str) -> psutil.Process:
    """Its process, as started last."""
    started = [e for e in history.of(Kind.NODE_STARTED) if e.payload.node == name]
    return psutil.Process(started[-1].payload.pid)


@pytest.mark.gate
def test_the_janitor_lets_go_of_what_is_overdue_and_the_harness_notices(tmp_path: Path) -> None:
    before = look("", tmp_path)
    with start_run(tmp_path, little(last="2s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        os.kill(harness.process.pid, signal.SIGSTOP)
        paused, hung = (node(harness.history, name) for name in ("learner-1", "learner-3"))
        assert paused.status() == psutil.STATUS_STOPPED
        assert toxics(harness)

        wait_until(lambda: paused.status() != psutil.STATUS_STOPPED)
        wait_until(lambda: not toxics(harness))
        wait_until(lambda: len(noted(harness)) == 3)
        assert psutil.Process(harness.process.pid).status() == psutil.STATUS_STOPPED
        assert hung.is_running()

        os.kill(harness.process.pid, signal.SIGCONT)
        _, said = harness.end()
        assert harness.process.returncode == ExitCode.UNKNOWN, said
        history = harness.history

    (stalled,) = (e for e in history.of(Kind.HARNESS_STALLED) if e.payload.undone)
    undone = "; ".join(stalled.payload.undone)
    assert stalled.payload.silent_s > 2.5
    assert all(name in undone for name in ("learner-1", "learner-2", "learner-3"))
    assert history.of(Kind.ABORT_FIRED)
    assert not history.of(Kind.LINK_LOST), "nobody else took the latency away"
    assert all(story.healed for story in history.faults)
    assert harness.record is not None
    assert not open_undos(harness.record)
    nothing_is_left(before, harness)
