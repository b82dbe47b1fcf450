"""Nodes on hosts, each with an agent: what only a distance can do wrong; `test_ssh` has the kit."""

import errno
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.event_loop import EventLoop
from chaoslab.core.events import Kind, encode
from chaoslab.fleet.base import Damage, Hosts, Node, NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.protocols import HasHosts, HasVolumes, Pausable, StoresFiles, able
from chaoslab.fleet.remote.contact import OutOfReach, Terms
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.ground import Ground
from chaoslab.fleet.remote.host import Runs
from chaoslab.fleet.remote.protocol.messages import from_observation
from chaoslab.fleet.remote.protocol.names import AGENT
from chaoslab.fleet.remote.protocol.reach import HostAddress, Reach
from chaoslab.fleet.storage import volume
from chaoslab.undo.base import UndoLog
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.contracts.fleet_kit import PATIENCE_S, Stage, wait_until
from tests.fleet.direct_hosts import DirectReach, ThisPython, home_folder, marked
from tests.fleet.local_stage import Remembered
from tests.fleet.test_local import learner

pytestmark = [pytest.mark.deep]
RUN = "0123456789"


@contextmanager
def remote_stage(
    folder: Path, undo_log: UndoLog, *, hosts: int = 1, terms: Terms | None = None
) -> Iterator[Stage]:
    clock = WallClock()
    with ExitStack() as stack:
        homes = [stack.enter_context(home_folder()) for _ in range(hosts)]
        ground = ground_of(
            [DirectReach(f"host-{number}", home) for number, home in enumerate(homes)], terms
        )
        fleet = RemoteFleet(
            Place(run_directory=folder, clock=clock, undo_log=undo_log), ground, kind="ssh"
        )
        yield Stage(fleet=stack.enter_context(fleet), clock=clock)


def ground_of(reaches: Sequence[Reach], terms: Terms | None = None) -> Ground:
    """Hosts that are reached like this, with node N on host N modulo their number."""
    ground = Ground(
        loop=EventLoop(),
        hosts={},
        place=lambda name: (reaches[int(name.rpartition("-")[2]) % len(reaches)].name,),
        undo_facts=lambda name: {"host": name, "run": RUN},
        make_ready=no_other_host,
        news=SimpleQueue(),
        run=RUN,
        terms=terms or Terms(),
    )
    for reach in reaches:
        ground.add(reach, ThisPython())
    return ground


async def no_other_host(found: HostAddress) -> tuple[Reach, Runs]:
    raise FleetError(f"there is no host {found.address}")


# ---------------------------------------------------------------- several hosts


def test_verbs_reach_nodes_on_several_hosts_side_by_side(
    tmp_path: Path, undo_log: Remembered
) -> None:
    with remote_stage(tmp_path, undo_log, hosts=2) as stage:
        for name in ("learner-0", "learner-1"):
            stage.fleet.start(learner(name))
        for name in ("learner-0", "learner-1"):
            stage.until(Kind.LEARNER_STEP, node=name)
        able(stage.fleet, Pausable).pause("learner-0", "learner-1")
        for name in stage.fleet.nodes:
            wait_until(lambda name=name: stage.fleet.probe(name).data["state"] == "T")
        stage.fleet.resume("learner-0")
        stage.fleet.kill("learner-1")
        assert exit_of(stage, "learner-1") == "SIGKILL"
        with pytest.raises(FleetError, match="learner-1"):
            able(stage.fleet, Pausable).pause("learner-0", "learner-1")
        assert stage.fleet.probe("learner-0").data["state"] != "T", "on all hosts or on none"


@pytest.mark.gate
def test_records_come_home_and_hosts_keep_nothing(tmp_path: Path, undo_log: Remembered) -> None:
    with remote_stage(tmp_path, undo_log) as stage:
        home = homes(stage)[0]
        stage.fleet.start(learner("learner-0", "--say", "hello"))
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.kill("learner-0")
        stage.fleet.restart("learner-0")
        assert (home / ".chaoslab/runs" / RUN).is_dir()
        stage.fleet.__exit__(None, None, None)
        assert not list((home / ".chaoslab/runs").iterdir())
    assert "hello" in (tmp_path / "nodes/learner-0/1/stdout.log").read_text()
    ending = json.loads((tmp_path / "nodes/learner-0/1/exit.json").read_text())
    assert ending["signal"] == "SIGKILL"
    assert (tmp_path / "hosts/host-0/spool.jsonl").read_text().count("node.started") == 2
    assert sorted(undo_log.closed) == [0]


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_what_a_node_keeps_on_a_host_is_filled_freed_and_damaged_there(
    tmp_path: Path, undo_log: Remembered
) -> None:
    with remote_stage(tmp_path, undo_log) as stage:
        fleet = able(stage.fleet, HasVolumes)
        stage.fleet.start(replace(learner("learner-0"), keeps="kept", has_volume=True))
        kept = homes(stage)[0] / ".chaoslab/runs" / RUN / "nodes/learner-0/kept"
        fleet.fill_disk("learner-0")
        with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
            (kept / "state").write_bytes(bytes(10_000))
        fleet.free_disk("learner-0")
        (kept / "state").write_bytes(bytes(10_000))
        stage.fleet.kill("learner-0")
        able(stage.fleet, StoresFiles).damage("learner-0", Damage.TRUNCATE)
        assert stage.fleet.restart("learner-0").incarnation == 2
        told = stage.until(Kind.STORAGE_DAMAGED, node="learner-0")
        assert (told.data["file"], told.data["bytes_after"]) == ("state", 5_000)
    assert not volume.is_mounted(kept)


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_a_host_whose_disk_is_full_is_named_while_it_beats(
    tmp_path: Path, undo_log: Remembered, full: Path
) -> None:
    ground = ground_of([DirectReach("host-0", full)])
    clock, disk = WallClock(), full / ".chaoslab/runs"
    with RemoteFleet(
        Place(run_directory=tmp_path, clock=clock, undo_log=undo_log), ground, kind="ssh"
    ) as fleet:
        stage = Stage(fleet=fleet, clock=clock)
        fleet.start(learner("learner-0"))
        stage.until(Kind.LEARNER_STEP)
        volume.fill(disk)
        blocked = stage.until(Kind.DISK_BLOCKED).data
        assert (blocked["host"], blocked["file"]) == ("host-0", "spool.jsonl")
        stage.until(Kind.LEARNER_STEP)
        volume.free(disk)
        freed = stage.until(Kind.DISK_FREED).data
        assert freed["host"] == "host-0"
    lines = (tmp_path / "hosts/host-0/spool.jsonl").read_text().splitlines()
    assert "learner.step" in lines[-1] or "node.exited" in lines[-1]


@pytest.fixture
def full() -> Iterator[Path]:
    """The home of a host whose runs are on a disk of their own, which can be filled."""
    with home_folder() as home:
        disk = home / ".chaoslab/runs"
        volume.mount(disk)
        try:
            yield home
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


# ---------------------------------------------------------------- broken connections


def live_through_cuts(stage: Stage, folder: Path, number: int) -> None:
    """So many cuts at random moments, while nodes report, are killed and start again."""
    chance = random.Random(7)
    for name in ("learner-0", "learner-1"):
        stage.fleet.start(learner(name))
    while (broken := cuts(stage)) < number:
        cut(stage, broken % 2)
        if chance.random() < 0.05:
            name = chance.choice(("learner-0", "learner-1"))
            until_reached(partial(stage.fleet.kill, name))
            until_reached(partial(stage.fleet.restart, name))
        stage.poll(chance.uniform(0.0, 0.05))
    for name in ("learner-0", "learner-1"):
        stage.until(Kind.LEARNER_STEP, node=name)
    stage.fleet.__exit__(None, None, None)
    while stage.poll(0.0):
        continue
    assert lines_of(stage) == lines_on_hosts(folder)
    assert steps_are_whole(stage)


def until_reached(verb: Callable[[], object]) -> None:
    """Again as long as the host is out of reach, as a run heals."""
    deadline_s = time.monotonic() + 60.0
    while True:
        try:
            verb()
        except OutOfReach:
            assert time.monotonic() < deadline_s
        else:
            return


def cuts(stage: Stage) -> int:
    """How many connections broke so far."""
    return sum(host.agent.cuts for host in ground_under(stage).hosts.values())


def cut(stage: Stage, number: int) -> None:
    """Break the connection to a host."""
    ground = ground_under(stage)
    reach: Any = [*ground.hosts.values()][number].reach

    async def now() -> None:
        reach.cut()

    ground.loop.run(now(), within_s=5.0)


def lines_of(stage: Stage) -> Counter[str]:
    """What the fleet told of what agents saw, each once; gaps are what it saw itself."""
    heard = (one for one in stage.seen if one.kind is not Kind.HARNESS_STALLED)
    return Counter(encode(from_observation(one)) for one in heard)


def lines_on_hosts(folder: Path) -> Counter[str]:
    """What the agents saw, each once."""
    found: Counter[str] = Counter()
    for spool in folder.glob("hosts/*/spool.jsonl"):
        for line in spool.read_text().splitlines():
            seen = json.loads(line)["seen"]
            shown = {key: seen[key] for key in ("source", "kind", "data", "node_s") if key in seen}
            found[encode(shown)] += 1
    return found


def steps_are_whole(stage: Stage) -> bool:
    """Whether each incarnation's steps are 1, 2, 3 …, in this order."""
    steps: dict[tuple[str, object], list[object]] = {}
    for one in stage.seen:
        if one.kind is Kind.LEARNER_STEP:
            steps.setdefault((one.source, one.data["incarnation"]), []).append(one.data["step"])
    return bool(steps) and all(one == [*range(1, len(one) + 1)] for one in steps.values())


@pytest.mark.gate
def test_a_gap_is_noted_after_all_that_came_late(tmp_path: Path, undo_log: Remembered) -> None:
    with remote_stage(tmp_path, undo_log) as stage:
        stage.fleet.start(learner("learner-0"))
        stage.until(Kind.LEARNER_STEP)
        block(stage, is_blocked=True)
        began_s = stage.clock.now_s()
        while stage.clock.now_s() < began_s + 1.5:
            stage.poll(0.1)
        block(stage, is_blocked=False)
        noted = stage.until(Kind.HARNESS_STALLED)
        assert noted.data["host"] == "host-0"
        assert 1.0 < float(str(noted.data["silent_s"])) < stage.clock.now_s()
        assert float(str(noted.data["since_s"])) >= began_s - 0.5
        at = stage.seen.index(noted)
        assert stage.seen[at - 1].kind is Kind.LEARNER_STEP
        assert steps_are_whole(stage)


def test_a_host_that_is_out_of_reach_for_too_long_is_lost_with_its_nodes(
    tmp_path: Path, undo_log: Remembered
) -> None:
    """And taken back when it can be reached: what ran on is ended, and the node starts again."""
    terms = Terms(lease_s=30.0, lost_s=1.0)
    with remote_stage(tmp_path, undo_log, hosts=2, terms=terms) as stage:
        for name in ("learner-0", "learner-1"):
            stage.fleet.start(learner(name))
            stage.until(Kind.LEARNER_STEP, node=name)
        (before,) = [one for one in members_of(stage) if "learner-0" in one.cmdline()]
        block(stage, is_blocked=True)
        ended = stage.until(Kind.NODE_EXITED)
        assert (ended.source, ended.data["host_lost"]) == ("learner-0", True)
        assert [node.is_alive for node in stage.fleet.nodes.values()] == [False, True]
        stage.fleet.kill("learner-0")
        with pytest.raises(FleetError, match="host-0"):
            able(stage.fleet, Pausable).pause("learner-0")
        assert stage.fleet.probe("learner-0").data["state"] == "gone"
        assert before.is_running()
        block(stage, is_blocked=False)
        assert restarted(stage, "learner-0").incarnation == 2
        assert not before.is_running()
        stage.until(Kind.LEARNER_STEP, node="learner-0")


def restarted(stage: Stage, name: str) -> Node:
    """A node whose host was lost, as soon as the host can have it again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        with suppress(FleetError):
            return stage.fleet.restart(name)
        stage.poll(0.05)
    return stage.fleet.restart(name)


def block(stage: Stage, *, is_blocked: bool) -> None:
    """Cut host-0 off, or let it be reached again."""
    reach = ground_under(stage).hosts["host-0"].reach
    assert isinstance(reach, DirectReach)
    reach.is_blocked = is_blocked
    if is_blocked:
        cut(stage, 0)


# ---------------------------------------------------------------- the end of a harness or an agent


def test_two_starts_at_once_make_one_agent() -> None:
    """A start whose connection broke may go on while the next one comes."""
    with home_folder() as home:
        program = ("env", f"HOME={home}", *ThisPython().command("-m", AGENT))
        starts = [subprocess.Popen((*program, "start", RUN)) for _ in range(2)]
        assert [one.wait() for one in starts] == [0, 0]
        agents = [
            one
            for one in psutil.process_iter()
            if is_agent(one) and one.environ().get("HOME") == str(home)
        ]
        subprocess.run((*program, "halt", RUN), check=True)
        for one in agents:
            with suppress(psutil.Error):
                one.terminate()
        assert len(agents) == 1


def is_agent(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return {AGENT, "serve", RUN} <= set(process.cmdline())
    return False


@pytest.mark.gate
def test_nodes_die_with_their_agent_and_its_janitor_undoes_the_rest(
    tmp_path: Path, undo_log: Remembered
) -> None:
    terms = Terms(lease_s=2.0, lost_s=1.0)
    with remote_stage(tmp_path, undo_log, terms=terms) as stage:
        home = homes(stage)[0]
        stage.fleet.start(learner("learner-0", "--children", "1"))
        pid = int(str(stage.until(Kind.NODE_STARTED).data["pid"]))
        stage.until(Kind.LEARNER_STEP)
        (child,) = psutil.Process(pid).children()
        able(stage.fleet, Pausable).pause("learner-0")
        agent_of(home).kill()
        exited = stage.until(Kind.NODE_EXITED)
        assert (exited.source, exited.data["signal"]) == ("learner-0", None)
        assert "host-0" in str(exited.data["last_words"])
        wait_until(lambda: not child.is_running())
        wait_until(lambda: not open_undos(home / ".chaoslab/runs" / RUN))
        again = restarted(stage, "learner-0")
        assert (again.incarnation, again.is_alive) == (2, True)
        stage.until(Kind.LEARNER_STEP)


def exit_of(stage: Stage, name: str) -> object:
    """The signal that ended a node, once its exit was seen."""
    seen = [one for one in stage.seen if one.kind is Kind.NODE_EXITED and one.source == name]
    return (seen[-1] if seen else stage.until(Kind.NODE_EXITED, node=name)).data["signal"]


def ground_under(stage: Stage) -> Ground:
    assert isinstance(stage.fleet, RemoteFleet)
    return stage.fleet.ground


def homes(stage: Stage) -> list[Path]:
    reaches = [host.reach for host in ground_under(stage).hosts.values()]
    return [reach.home for reach in reaches if isinstance(reach, DirectReach)]


def agent_of(home: Path) -> psutil.Process:
    facts = json.loads((home / ".chaoslab/runs" / RUN / "agent.json").read_text())
    return psutil.Process(facts["pid"])


# ---------------------------------------------------------------- nodes of several hosts


@pytest.fixture
def wide(tmp_path: Path, undo_log: Remembered) -> Iterator[Stage]:
    """A fleet of two hosts; each node has a process on both."""
    with remote_stage(tmp_path, undo_log, hosts=2) as stage:
        ground = ground_under(stage)
        ground.place = lambda _: tuple(ground.hosts)
        yield stage


def wide_learner() -> NodeSpec:
    flags = ("--say", "host {host} meets at {meeting}")
    return replace(learner("learner-0"), hosts=Hosts(count=2, flags=flags, secret="SHARED"))


@pytest.mark.gate
def test_a_node_that_loses_a_host_ends_and_comes_back_on_both(wide: Stage) -> None:
    wide.fleet.start(wide_learner())
    wide.until(Kind.LEARNER_STEP)
    before = members_of(wide)
    assert len({one.environ()["SHARED"] for one in before}) == 1
    able(wide.fleet, Pausable).pause("learner-0")
    wait_until(lambda: [one.status() for one in before] == [psutil.STATUS_STOPPED] * 2)
    able(wide.fleet, Pausable).resume("learner-0")
    able(wide.fleet, HasHosts).kill_host("learner-0", -1)
    ended = wide.until(Kind.NODE_EXITED)
    (lost,) = [one for one in wide.seen if one.kind is Kind.HOST_LOST]
    assert (lost.data["host"], lost.data["signal"]) == (1, "SIGKILL")
    assert (ended.data["signal"], ended.payload.sent) == ("SIGKILL", ("SIGKILL",))
    again = wide.fleet.restart("learner-0")
    assert (again.incarnation, again.is_alive) == (2, True)
    wide.until(Kind.LEARNER_STEP)
    after = members_of(wide)
    assert len(after) == 2
    assert not {one.pid for one in before} & {one.pid for one in after}
    assert wide.lives == [
        (Kind.NODE_STARTED, 1),
        (Kind.NODE_EXITED, 1),
        (Kind.NODE_STARTED, 2),
    ]


def test_a_node_that_loses_a_host_is_whole_again_by_restart_alone(wide: Stage) -> None:
    """Also before its end was noticed: no process of the earlier incarnation goes on."""
    wide.fleet.start(wide_learner())
    wide.until(Kind.LEARNER_STEP)
    able(wide.fleet, HasHosts).kill_host("learner-0", 0)
    assert wide.fleet.restart("learner-0").incarnation == 2
    wide.until(Kind.HOST_STARTED)
    assert len(members_of(wide)) == 2


def members_of(stage: Stage) -> list[psutil.Process]:
    """The processes of nodes on all hosts."""
    return marked(*(f"{home}/.chaoslab/runs/{RUN}/learner-" for home in homes(stage)))


# ---------------------------------------------------------------- what is overdue


def test_a_host_that_hears_nothing_lets_go_of_what_is_overdue_and_of_nothing_else(
    tmp_path: Path,
) -> None:
    """And tells so when it is heard again; the nodes and the lease go on."""
    undo_log = UndoLogFile(tmp_path)
    with remote_stage(tmp_path, undo_log) as stage:
        for name in ("learner-0", "learner-1"):
            stage.fleet.start(learner(name))
            stage.until(Kind.LEARNER_STEP, node=name)
        overdue, held = sorted(members_of(stage), key=lambda one: "learner-1" in one.cmdline())
        for name, due_s in (("learner-1", 60.0), ("learner-0", 0.5)):
            with undo_log.due_within(due_s):
                able(stage.fleet, Pausable).pause(name)
        wait_until(lambda: overdue.status() == held.status() == psutil.STATUS_STOPPED)
        block(stage, is_blocked=True)
        wait_until(lambda: overdue.status() != psutil.STATUS_STOPPED)
        assert held.status() == psutil.STATUS_STOPPED
        block(stage, is_blocked=False)
        noted = stage.until(Kind.HARNESS_STALLED)
        assert noted.data["undone"] == (f"learner-0 (process {overdue.pid}) is stopped, resumed",)
        able(stage.fleet, Pausable).resume("learner-0")
        stage.until(Kind.LEARNER_STEP, node="learner-0")
        assert all(node.is_alive for node in stage.fleet.nodes.values())
