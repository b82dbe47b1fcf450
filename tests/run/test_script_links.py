"""Links of a script's workers in a run: whose they are, and what is recorded of them."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaoslab.core.payloads import LinkMeasured, LinkStarted
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.plan.model import Script
from chaoslab.run.script_links import ScriptLinks
from chaoslab.undo.base import NoUndoLog
from tests.virtual_clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def fleet(tmp_path: Path, clock: VirtualClock) -> Iterator[LocalFleet]:
    with LocalFleet(tmp_path, clock, undo_log=NoUndoLog()) as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("train {rank} {port:store}", ["worker-0", "worker-1"]),
        ("launch {port:store}", ["launcher"]),
    ],
)
def test_each_worker_has_a_link_and_a_launcher_one_for_all(
    command: str, names: list[str], fleet: LocalFleet, clock: VirtualClock
) -> None:
    script = Script(command=command, workers=2, ports={"store": "127.0.0.1:1"})
    with closing(ScriptLinks(script, fleet, clock)) as links:
        ports = links.open()
        for name in names:
            fleet.enlist(NodeSpec(name=name, role=Role.LEARNER, command=("true",)))
            socket.create_connection(("127.0.0.1", ports[name]["store"])).close()
        started = [seen.payload for seen in fleet.poll(0.0)]
        assert [one.link for one in started if isinstance(one, LinkStarted)] == names
        assert links.read() == []
        clock.advance_to(1.5)
        measured = [seen.payload for seen in links.read()]
    assert [(one.learner, one.direction) for one in measured if isinstance(one, LinkMeasured)] == [
        (name, way) for name in names for way in ("down", "up")
    ]
