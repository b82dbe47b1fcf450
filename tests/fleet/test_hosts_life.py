"""Which host of a node was lost, by the ends of all of them."""

from dataclasses import replace

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import NodeExited
from chaoslab.fleet.hosts_life import HostsLife

EXITED = NodeExited(node="learner-0", incarnation=1, pid=0, sent=())
KILLED = replace(EXITED, signal="SIGKILL", sent=("SIGKILL",))
NOTICED = replace(EXITED, exit_code=75)
TAKEN_AWAY = replace(EXITED, is_seen=False)


@pytest.mark.parametrize("other", [NOTICED, TAKEN_AWAY])
@pytest.mark.parametrize("is_first", [True, False])
def test_who_ended_because_of_another_is_not_the_one_that_was_lost(
    other: NodeExited, is_first: bool
) -> None:
    life = HostsLife(node="learner-0", count=2)
    ends = [(0, other), (1, KILLED)] if is_first else [(1, KILLED), (0, other)]
    (first, how), (second, after) = ends
    assert life.exited(first, how, 0.0) == []
    lost, ended = life.exited(second, after, 0.5)
    assert (lost.kind, lost.data["host"], lost.data["signal"]) == (Kind.HOST_LOST, 1, "SIGKILL")
    assert ended.data["signal"] == "SIGKILL"


def test_a_host_that_was_deleted_on_purpose_is_lost_though_nobody_saw_its_end() -> None:
    life = HostsLife(node="learner-0", count=2)
    deleted = replace(TAKEN_AWAY, signal="SIGKILL", sent=("SIGTERM", "SIGKILL"))
    assert life.exited(0, deleted, 0.0) == []
    lost, _ = life.exited(1, NOTICED, 0.5)
    assert lost.data["host"] == 0


@pytest.mark.parametrize(("how", "wait_s"), [(KILLED, 0.0), (NOTICED, 5.0)])
def test_the_rest_is_killed_once_the_lost_one_must_have_shown(
    how: NodeExited, wait_s: float
) -> None:
    life = HostsLife(node="learner-0", count=3, noticed_s=5.0)
    assert not life.waits
    life.exited(1, how, 10.0)
    assert life.waits
    assert life.due(10.0 + wait_s - 0.1) == []
    assert life.due(10.0 + wait_s) == [0, 2]
