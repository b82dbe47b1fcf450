"""Nodes of several hosts: many processes, told of as one node."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaoslab.core.events import Kind, Observation
from chaoslab.core.payloads import NodeExited, NodeStarted
from chaoslab.fleet.base import Hosts, NodeSpec, Role, not_started, probed
from chaoslab.fleet.hosts_life import probed_as_one
from chaoslab.fleet.remote.members import Member, Placed


class FakeHost:
    """A host whose agent is up."""

    session = "s"


def spread(count: int = 2) -> Placed:
    spec = NodeSpec(
        name="learner-0",
        role=Role.LEARNER,
        command=("learner",),
        hosts=Hosts(
            count=count, flags=("--host-index", "{host}", "--meeting={meeting}"), secret="S"
        ),
    )
    hosts: list[Any] = [FakeHost() for _ in range(count)]
    node = replace(not_started(spec), incarnation=1, is_alive=True)
    return Placed(spec=spec, node=node, members=[Member(host=host, told="s") for host in hosts])


def started(pid: int, incarnation: int = 1) -> Observation:
    said = NodeStarted(node="learner-0", incarnation=incarnation, pid=pid, role="learner")
    return Observation.of("learner-0", said)


def exited(pid: int, code: int | None = None, by: str | None = None, *sent: str) -> Observation:
    said = NodeExited(
        node="learner-0", incarnation=1, pid=pid, exit_code=code, signal=by, sent=sent
    )
    return Observation.of("learner-0", said)


def told(placed: Placed, *seen: tuple[int, Observation], now_s: float = 0.0) -> list[Observation]:
    """What is told of what was seen of members."""
    return [
        said for number, one in seen for said in placed.see(placed.members[number].host, one, now_s)
    ]


def kinds(said: Sequence[Observation]) -> list[Kind]:
    return [one.kind for one in said]


def test_a_node_that_others_have_started_lives() -> None:
    placed = spread(1)
    told(placed, (0, exited(7, by="SIGKILL")))
    assert not placed.node.is_alive
    told(placed, (0, started(8, incarnation=2)))
    assert (placed.node.incarnation, placed.node.is_alive) == (2, True)


def test_each_member_has_flags_and_the_secret_of_its_incarnation() -> None:
    first, second = spread().specs("10.0.0.3:4700", "token")
    assert first.command == ("learner", "--host-index", "0", "--meeting=10.0.0.3:4700")
    assert second.command[2] == "1"
    assert first.secrets == second.secrets == {"S": "token"}
    assert first.hosts is None


def test_a_start_is_told_of_first_and_then_that_of_each_host() -> None:
    said = told(spread(), (1, started(11)), (0, started(10)))
    assert kinds(said) == [Kind.NODE_STARTED, Kind.HOST_STARTED, Kind.HOST_STARTED]
    assert [one.data["pid"] for one in said] == [10, 10, 11]


def test_the_node_has_ended_when_all_members_have_and_as_the_lost_one_did() -> None:
    placed = spread()
    told(placed, (0, started(10)), (1, started(11)))
    assert told(placed, (1, exited(11, None, "SIGKILL", "SIGKILL"))) == []
    assert placed.due(0.0) == [0]
    placed.tell_end([0])
    said = told(placed, (0, exited(10, None, "SIGKILL", "SIGKILL")))
    assert kinds(said) == [Kind.HOST_LOST, Kind.NODE_EXITED]
    assert (said[0].data["host"], said[0].data["signal"]) == (1, "SIGKILL")
    assert (said[1].data["pid"], said[1].data["signal"]) == (10, "SIGKILL")
    assert not placed.node.is_alive


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_node_that_leaves_or_is_killed_as_a_whole_has_lost_no_host(*, is_killed: bool) -> None:
    placed = spread()
    told(placed, (0, started(10)), (1, started(11)))
    if is_killed:
        placed.tell_end([0, 1])
    assert placed.is_whole is not is_killed
    ends = (None, "SIGKILL", "SIGKILL") if is_killed else (0,)
    (said,) = told(placed, (1, exited(11, *ends)), (0, exited(10, *ends)))
    assert (said.kind, said.data["exit_code"]) == (Kind.NODE_EXITED, ends[0])


def test_a_lost_host_takes_the_node_down() -> None:
    placed = spread()
    told(placed, (0, started(10)), (1, started(11)))
    assert placed.exits_of_host(placed.members[1].host, "host-1 is out of reach", 0.0) == []
    assert placed.due(0.0) == [0]
    placed.tell_end([0])
    lost, ended = told(placed, (0, exited(10, None, "SIGKILL", "SIGKILL")))
    assert (lost.data["host"], lost.data["reason"]) == (1, "host-1 is out of reach")
    assert ended.data["host_lost"] is True
    assert placed.exits_of_host(placed.members[1].host, "again", 0.0) == []


def test_what_a_host_says_that_the_node_has_left_is_not_told() -> None:
    placed = spread()
    left = placed.members[1].host
    placed.members[1] = Member(host=FakeHost(), told="s")  # type: ignore[arg-type]
    told(placed, (0, started(10)), (1, started(11)))
    assert placed.see(left, exited(11, 1), 0.0) == []
    assert placed.due(0.0) == []


def test_a_probe_shows_memory_and_time_of_all_members() -> None:
    first, second = (
        probed("learner-0", incarnation=1, pid=pid, state=state, rss_bytes=100 * pid, cpu_s=0.5)
        for pid, state in ((10, "T"), (11, "S"))
    )
    seen = probed_as_one([first, second]).data
    assert (seen["pid"], seen["state"], seen["rss_bytes"], seen["cpu_s"]) == (10, "T", 2100, 1.0)


def test_the_next_incarnation_comes_after_those_that_only_some_members_began() -> None:
    placed = spread()
    assert placed.next_incarnation == 2
    told(placed, (0, started(12, incarnation=4)))
    assert placed.next_incarnation == 5
